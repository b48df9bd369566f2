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

// Source checks a source for list/watch consistency with random histories of writes and reads. It
// calls subject at the start of each history. subject returns the source under test and functions
// that write to its collection, which need not be empty.
//
// Source checks that
//   - a list shows exactly the state of the version that it reports, and that version is not older
//     than the request allows; all pages of a list show one state;
//   - a watch from any version yields exactly the changes after that version, each once, in order,
//     and with the version of the change; a Deleted event has the version of the deletion;
//   - a streamed list ends with the bookmark that marks the end of the initial events, and the
//     events before it add up to the state of the bookmark's version; a source that cannot stream
//     lists refuses with a 4xx status;
//   - a bookmark does not pass over an event that has not been yielded;
//   - events of one version, if there is a [Subject.Transact], come one after the other, all but
//     the last of them Open; no watch ends, and none yields another version, between them;
//   - 410 Expired comes only for versions before a call of [Subject.Compact];
//   - List and Watch return soon after their context is done; if yield returns an error they return
//     that error and do not call yield again;
//   - lists and watches with a selector contain only the objects that match; an object that begins
//     to match comes as Added, one that no longer matches as Deleted;
//   - the StillHas of [lw.SourceHints] answers truthfully, of versions that are there, were there,
//     came later or are of another object; an answer that leaves it open is no failure.
//
// The flag -rapid.checks is the number of histories, 100 by default; -rapid.steps is their length.
// A history that fails is shrunk and printed, and rapid says how to run it again. A failure that
// depends on when a goroutine runs may not happen again: rapid then calls the test flaky, and
// prints the history that failed first.
func Source[T lw.Object](t testing.TB, subject func() Subject[T]) {
	t.Helper()
	var unstreamed atomic.Bool
	rapid.Check(t, func(rt *rapid.T) {
		s := subject().withDefaults()
		if s.Follows {
			follow(rt, s)
			return
		}
		h := newHistory(rt, s, &unstreamed)
		defer h.close()
		rt.Repeat(map[string]func(*rapid.T){
			"create":     h.create,
			"update":     h.update,
			"delete":     h.delete,
			"recreate":   h.recreate,
			"transact":   h.transact,
			"list":       h.list,
			"pages":      h.pages,
			"watch":      h.watch,
			"stream":     h.stream,
			"stop":       h.stop,
			"refuse":     h.refuse,
			"witness":    h.witness,
			"catch up":   func(*rapid.T) { h.catchUp() },
			"compact":    h.compact,
			"disconnect": h.disconnect,
			"bookmark":   h.bookmark,
			"": func(*rapid.T) {
				if !h.mayLag {
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

// A history is one random run: the source, the writes so far, and the open watches. Its methods and
// fields are used in rapid's goroutine only. Watch and List run in goroutines of their own; what
// they need from the history goes through follower.mu or callServing.
type history[T lw.Object] struct {
	rt *rapid.T
	Subject[T]
	*truth[T]
	steps      []string       // what was done, for the report
	versions   []string       // every version that the source has shown, oldest first
	compacted  string         // versions up to this one may have expired; "" before the first Compact
	n          int            // number of writes; passed to Subject.Object
	mayLag     bool           // the history does not wait for the watches after each step
	followers  []*follower[T] // the open watches, oldest first
	opened     int            // number of watches opened so far
	unstreamed *atomic.Bool   // set when the source refuses to stream; shared by all histories
	failing    bool           // a failure was reported
}

func newHistory[T lw.Object](rt *rapid.T, s Subject[T], unstreamed *atomic.Bool) *history[T] {
	h := &history[T]{rt: rt, Subject: s, truth: &truth[T]{equal: s.Equal}, unstreamed: unstreamed}
	h.mayLag = rapid.Bool().Draw(rt, "watches may fall behind")
	objs, meta := h.mustList(metav1.ListOptions{})
	state := map[lw.Key]T{}
	for _, obj := range objs {
		state[lw.KeyOf(obj)] = obj
	}
	h.states, h.truth.start = []map[lw.Key]T{state}, meta.ResourceVersion
	h.addVersion(meta.ResourceVersion)
	h.step("start with %d objects at %s", len(objs), meta.ResourceVersion)
	return h
}

// all is the selector that matches every object.
func all[T lw.Object](T) bool { return true }

// step adds a line to the report of a failure.
func (h *history[T]) step(format string, args ...any) {
	h.steps = append(h.steps, fmt.Sprintf(format, args...))
}

// report marks the history as failed and returns the text of the failure, with all steps.
func (h *history[T]) report(format string, args ...any) string {
	h.failing = true
	var b strings.Builder
	fmt.Fprintf(&b, "lwtest: %s\nThe history:\n", fmt.Sprintf(format, args...))
	for i, s := range h.steps {
		fmt.Fprintf(&b, "%4d. %s\n", i+1, s)
	}
	return b.String()
}

// addVersion adds a version that the source has shown, from which a watch may start. It fails the
// history if the version is not decimal.
func (h *history[T]) addVersion(version string) {
	if err := valid(version); err != nil {
		h.rt.Fatal(h.report("%v", err))
	}
	if i, found := slices.BinarySearchFunc(h.versions, version, compare); !found {
		h.versions = slices.Insert(h.versions, i, version)
	}
}

// newest returns the newest known version. The next write gets a newer one.
func (h *history[T]) newest() string { return h.versions[len(h.versions)-1] }

// drawVersion draws one of the last 12 known versions. A failing history shrinks to the newest.
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
		err = h.addWrite(key, stored, h.newest())
	}
	if err != nil {
		h.rt.Fatal(h.report("%s %v: %v", op, key, err))
	}
	h.step("%s %v: it is at %s", strings.ToLower(op), key, stored.GetResourceVersion())
	h.addVersion(stored.GetResourceVersion())
}

// remove deletes the object of key.
func (h *history[T]) remove(key lw.Key) {
	var zero T
	var err error
	h.call("Delete", func() { err = h.Delete(key) })
	if err == nil {
		err = h.addWrite(key, zero, h.newest())
	}
	if err != nil {
		h.rt.Fatal(h.report("Delete %v: %v", key, err))
	}
	h.step("delete %v", key)
	h.listNow() // bounds the version of the deletion, which Delete does not return
}

// transact writes several objects at one version.
func (h *history[T]) transact(rt *rapid.T) {
	if h.Transact == nil {
		rt.Skip("no Transact")
	}
	var puts []T
	var gone []lw.Key
	for _, key := range h.Keys {
		_, exists := h.now()[key]
		switch what := rapid.IntRange(0, 3).Draw(rt, "what"); {
		case what == 0:
		case what == 1 && exists:
			gone = append(gone, key)
		default:
			h.n++
			puts = append(puts, h.Object(key, h.n))
		}
	}
	if len(puts)+len(gone) == 0 {
		rt.Skip("nothing to write")
	}
	var stored []T
	var version string
	var err error
	h.call("Transact", func() { stored, version, err = h.Subject.Transact(puts, gone) })
	if err == nil && len(stored) != len(puts) {
		err = fmt.Errorf("it returned %d of %d objects", len(stored), len(puts))
	}
	if err == nil {
		err = valid(version)
	}
	after := h.newest()
	for i := 0; err == nil && i < len(stored); i++ {
		if err = h.addWrite(lw.KeyOf(puts[i]), stored[i], after); err == nil && stored[i].GetResourceVersion() != version && h.changes[len(h.changes)-1].new == stored[i] {
			err = fmt.Errorf("it returned an object at %s, and version %s", stored[i].GetResourceVersion(), version)
		}
	}
	var zero T
	for i := 0; err == nil && i < len(gone); i++ {
		err = h.addWrite(gone[i], zero, after)
		h.changes[len(h.changes)-1].version = version
	}
	if err != nil {
		h.rt.Fatal(h.report("Transact of %d objects and %d deletions: %v", len(puts), len(gone), err))
	}
	h.step("transact %d objects and %d deletions: at %s", len(puts), len(gone), version)
	h.addVersion(version)
}

// writes draws at most most writes, to be made later. Whether such a write creates, updates or
// deletes depends on what exists then.
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

// call runs f, a call of a Subject's function called name, in a goroutine of its own. It fails the
// history if f does not return within Patience, and panics as f does.
func (h *history[T]) call(name string, f func()) { h.callServing(name, func(func(func())) { f() }) }

// callServing is like call, for an f that needs rapid's goroutine meanwhile: a function that f
// passes to here runs in that goroutine while f waits for it. Patience starts anew after each.
// After a failure here does nothing, so that f is not blocked for ever.
func (h *history[T]) callServing(name string, f func(here func(func()))) {
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

// expired reports whether err is 410 Expired or Gone. It fails the history if the source must not
// answer so, because version was not compacted. The version "" stands for an unknown one, which may
// have been compacted if any was.
func (h *history[T]) expired(op, version string, err error) bool {
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		return false
	}
	if h.compacted == "" || version != "" && compare(version, h.compacted) > 0 {
		h.rt.Fatal(h.report("%s at %q: 410 for a version that was not compacted: %v", op, version, err))
	}
	h.step("%s at %q has expired", op, version)
	return true
}

func (h *history[T]) compact(rt *rapid.T) {
	if h.Compact == nil {
		rt.Skip("no Compact")
	}
	// List first: it bounds the versions of all deletions by a version that may still be read.
	h.listNow()
	h.compacted = h.newest()
	h.call("Compact", h.Compact)
	h.step("compact up to %s", h.compacted)
}

// listNow lists the collection and checks that all changes are in it. It thereby finds a version
// that every change is not later than.
func (h *history[T]) listNow() {
	objs, meta := h.mustList(metav1.ListOptions{})
	if err := h.matches(meta.ResourceVersion, objs, all[T], len(h.changes)); err != nil {
		h.rt.Fatal(h.report("a list at %s: %v", meta.ResourceVersion, err))
	}
	h.addVersion(meta.ResourceVersion)
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

// end lets all watches catch up, at the end of the history. It makes one more write first: a watch
// that yields too many events, or the wrong one last, is noticed only when another one must follow.
func (h *history[T]) end() {
	h.step("the end")
	h.put(h.Keys[0])
	h.catchUp()
	h.listNow()
}

func (h *history[T]) close() {
	for _, f := range h.followers {
		f.cancel()
	}
	// After a failure a watch that hangs is no further failure.
	for _, f := range h.followers {
		if !f.wait(h.Patience, f.ended) && !h.failing {
			h.rt.Error(h.report("%v goes on after its context was cancelled", f))
		}
	}
	if h.Close != nil {
		h.Close()
	}
}

var errYield = errors.New("lwtest: yield has seen enough")
