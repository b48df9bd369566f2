package lwtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lw/lw"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// Source checks a source for list/watch consistency, by random histories. subject is called at the start of each, and returns
// the source under test and the means to write to it; the collection need not be empty.
//
// It checks that
//   - a list, whatever version was asked for and however, shows the state of the version that it reports, no more and no less,
//     and is not older than it may be; all pages of a list show one state;
//   - a watch from any version tells exactly the changes after it, each once, in order, under the version that made it; the
//     version of a Deleted event is that of the deletion;
//   - a streamed list ends with a bookmark that says so, and what came before it is the state of its version; a source that
//     cannot stream lists refuses, with a 4xx status;
//   - a bookmark is not ahead of an event that was not told;
//   - 410 Expired comes only for versions that [Subject.Compact] was called after;
//   - List and Watch return soon after their context is done, and return the error of yield, which is not called after that;
//   - a selector leaves out what it does not match, and objects that begin or cease to match are told as Added and Deleted.
//
// The number of histories is that of -rapid.checks, 100 by default; -rapid.steps is how long they are. A history that goes
// wrong is shrunk and printed; rapid says how to run it again. What depends on the moment at which a goroutine runs may not go
// wrong again: rapid calls it flaky then, and prints the history that it found first.
func Source[T lw.Object](t testing.TB, subject func() Subject[T]) {
	t.Helper()
	var unstreamed atomic.Bool
	rapid.Check(t, func(rt *rapid.T) {
		h := newHistory(rt, subject().withDefaults(), &unstreamed)
		defer h.close()
		rt.Repeat(map[string]func(*rapid.T){
			"create":     h.create,
			"update":     h.update,
			"delete":     h.delete,
			"recreate":   h.recreate,
			"list":       h.list,
			"pages":      h.pages,
			"watch":      h.watch,
			"stream":     h.stream,
			"stop":       h.stop,
			"refuse":     h.refuse,
			"catch up":   func(*rapid.T) { h.catchUp() },
			"compact":    h.compact,
			"disconnect": h.disconnect,
			"bookmark":   h.bookmark,
			"": func(*rapid.T) {
				if !h.lazy {
					h.catchUp()
				}
			},
		})
		h.end()
	})
	if unstreamed.Load() {
		t.Logf("lwtest: the source refuses to stream lists")
	}
}

// history is one run of a source, and what is known of it. All but the yield of its followers runs in the goroutine of rapid.
type history[T lw.Object] struct {
	rt *rapid.T
	Subject[T]
	*truth[T]
	steps      []string
	versions   []string // that were seen, oldest first
	floor      string   // versions up to this one may have expired; "": none
	n          int      // makes each written content another one
	lazy       bool     // watches may fall behind
	follows    []*follower[T]
	follow     int // followers so far
	unstreamed *atomic.Bool
	failing    bool
}

func newHistory[T lw.Object](rt *rapid.T, s Subject[T], unstreamed *atomic.Bool) *history[T] {
	h := &history[T]{rt: rt, Subject: s, truth: &truth[T]{equal: s.Equal}, unstreamed: unstreamed}
	h.lazy = rapid.Bool().Draw(rt, "watches may fall behind")
	objs, meta := h.mustList(metav1.ListOptions{})
	state := map[lw.Key]T{}
	for _, obj := range objs {
		state[lw.KeyOf(obj)] = obj
	}
	h.states, h.truth.start = []map[lw.Key]T{state}, meta.ResourceVersion
	h.saw(meta.ResourceVersion)
	h.step("start with %d objects at %s", len(objs), meta.ResourceVersion)
	return h
}

func all[T lw.Object](T) bool { return true }

// step notes what was done, for the report of a failure.
func (h *history[T]) step(format string, args ...any) {
	h.steps = append(h.steps, fmt.Sprintf(format, args...))
}

// report ends the history as one that went wrong.
func (h *history[T]) report(format string, args ...any) string {
	h.failing = true
	var b strings.Builder
	fmt.Fprintf(&b, "lwtest: %s\nThe history:\n", fmt.Sprintf(format, args...))
	for i, s := range h.steps {
		fmt.Fprintf(&b, "%4d. %s\n", i+1, s)
	}
	return b.String()
}

// saw notes a version that a watch may start at.
func (h *history[T]) saw(version string) {
	if err := valid(version); err != nil {
		h.rt.Fatal(h.report("%v", err))
	}
	if i, found := slices.BinarySearchFunc(h.versions, version, compare); !found {
		h.versions = slices.Insert(h.versions, i, version)
	}
}

// newest is the newest version that was seen. Whatever is written now comes after it.
func (h *history[T]) newest() string { return h.versions[len(h.versions)-1] }

// drawVersion draws one of the last versions, the newest first.
func (h *history[T]) drawVersion(rt *rapid.T) string {
	i := rapid.IntRange(0, min(len(h.versions), 12)-1).Draw(rt, "versions back")
	return h.versions[len(h.versions)-1-i]
}

func (h *history[T]) drawKey(rt *rapid.T) lw.Key { return rapid.SampledFrom(h.Keys).Draw(rt, "key") }

func (h *history[T]) drawSelector(rt *rapid.T) Selector[T] {
	i := rapid.IntRange(0, len(h.Selectors)).Draw(rt, "selector")
	if i == 0 {
		return Selector[T]{Matches: all[T]}
	}
	return h.Selectors[i-1]
}

func (h *history[T]) create(rt *rapid.T) {
	key := h.drawKey(rt)
	if _, ok := h.now()[key]; ok {
		rt.Skip("it is there")
	}
	h.put(key)
}

func (h *history[T]) update(rt *rapid.T) {
	key := h.drawKey(rt)
	if _, ok := h.now()[key]; !ok {
		rt.Skip("it is not there")
	}
	h.put(key)
}

func (h *history[T]) delete(rt *rapid.T) {
	key := h.drawKey(rt)
	if _, ok := h.now()[key]; !ok {
		rt.Skip("it is not there")
	}
	h.remove(key)
}

func (h *history[T]) recreate(rt *rapid.T) {
	key := h.drawKey(rt)
	if _, ok := h.now()[key]; !ok {
		rt.Skip("it is not there")
	}
	h.remove(key)
	h.put(key)
}

// put creates or updates the object of key.
func (h *history[T]) put(key lw.Key) {
	h.n++
	obj := h.Object(key, h.n)
	if lw.KeyOf(obj) != key {
		h.rt.Fatalf("lwtest: Subject.Object(%v) returned an object of %v", key, lw.KeyOf(obj))
	}
	_, exists := h.now()[key]
	op, write := "Create", h.Create
	if exists {
		op, write = "Update", h.Update
	}
	var stored T
	var err error
	h.call(op, func() { stored, err = write(obj) })
	if err == nil {
		err = h.wrote(key, stored, h.newest())
	}
	if err != nil {
		h.rt.Fatal(h.report("%s %v: %v", op, key, err))
	}
	h.step("%s %v: it is at %s", strings.ToLower(op), key, stored.GetResourceVersion())
	h.saw(stored.GetResourceVersion())
}

func (h *history[T]) remove(key lw.Key) {
	var zero T
	var err error
	h.call("Delete", func() { err = h.Delete(key) })
	if err == nil {
		err = h.wrote(key, zero, h.newest())
	}
	if err != nil {
		h.rt.Fatal(h.report("Delete %v: %v", key, err))
	}
	h.step("delete %v", key)
	h.look() // which tells at which version it is gone
}

// writes draws n writes, which are to be made later: what each does depends on what is there then.
func (h *history[T]) writes(rt *rapid.T, most int) []func() {
	var writes []func()
	for range rapid.IntRange(0, most).Draw(rt, "writes") {
		key, gone := h.drawKey(rt), rapid.Bool().Draw(rt, "gone")
		writes = append(writes, func() {
			if _, ok := h.now()[key]; ok && gone {
				h.remove(key)
			} else {
				h.put(key)
			}
		})
	}
	return writes
}

// call runs f, which should not take long.
func (h *history[T]) call(name string, f func()) { h.serve(name, func(func(func())) { f() }) }

// serve is call for an f that has something to do here: what it passes to here runs in rapid's goroutine, while f waits.
func (h *history[T]) serve(name string, f func(here func(func()))) {
	done, work, gone := make(chan any, 1), make(chan func()), make(chan struct{})
	defer close(gone)
	go func() {
		defer func() { done <- recover() }()
		f(func(w func()) {
			ran := make(chan struct{})
			select {
			case work <- func() { defer close(ran); w() }:
				<-ran
			case <-gone:
			}
		})
	}()
	for {
		timeout := time.NewTimer(h.Patience)
		select {
		case w := <-work:
			timeout.Stop()
			w()
		case p := <-done:
			timeout.Stop()
			if p != nil {
				panic(p)
			}
			return
		case <-timeout.C:
			h.rt.Fatal(h.report("%s has not returned after %v", name, h.Patience))
		}
	}
}

// expired reports whether err is 410, which may be only if version is one that was compacted; "" stands for none in particular.
func (h *history[T]) expired(op, version string, err error) bool {
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		return false
	}
	if h.floor == "" || version != "" && compare(version, h.floor) > 0 {
		h.rt.Fatal(h.report("%s at %q: 410 for a version that was not compacted: %v", op, version, err))
	}
	h.step("%s at %q has expired", op, version)
	return true
}

func (h *history[T]) compact(rt *rapid.T) {
	if h.Compact == nil {
		rt.Skip("no Compact")
	}
	// What is not known of a deletion's version could not be told from what has expired.
	h.look()
	h.floor = h.newest()
	h.call("Compact", h.Compact)
	h.step("compact up to %s", h.floor)
}

// look lists, and so sees at which version everything is done.
func (h *history[T]) look() {
	objs, meta := h.mustList(metav1.ListOptions{})
	if err := h.matches(meta.ResourceVersion, objs, all[T], len(h.changes)); err != nil {
		h.rt.Fatal(h.report("a list at %s: %v", meta.ResourceVersion, err))
	}
	h.saw(meta.ResourceVersion)
}

func (h *history[T]) disconnect(rt *rapid.T) {
	if h.Disconnect == nil {
		rt.Skip("no Disconnect")
	}
	h.call("Disconnect", h.Disconnect)
	h.step("disconnect")
}

func (h *history[T]) bookmark(rt *rapid.T) {
	if h.Bookmark == nil {
		rt.Skip("no Bookmark")
	}
	h.call("Bookmark", h.Bookmark)
	h.step("bookmark")
}

// end lets all watches come to the end: after one more write, that which they are told last is what they should be told last.
func (h *history[T]) end() {
	h.step("the end")
	h.put(h.Keys[0])
	h.catchUp()
	h.look()
}

func (h *history[T]) close() {
	for _, f := range h.follows {
		f.cancel()
	}
	// Once it has failed, what hangs may go on to do so.
	for _, f := range h.follows {
		if !f.wait(h.Patience, f.ended) && !h.failing {
			h.rt.Error(h.report("%v goes on after its context was cancelled", f))
		}
	}
	if h.Close != nil {
		h.Close()
	}
}

var errYield = errors.New("lwtest: yield has seen enough")
