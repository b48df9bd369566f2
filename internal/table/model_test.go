package table

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"weak"

	"pgregory.net/rapid"
)

// TestModel runs random operations on a store and on a map, and compares all that can be read, also
// from snapshots that were taken long before.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt, 3, 40, 400)
		defer func() {
			for _, h := range m.held {
				h.check(rt)
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"":         m.check,
			"Set":      m.set,
			"Remove":   m.remove,
			"Fill":     m.fill,
			"Drain":    m.drain,
			"Replace":  m.replace,
			"Progress": m.progress,
			"Add":      m.add,
			"Order":    m.order,
			"Snapshot": m.snapshot,
			"Panic":    m.panic,
		})
	})
}

type model struct {
	store   *Store[*obj]
	indexes []*Groups[string, *obj]
	many    []bool // of each index
	orders  []*Order[float64, *obj]

	keys    int
	want    map[Key]*obj
	version string
	next    int
	held    []held
}

// newModel returns a model of one of these numbers of keys.
func newModel(t *rapid.T, keys ...int) *model {
	m := &model{store: NewStore(keyOf), want: make(map[Key]*obj), keys: rapid.SampledFrom(keys).Draw(t, "keys")}
	if rapid.Bool().Draw(t, "owned") {
		m.store = NewOwned(keyOf, versionIDOf, new(sync.Mutex))
	}
	return m
}

type held struct {
	snap    *Snapshot[*obj]
	want    map[Key]*obj
	version string
	keys    int
	m       *model // for its orders, also those that came later
}

func (m *model) key(t *rapid.T) Key { return numbered(rapid.IntRange(0, m.keys-1).Draw(t, "key")) }

func numbered(n int) Key { return Key{Namespace: "ns" + strconv.Itoa(n%3), Name: strconv.Itoa(n)} }

func (m *model) object(t *rapid.T, key Key) *obj {
	m.next++
	values := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
	return &obj{key, m.next, values.Draw(t, "one"), rapid.SliceOfN(values, 0, 4).Draw(t, "many")}
}

// bump returns the next version, or "" for a write that leaves it.
func (m *model) bump(t *rapid.T) string {
	if !rapid.Bool().Draw(t, "version") {
		return ""
	}
	m.next++
	m.version = strconv.Itoa(m.next)
	return m.version
}

func (m *model) set(t *rapid.T) { m.put(t, m.object(t, m.key(t))) }

func (m *model) put(t *rapid.T, o *obj) {
	old, replaced := m.store.Set(o, m.bump(t))
	if want, ok := m.want[o.key]; old != want || replaced != ok {
		t.Fatalf("Set(%v) = %v, %v, want %v, %v", o, old, replaced, want, ok)
	}
	m.want[o.key] = o
}

func (m *model) remove(t *rapid.T) { m.delete(t, m.key(t)) }

func (m *model) delete(t *rapid.T, key Key) {
	old, removed := m.store.Remove(key, m.bump(t))
	if want, ok := m.want[key]; old != want || removed != ok {
		t.Fatalf("Remove(%v) = %v, %v, want %v, %v", key, old, removed, want, ok)
	}
	delete(m.want, key)
}

// fill and drain make the tables and vectors grow and shrink.
func (m *model) fill(t *rapid.T) {
	like := m.object(t, Key{})
	for n := range m.keys {
		o := *like
		o.key = numbered(n)
		m.put(t, &o)
		if n > 100 && n%7 == 0 {
			m.delete(t, numbered(n/2))
		}
	}
}

func (m *model) drain(t *rapid.T) {
	spare := rapid.IntRange(0, 2).Draw(t, "spare")
	for n := range m.keys - min(spare, m.keys) {
		m.delete(t, numbered(n))
	}
}

func (m *model) replace(t *rapid.T) {
	objs := slices.Collect(maps.Values(m.want))
	slices.SortFunc(objs, func(a, b *obj) int { return a.version - b.version })
	kept := make(map[Key]bool)
	var list []*obj
	for _, o := range objs[:min(len(objs), 60)] { // drawing is slow; the others are gone
		switch rapid.SampledFrom([]string{"pointer", "same", "changed", "gone", "kept", "twice"}).Draw(t, "object") {
		case "pointer":
			list = append(list, o)
		case "same":
			copied := *o
			list = append(list, &copied)
		case "changed":
			list = append(list, m.object(t, o.key))
		case "kept":
			kept[o.key] = true
		case "twice":
			list = append(list, m.object(t, o.key), m.object(t, o.key))
		}
	}
	for range rapid.IntRange(0, 5).Draw(t, "new") {
		list = append(list, m.object(t, m.key(t)))
	}
	list = rapid.Permutation(list).Draw(t, "list")

	want := make(map[Key]*obj)
	var duplicates []Key
	for _, o := range list {
		before, dup := want[o.key]
		if dup {
			duplicates = append(duplicates, o.key)
			if before.version > o.version {
				continue
			}
		}
		want[o.key] = o
	}
	for key, o := range want {
		if old := m.want[key]; old != nil && old.version == o.version {
			want[key] = old
		}
	}
	for key := range kept {
		if want[key] == nil && m.want[key] != nil {
			want[key] = m.want[key]
		}
	}

	seen := maps.Clone(m.want)
	arrived := false
	m.version = strconv.Itoa(m.next)
	c := Comparison[*obj]{
		Same:     func(old, new *obj) bool { return old.version == new.version },
		Distrust: rapid.Bool().Draw(t, "distrust"),
		Newer:    func(a, b *obj) bool { return b.version >= a.version },
		Keep:     func(key Key) bool { return kept[key] },
	}
	before := m.store.Version()
	r := m.store.Compare(list, c)
	if got := m.store.Version(); got != before || m.store.Len() != len(m.want) {
		t.Fatalf("before the commit: %d objects at %q, want %d at %q", m.store.Len(), got, len(m.want), before)
	}
	m.store.lock()
	r.CommitLocked(m.version)
	m.store.unlock()
	r.Release()
	for old, new := range r.All() {
		if new == nil {
			if arrived {
				t.Fatalf("%v is gone after another one came", old)
			}
			if seen[old.key] != old {
				t.Fatalf("told that %v is gone, want %v", old, seen[old.key])
			}
			delete(seen, old.key)
			continue
		}
		arrived = true
		if seen[new.key] != old {
			t.Fatalf("told of %v instead of %v, want %v", new, old, seen[new.key])
		}
		seen[new.key] = new
		if got, _ := m.store.Get(new.key); got != new {
			t.Fatalf("told of %v, and %v is read", new, got)
		}
	}
	if m.want = want; !maps.Equal(seen, want) {
		t.Fatalf("told of %v, want %v", seen, want)
	}
	same(t, "duplicates", duplicates, r.Duplicates)
}

func (m *model) progress(t *rapid.T) {
	m.next++
	m.version = strconv.Itoa(m.next)
	m.store.Progress(m.version)
}

func (m *model) add(t *rapid.T) {
	if len(m.indexes) >= 3 {
		t.Skip("enough indexes")
	}
	g, many := NewGroupsOfOne(byOne), rapid.Bool().Draw(t, "many")
	if many {
		g = NewGroups(byMany)
	}
	m.store.Add(g)
	m.indexes, m.many = append(m.indexes, g), append(m.many, many)
}

func (m *model) order(t *rapid.T) {
	if len(m.orders) >= 2 {
		t.Skip("enough orders")
	}
	o := NewOrder(keyOf, byRank)
	m.store.Add(o)
	m.orders = append(m.orders, o)
}

func (m *model) snapshot(t *rapid.T) {
	if len(m.held) < 8 {
		m.held = append(m.held, held{m.store.Snapshot(), maps.Clone(m.want), m.version, m.keys, m})
	}
}

// panic makes an index panic in each of the writes that call it, and expects that nothing has
// changed.
func (m *model) panic(t *rapid.T) {
	bad := m.object(t, m.key(t))
	g := NewGroups(func(o *obj, add func(string) bool) {
		add("lost")
		if o == bad {
			panic("bad")
		}
	})
	m.store.Add(g)
	m.expectPanic(t, func() { m.store.Set(bad, "panic") })
	m.expectPanic(t, func() {
		m.store.Replace([]*obj{m.object(t, m.key(t)), bad}, "panic", Comparison[*obj]{})
	})
	if want := min(1, len(m.want)); len(g.Values()) != want || g.Len("lost") != len(m.want) {
		t.Fatalf("%d objects in %d groups, want %d in %d", g.Len("lost"), len(g.Values()), len(m.want), want)
	}
	order := NewOrder(keyOf, func(o *obj) float64 {
		if o == bad {
			panic("bad")
		}
		return byRank(o)
	})
	m.store.Add(order)
	m.expectPanic(t, func() { m.store.Set(bad, "panic") })
	checkOrdered(t, order.Ordered(), m.want)
	always := NewGroups(func(*obj, func(string) bool) { panic("bad") })
	if len(m.want) > 0 {
		m.expectPanic(t, func() { m.store.Add(always) })
	}
}

func (m *model) expectPanic(t *rapid.T, f func()) {
	defer func() {
		if v := recover(); v != "bad" {
			t.Fatalf("panic %v, want bad", v)
		}
	}()
	f()
}

func (m *model) check(t *rapid.T) {
	check(t, m.store, m.indexes...)
	if got := m.store.Len(); got != len(m.want) {
		t.Fatalf("Len() = %d, want %d", got, len(m.want))
	}
	if got := m.store.Version(); got != m.version {
		t.Fatalf("Version() = %q, want %q", got, m.version)
	}
	for n := range m.keys {
		got, ok := m.store.Get(numbered(n))
		if want, wantOK := m.want[numbered(n)]; got != want || ok != wantOK {
			t.Fatalf("Get(%v) = %v, %v, want %v, %v", numbered(n), got, ok, want, wantOK)
		}
	}
	for _, o := range m.orders {
		checkOrder(t, m.store, o)
		checkOrdered(t, o.Ordered(), m.want)
		checkOrdered(t, o.In(m.store.Snapshot()), m.want)
	}
	for i, g := range m.indexes {
		want := make(map[string][]*obj)
		for _, o := range m.want {
			values := []string{o.one}
			if m.many[i] {
				values = slices.Compact(slices.Sorted(slices.Values(o.many)))
			}
			for _, v := range values {
				want[v] = append(want[v], o)
			}
		}
		got := make(map[string][]*obj)
		for _, v := range g.Values() {
			got[v] = g.View(v).AppendTo(nil)
			if len(got[v]) != g.Len(v) {
				t.Fatalf("Len(%q) = %d, want %d", v, g.Len(v), len(got[v]))
			}
		}
		diff(t, fmt.Sprint("index ", i), want, got)
		if g.Len("none") != 0 || g.View("none").Live() != 0 {
			t.Fatal("objects of a value that none has")
		}
	}
}

func (h held) check(t *rapid.T) {
	var want []*obj
	for n := range h.keys {
		got, ok := h.snap.Get(numbered(n))
		o, wantOK := h.want[numbered(n)]
		if got != o || ok != wantOK {
			t.Fatalf("Snapshot.Get(%v) = %v, %v, want %v, %v", numbered(n), got, ok, o, wantOK)
		}
		if o != nil {
			want = append(want, o)
		}
	}
	same(t, "Snapshot.List()", versions(want), versions(h.snap.List()))
	same(t, "Snapshot.All", versions(want), versions(slices.Collect(h.snap.All())))
	for _, o := range h.m.orders {
		checkOrdered(t, o.In(h.snap), h.want)
	}
	if h.snap.Len() != len(want) || h.snap.Version() != h.version {
		t.Fatalf("Snapshot has %d objects of %q, want %d of %q", h.snap.Len(), h.snap.Version(), len(want), h.version)
	}
}

// Whatever was written, the store keeps what it shows and no object of before: neither the tables
// nor the indexes, the orders, the snapshots or the memory of writes.
func TestStoreKeepsNothingOfBefore(t *testing.T) {
	const n = 300
	keyed := func(i, version int) *obj {
		v := strconv.Itoa(version % 7)
		return &obj{numbered(i), version, v, []string{v, strconv.Itoa(i % 5), strconv.Itoa(version % 3)}}
	}
	for name, owner := range map[string]*sync.Mutex{"owned": {}, "shared": nil} {
		store := NewStore(keyOf)
		if owner != nil {
			store = NewOwned(keyOf, versionIDOf, owner)
		}
		batch := store.NewBatch()
		one, many, order := NewGroupsOfOne(byOne), NewGroups(byMany), NewOrder(keyOf, func(o *obj) int { return o.version })
		store.Add(one)
		store.Add(many)
		store.Add(order)
		// what was ever put, with the version in it
		var all []weak.Pointer[obj]
		next := 0
		object := func(i int) *obj {
			next++
			o := keyed(i, next)
			all = append(all, weak.Make(o))
			return o
		}
		list := func(from, to int) (objs []*obj) {
			for i := from; i < to; i++ {
				objs = append(objs, object(i))
			}
			return objs
		}
		read := func() {
			_ = store.Snapshot().Len() + len(slices.Collect(one.View("1").All())) + many.Len("2")
		}
		// write writes the objects from from to to, and removes those up to end, in one commit.
		write := func(from, to, end int, apart bool) {
			if owner == nil {
				for i := from; i < to; i++ {
					store.Set(object(i), "")
				}
				return
			}
			for i := from; i < to; i++ {
				batch.Put(numbered(i), object(i))
			}
			for i := to; i < end; i++ {
				batch.Put(numbered(i), nil)
			}
			commit(batch, owner, apart)
		}
		for step, change := range []func(){
			func() { store.Replace(list(0, n), "1", Comparison[*obj]{}) },
			func() {
				for i := range n {
					store.Set(object(i), strconv.Itoa(next))
				}
			},
			func() {
				for i := n / 2; i < n; i++ {
					store.Remove(numbered(i), "")
				}
			},
			func() { store.Replace(list(n/4, n), "2", Comparison[*obj]{}) },
			func() { write(0, 20, 40, false) },
			func() { write(0, n/3, n, true) },
			func() { write(0, 0, 10, true) },
			func() { store.Replace(list(0, 3), "4", Comparison[*obj]{}) },
			func() { store.Replace(nil, "5", Comparison[*obj]{}) },
		} {
			read()
			change()
			shown := map[*obj]bool{}
			for _, o := range store.Snapshot().List() {
				shown[o] = true
			}
			// The pools of writers give up what they have at the second collection.
			runtime.GC()
			runtime.GC()
			kept := 0
			for _, w := range all {
				if o := w.Value(); o != nil && !shown[o] {
					kept++
				}
			}
			if kept > 0 {
				t.Errorf("%s: after step %d the store keeps %d objects that it does not show, beside %d", name, step, kept,
					len(shown))
			}
		}
		runtime.KeepAlive(store)
	}
}
