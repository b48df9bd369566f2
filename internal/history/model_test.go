package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/listopts/shard"
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

// same fails t if what it got is not what it wants.
func same[V any](t *rapid.T, what string, want, got V) {
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// refused fails t if err is not what it has to be.
func refused(t *rapid.T, what string, is func(error) bool, err error) {
	if !is(err) {
		t.Fatalf("%s: %v", what, err)
	}
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
	inShard := func(types.NamespacedName, content) bool { return true }
	if n := rapid.IntRange(1, 3).Draw(t, "shards"); n > 1 {
		s := shard.Selector{
			Field:  rapid.SampledFrom([]string{shard.UID, shard.Namespace}).Draw(t, "of shards"),
			Ranges: []shard.Range{shard.Part(rapid.IntRange(0, n-1).Draw(t, "shard"), n)},
		}
		opts.ShardSelector = s.String()
		inShard = func(k types.NamespacedName, c content) bool { return s.Matches(string(c.UID), k.Namespace) }
	}
	return namespace, opts, func(k types.NamespacedName, c content) bool {
		return (namespace == "" || namespace == k.Namespace) && (label == "" || label == c.Label) && (name == "" || name == k.Name) && inShard(k, c)
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
		refused(t, "create "+obj.Key.String(), apierrors.IsAlreadyExists, err)
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
		refused(t, "update "+obj.Key.String(), apierrors.IsNotFound, err)
	case pre.Version != 0 && pre.Version != old.Version:
		refused(t, fmt.Sprintf("update %s at %d if %d", obj.Key, old.Version, pre.Version), apierrors.IsConflict, err)
	case err != nil:
		t.Fatal(err)
	case old.Label == obj.Labels["l"] && old.Value == obj.Value:
		same(t, "the version of an update that changes nothing", old.Version, stored.Version)
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
		refused(t, "delete "+key.String(), apierrors.IsNotFound, err)
		return
	}
	if err != nil || contentOf(last) != old || version != m.now+1 {
		t.Fatalf("delete %s = %v at %d, %v; want %v", key, last, version, err, old)
	}
	next := maps.Clone(m.states[m.now])
	delete(next, key)
	m.write(next)
}

// Transact makes several writes at one version.
func (m *model) Transact(t *rapid.T) {
	var writes []Write[int]
	next := maps.Clone(m.states[m.now])
	keys := map[types.NamespacedName]bool{}
	twice, missing, changes := false, false, 0
	for range rapid.IntRange(0, 4).Draw(t, "writes") {
		obj := drawObject(t)
		write := Write[int]{Object: obj, Delete: rapid.IntRange(0, 2).Draw(t, "delete") == 0}
		twice = twice || keys[obj.Key]
		keys[obj.Key] = true
		old, exists := m.states[m.now][obj.Key]
		switch {
		case write.Delete:
			write.Object = Object[int]{Key: obj.Key}
			missing = missing || !exists
			delete(next, obj.Key)
			changes++
		case !exists || old.Label != obj.Labels["l"] || old.Value != obj.Value:
			changes++
		}
		writes = append(writes, write)
	}
	version, err := m.c.Transact(writes...)
	switch {
	case twice:
		refused(t, "a key twice", apierrors.IsBadRequest, err)
		return
	case missing:
		refused(t, "a deletion of what is not there", apierrors.IsNotFound, err)
		return
	case err != nil:
		t.Fatal(err)
	case changes == 0:
		same(t, "the version if nothing changes", m.now, version)
		return
	}
	same(t, "the version of a transaction", m.now+1, version)
	for _, write := range writes {
		if write.Delete {
			continue
		}
		stored, err := m.c.Get(write.Object.Key)
		if err != nil {
			t.Fatal(err)
		}
		obj, old := write.Object, m.states[m.now][write.Object.Key]
		if old.UID != "" && (old.UID != stored.UID) {
			t.Fatalf("%s has UID %s, want %s", obj.Key, stored.UID, old.UID)
		}
		if old.UID != "" && old.Label == obj.Labels["l"] && old.Value == obj.Value {
			continue
		}
		next[obj.Key] = content{stored.UID, version, obj.Labels["l"], obj.Value}
	}
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
	if !m.has(t, to, m.line.Rewind(to)) {
		return
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

func inOrder(objs []*Object[int]) bool {
	return slices.IsSortedFunc(objs, func(a, b *Object[int]) int { return cmp.Compare(listopts.Path(a.Key), listopts.Path(b.Key)) })
}

// Check compares every state that is kept, and the changes between any two of them.
func (m *model) Check(t *rapid.T) {
	same(t, "the version", m.now, m.line.Version())
	for v := uint64(1); v <= m.now+1; v++ {
		m.checkState(t, v)
	}
	changes, err := m.c.Changes(m.oldest, m.now)
	if err != nil {
		t.Fatal(err)
	}
	s := maps.Clone(m.states[m.oldest])
	for i, change := range changes {
		if !m.changed[change.Version] {
			t.Fatalf("a change at %d", change.Version)
		}
		if change.New == nil {
			delete(s, change.Old.Key)
		} else {
			s[change.New.Key] = contentOf(change.New)
		}
		if i+1 < len(changes) && changes[i+1].Version == change.Version {
			continue
		}
		same(t, fmt.Sprint("where changes lead at ", change.Version), m.states[change.Version], s)
	}
	same(t, "where all changes lead", m.states[m.now], s)
	if kept := len(m.c.rows); kept > len(m.c.log)+len(m.states[m.oldest]) || len(m.c.sorted) != kept {
		t.Fatalf("%d rows, %d sorted, for %d changes since %d objects", kept, len(m.c.sorted), len(m.c.log), len(m.states[m.oldest]))
	}
}

func (m *model) checkState(t *rapid.T, v uint64) {
	m.checkEach(t, v)
	objs, err := m.c.StateAt(v)
	if !m.has(t, v, err) {
		return
	}
	if !inOrder(objs) {
		t.Fatalf("state at %d is out of order", v)
	}
	same(t, fmt.Sprint("state at ", v), m.states[v], fold(objs))
}

// has reports whether version v is kept. It checks that err is what it has to be.
func (m *model) has(t *rapid.T, v uint64, err error) bool {
	switch {
	case v > m.now:
		refused(t, fmt.Sprintf("version %d of %d", v, m.now), apierrors.IsTimeout, err)
	case v < m.oldest:
		refused(t, fmt.Sprintf("version %d, compacted to %d", v, m.oldest), apierrors.IsResourceExpired, err)
	case err != nil:
		t.Fatal(err)
	}
	return m.oldest <= v && v <= m.now
}

// checkEach looks at each key at v, one by one.
func (m *model) checkEach(t *rapid.T, v uint64) {
	keys := map[types.NamespacedName]bool{{Namespace: "ns", Name: "nobody"}: true}
	for _, s := range m.states {
		for key := range s {
			keys[key] = true
		}
	}
	for key := range keys {
		obj, err := m.c.At(key, v)
		want, there := m.states[v][key]
		if m.has(t, v, err) && (there != (obj != nil) || there && (obj.Key != key || contentOf(obj) != want)) {
			t.Fatalf("%s at %d is %v, want %v", key, v, obj, want)
		}
	}
}

// TestModel compares a collection with a model that holds every state in full: each kept state, the
// changes, the pages of a list, and what each watch adds up to.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		m.Watch(t)
		m.Watch(t)
		t.Repeat(map[string]func(*rapid.T){
			"create": m.Create, "create too": m.Create, "update": m.Update, "update too": m.Update, "delete": m.Delete,
			"transact": m.Transact, "transact too": m.Transact,
			"advance": m.Advance, "compact": m.Compact, "rewind": m.Rewind, "wipe": m.Wipe, "disconnect": m.Disconnect,
			"watch": m.Watch, "drain": m.Drain, "drain too": m.Drain, "pages": m.Pages,
			"": m.Check,
		})
	})
}
