package table

import (
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"weak"
)

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
				t.Errorf("%s: after step %d the store keeps %d objects that it does not show, beside %d", name, step, kept, len(shown))
			}
		}
		runtime.KeepAlive(store)
	}
}
