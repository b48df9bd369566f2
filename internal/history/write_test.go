package history_test

import (
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	. "github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/verify/rig"
)

func TestWriteErrors(t *testing.T) {
	tests := []struct {
		name   string
		do     func(*Collection[string]) error
		code   int32
		reason metav1.StatusReason
	}{
		{"create one that is there", func(c *Collection[string]) error { return second(c.Create(thing("b", ""))) }, http.StatusConflict, metav1.StatusReasonAlreadyExists},
		{"update one that was deleted", func(c *Collection[string]) error { return second(c.Update(thing("a", ""), Preconditions{})) }, http.StatusNotFound, metav1.StatusReasonNotFound},
		{"update an older version", func(c *Collection[string]) error { return second(c.Update(thing("b", ""), Preconditions{Version: 4})) }, http.StatusConflict, metav1.StatusReasonConflict},
		{"update the current version", func(c *Collection[string]) error { return second(c.Update(thing("b", ""), Preconditions{Version: 5})) }, 0, ""},
		{"update another of the name", func(c *Collection[string]) error {
			obj := thing("b", "")
			obj.UID = "another"
			return second(c.Update(obj, Preconditions{}))
		}, http.StatusConflict, metav1.StatusReasonConflict},
		{"delete one that was deleted", func(c *Collection[string]) error { return third(c.Delete(key("a"), Preconditions{})) }, http.StatusNotFound, metav1.StatusReasonNotFound},
		{"delete an older version", func(c *Collection[string]) error { return third(c.Delete(key("b"), Preconditions{Version: 4})) }, http.StatusConflict, metav1.StatusReasonConflict},
		{"delete another of the name", func(c *Collection[string]) error { return third(c.Delete(key("b"), Preconditions{UID: "another"})) }, http.StatusConflict, metav1.StatusReasonConflict},
		{"get one that was deleted", func(c *Collection[string]) error { return second(c.Get(key("a"))) }, http.StatusNotFound, metav1.StatusReasonNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line, c := newThings(t)
			gotCode, gotReason := code(tt.do(c))
			if gotCode != tt.code || gotReason != tt.reason {
				t.Errorf("got %d %s, want %d %s", gotCode, gotReason, tt.code, tt.reason)
			}
			want := uint64(6)
			if tt.code == 0 {
				want++
			}
			rig.Same(t, "the line's version", want, line.Version())
		})
	}
}

func second[T any](_ T, err error) error        { return err }
func third[T, V any](_ T, _ V, err error) error { return err }

// newRaced returns a collection in which another one updates a as said, once, while Same compares.
func newRaced(t *testing.T) (c *Collection[string], interfere *string) {
	interfere = new(string)
	c = NewCollection(NewLine(), Options[string]{Same: func(old, new *Object[string]) bool {
		if by := *interfere; by != "" {
			*interfere = ""
			update(t, c, "a", by)
		}
		return old.Value == new.Value
	}})
	return c, interfere
}

// TestUpdateRace: an update notices a write that happens while Same compares the object.
func TestUpdateRace(t *testing.T) {
	c, interfere := newRaced(t)
	*interfere = "one"
	obj := create(t, c, "a", "old")
	_, err := c.Update(thing("a", "new"), Preconditions{Version: obj.Version})
	if got, _ := code(err); got != http.StatusConflict {
		t.Errorf("an update of a version that is no longer current: %v", err)
	}
	*interfere = "another"
	rig.Same(t, "the version of an update of whatever is current", 5, update(t, c, "a", "new").Version)
}

// TestTransactRace: a transaction notices a write of one of its objects that happens while Same
// compares them, and leaves none of its own writes then.
func TestTransactRace(t *testing.T) {
	c, interfere := newRaced(t)
	obj := create(t, c, "a", "old") // 2
	create(t, c, "b", "old")        // 3
	both := func(pre Preconditions) []Write[string] {
		return []Write[string]{{Object: thing("a", "new"), Pre: pre}, {Object: thing("b", "new")}}
	}
	*interfere = "one" // 4
	_, err := c.Transact(both(Preconditions{Version: obj.Version})...)
	if got, _ := code(err); got != http.StatusConflict {
		t.Errorf("a transaction with a version that is no longer current: %v", err)
	}
	for name, want := range map[string]string{"a": "a one", "b": "b old"} {
		rig.Same(t, name, want, rig.Must[*Object[string]](t)(c.Get(key(name))).Value)
	}
	*interfere = "another" // 5
	version := rig.Must[uint64](t)(c.Transact(both(Preconditions{})...))
	rig.Same(t, "the version of a transaction of whatever is current", 6, version)
	// A create does not replace what was made meanwhile, and what was deleted meanwhile is made anew.
	remove(t, c, "b")    // 7
	*interfere = "third" // 8
	version = rig.Must[uint64](t)(c.Transact(both(Preconditions{})...))
	rig.Same(t, "the version of an update and a creation", 9, version)
}

func TestWindow(t *testing.T) {
	const window = 10
	c := NewCollection(NewLine(), Options[string]{Window: window})
	create(t, c, "a", "")
	for range 100 {
		update(t, c, "a", "")
		if kept := c.Version() - c.Oldest(); kept > 2*window || c.Version() > window && kept < window {
			t.Fatalf("%d changes are kept, want %d to %d", kept, window, 2*window)
		}
	}
}

// Of large versions fewer changes are kept, but a hundred at least.
func TestWindowOfBytes(t *testing.T) {
	for _, tt := range []struct{ size, from, to int }{{0, 300, 600}, {50, 200, 251}, {1000, 100, 126}} {
		line := NewLine()
		c := NewCollection(line, Options[string]{
			Window: 300, Bytes: 10_000, Size: func(obj *Object[string]) int { return len(obj.Value) },
		})
		obj := thing("a", "")
		obj.Value = strings.Repeat("x", tt.size)
		rig.Must[*Object[string]](t)(c.Create(obj))
		write := func() (kept int) {
			rig.Must[*Object[string]](t)(c.Update(obj, Preconditions{}))
			return int(c.Version() - c.Oldest())
		}
		for n := range 2000 {
			if kept := write(); kept > tt.to || n > tt.to && kept < tt.from {
				t.Fatalf("%d changes of %d bytes are kept, want %d to %d", kept, tt.size, tt.from, tt.to)
			}
		}
		// What was taken from the log counts no more.
		for name, take := range map[string]func() error{
			"a compaction": func() error { line.Compact(line.Version()); return nil },
			"a restore":    func() error { return line.Rewind(c.Oldest()) },
		} {
			rig.OK(t, take())
			for n := range tt.from {
				if kept := write(); kept != n+1 {
					t.Fatalf("%d changes of %d bytes are kept after %s and %d writes", kept, tt.size, name, n+1)
				}
			}
		}
	}
}

// A line keeps nothing of a collection that has left it.
func TestLeave(t *testing.T) {
	line := NewLine()
	stays, leaves := NewCollection(line, Options[string]{}), NewCollection(line, Options[string]{})
	create(t, stays, "a", "")
	create(t, leaves, "a", "")
	left := weak.Make(leaves)
	leaves.Leave()
	line.Compact(line.Version())
	rig.Same(t, "the oldest versions", []uint64{3, 1}, []uint64{stays.Oldest(), leaves.Oldest()})
	for range 100 {
		if runtime.GC(); left.Value() == nil {
			break
		}
	}
	if left.Value() != nil {
		t.Error("the line keeps a collection that has left it")
	}
	runtime.KeepAlive(line)
}

// transact stores objects with these keys, as "in/a", at version 2.
func transact(t *testing.T, c *Collection[int], keys ...string) {
	t.Helper()
	var writes []Write[int]
	for _, key := range keys {
		namespace, name, _ := strings.Cut(key, "/")
		writes = append(writes, Write[int]{Object: Object[int]{Key: types.NamespacedName{Namespace: namespace, Name: name}}})
	}
	rig.Same(t, "the version", 2, rig.Must[uint64](t)(c.Transact(writes...)))
}

// opened is the name of the object of an event, with a + if it is Open.
func opened(ev Event[int]) string { return ev.Object.Key.Name + map[bool]string{true: "+"}[ev.Open] }

// TestTransactInPart expects that the last event which a watch sends of a transaction closes it,
// whatever follows in other namespaces.
func TestTransactInPart(t *testing.T) {
	c := NewCollection(NewLine(), Options[int]{})
	w := rig.Must[*Watch[int]](t)(c.Watch("in", options{ResourceVersion: "1"}))
	transact(t, c, "out/a", "in/b", "in/c", "out/d")
	var told []string
	for range 2 {
		told = append(told, opened(rig.Must[Event[int]](t)(w.Next(t.Context()))))
	}
	rig.Same(t, "told", []string{"b+", "c"}, told)
}

// TestTransact expects that a watch which has begun to tell of a transaction tells all of it,
// unless its context is done.
func TestTransact(t *testing.T) {
	line := NewLine()
	c := NewCollection(line, Options[int]{})
	w := rig.Must[*Watch[int]](t)(c.Watch("", options{ResourceVersion: "1"}))
	transact(t, c, "/a", "/b", "/c")
	var told []string
	for {
		ev, err := w.Next(t.Context())
		if err == io.EOF {
			break
		}
		if err != nil || ev.Version != 2 {
			t.Fatalf("%+v, %v", ev, err)
		}
		told = append(told, opened(ev))
		line.Disconnect()
	}
	rig.Same(t, "told", []string{"a+", "b+", "c"}, told)
	if _, err := c.Transact(Write[int]{Object: Object[int]{Key: types.NamespacedName{Name: "a"}}, Pre: Preconditions{Version: 1}}); !apierrors.IsConflict(err) {
		t.Errorf("a version that is not there: %v", err)
	}
	if _, err := c.Transact(Write[int]{Object: Object[int]{Key: types.NamespacedName{Name: "new"}, UID: "u"}, Pre: Preconditions{UID: "u"}}); !apierrors.IsNotFound(err) {
		t.Errorf("a UID of what is not there: %v", err)
	}
}

// What is compacted, rewound or wiped is not kept.
func TestHistoryForgets(t *testing.T) {
	for name, forget := range map[string]func(*Line, *Collection[*[64]byte]){
		"compact": func(l *Line, _ *Collection[*[64]byte]) { l.Compact(l.Version()) }, "compact one": func(_ *Line, c *Collection[*[64]byte]) { c.Compact(c.Version()) },
		"rewind": func(l *Line, c *Collection[*[64]byte]) { rig.OK(t, l.Rewind(c.Oldest())) },
		"wipe":   func(l *Line, _ *Collection[*[64]byte]) { l.Wipe() },
	} {
		line := NewLine()
		c := NewCollection(line, Options[*[64]byte]{})
		var all []weak.Pointer[[64]byte]
		value := func() *[64]byte {
			v := new([64]byte)
			all = append(all, weak.Make(v))
			return v
		}
		for i := range 20 {
			obj := Object[*[64]byte]{Key: key(string(rune('a' + i%10))), Value: value()}
			if i < 10 {
				rig.OK(t, second(c.Create(obj)))
			} else {
				rig.OK(t, second(c.Update(obj, Preconditions{})))
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			rig.OK(t, third(c.Delete(key(name), Preconditions{})))
		}
		// A read of before, whose state is remembered for the next page.
		rig.OK(t, second(c.StateAt(c.Version()-1)))
		forget(line, c)
		runtime.GC()
		kept := 0
		for _, w := range all {
			if w.Value() != nil {
				kept++
			}
		}
		now, err := c.StateAt(c.Version())
		if err != nil || kept != len(now) {
			t.Errorf("%s: %d objects are kept, and %d are there, %v", name, kept, len(now), err)
		}
		runtime.KeepAlive(c)
	}
}

// What Changes has returned stays, whatever becomes of the history. A line without collections has
// its first version, too.
func TestChangesStay(t *testing.T) {
	line := NewLine()
	c := NewCollection(line, Options[string]{})
	create(t, c, "a", "old")
	update(t, c, "a", "new")
	got, err := c.Changes(1, 3)
	rig.OK(t, err)
	want := slices.Clone(got)
	rig.OK(t, line.Rewind(1))
	create(t, c, "b", "another")
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 2 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	empty := NewLine()
	if err := empty.Rewind(0); err != nil || empty.Version() != 1 {
		t.Errorf("version %d, %v", empty.Version(), err)
	}
}

// No UID comes twice, whichever way the objects are made, also after the line went back. An update
// keeps the UID, and one that is given stays.
func TestUIDsDiffer(t *testing.T) {
	line := NewLine()
	c := NewCollection(line, Options[string]{})
	seen := map[types.UID]string{}
	note := func(names ...string) {
		for _, name := range names {
			obj := rig.Must[*Object[string]](t)(c.Get(key(name)))
			if by, twice := seen[obj.UID]; twice || obj.UID == "" {
				t.Errorf("%s has the UID %q of %q", name, obj.UID, by)
			}
			seen[obj.UID] = name
		}
	}
	together := func(names ...string) {
		var writes []Write[string]
		for _, name := range names {
			writes = append(writes, Write[string]{Object: thing(name, "")})
		}
		rig.OK(t, second(c.Transact(writes...)))
		note(names...)
	}
	create(t, c, "a", "")
	note("a")
	remove(t, c, "a")
	create(t, c, "a", "")
	note("a")
	together("b", "c")
	remove(t, c, "b")
	together("b", "d")
	rig.OK(t, line.Rewind(2))
	create(t, c, "e", "")
	note("e")
	together("b", "c", "d")
	remove(t, c, "a")
	create(t, c, "a", "")
	note("a")
	rig.Same(t, "an update of a has the UID of", "a", seen[update(t, c, "a", "new").UID])
	given := thing("y", "")
	given.UID = "given"
	rig.Same(t, "the UID that was given", "given", rig.Must[*Object[string]](t)(c.Create(given)).UID)
}
