package lw

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"
)

// A ball is what the log's tests throw around. Two balls are equal only if they are the same one.
type ball struct{ Meta }

func newBall(name string, uid, version int) *ball {
	return &ball{Meta{Namespace: "default", Name: name, UID: types.UID(fmt.Sprint("u", uid)),
		ResourceVersion: strconv.Itoa(version)}}
}

func (b *ball) String() string {
	if b == nil {
		return "-"
	}
	return fmt.Sprintf("%s/%s@%s", b.Name, b.UID, b.ResourceVersion)
}

var sameBall = cmp.Comparer(func(a, b *ball) bool { return a == b })

func TestNetChange(t *testing.T) {
	a1, a2, a3 := newBall("a", 1, 1), newBall("a", 1, 2), newBall("a", 1, 3)
	b1, b2 := newBall("b", 2, 4), newBall("b", 3, 5)
	add := func(b *ball) Delta[*ball] {
		return Delta[*ball]{Type: Added, Cause: CauseWatch, New: b, ResourceVersion: b.ResourceVersion}
	}
	initial := func(b *ball) Delta[*ball] {
		return Delta[*ball]{Type: Added, Cause: CauseInitial, Initial: true, New: b, ResourceVersion: b.ResourceVersion}
	}
	update := func(old, new *ball) Delta[*ball] {
		return Delta[*ball]{Type: Updated, Cause: CauseWatch, Old: old, New: new, ResourceVersion: new.ResourceVersion}
	}
	gone := func(b *ball, rv string) Delta[*ball] {
		return Delta[*ball]{Type: Deleted, Cause: CauseWatch, Old: b, ResourceVersion: rv}
	}
	with := func(d Delta[*ball], change func(*Delta[*ball])) Delta[*ball] { change(&d); return d }
	type deltas = []Delta[*ball]
	tests := []struct {
		name      string
		run, want deltas
	}{
		{"one change stays as it is", deltas{update(a1, a2)}, deltas{update(a1, a2)}},
		{"updates merge", deltas{update(a1, a2), update(a2, a3)}, deltas{update(a1, a3)}},
		{"an update of what is new is new", deltas{add(a1), update(a1, a2)}, deltas{add(a2)}},
		{"an update of what is initial is initial", deltas{initial(a1), update(a1, a2)},
			deltas{with(initial(a2), func(d *Delta[*ball]) { d.Cause = CauseWatch })}},
		{"added and deleted is nothing", deltas{add(a1), update(a1, a2), gone(a2, "9")}, nil},
		{"deleted is told with what was told", deltas{update(a1, a2), gone(a2, "9")}, deltas{gone(a1, "9")}},
		{"the same UID again is an update", deltas{gone(a1, "2"), add(a3)}, deltas{update(a1, a3)}},
		{"another UID is deleted and added", deltas{gone(b1, "5"), add(b2)}, deltas{gone(b1, "5"), add(b2)}},
		{"what came between is not told", deltas{gone(b1, "5"), add(newBall("b", 9, 6)), gone(newBall("b", 9, 6), "7")},
			deltas{gone(b1, "7")}},
		{"back to the same object is nothing", deltas{update(a1, a2), update(a2, a1)}, nil},
		{"a resync is nothing", deltas{with(update(a1, a1), func(d *Delta[*ball]) { d.Cause = CauseResync })}, nil},
		{"a second life is not initial", deltas{initial(a1), gone(a1, "2"), add(a3)}, deltas{add(a3)}},
		{"in the order of the latest change", deltas{update(a1, a2), add(b1), update(a2, a3)},
			deltas{add(b1), update(a1, a3)}},
		{"a relist is a cause", deltas{update(a1, a2), with(update(a2, a3), func(d *Delta[*ball]) { d.Cause = CauseRelist })},
			deltas{with(update(a1, a3), func(d *Delta[*ball]) { d.Cause = CauseRelist })}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNetChange[*ball]()
			for _, d := range tt.run {
				n.add(d)
			}
			keys := map[Key]bool{}
			for _, d := range tt.want {
				keys[d.Key()] = true
			}
			if n.len() != len(keys) {
				t.Errorf("len = %d, want %d", n.len(), len(keys))
			}
			n.freeze()
			got, _ := n.drain(make(deltas, 0, 16), nil)
			if diff := cmp.Diff(tt.want, append(deltas(nil), got...), sameBall); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n.len() != 0 {
				t.Errorf("len after drain = %d, want 0", n.len())
			}
		})
	}
}

// netOf is what netChange means, written as plainly as can be.
func netOf(run []Delta[*ball]) []Delta[*ball] {
	var out []Delta[*ball]
	for i, last := range run {
		first, initial, isLast := Delta[*ball]{}, false, true
		for j, d := range run {
			switch {
			case d.Key() != last.Key():
				continue
			case first.Type == 0:
				first = d
			}
			if d.Type != Updated {
				initial = d.Initial
			}
			isLast = isLast && j <= i
		}
		if !isLast || first.Old == last.New {
			continue
		}
		d := Delta[*ball]{Cause: last.Cause, Old: first.Old, New: last.New, ResourceVersion: last.ResourceVersion}
		gone, came := d, d
		gone.Type, gone.New = Deleted, nil
		came.Type, came.Old, came.Initial = Added, nil, initial
		switch {
		case d.Old == nil:
			out = append(out, came)
		case d.New == nil:
			out = append(out, gone)
		case d.Old.UID == d.New.UID:
			d.Type = Updated
			out = append(out, d)
		default:
			out = append(out, gone, came)
		}
	}
	return out
}

// A reader is a cursor with what a consumer knows from it.
type reader struct {
	cursor  *Cursor[*ball]
	limit   int // 0: every update
	parts   bool
	known   map[Key]*ball
	pending []Delta[*ball] // pushed and not read; of a reader of parts: all since its start
	got     []Delta[*ball]
	behind  int // how many deltas it was behind at most; of a reader of parts
	parked  bool
	woken   bool
	read    uint64
}

// learn applies deltas to what the consumer knows, and returns the first way in which they break
// the contract.
func (r *reader) learn(deltas []Delta[*ball]) error {
	for _, d := range deltas {
		was := r.known[d.Key()]
		switch {
		case d.Old != was:
			return fmt.Errorf("%v of %v: old is %v, was told %v", d.Type, d.Key(), d.Old, was)
		case (d.Type == Added) != (d.Old == nil), (d.Type == Deleted) != (d.New == nil):
			return fmt.Errorf("%v of %v: %v -> %v", d.Type, d.Key(), d.Old, d.New)
		case d.Type == Updated && d.Old.UID != d.New.UID:
			return fmt.Errorf("update of %v across UIDs: %v -> %v", d.Key(), d.Old, d.New)
		case d.Initial && d.Type != Added:
			return fmt.Errorf("%v of %v is initial", d.Type, d.Key())
		}
		if d.New == nil {
			delete(r.known, d.Key())
		} else {
			r.known[d.Key()] = d.New
		}
	}
	return nil
}

// checkFIFO checks, while nobody uses q, what its fields promise each other.
func checkFIFO(t interface{ Fatalf(string, ...any) }, q *FIFO[*ball]) {
	if got := int(q.log.live.Load()); got != len(q.log.cursors) {
		t.Fatalf("live = %d of %d cursors", got, len(q.log.cursors))
	}
	if got := int(q.log.sleepers.Load()); got != len(q.log.parked) {
		t.Fatalf("sleepers = %d of %d that are parked", got, len(q.log.parked))
	}
	for _, c := range q.log.cursors {
		if parked := slices.Contains(q.log.parked, c); c.parked.Load() != parked {
			t.Fatalf("a cursor says that it is parked: %v, its FIFO: %v", c.parked.Load(), parked)
		}
		if c.waking.Load() && c.parked.Load() {
			t.Fatalf("a cursor is parked and was woken")
		}
		if c.draining != nil && c.draining.places != nil {
			t.Fatalf("what is handed out keeps what was needed to make it")
		}
		for _, n := range []*netChange[*ball]{c.draining, c.folded} {
			if n != nil && (n.live > len(n.entries) || len(n.entries) > 2*n.live+chunkSize+1) {
				t.Fatalf("%d changes in %d places", n.live, len(n.entries))
			}
		}
	}
	if q.log.tail != nil && q.log.tail.swept > chunkSize {
		t.Fatalf("%d slots are swept", q.log.tail.swept)
	}
}

// TestCursorModel runs random histories past cursors that start anywhere, read whenever, and fall
// behind at will.
func TestCursorModel(t *testing.T) {
	ctx := context.Background()
	var told, folded, woken, passed int // so that the test cannot be green without having seen all
	history := func(t *rapid.T) {
		q := NewFIFO[*ball]()
		truth := map[Key]*ball{}
		version := 0
		var readers []*reader
		push := func(d Delta[*ball]) {
			d.ResourceVersion = strconv.Itoa(version)
			q.log.push(d)
			if d.New == nil {
				delete(truth, d.Key())
			} else {
				truth[d.Key()] = d.New
			}
			for _, r := range readers {
				r.pending = append(r.pending, d)
				r.woken, r.parked = r.woken || r.parked, false
				r.behind = max(r.behind, int(q.log.position()-r.read))
			}
		}
		change := func(t *rapid.T) {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "name")
			uid := rapid.IntRange(1, 3).Draw(t, "uid")
			version++
			next := newBall(name, uid, version)
			cause := rapid.SampledFrom([]Cause{CauseInitial, CauseWatch, CauseRelist}).Draw(t, "cause")
			old := truth[KeyOf(next)]
			switch {
			case old == nil:
				push(Delta[*ball]{Type: Added, New: next, Cause: cause, Initial: cause == CauseInitial})
			case old.UID == next.UID:
				push(Delta[*ball]{Type: Updated, Old: old, New: next, Cause: cause})
			default: // another one of that name comes next time, or not
				push(Delta[*ball]{Type: Deleted, Old: old, Cause: cause})
			}
		}
		check := func(t *rapid.T, r *reader, got []Delta[*ball]) {
			if err := r.learn(got); err != nil {
				t.Fatal(err)
			}
			told += len(got)
		}
		readAll := func(t *rapid.T, r *reader) {
			if r.parts {
				for {
					part, position, err := r.cursor.poll()
					if err != nil {
						t.Fatal(err)
					}
					r.read = position
					r.got = append(r.got, part...)
					check(t, r, part)
					if len(part) == 0 {
						break
					}
				}
				return
			}
			want, behind := r.pending, len(r.pending)
			if r.woken {
				behind /= wakingGrace
				woken++
			}
			if r.limit > 0 && behind > r.limit {
				want = netOf(r.pending)
				folded++
			}
			r.pending, r.parked, r.woken = nil, false, false
			if len(want) == 0 {
				if part, _, err := r.cursor.poll(); len(part) > 0 || err != nil {
					t.Fatalf("read %v, %v from a cursor of which all is read or cancelled out", part, err)
				}
				return
			}
			got, err := r.cursor.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			check(t, r, got)
			if diff := cmp.Diff(want, append([]Delta[*ball](nil), got...), sameBall); diff != "" {
				t.Fatalf("limit %d (-want +got):\n%s", r.limit, diff)
			}
		}
		pick := func(t *rapid.T) *reader {
			if len(readers) == 0 {
				t.Skip("no reader")
			}
			return rapid.SampledFrom(readers).Draw(t, "reader")
		}
		t.Repeat(map[string]func(*rapid.T){
			"change": change,
			"burst": func(t *rapid.T) {
				for range rapid.IntRange(2, 40).Draw(t, "n") {
					change(t)
				}
			},
			"churn": func(t *rapid.T) { // enough of one object to pass some chunks
				n := rapid.IntRange(chunkSize/2, 3*chunkSize).Draw(t, "n")
				name := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name")
				for range n {
					version++
					next := newBall(name, 1, version)
					if old := truth[KeyOf(next)]; old != nil {
						push(Delta[*ball]{Type: Updated, Old: old, New: next, Cause: CauseWatch})
					} else {
						push(Delta[*ball]{Type: Added, New: next, Cause: CauseWatch})
					}
				}
				passed++
			},
			"subscribe": func(t *rapid.T) {
				r := &reader{limit: rapid.SampledFrom([]int{0, 1, 2, 10, 300, defaultLimit}).Draw(t, "limit"),
					parts: rapid.Bool().Draw(t, "parts"), known: map[Key]*ball{}, read: q.log.position()}
				r.cursor = q.log.subscribe(cursorOptions{everyUpdate: r.limit == 0, limit: r.limit})
				for key, b := range truth {
					r.known[key] = b
				}
				readers = append(readers, r)
			},
			"read": func(t *rapid.T) { readAll(t, pick(t)) },
			"read a part": func(t *rapid.T) {
				r := pick(t)
				if !r.parts {
					t.Skip("reads all or nothing")
				}
				part, position, err := r.cursor.poll()
				if err != nil {
					t.Fatal(err)
				}
				if position < r.read {
					t.Fatalf("position went back from %d to %d", r.read, position)
				}
				r.read = position
				r.got = append(r.got, part...)
				check(t, r, part)
			},
			"wait": func(t *rapid.T) {
				r := pick(t)
				if !r.parts && rapid.Bool().Draw(t, "reads first") {
					readAll(t, r)
				}
				r.cursor.wait()
				r.parked = !r.parts && len(r.pending) == 0 || r.parked
			},
			"close": func(t *rapid.T) {
				r := pick(t)
				r.cursor.Close()
				if _, err := r.cursor.Next(ctx); err != ErrStopped {
					t.Fatalf("Next after Close: %v, want ErrStopped", err)
				}
				readers = without(readers, r)
			},
			"": func(t *rapid.T) {
				checkFIFO(t, q)
				for _, r := range readers {
					if n := r.cursor.pending(); n < 0 || !r.parts && n > len(r.pending) {
						t.Fatalf("Pending = %d of %d", n, len(r.pending))
					}
				}
			},
		})
		for _, r := range readers {
			readAll(t, r)
			if diff := cmp.Diff(truth, r.known, sameBall); diff != "" {
				t.Fatalf("at the end the reader knows (-truth +known):\n%s", diff)
			}
			if n := r.cursor.pending(); n != 0 {
				t.Fatalf("Pending at the end = %d, want 0", n)
			}
			if r.parts && (r.limit == 0 || r.behind <= r.limit) {
				if diff := cmp.Diff(r.pending, r.got, sameBall); diff != "" {
					t.Fatalf("a reader that was never too far behind has missed something (-want +got):\n%s", diff)
				}
			}
		}
	}
	// A round with -short is twenty histories, of which now and then none wakes a cursor that has
	// fallen behind.
	for range 20 {
		if rapid.Check(t, history); t.Failed() || told > 0 && folded > 0 && woken > 0 && passed > 0 {
			return
		}
	}
	t.Errorf("told %d deltas, folded %d times, woke up %d times, passed chunks %d times: the histories prove nothing",
		told, folded, woken, passed)
}

// TestSinkModel: whatever lists and events come in, what a cursor tells adds up to the content and
// obeys the contract.
func TestSinkModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := NewFIFO[*ball]()
		r := &reader{known: map[Key]*ball{},
			cursor: q.log.subscribe(cursorOptions{limit: rapid.IntRange(1, 8).Draw(t, "limit")})}
		truth := map[Key]*ball{}
		version := 0
		draw := func(t *rapid.T) *ball {
			version++
			return newBall(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"),
				rapid.IntRange(1, 2).Draw(t, "uid"), version)
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
				typ := rapid.SampledFrom([]watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark}).Draw(t,
					"type")
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

// Each change of a net change keeps the arrival of its first timed delta, wherever the change is
// and in however many parts it is given. That of a change that came to nothing is forgotten.
func TestArrivalsOfANetChange(t *testing.T) {
	n := newNetChange[*ball]()
	want := map[string]time.Duration{}
	for i := range 30 {
		b := newBall(string(rune('A'+i)), i, 1)
		n.add(Delta[*ball]{Type: Added, New: b})
		if i%3 == 0 {
			continue
		}
		n.came(KeyOf(b), time.Duration(i))
		want[b.Name] = time.Duration(i)
		switch i % 4 {
		case 0: // it goes, and comes again later
			n.add(Delta[*ball]{Type: Deleted, Old: b})
			n.add(Delta[*ball]{Type: Added, New: b})
			n.came(KeyOf(b), time.Duration(100+i))
			want[b.Name] = time.Duration(100 + i)
		case 1: // it changes again
			n.add(Delta[*ball]{Type: Updated, Old: b, New: newBall(b.Name, i, 2)})
			n.came(KeyOf(b), time.Duration(200+i))
		}
	}
	n.freeze()
	got := map[string]time.Duration{}
	for n.len() > 0 {
		part, timed := n.drain(make([]Delta[*ball], 0, 4), nil)
		for _, at := range timed {
			got[part[at.index].Key().Name] = at.arrival
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// After a burst of changes that came to nothing a net change gives its memory back.
func TestNetChangeShrinks(t *testing.T) {
	n := newNetChange[*ball]()
	const burst = 100 * chunkSize
	for i := range burst {
		n.add(Delta[*ball]{Type: Added, New: newBall(strconv.Itoa(i), i, 1)})
	}
	for i := range burst {
		n.add(Delta[*ball]{Type: Deleted, Old: newBall(strconv.Itoa(i), i, 1)})
	}
	n.add(Delta[*ball]{Type: Added, New: newBall("last", 0, 1)})
	if most := 20 * chunkSize; n.len() != 1 || cap(n.entries) > most {
		t.Errorf("%d changes in the room of %d, want %d at most", n.len(), cap(n.entries), most)
	}
}

// TestFoldedCause: what was told is news if something else has happened as well.
func TestFoldedCause(t *testing.T) {
	for _, tt := range []struct{ first, second, want Cause }{
		{CauseTold, CauseTold, CauseTold}, {CauseWatch, CauseTold, CauseWatch}, {CauseTold, CauseWatch, CauseWatch},
		{CauseWatch, CauseRelist, CauseRelist},
	} {
		a, b, c := newBall("a", 1, 1), newBall("a", 1, 2), newBall("a", 1, 3)
		n := newNetChange[*ball]()
		n.add(Delta[*ball]{Type: Updated, Cause: tt.first, Old: a, New: b})
		n.add(Delta[*ball]{Type: Updated, Cause: tt.second, Old: b, New: c})
		n.freeze()
		got, _ := n.drain(make([]Delta[*ball], 0, 4), nil)
		if len(got) != 1 || got[0].Cause != tt.want {
			t.Errorf("%v and %v: %v, want one %v", tt.first, tt.second, got, tt.want)
		}
	}
}
