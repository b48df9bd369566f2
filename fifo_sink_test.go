package lw

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"
)

func TestSink(t *testing.T) {
	a1, a2, b1, c1 := newBall("a", 1, 1), newBall("a", 1, 2), newBall("b", 2, 1), newBall("c", 3, 3)
	again := newBall("a", 9, 9)
	reborn := newBall("a", 9, 1)
	bare, bareAgain := &ball{Meta{Name: "x"}}, &ball{Meta{Name: "x"}}
	apply := func(typ watch.EventType, b *ball, rv string) func(*FIFO[*ball]) {
		return func(q *FIFO[*ball]) { q.Apply(WatchEvent[*ball]{Type: typ, Object: b, ResourceVersion: rv}) }
	}
	replace := func(rv string, balls ...*ball) func(*FIFO[*ball]) {
		return func(q *FIFO[*ball]) { q.Replace(balls, rv) }
	}
	type deltas = []Delta[*ball]
	first := func(b *ball, rv string) Delta[*ball] {
		return Delta[*ball]{Type: Added, Cause: CauseInitial, Initial: true, New: b, ResourceVersion: rv}
	}
	tests := []struct {
		name   string
		before func(*FIFO[*ball]) // the cursor comes after it
		do     func(*FIFO[*ball])
		want   deltas
	}{
		{"the first list is initial", nil, replace("5", a1, b1), deltas{first(a1, "5"), first(b1, "5")}},
		{"a relist tells what is missing, then the rest", replace("5", a1, b1), replace("6", c1, a2), deltas{
			{Type: Deleted, Cause: CauseRelist, Old: b1, ResourceVersion: "6"},
			{Type: Added, Cause: CauseRelist, New: c1, ResourceVersion: "6"},
			{Type: Updated, Cause: CauseRelist, Old: a1, New: a2, ResourceVersion: "6"}}},
		{"a relist is silent about the unchanged", replace("5", a1, b1), replace("6", newBall("a", 1, 1), b1), nil},
		{"a relist tells another UID apart", replace("5", a1), replace("9", again), deltas{
			{Type: Deleted, Cause: CauseRelist, Old: a1, ResourceVersion: "9"},
			{Type: Added, Cause: CauseRelist, New: again, ResourceVersion: "9"}}},
		{"of one key the newest counts", nil, replace("5", a2, b1, a1), deltas{first(a2, "5"), first(b1, "5")}},
		{"added", nil, apply(watch.Added, a1, "1"), deltas{{Type: Added, Cause: CauseWatch, New: a1, ResourceVersion: "1"}}},
		{"modified of the unknown is added", nil, apply(watch.Modified, a1, "1"),
			deltas{{Type: Added, Cause: CauseWatch, New: a1, ResourceVersion: "1"}}},
		{"added of the known is updated", replace("1", a1), apply(watch.Added, a2, "2"),
			deltas{{Type: Updated, Cause: CauseWatch, Old: a1, New: a2, ResourceVersion: "2"}}},
		{"another UID is two", replace("1", a1), apply(watch.Modified, again, "9"), deltas{
			{Type: Deleted, Cause: CauseWatch, Old: a1, ResourceVersion: "9"},
			{Type: Added, Cause: CauseWatch, New: again, ResourceVersion: "9"}}},
		{"another UID of the same version is two", replace("1", a1), apply(watch.Modified, reborn, "1"), deltas{
			{Type: Deleted, Cause: CauseWatch, Old: a1, ResourceVersion: "1"},
			{Type: Added, Cause: CauseWatch, New: reborn, ResourceVersion: "1"}}},
		{"the same version again is nothing", replace("1", a1), apply(watch.Modified, newBall("a", 1, 1), "1"), nil},
		{"deleted carries what was known", replace("1", a1), apply(watch.Deleted, a2, "2"),
			deltas{{Type: Deleted, Cause: CauseWatch, Old: a1, ResourceVersion: "2"}}},
		{"deleted of the unknown is nothing", nil, apply(watch.Deleted, a1, "2"), nil},
		{"deleted by key", replace("1", a1), func(q *FIFO[*ball]) {
			q.Apply(WatchEvent[*ball]{Type: watch.Deleted, ResourceVersion: "2", Identity: &Meta{Namespace: "default", Name: "a"}})
		}, deltas{{Type: Deleted, Cause: CauseWatch, Old: a1, ResourceVersion: "2"}}},
		{"a bookmark is nothing", replace("1", a1), apply(watch.Bookmark, nil, "7"), nil},
		{"an error is nothing", replace("1", a1), func(q *FIFO[*ball]) {
			q.Apply(WatchEvent[*ball]{Type: watch.Deleted, Object: a2, Err: errors.New("bad")})
		}, nil},
		{"versions that are not stamped are news", replace("", bare), replace("", bareAgain),
			deltas{{Type: Updated, Cause: CauseRelist, Old: bare, New: bareAgain}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := NewFIFO[*ball]()
			if tt.before != nil {
				tt.before(q)
			}
			c := q.Subscribe()
			tt.do(q)
			q.Close()
			got, err := c.Next(t.Context())
			if len(tt.want) == 0 && errors.Is(err, ErrStopped) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, append(deltas(nil), got...), sameBall); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSinkModel: whatever lists and events come in, what a cursor tells adds up to the content and obeys the contract.
func TestSinkModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := NewFIFO[*ball]()
		r := &reader{known: map[Key]*ball{}, cursor: q.subscribe(cursorOptions{limit: rapid.IntRange(1, 8).Draw(t, "limit")})}
		truth := map[Key]*ball{}
		version := 0
		draw := func(t *rapid.T) *ball {
			version++
			return newBall(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"), rapid.IntRange(1, 2).Draw(t, "uid"), version)
		}
		t.Repeat(map[string]func(*rapid.T){
			"replace": func(t *rapid.T) {
				var balls []*ball
				for _, name := range []string{"a", "b", "c"} { // in one order, so that a failure can be run again
					if b := truth[Key{Namespace: "default", Name: name}]; b != nil && rapid.Bool().Draw(t, "stays "+name) {
						again := *b
						balls = append(balls, &again)
					}
				}
				if rapid.Bool().Draw(t, "new") {
					balls = append(balls, draw(t))
				}
				clear(truth)
				for _, b := range balls {
					truth[KeyOf(b)] = b
				}
				q.Replace(balls, strconv.Itoa(version))
			},
			"apply": func(t *rapid.T) {
				b := draw(t)
				typ := rapid.SampledFrom([]watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark}).Draw(t, "type")
				switch typ {
				case watch.Added, watch.Modified:
					truth[KeyOf(b)] = b
				case watch.Deleted:
					delete(truth, KeyOf(b))
				}
				q.Apply(WatchEvent[*ball]{Type: typ, Object: b, ResourceVersion: b.ResourceVersion})
			},
			"": func(t *rapid.T) {
				if !rapid.Bool().Draw(t, "read") {
					return
				}
				for {
					part, _, err := r.cursor.poll()
					if err != nil {
						t.Fatal(err)
					}
					if err := r.learn(part); err != nil {
						t.Fatal(err)
					}
					if len(part) == 0 {
						break
					}
				}
				// Unchanged objects of a relist keep their place, so what is compared is what they say.
				if diff := cmp.Diff(fmt.Sprint(truth), fmt.Sprint(r.known)); diff != "" {
					t.Fatalf("(-truth +known):\n%s", diff)
				}
			},
		})
	})
}

// The deletions of a Replace are in the order of the keys.
func TestReplaceDeletesInOrder(t *testing.T) {
	q := NewFIFO[*ball]()
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
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range deltas {
		got = append(got, d.Old.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
