package lwtest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"pgregory.net/rapid"
)

// A CollectionSubject is a collection under test, and what writes to its input.
type CollectionSubject[T lw.Object] struct {
	// Collection is what is tested, such as an informer, a derived collection, or a type of yours that
	// embeds one. Nil: only Reader is.
	Collection lw.Collection[T]
	Reader     lw.Reader[T] // what is read; default: the store of Collection
	// Put has the collection show Object(key, n), and Remove has it show nothing of key.
	Put    func(key lw.Key, n int)
	Remove func(key lw.Key)
	// Object returns what is shown, versions and UIDs aside. n is from 0 to 3.
	Object  func(key lw.Key, n int) T
	Compare func(a, b T) int // the order of what is read; nil: it is not defined
}

// collectionKeys are what a history writes.
var collectionKeys = []lw.Key{{Namespace: "a", Name: "one"}, {Namespace: "a", Name: "two"}, {Namespace: "b", Name: "one"}}

// TestCollection checks a collection in memory with random histories of writes, each in a synctest
// bubble of its own. It calls subject at the start of each. The collection is empty then, and what
// subject starts ends when ctx is done.
//
// Whenever all goroutines wait, TestCollection checks that
//   - all ways to read show what was written, in the order of Compare, and snapshots never change;
//   - each handler, early or late, was called with one story for each object, which ends with what
//     is read: Adds, then Synced, and each change with the object of the call before as old; Events
//     tells the same; a handler that was removed is not called;
//   - the channels of Changed are closed if there was a change, and open if there was none;
//   - WaitFor returns an object that meets the condition, and the cause of a context that is done.
func TestCollection[T lw.Object](t *testing.T, subject func(ctx context.Context) CollectionSubject[T]) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer synctest.Wait()
			defer cancel()
			h := &collected[T]{rt: rt, ctx: ctx, s: subject(ctx), model: map[lw.Key]int{}}
			if h.s.Reader == nil {
				h.s.Reader = h.s.Collection.Store()
			}
			actions := map[string]func(*rapid.T){"write": h.write, "write too": h.write, "snapshot": h.snapshot, "": func(*rapid.T) { h.check() }}
			if h.s.Collection != nil {
				h.events()
				actions["add a handler"], actions["remove a handler"], actions["wait"] = h.addHandler, h.removeHandler, h.wait
			}
			rt.Repeat(actions)
		})
	})
}

// A collected is one history of a collection.
type collected[T lw.Object] struct {
	rt      *rapid.T
	ctx     context.Context
	s       CollectionSubject[T]
	model   map[lw.Key]int // what was written
	steps   []string
	shots   []shot[T]
	stories []*story[T]
}

type shot[T lw.Object] struct {
	of   *lw.Snapshot[T]
	want map[lw.Key]int
}

// A story is the calls of one consumer.
type story[T lw.Object] struct {
	mu      sync.Mutex
	has     map[lw.Key]T
	synced  int
	mistake string
	calls   int
	reg     *lw.Registration // nil: of Events
	ended   int              // the calls when it was removed; -1: it was not
}

func (h *collected[T]) fail(format string, args ...any) {
	h.rt.Helper()
	h.rt.Fatalf("lwtest: %s\nThe history:\n%s", fmt.Sprintf(format, args...), strings.Join(h.steps, "\n"))
}

// write makes one to three writes, and expects Changed to tell of them.
func (h *collected[T]) write(rt *rapid.T) {
	before, any, of := maps.Clone(h.model), (<-chan struct{})(nil), map[lw.Key]<-chan struct{}{}
	if h.s.Collection != nil {
		any = h.s.Collection.Changed(h.ctx)
		for _, key := range collectionKeys {
			of[key] = h.s.Collection.Changed(h.ctx, key)
		}
	}
	touched := map[lw.Key]bool{}
	for range rapid.IntRange(1, 3).Draw(rt, "writes") {
		key, n := rapid.SampledFrom(collectionKeys).Draw(rt, "key"), rapid.IntRange(-1, 3).Draw(rt, "content, or none")
		if _, ok := h.model[key]; !ok && n < 0 {
			continue
		}
		touched[key] = true
		if n < 0 {
			h.steps = append(h.steps, fmt.Sprintf("remove %v", key))
			h.s.Remove(key)
			delete(h.model, key)
		} else {
			h.steps = append(h.steps, fmt.Sprintf("put %v with content %d", key, n))
			h.s.Put(key, n)
			h.model[key] = n
		}
	}
	synctest.Wait()
	for key, changed := range of {
		is, now := before[key], h.model[key]
		_, was := before[key]
		_, has := h.model[key]
		h.signal(fmt.Sprintf("of %v", key), changed, was != has || is != now, touched[key])
	}
	if any != nil {
		h.signal("of any object", any, !maps.Equal(before, h.model), len(touched) > 0)
	}
}

// signal checks a channel of Changed. A write that changes no content may be a change or not.
func (h *collected[T]) signal(what string, changed <-chan struct{}, must, may bool) {
	h.rt.Helper()
	select {
	case <-changed:
		if !may {
			h.fail("the channel %s is closed without a change", what)
		}
	default:
		if must {
			h.fail("the channel %s is open after a change", what)
		}
	}
}

func (h *collected[T]) snapshot(*rapid.T) {
	h.shots = append(h.shots, shot[T]{h.s.Reader.Snapshot(), maps.Clone(h.model)})
}

// check compares all reads and stories with what was written.
func (h *collected[T]) check() {
	synctest.Wait()
	h.reads("the reader", h.s.Reader, h.model)
	h.reads("a snapshot", h.s.Reader.Snapshot(), h.model)
	for _, s := range h.shots {
		h.reads("an old snapshot", s.of, s.want)
	}
	for i, s := range h.stories {
		s.mu.Lock()
		mistake, calls := s.mistake, s.calls
		now := maps.Clone(s.has)
		s.mu.Unlock()
		switch {
		case mistake != "":
			h.fail("consumer %d: %s", i, mistake)
		case s.ended >= 0 && calls != s.ended:
			h.fail("handler %d was called after it was removed", i)
		case s.ended < 0:
			h.shows(fmt.Sprintf("what the calls of consumer %d add up to", i), now, h.model)
			if s.reg != nil && s.synced != 1 {
				h.fail("handler %d: Synced was called %d times", i, s.synced)
			}
			for key, obj := range now {
				if is, _ := h.s.Reader.Get(key); !sameObject(is, obj) {
					h.fail("consumer %d has another object of %v than the reader", i, key)
				}
			}
		}
	}
}

// reads checks all ways to read.
func (h *collected[T]) reads(what string, r lw.Reader[T], want map[lw.Key]int) {
	h.rt.Helper()
	list, all, got := r.List(), slices.Collect(r.All()), map[lw.Key]T{}
	for _, obj := range list {
		got[lw.KeyOf(obj)] = obj
	}
	h.shows("List of "+what, got, want)
	if len(list) != len(want) || r.Len() != len(want) || len(all) != len(want) {
		h.fail("%s lists %d objects, yields %d and counts %d, want %d", what, len(list), len(all), r.Len(), len(want))
	}
	for _, obj := range all {
		if !sameObject(got[lw.KeyOf(obj)], obj) {
			h.fail("%s: All has another object of %v than List", what, lw.KeyOf(obj))
		}
	}
	for _, key := range collectionKeys {
		if obj, ok := r.Get(key); ok != (got[key] != *new(T)) || !sameObject(obj, got[key]) {
			h.fail("%s: Get of %v says %v, %v, and List has %v", what, key, show(obj), ok, show(got[key]))
		}
	}
	if _, of := r.(*lw.Snapshot[T]); h.s.Compare != nil && !of && !(slices.IsSortedFunc(list, h.s.Compare) && slices.IsSortedFunc(all, h.s.Compare)) {
		h.fail("%s is not in order", what)
	}
}

func (h *collected[T]) shows(what string, got map[lw.Key]T, want map[lw.Key]int) {
	h.rt.Helper()
	if len(got) != len(want) {
		h.fail("%s: %d objects, want %d", what, len(got), len(want))
	}
	for key, n := range want {
		if obj, ok := got[key]; !ok || !equalApartFromVersions(obj, h.s.Object(key, n)) {
			h.fail("%s: %v is %s, want %s", what, key, show(obj), show(h.s.Object(key, n)))
		}
	}
}

// sameObject reports whether a and b are one object, or copies of it.
func sameObject[T lw.Object](a, b T) bool { return a == b || reflect.DeepEqual(a, b) }

// note notes one change: from old to new, either of which may be zero.
func (s *story[T]) note(old, new T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var none T
	of := new
	if new == none {
		of = old
	}
	key := lw.KeyOf(of)
	s.calls++
	if is := s.has[key]; is != old && s.mistake == "" {
		s.mistake = fmt.Sprintf("called for %v from %s, and has %s", key, show(old), show(is))
	}
	if new == none {
		delete(s.has, key)
	} else {
		s.has[key] = new
	}
}

func (h *collected[T]) newStory() *story[T] {
	s := &story[T]{has: map[lw.Key]T{}, ended: -1}
	h.stories = append(h.stories, s)
	return s
}

func (h *collected[T]) addHandler(*rapid.T) {
	h.steps = append(h.steps, fmt.Sprintf("add handler %d", len(h.stories)))
	s, none, first := h.newStory(), *new(T), len(h.model)
	s.reg = h.s.Collection.AddHandler(lw.Handler[T]{
		Add:    func(obj T) { s.note(none, obj) },
		Update: func(old, obj T) { s.note(old, obj) },
		Delete: func(last T) { s.note(last, none) },
		Synced: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.synced++; s.calls != first {
				s.mistake = fmt.Sprintf("Synced came after %d Adds, want %d", s.calls, first)
			}
		},
	})
	synctest.Wait()
	if err := s.reg.WaitForSync(h.ctx); err != nil {
		h.fail("the handler: %v", err)
	}
}

func (h *collected[T]) removeHandler(rt *rapid.T) {
	i := rapid.IntRange(0, len(h.stories)-1).Draw(rt, "handler")
	s := h.stories[i]
	if s.reg == nil || s.ended >= 0 {
		rt.Skip("it is gone, or is Events")
	}
	h.steps = append(h.steps, fmt.Sprintf("remove handler %d", i))
	s.reg.Remove()
	<-s.reg.Done()
	s.ended = s.calls
}

// events follows Events to the end of the history.
func (h *collected[T]) events() {
	s := h.newStory()
	go func() {
		for d := range h.s.Collection.Events(h.ctx) {
			s.note(d.Old, d.New)
		}
	}()
}

// wait waits for what is there, and for what does not come.
func (h *collected[T]) wait(rt *rapid.T) {
	key := rapid.SampledFrom(collectionKeys).Draw(rt, "key")
	now, ok := h.s.Reader.Get(key)
	got, err := lw.WaitFor(h.ctx, h.s.Collection, key, func(obj T) bool { return (obj != *new(T)) == ok })
	if err != nil || !sameObject(got, now) {
		h.fail("WaitFor of %v returned %s, %v, want %s", key, show(got), err, show(now))
	}
	ctx, cancel := context.WithTimeout(h.ctx, time.Second)
	defer cancel()
	if _, err = lw.WaitFor(ctx, h.s.Collection, key, func(T) bool { return false }); err == nil || ctx.Err() == nil {
		h.fail("WaitFor of what does not come returned %v", err)
	}
}
