package store_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A ball is what is thrown into the log. Two balls are equal only if they are the same one.
type ball struct{ lw.Meta }

func newBall(name string, uid, version int) *ball {
	return &ball{lw.Meta{Namespace: "default", Name: name, UID: types.UID("u" + strconv.Itoa(uid)),
		ResourceVersion: strconv.Itoa(version)}}
}

var sameBall = cmp.Comparer(func(a, b *ball) bool { return a == b })

func TestSink(t *testing.T) {
	a1, a2, b1, c1 := newBall("a", 1, 1), newBall("a", 1, 2), newBall("b", 2, 1), newBall("c", 3, 3)
	again := newBall("a", 9, 9)
	reborn := newBall("a", 9, 1)
	bare, bareAgain := &ball{lw.Meta{Name: "x"}}, &ball{lw.Meta{Name: "x"}}
	apply := func(typ watch.EventType, b *ball, rv string) func(*lw.FIFO[*ball]) {
		return func(q *lw.FIFO[*ball]) { q.Apply(lw.WatchEvent[*ball]{Type: typ, Object: b, ResourceVersion: rv}) }
	}
	replace := func(rv string, balls ...*ball) func(*lw.FIFO[*ball]) {
		return func(q *lw.FIFO[*ball]) { q.Replace(balls, rv) }
	}
	type deltas = []lw.Delta[*ball]
	first := func(b *ball, rv string) lw.Delta[*ball] {
		return lw.Delta[*ball]{Type: lw.Added, Cause: lw.CauseInitial, Initial: true, New: b, ResourceVersion: rv}
	}
	for _, tt := range []struct {
		name   string
		before func(*lw.FIFO[*ball]) // the cursor comes after it
		do     func(*lw.FIFO[*ball])
		want   deltas
	}{
		{"the first list is initial", nil, replace("5", a1, b1), deltas{first(a1, "5"), first(b1, "5")}},
		{"a relist tells what is missing, then the rest", replace("5", a1, b1), replace("6", c1, a2), deltas{
			{Type: lw.Deleted, Cause: lw.CauseRelist, Old: b1, ResourceVersion: "6"},
			{Type: lw.Added, Cause: lw.CauseRelist, New: c1, ResourceVersion: "6"},
			{Type: lw.Updated, Cause: lw.CauseRelist, Old: a1, New: a2, ResourceVersion: "6"}}},
		{"a relist is silent about the unchanged", replace("5", a1, b1), replace("6", newBall("a", 1, 1), b1), nil},
		{"a relist tells another UID apart", replace("5", a1), replace("9", again), deltas{
			{Type: lw.Deleted, Cause: lw.CauseRelist, Old: a1, ResourceVersion: "9"},
			{Type: lw.Added, Cause: lw.CauseRelist, New: again, ResourceVersion: "9"}}},
		{"of one key the newest counts", nil, replace("5", a2, b1, a1), deltas{first(a2, "5"), first(b1, "5")}},
		{"added", nil, apply(watch.Added, a1, "1"),
			deltas{{Type: lw.Added, Cause: lw.CauseWatch, New: a1, ResourceVersion: "1"}}},
		{"modified of the unknown is added", nil, apply(watch.Modified, a1, "1"),
			deltas{{Type: lw.Added, Cause: lw.CauseWatch, New: a1, ResourceVersion: "1"}}},
		{"added of the known is updated", replace("1", a1), apply(watch.Added, a2, "2"),
			deltas{{Type: lw.Updated, Cause: lw.CauseWatch, Old: a1, New: a2, ResourceVersion: "2"}}},
		{"another UID is two", replace("1", a1), apply(watch.Modified, again, "9"), deltas{
			{Type: lw.Deleted, Cause: lw.CauseWatch, Old: a1, ResourceVersion: "9"},
			{Type: lw.Added, Cause: lw.CauseWatch, New: again, ResourceVersion: "9"}}},
		{"another UID of the same version is two", replace("1", a1), apply(watch.Modified, reborn, "1"), deltas{
			{Type: lw.Deleted, Cause: lw.CauseWatch, Old: a1, ResourceVersion: "1"},
			{Type: lw.Added, Cause: lw.CauseWatch, New: reborn, ResourceVersion: "1"}}},
		{"the same version again is nothing", replace("1", a1), apply(watch.Modified, newBall("a", 1, 1), "1"), nil},
		{"deleted carries what was known", replace("1", a1), apply(watch.Deleted, a2, "2"),
			deltas{{Type: lw.Deleted, Cause: lw.CauseWatch, Old: a1, ResourceVersion: "2"}}},
		{"deleted of the unknown is nothing", nil, apply(watch.Deleted, a1, "2"), nil},
		{"deleted by key", replace("1", a1), func(q *lw.FIFO[*ball]) {
			q.Apply(lw.WatchEvent[*ball]{Type: watch.Deleted, ResourceVersion: "2", Identity: &lw.Meta{Namespace: "default",
				Name: "a"}})
		}, deltas{{Type: lw.Deleted, Cause: lw.CauseWatch, Old: a1, ResourceVersion: "2"}}},
		{"a bookmark is nothing", replace("1", a1), apply(watch.Bookmark, nil, "7"), nil},
		{"an error is nothing", replace("1", a1), func(q *lw.FIFO[*ball]) {
			q.Apply(lw.WatchEvent[*ball]{Type: watch.Deleted, Object: a2, Err: errors.New("bad")})
		}, nil},
		{"versions that are not stamped are news", replace("", bare), replace("", bareAgain),
			deltas{{Type: lw.Updated, Cause: lw.CauseRelist, Old: bare, New: bareAgain}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := lw.NewFIFO[*ball]()
			if tt.before != nil {
				tt.before(q)
			}
			c := q.Subscribe()
			tt.do(q)
			q.Close()
			got, err := c.Next(t.Context())
			if len(tt.want) == 0 && errors.Is(err, lw.ErrStopped) {
				return
			}
			rig.OK(t, err)
			rig.Same(t, "", tt.want, append(deltas(nil), got...), sameBall)
		})
	}
}

// The deletions of a Replace are in the order of the keys.
func TestReplaceDeletesInOrder(t *testing.T) {
	q := lw.NewFIFO[*ball]()
	var all []*ball
	var want []string
	for i := range 20 {
		all = append(all, newBall(string(rune('a'+i)), i, i))
		want = append(want, all[i].Name)
	}
	q.Replace(all, "1")
	c := q.Subscribe()
	q.Replace(nil, "2")
	deltas, err := c.Next(t.Context())
	rig.OK(t, err)
	var got []string
	for _, d := range deltas {
		got = append(got, d.Old.Name)
	}
	rig.Same(t, "", want, got)
}

// Of objects with one key and one version in a list the last one counts.
func TestFIFOReplaceTwice(t *testing.T) {
	f := lw.NewFIFO[*rig.Widget]()
	c := f.Subscribe()
	f.Replace([]*rig.Widget{rig.Stamped("a", 1, "5"), rig.Stamped("a", 2, "5"), rig.Stamped("b", 1, "7"),
		rig.Stamped("b", 2, "6")}, "9")
	f.Close()
	got := map[string]int{}
	for {
		part, err := c.Next(t.Context())
		if err != nil {
			break
		}
		for _, d := range part {
			got[d.New.Name] = d.New.Size
		}
	}
	rig.Same(t, "what is told", map[string]int{"a": 2, "b": 1}, got)
}
