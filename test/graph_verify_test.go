package lw_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
)

// Verify reports functions that break their promises, and nothing else.
func TestVerify(t *testing.T) {
	calls := 0
	byName := lw.On[string, *Widget, *Widget]{
		Left:  lw.One(func(w *Widget) string { return w.Name }),
		Right: lw.One(func(w *Widget) string { return w.Name }),
	}
	changing := func() string { calls++; return fmt.Sprint(calls) }
	tests := []struct {
		name  string
		build func(b *graphBench) *lw.Derived[*sum]
		want  string // in each error; "": there is none
	}{
		{"a good derive", func(b *graphBench) *lw.Derived[*sum] { return lw.Derive(b.g, b.l, sumOf, "it") }, ""},
		{"a good join", func(b *graphBench) *lw.Derived[*sum] {
			return lw.Join(b.g, b.l, b.r, byName, func(l, r *Widget) *sum { return &sum{Meta: lw.MetaOf(l), Sum: l.Size + r.Size} }, "it")
		}, ""},
		{"conflicts", func(b *graphBench) *lw.Derived[*sum] { return lw.Derive(b.g, b.l, bySize, "it") }, "several inputs"},
		{"a good aggregate", func(b *graphBench) *lw.Derived[*sum] {
			return lw.GroupBy(b.g, lw.Derive(b.g, b.l, sumOf), allInOne, addedUp, totalOf, "it")
		}, ""},
		{"resource versions do not count", func(b *graphBench) *lw.Derived[*sum] {
			return lw.Derive(b.g, b.l, func(w *Widget) *sum { return &sum{Meta: lw.Meta{Name: w.Name, ResourceVersion: changing()}} }, "it")
		}, ""},
		{"a derive that counts", func(b *graphBench) *lw.Derived[*sum] {
			return lw.Derive(b.g, b.l, func(w *Widget) *sum { return &sum{Meta: lw.Meta{Name: w.Name}, Names: changing()} }, "it")
		}, "Names"},
		{"a derive whose keys change", func(b *graphBench) *lw.Derived[*sum] {
			return lw.Derive(b.g, b.l, func(w *Widget) *sum { return &sum{Meta: lw.Meta{Name: changing()}} }, "it")
		}, "new computation"},
		{"a many that counts", func(b *graphBench) *lw.Derived[*sum] {
			return lw.DeriveMany(b.g, b.l, func(w *Widget) iter.Seq[*sum] {
				return slices.Values([]*sum{{Meta: lw.Meta{Name: w.Name}, Names: changing()}})
			}, "it")
		}, "Names"},
		{"a where that changes its mind", func(b *graphBench) *lw.Derived[*sum] {
			on, asked := byName, 0
			on.Where = func(l, r *Widget) bool { asked++; return asked <= 2 }
			return lw.Join(b.g, b.l, b.r, on, func(l, r *Widget) *sum { return sumOf(l) }, "it")
		}, "new computation"},
		{"an aggregate that cannot remove", func(b *graphBench) *lw.Derived[*sum] {
			most := lw.Aggregate[*Widget, int]{
				Add:    func(acc int, w *Widget) int { return max(acc, w.Size) },
				Remove: func(acc int, w *Widget) int { return acc },
			}
			return lw.GroupBy(b.g, b.l, func(*Widget) lw.Key { return lw.Key{Name: "most"} }, most, totalOf, "it")
		}, "Sum"},
		{"a collection that changes what it has got", func(b *graphBench) *lw.Derived[*sum] {
			d := lw.Derive(b.g, b.l, sumOf, "it")
			lw.Derive(b.g, d, func(s *sum) *sum { s.Sum++; return s }, "behind")
			return d
		}, "Sum"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				errs := &errorLog{}
				b := newGraphBench(t, &lw.GraphOptions{Verify: true, OnError: errs.add})
				tt.build(b)
				for _, name := range []string{"a", "b"} {
					create(t, b.left, name, 5)
					create(t, b.right, name, 5)
				}
				b.start()
				update(t, b.left, "a", 9)
				synctest.Wait()
				update(t, b.left, "a", 3)
				synctest.Wait()
				remove(t, b.left, "b")
				synctest.Wait()
				update(t, b.left, "a", 2)
				synctest.Wait()
				got := errs.all()
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
		})
	}
}
