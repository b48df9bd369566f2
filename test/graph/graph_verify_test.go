package graph_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// Verify reports functions that break their promises, and nothing else.
func TestVerify(t *testing.T) {
	calls := 0
	byName := byName[*rig.Widget, *rig.Widget]()
	changing := func() string { calls++; return fmt.Sprint(calls) }
	tests := []struct {
		name  string
		build func(b *graphBench) *lw.Derived[*rig.Sum]
		want  string // in each error; "": there is none
	}{
		{"a good derive", func(b *graphBench) *lw.Derived[*rig.Sum] { return lw.Derive(b.g, b.l, rig.SumOf, "it") }, ""},
		{"a good join", func(b *graphBench) *lw.Derived[*rig.Sum] {
			return lw.Join(b.g, b.l, b.r, byName, func(l, r *rig.Widget) *rig.Sum { return &rig.Sum{Meta: lw.MetaOf(l), Sum: l.Size + r.Size} }, "it")
		}, ""},
		{"conflicts", func(b *graphBench) *lw.Derived[*rig.Sum] { return lw.Derive(b.g, b.l, rig.BySize, "it") }, "several inputs"},
		{"a good aggregate", func(b *graphBench) *lw.Derived[*rig.Sum] {
			return lw.GroupBy(b.g, lw.Derive(b.g, b.l, rig.SumOf), allInOne, rig.AddedUp, rig.TotalOf, "it")
		}, ""},
		{"resource versions do not count", func(b *graphBench) *lw.Derived[*rig.Sum] {
			return lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
				return &rig.Sum{Meta: lw.Meta{Name: w.Name, ResourceVersion: changing()}}
			}, "it")
		}, ""},
		{"a derive that counts", func(b *graphBench) *lw.Derived[*rig.Sum] {
			return lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum { return &rig.Sum{Meta: lw.Meta{Name: w.Name}, Names: changing()} }, "it")
		}, "Names"},
		{"a derive whose keys change", func(b *graphBench) *lw.Derived[*rig.Sum] {
			return lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum { return &rig.Sum{Meta: lw.Meta{Name: changing()}} }, "it")
		}, "new computation"},
		{"a many that counts", func(b *graphBench) *lw.Derived[*rig.Sum] {
			return lw.DeriveMany(b.g, b.l, func(w *rig.Widget) iter.Seq[*rig.Sum] {
				return slices.Values([]*rig.Sum{{Meta: lw.Meta{Name: w.Name}, Names: changing()}})
			}, "it")
		}, "Names"},
		{"a where that changes its mind", func(b *graphBench) *lw.Derived[*rig.Sum] {
			on, asked := byName, 0
			on.Where = func(l, r *rig.Widget) bool { asked++; return asked <= 2 }
			return lw.Join(b.g, b.l, b.r, on, func(l, r *rig.Widget) *rig.Sum { return rig.SumOf(l) }, "it")
		}, "new computation"},
		{"an aggregate that cannot remove", func(b *graphBench) *lw.Derived[*rig.Sum] {
			return lw.GroupBy(b.g, b.l, func(*rig.Widget) lw.Key { return lw.Key{Name: "most"} }, most, rig.TotalOf, "it")
		}, "Sum"},
		{"a collection that changes what it has got", func(b *graphBench) *lw.Derived[*rig.Sum] {
			d := lw.Derive(b.g, b.l, rig.SumOf, "it")
			lw.Derive(b.g, d, func(s *rig.Sum) *rig.Sum { s.Sum++; return s }, "behind")
			return d
		}, "Sum"},
	}
	for _, tt := range tests {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			errs := &rig.Errors{}
			b := newGraphBench(t, &lw.GraphOptions{Verify: true, OnError: errs.Add})
			tt.build(b)
			b.have("a5 b5", "a5 b5")
			b.start()
			b.update(b.left, "a", 9)
			b.update(b.left, "a", 3)
			b.remove(b.left, "b")
			b.update(b.left, "a", 2)
			got := errs.All()
			if (len(got) > 0) != (tt.want != "") {
				t.Fatalf("reported are %v, want %q", got, tt.want)
			}
			for _, err := range got {
				var e *lw.Error
				if !errors.As(err, &e) || e.Op != "derive" || !strings.Contains(e.Informer, "it") && !strings.Contains(e.Informer, "behind") || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("reported is %v, want the collection and %q", err, tt.want)
				}
			}
		})
	}
}
