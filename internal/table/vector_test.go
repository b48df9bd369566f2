package table

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestVector compares a Vector, its views and its forks with slices.
func TestVector(t *testing.T) {
	type seen struct {
		view View[*obj]
		want []*obj
	}
	rapid.Check(t, func(t *rapid.T) {
		var v Vector[*obj]
		var want []*obj
		var views []seen
		next := func() *obj { return &obj{version: len(want)} }
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				checkVector(t, &v)
				if v.Len() != len(want) {
					t.Fatalf("Len() = %d, want %d", v.Len(), len(want))
				}
				for i := range want {
					if v.At(i) != want[i] {
						t.Fatalf("At(%d) = %v, want %v", i, v.At(i), want[i])
					}
				}
			},
			"Append": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 10, 300}).Draw(t, "n") {
					o := next()
					v.Append(o)
					want = append(want, o)
				}
			},
			"Set": func(t *rapid.T) {
				if len(want) > 0 {
					i := rapid.IntRange(0, len(want)-1).Draw(t, "i")
					o := next()
					if rapid.Bool().Draw(t, "hole") {
						o = nil
					}
					v.Set(i, o)
					want[i] = o
				}
			},
			"Pop": func(t *rapid.T) {
				for range min(len(want), rapid.SampledFrom([]int{1, 10, 300}).Draw(t, "n")) {
					v.Pop()
					want = want[:len(want)-1]
				}
			},
			"View": func(*rapid.T) { views = append(views, seen{v.View(), slices.Clone(want)}) },
			"Fork": func(*rapid.T) {
				f := v.Fork()
				views = append(views, seen{v.View(), slices.Clone(want)})
				v = f
			},
		})
		for _, s := range views {
			var objs []*obj
			for i, o := range s.want {
				if s.view.At(i) != o {
					t.Fatalf("View.At(%d) = %v, want %v", i, s.view.At(i), o)
				}
				if o != nil {
					objs = append(objs, o)
				}
			}
			if s.view.At(len(s.want)) != nil || s.view.Live() != len(objs) {
				t.Fatalf("View has %d values, want %d", s.view.Live(), len(objs))
			}
			if got := s.view.AppendTo(nil); !slices.Equal(got, objs) {
				t.Fatalf("View.AppendTo (-want +got):\n%s", cmp.Diff(versions(objs), versions(got)))
			}
		}
	})
}
