package history

import (
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/listopts"
)

// A watcher applies the events of a watch to a state, which must become what the watch's filter
// selects of the collection's state.
type watcher struct {
	w     *Watch[int]
	match func(types.NamespacedName, content) bool
	seen  state
	at    uint64 // the version up to which it was drained
	cut   bool
}

func (m *model) Watch(t *rapid.T) {
	namespace, opts, match := drawFilter(t)
	from := rapid.Uint64Range(0, m.now).Draw(t, "from")
	w := &watcher{match: match, seen: state{}, at: m.now}
	if from > 0 {
		opts.ResourceVersion = listopts.FormatVersion(from)
		w.at = from
		w.seen = m.states[from].filter(match)
	}
	var err error
	if w.w, err = m.c.Watch(namespace, opts); err != nil {
		t.Fatal(err)
	}
	if from > 0 && from < m.oldest {
		_, err := drain(w.w)
		refused(t, fmt.Sprintf("watch from %d before %d", from, m.oldest), apierrors.IsResourceExpired, err)
		return
	}
	m.watches = append(m.watches, w)
}

// Drain reads all events of the watches, and compares the states that they lead to.
func (m *model) Drain(t *rapid.T) {
	m.watches = slices.DeleteFunc(m.watches, func(w *watcher) bool {
		return rapid.IntRange(0, 3).Draw(t, "drain") > 0 && m.drain(t, w)
	})
}

// drain reports whether w has ended.
func (m *model) drain(t *rapid.T, w *watcher) bool {
	events, err := drain(w.w)
	if w.cut {
		if err != io.EOF || len(events) > 0 {
			t.Fatalf("a watch that was cut told %d events and ended with %v", len(events), err)
		}
		return true
	}
	var seen uint64
	for i, ev := range events {
		if i > 0 && events[i-1].Open {
			seen-- // the same version
		}
		if again := i+1 < len(events) && !ev.Initial && events[i+1].Version == ev.Version; ev.Open != again {
			t.Fatalf("event %d of %d at %d has Open %v", i, len(events), ev.Version, ev.Open)
		}
		seen = max(seen, w.take(t, ev, seen))
	}
	missed := false
	for v := range m.changed {
		missed = missed || w.at < v && v <= m.oldest
	}
	if missed {
		refused(t, fmt.Sprintf("a watch at %d after compaction to %d", w.at, m.oldest), apierrors.IsResourceExpired, err)
		return true
	}
	if err != nil {
		t.Fatalf("a watch at %d, compacted to %d, ended: %v", w.at, m.oldest, err)
	}
	w.at = m.now
	same(t, "where the events of a watch lead", m.states[m.now].filter(w.match), w.seen)
	return false
}

// take applies ev and returns its version, or 0 for an event of the initial state.
func (w *watcher) take(t *rapid.T, ev Event[int], seen uint64) uint64 {
	old, known := w.seen[ev.Object.Key]
	if (ev.Type == watch.Added) == known {
		t.Fatalf("%s of %s at %d, which was known: %v", ev.Type, ev.Object.Key, ev.Version, known)
	}
	if ev.Type == watch.Deleted {
		same(t, "what was deleted, as last seen", old, contentOf(ev.Object))
		delete(w.seen, ev.Object.Key)
	} else {
		w.seen[ev.Object.Key] = contentOf(ev.Object)
	}
	if ev.Initial {
		return 0
	}
	if ev.Version <= seen {
		t.Fatalf("version %d after %d", ev.Version, seen)
	}
	return ev.Version
}

// drain reads w until it would wait.
func drain(w *Watch[int]) (events []Event[int], err error) {
	for {
		ev, ok, changed := w.poll()
		switch {
		case w.err != nil:
			return events, w.err
		case ok:
			events = append(events, ev)
		case changed != nil:
			return events, nil
		}
	}
}

// Pages lists in pages, with writes and a compaction in between.
func (m *model) Pages(t *rapid.T) {
	namespace, opts, match := drawFilter(t)
	opts.Limit = rapid.Int64Range(1, 3).Draw(t, "limit")
	want := m.states[m.now].filter(match)
	version := m.now
	var got []*Object[int]
	for {
		page, err := m.c.List(namespace, opts)
		if err != nil {
			if version >= m.oldest || !apierrors.IsResourceExpired(err) {
				t.Fatalf("page of %d, compacted to %d: %v", version, m.oldest, err)
			}
			m.restOfPages(t, namespace, opts, match, got, err)
			return
		}
		if opts.Continue != "" && version < m.oldest {
			t.Fatalf("a page of %d, compacted to %d", version, m.oldest)
		}
		same(t, "the version of a page", version, page.Version)
		got = append(got, page.Items...)
		if page.Remaining != nil && int(*page.Remaining) != len(want)-len(got) {
			t.Fatalf("%d remain after %d of %d", *page.Remaining, len(got), len(want))
		}
		if page.Continue == "" {
			break
		}
		opts.Continue = page.Continue
		if rapid.Bool().Draw(t, "write") {
			m.Create(t)
			m.Delete(t)
		}
		if rapid.IntRange(0, 3).Draw(t, "compact") == 3 {
			m.Compact(t)
		}
	}
	if !inOrder(got) {
		t.Fatalf("pages out of order")
	}
	same(t, "pages", want, fold(got))
}

// restOfPages goes on with the token of the error. The rest of the pages show the current state.
func (m *model) restOfPages(t *rapid.T, namespace string, opts metav1.ListOptions,
	match func(types.NamespacedName, content) bool, before []*Object[int], err error,
) {
	opts.Limit = 0
	opts.Continue = err.(apierrors.APIStatus).Status().ListMeta.Continue
	page, err := m.c.List(namespace, opts)
	if err != nil || page.Version != m.now {
		t.Fatalf("the rest of a list at %d, %v; want %d", page.Version, err, m.now)
	}
	last := listopts.Path(before[len(before)-1].Key)
	want := m.states[m.now].filter(func(k types.NamespacedName, c content) bool { return match(k, c) && listopts.Path(k) > last })
	same(t, "the rest of a list", want, fold(page.Items))
}
