package history

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"
)

// A content is what the model knows of an object.
type content struct {
	UID     types.UID
	Version uint64
	Label   string
	Value   int
}

type state map[types.NamespacedName]content

// A model is what a collection should be: every state in full.
type model struct {
	line *Line
	c    *Collection[int]

	now, oldest uint64
	states      map[uint64]state
	changed     map[uint64]bool // the versions that changed this collection
	watches     []*watcher
}

// A watcher folds what a watch tells of, which must be what its filter shows of the states.
type watcher struct {
	w     *Watch[int]
	match func(types.NamespacedName, content) bool
	seen  state
	at    uint64 // the version up to which it was drained
	cut   bool
}

func newModel() *model {
	line := NewLine()
	m := &model{
		line: line, now: 1, oldest: 1,
		states:  map[uint64]state{1: {}},
		changed: map[uint64]bool{},
	}
	m.c = NewCollection(line, Options[int]{
		Resource: schema.GroupResource{Resource: "things"},
		Same:     func(old, new *Object[int]) bool { return old.Value == new.Value && maps.Equal(old.Labels, new.Labels) },
	})
	return m
}

// write stores next as the state of the next version.
func (m *model) write(next state) {
	m.now++
	m.states[m.now] = next
	m.changed[m.now] = true
}

func drawKey(t *rapid.T) types.NamespacedName {
	return types.NamespacedName{
		Namespace: rapid.SampledFrom([]string{"a", "a-b"}).Draw(t, "namespace"),
		Name:      rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"),
	}
}

func drawObject(t *rapid.T) Object[int] {
	return Object[int]{
		Key:    drawKey(t),
		Labels: map[string]string{"l": rapid.SampledFrom([]string{"0", "1"}).Draw(t, "label")},
		Value:  rapid.IntRange(0, 2).Draw(t, "value"),
	}
}

func contentOf(o *Object[int]) content {
	return content{UID: o.UID, Version: o.Version, Label: o.Labels["l"], Value: o.Value}
}

func fold(objs []*Object[int]) state {
	s := state{}
	for _, o := range objs {
		s[o.Key] = contentOf(o)
	}
	return s
}

// drawFilter returns a namespace and selectors, and what they should select.
func drawFilter(t *rapid.T) (namespace string, opts metav1.ListOptions, match func(types.NamespacedName, content) bool) {
	namespace = rapid.SampledFrom([]string{"", "a"}).Draw(t, "of namespace")
	label := rapid.SampledFrom([]string{"", "1"}).Draw(t, "of label")
	name := rapid.SampledFrom([]string{"", "x"}).Draw(t, "of name")
	if label != "" {
		opts.LabelSelector = "l=" + label
	}
	if name != "" {
		opts.FieldSelector = "metadata.name=" + name
	}
	return namespace, opts, func(k types.NamespacedName, c content) bool {
		return (namespace == "" || namespace == k.Namespace) && (label == "" || label == c.Label) && (name == "" || name == k.Name)
	}
}

func (s state) filter(match func(types.NamespacedName, content) bool) state {
	out := maps.Clone(s)
	maps.DeleteFunc(out, func(k types.NamespacedName, c content) bool { return !match(k, c) })
	return out
}

func (m *model) Create(t *rapid.T) {
	obj := drawObject(t)
	stored, err := m.c.Create(obj)
	if _, exists := m.states[m.now][obj.Key]; exists {
		if !apierrors.IsAlreadyExists(err) {
			t.Fatalf("create %s: %v", obj.Key, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	next := maps.Clone(m.states[m.now])
	next[obj.Key] = content{stored.UID, m.now + 1, obj.Labels["l"], obj.Value}
	m.write(next)
}

func (m *model) Update(t *rapid.T) {
	obj := drawObject(t)
	old, exists := m.states[m.now][obj.Key]
	pre := Preconditions{Version: old.Version}
	if rapid.IntRange(0, 3).Draw(t, "maybe stale") == 3 {
		pre.Version = rapid.Uint64Range(0, m.now).Draw(t, "if version")
	}
	stored, err := m.c.Update(obj, pre)
	switch {
	case !exists:
		if !apierrors.IsNotFound(err) {
			t.Fatalf("update %s: %v", obj.Key, err)
		}
	case pre.Version != 0 && pre.Version != old.Version:
		if !apierrors.IsConflict(err) {
			t.Fatalf("update %s at %d if %d: %v", obj.Key, old.Version, pre.Version, err)
		}
	case err != nil:
		t.Fatal(err)
	case old.Label == obj.Labels["l"] && old.Value == obj.Value:
		if stored.Version != old.Version {
			t.Fatalf("an update that changes nothing made version %d", stored.Version)
		}
	default:
		next := maps.Clone(m.states[m.now])
		next[obj.Key] = content{old.UID, m.now + 1, obj.Labels["l"], obj.Value}
		m.write(next)
	}
}

func (m *model) Delete(t *rapid.T) {
	key := drawKey(t)
	last, version, err := m.c.Delete(key, Preconditions{})
	old, exists := m.states[m.now][key]
	if !exists {
		if !apierrors.IsNotFound(err) {
			t.Fatalf("delete %s: %v", key, err)
		}
		return
	}
	if err != nil || contentOf(last) != old || version != m.now+1 {
		t.Fatalf("delete %s = %v at %d, %v; want %v", key, last, version, err, old)
	}
	next := maps.Clone(m.states[m.now])
	delete(next, key)
	m.write(next)
}

func (m *model) Advance(t *rapid.T) {
	n := rapid.Uint64Range(1, 2).Draw(t, "by")
	m.line.Advance(n)
	for range n {
		m.states[m.now+1] = m.states[m.now]
		m.now++
	}
}

func (m *model) Compact(t *rapid.T) {
	to := rapid.Uint64Range(1, m.now+1).Draw(t, "to")
	m.line.Compact(to)
	m.oldest = max(m.oldest, min(to, m.now))
}

func (m *model) Rewind(t *rapid.T) {
	to := rapid.Uint64Range(1, m.now+1).Draw(t, "to")
	err := m.line.Rewind(to)
	switch {
	case to > m.now:
		if !apierrors.IsTimeout(err) {
			t.Fatalf("rewind from %d to %d: %v", m.now, to, err)
		}
		return
	case to < m.oldest:
		if !apierrors.IsResourceExpired(err) {
			t.Fatalf("rewind to %d before %d: %v", to, m.oldest, err)
		}
		return
	case err != nil:
		t.Fatal(err)
	}
	for v := range m.states {
		if v > to {
			delete(m.states, v)
			delete(m.changed, v)
		}
	}
	m.now = to
	m.cut()
	m.Create(t)
	m.checkState(t, m.now) // it may have the version of the state that was looked at last
}

func (m *model) Wipe(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") < 3 {
		return
	}
	m.line.Wipe()
	m.now, m.oldest, m.states, m.changed = 1, 1, map[uint64]state{1: {}}, map[uint64]bool{}
	m.cut()
}

func (m *model) Disconnect(*rapid.T) {
	m.line.Disconnect()
	m.cut()
}

func (m *model) cut() {
	for _, w := range m.watches {
		w.cut = true
	}
}

func (m *model) Watch(t *rapid.T) {
	namespace, opts, match := drawFilter(t)
	from := rapid.Uint64Range(0, m.now).Draw(t, "from")
	w := &watcher{match: match, seen: state{}, at: m.now}
	if from > 0 {
		opts.ResourceVersion = FormatVersion(from)
		w.at = from
		w.seen = m.states[from].filter(match)
	}
	var err error
	if w.w, err = m.c.Watch(namespace, opts); err != nil {
		t.Fatal(err)
	}
	if from > 0 && from < m.oldest {
		if _, err := drain(w.w); !apierrors.IsResourceExpired(err) {
			t.Fatalf("watch from %d before %d: %v", from, m.oldest, err)
		}
		return
	}
	m.watches = append(m.watches, w)
}

// Drain reads what the watches have to tell, and compares where that leads to.
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
	for _, ev := range events {
		seen = max(seen, w.take(t, ev, seen))
	}
	missed := false
	for v := range m.changed {
		missed = missed || w.at < v && v <= m.oldest
	}
	if missed {
		if !apierrors.IsResourceExpired(err) {
			t.Fatalf("a watch at %d went on after compaction to %d: %v", w.at, m.oldest, err)
		}
		return true
	}
	if err != nil {
		t.Fatalf("a watch at %d, compacted to %d, ended: %v", w.at, m.oldest, err)
	}
	w.at = m.now
	if diff := gocmp.Diff(m.states[m.now].filter(w.match), w.seen); diff != "" {
		t.Fatalf("the events of a watch lead elsewhere (-want +got):\n%s", diff)
	}
	return false
}

// take folds ev and returns its version, or 0 for one of the initial state.
func (w *watcher) take(t *rapid.T, ev Event[int], seen uint64) uint64 {
	old, known := w.seen[ev.Object.Key]
	if (ev.Type == watch.Added) == known {
		t.Fatalf("%s of %s at %d, which was known: %v", ev.Type, ev.Object.Key, ev.Version, known)
	}
	if ev.Type == watch.Deleted {
		if contentOf(ev.Object) != old {
			t.Fatalf("%s was deleted as %v, last seen as %v", ev.Object.Key, contentOf(ev.Object), old)
		}
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
		if page.Version != version {
			t.Fatalf("a page of version %d in a list of %d", page.Version, version)
		}
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
	if diff := gocmp.Diff(want, fold(got)); diff != "" {
		t.Fatalf("pages (-want +got):\n%s", diff)
	}
}

// restOfPages goes on with the token of the error, which shows what is left as it is now.
func (m *model) restOfPages(t *rapid.T, namespace string, opts metav1.ListOptions, match func(types.NamespacedName, content) bool,
	before []*Object[int], err error,
) {
	opts.Limit = 0
	opts.Continue = err.(apierrors.APIStatus).Status().ListMeta.Continue
	page, err := m.c.List(namespace, opts)
	if err != nil || page.Version != m.now {
		t.Fatalf("the rest of a list at %d, %v; want %d", page.Version, err, m.now)
	}
	last := pathOf(before[len(before)-1].Key)
	want := m.states[m.now].filter(func(k types.NamespacedName, c content) bool { return match(k, c) && pathOf(k) > last })
	if diff := gocmp.Diff(want, fold(page.Items)); diff != "" {
		t.Fatalf("the rest of a list (-want +got):\n%s", diff)
	}
}

func inOrder(objs []*Object[int]) bool {
	return slices.IsSortedFunc(objs, func(a, b *Object[int]) int { return cmp.Compare(pathOf(a.Key), pathOf(b.Key)) })
}

// Check compares every state that is kept, and the changes between two of them.
func (m *model) Check(t *rapid.T) {
	if got := m.line.Version(); got != m.now {
		t.Fatalf("version %d, want %d", got, m.now)
	}
	for v := uint64(1); v <= m.now+1; v++ {
		m.checkState(t, v)
	}
	changes, err := m.c.Changes(m.oldest, m.now)
	if err != nil {
		t.Fatal(err)
	}
	s := maps.Clone(m.states[m.oldest])
	for _, change := range changes {
		if !m.changed[change.Version] {
			t.Fatalf("a change at %d", change.Version)
		}
		if change.New == nil {
			delete(s, change.Old.Key)
		} else {
			s[change.New.Key] = contentOf(change.New)
		}
		if diff := gocmp.Diff(m.states[change.Version], s); diff != "" {
			t.Fatalf("the change to %d leads elsewhere (-want +got):\n%s", change.Version, diff)
		}
	}
	if diff := gocmp.Diff(m.states[m.now], s); diff != "" {
		t.Fatalf("changes are missing (-want +got):\n%s", diff)
	}
	if kept := len(m.c.rows); kept > len(m.c.log)+len(m.states[m.oldest]) || len(m.c.sorted) != kept {
		t.Fatalf("%d rows, %d sorted, for %d changes since %d objects", kept, len(m.c.sorted), len(m.c.log), len(m.states[m.oldest]))
	}
}

func (m *model) checkState(t *rapid.T, v uint64) {
	objs, err := m.c.StateAt(v)
	switch {
	case v > m.now:
		if !apierrors.IsTimeout(err) {
			t.Fatalf("state at %d of %d: %v", v, m.now, err)
		}
	case v < m.oldest:
		if !apierrors.IsResourceExpired(err) {
			t.Fatalf("state at %d, compacted to %d: %v", v, m.oldest, err)
		}
	case err != nil:
		t.Fatal(err)
	default:
		if !inOrder(objs) {
			t.Fatalf("state at %d is out of order", v)
		}
		if diff := gocmp.Diff(m.states[v], fold(objs)); diff != "" {
			t.Fatalf("state at %d (-want +got):\n%s", v, diff)
		}
	}
}

// TestModel compares a collection with a model that holds every state in full: each kept state, the changes, the pages of a
// list, and what each watch adds up to.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		m.Watch(t)
		m.Watch(t)
		t.Repeat(map[string]func(*rapid.T){
			"create": m.Create, "create too": m.Create, "update": m.Update, "update too": m.Update, "delete": m.Delete,
			"advance": m.Advance, "compact": m.Compact, "rewind": m.Rewind, "wipe": m.Wipe, "disconnect": m.Disconnect,
			"watch": m.Watch, "drain": m.Drain, "drain too": m.Drain, "pages": m.Pages,
			"": m.Check,
		})
	})
}

func ExampleLine() {
	line := NewLine()
	pods := NewCollection(line, Options[string]{Resource: schema.GroupResource{Resource: "pods"}})
	nodes := NewCollection(line, Options[string]{Resource: schema.GroupResource{Resource: "nodes"}})
	pods.Create(Object[string]{Key: types.NamespacedName{Namespace: "ns", Name: "p"}, Value: "a pod"})
	nodes.Create(Object[string]{Key: types.NamespacedName{Name: "n"}, Value: "a node"})
	for version := uint64(1); version <= line.Version(); version++ {
		p, _ := pods.StateAt(version)
		n, _ := nodes.StateAt(version)
		fmt.Println(version, len(p), len(n))
	}
	// Output:
	// 1 0 0
	// 2 1 0
	// 3 1 1
}
