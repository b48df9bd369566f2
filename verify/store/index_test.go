package store_test

import (
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// row is an object of the tests of the store.
type row struct {
	lw.Meta
	Node, Zone string
	Tags       []string
}

func (r *row) node() string           { return r.Node }
func (r *row) tags() iter.Seq[string] { return slices.Values(r.Tags) }

func newRow(name, version, node string, tags ...string) *row {
	return &row{
		Meta: lw.Meta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: version},
		Node: node,
		Tags: tags,
	}
}

// rowNames returns what rows there are, as name@version, sorted.
func rowNames(rows iter.Seq[*row]) []string {
	var names []string
	for r := range rows {
		names = append(names, r.Name+"@"+r.ResourceVersion)
	}
	slices.Sort(names)
	return names
}

func wantRows(t *testing.T, what string, rows iter.Seq[*row], want ...string) {
	t.Helper()
	rig.Same(t, what, want, rowNames(rows))
}

func TestIndexer(t *testing.T) {
	a1, a2, b1 := newRow("a", "1", "n1"), newRow("a", "2", "n2"), newRow("b", "1", "n1")
	x := lw.NewIndexer(a1, b1)
	nodes := lw.NewIndex(x, (*row).node)
	before := x.Snapshot()

	if old, replaced := x.Set(a2); old != a1 || !replaced {
		t.Errorf("Set() = %v, %v, want %v, true", old, replaced, a1)
	}
	if old, deleted := x.Delete(lw.KeyOf(b1)); old != b1 || !deleted {
		t.Errorf("Delete() = %v, %v, want %v, true", old, deleted, b1)
	}
	if old, deleted := x.Delete(lw.KeyOf(b1)); old != nil || deleted {
		t.Errorf("second Delete() = %v, %v, want nil, false", old, deleted)
	}
	if got, ok := x.Get(lw.KeyOf(a2)); got != a2 || !ok {
		t.Errorf("Get(a) = %v, %v, want %v, true", got, ok, a2)
	}
	if got, ok := x.Get(lw.KeyOf(b1)); got != nil || ok {
		t.Errorf("Get(b) = %v, %v, want nil, false", got, ok)
	}
	wantRows(t, "All", x.All(), "a@2")
	wantRows(t, "List", slices.Values(x.List()), "a@2")
	wantRows(t, "Lookup(n1)", nodes.Lookup("n1"))
	wantRows(t, "Lookup(n2)", nodes.Lookup("n2"), "a@2")
	wantRows(t, "index List(n2)", slices.Values(nodes.List("n2")), "a@2")
	if nodes.List("n1") != nil || nodes.Len("n1") != 0 || nodes.Len("n2") != 1 || x.Len() != 1 {
		t.Errorf("Len() = %d, %d, %d, want 0, 1, 1", nodes.Len("n1"), nodes.Len("n2"), x.Len())
	}
	if got := slices.Collect(nodes.Keys()); !slices.Equal(got, []string{"n2"}) {
		t.Errorf("Keys() = %q, want n2", got)
	}

	wantRows(t, "snapshot", before.All(), "a@1", "b@1")
	wantRows(t, "List of the snapshot", slices.Values(before.List()), "a@1", "b@1")
	if got, _ := before.Get(lw.KeyOf(a1)); got != a1 || before.Len() != 2 || before.Snapshot() != before {
		t.Errorf("snapshot: Get() = %v of %d, want %v of 2", got, before.Len(), a1)
	}
	for range before.All() {
		break
	}
}

func TestIndexerIsASink(t *testing.T) {
	var sink lw.Sink[*row]
	x := lw.NewIndexer[*row]()
	sink = x
	want := func(rv string, rows ...string) {
		t.Helper()
		wantRows(t, "at "+rv, x.All(), rows...)
		if x.ResourceVersion() != rv || x.Snapshot().ResourceVersion() != rv {
			t.Errorf("ResourceVersion() = %q, in a snapshot %q, want %q", x.ResourceVersion(),
				x.Snapshot().ResourceVersion(), rv)
		}
	}
	want("")
	a, b := newRow("a", "5", ""), newRow("b", "9", "")
	sink.Replace([]*row{a, b, newRow("b", "10", ""), newRow("b", "8", "")}, "11")
	want("11", "a@5", "b@10")
	sink.Apply(lw.WatchEvent[*row]{Type: watch.Modified, Object: newRow("a", "12", ""), ResourceVersion: "12"})
	want("12", "a@12", "b@10")
	sink.Apply(lw.WatchEvent[*row]{Type: watch.Bookmark, ResourceVersion: "13"})
	want("13", "a@12", "b@10")
	sink.Apply(lw.WatchEvent[*row]{Type: watch.Deleted, Object: newRow("b", "14", ""), ResourceVersion: "14"})
	want("14", "a@12")
	sink.Apply(lw.WatchEvent[*row]{Type: watch.Added, ResourceVersion: "15", Err: fmt.Errorf("not to be decoded")})
	want("14", "a@12")

	kept, _ := x.Get(lw.KeyOf(a))
	sink.Replace([]*row{newRow("a", "12", "")}, "20")
	want("20", "a@12")
	if got, _ := x.Get(lw.KeyOf(a)); got != kept {
		t.Error("Replace has put in a new pointer for the same version")
	}
	x.Set(newRow("c", "1", ""))
	want("20", "a@12", "c@1")
	sink.Replace(nil, "21")
	want("21")
}

func TestMultiIndex(t *testing.T) {
	x := lw.NewIndexer(newRow("a", "1", "", "x", "y", "x"), newRow("b", "1", ""))
	tags := lw.NewMultiIndex(x, (*row).tags)
	wantRows(t, "x", tags.Lookup("x"), "a@1")
	wantRows(t, "y", tags.Lookup("y"), "a@1")
	x.Set(newRow("a", "2", "", "y", "z"))
	x.Set(newRow("b", "2", "", "z"))
	wantRows(t, "x", tags.Lookup("x"))
	wantRows(t, "y", tags.Lookup("y"), "a@2")
	wantRows(t, "z", tags.Lookup("z"), "a@2", "b@2")
	if got := slices.Sorted(tags.Keys()); !slices.Equal(got, []string{"y", "z"}) {
		t.Errorf("Keys() = %q, want y and z", got)
	}

	var many []string // enough to be told apart by a map
	for i := range 100 {
		many = append(many, strconv.Itoa(i%40))
	}
	x.Set(newRow("a", "3", "", many...))
	if got := len(slices.Collect(tags.Keys())); got != 41 || tags.Len("7") != 1 {
		t.Errorf("%d keys, %d of one, want 41 and 1", got, tags.Len("7"))
	}
}

// TestIndexOddKeys has keys that no map can hold.
func TestIndexOddKeys(t *testing.T) {
	x := lw.NewIndexer(newRow("a", "2", "NaN"), newRow("b", "2", "NaN"))
	lw.NewIndex(x, func(r *row) any {
		if r.Node == "slice" {
			return r.Tags
		}
		return r.Node
	})
	rig.MustPanic(t, "type []string", func() { x.Set(newRow("a", "3", "slice")) })
	wantRows(t, "after the panic", x.All(), "a@2", "b@2")
	x.Set(newRow("a", "4", "n"))
	wantRows(t, "after the panic", x.All(), "a@4", "b@2")
}

func TestIndexMisuse(t *testing.T) {
	x := lw.NewIndexer[*row]()
	rig.PanicsWith(t, "lw: NewIndex: nil key function", func() { lw.NewIndex[string](x, nil) })
	rig.PanicsWith(t, "lw: NewMultiIndex: nil key function", func() { lw.NewMultiIndex[string](x, nil) })
	rig.PanicsWith(t, "lw: no object to store", func() { x.Set(nil) })
	rig.PanicsWith(t, "lw: no object to store", func() { x.Replace([]*row{newRow("a", "1", ""), nil}, "1") })
	wantRows(t, "after all that", x.All())
}

// point is an Object that is no pointer.
type point struct{ Name, Version string }

func (p point) GetNamespace() string       { return "" }
func (p point) GetName() string            { return p.Name }
func (p point) GetUID() types.UID          { return "" }
func (p point) GetResourceVersion() string { return p.Version }

func TestIndexerOfValues(t *testing.T) {
	x := lw.NewIndexer(point{"a", "1"}, point{"b", "1"})
	versions := lw.NewIndex(x, point.GetResourceVersion)
	snap := x.Snapshot()
	x.Set(point{"a", "2"})
	x.Delete(lw.Key{Name: "b"})
	x.Replace([]point{{"c", "3"}, {"a", "2"}}, "3")
	if got, ok := x.Get(lw.Key{Name: "a"}); got != (point{"a", "2"}) || !ok {
		t.Errorf("Get(a) = %v, %v", got, ok)
	}
	if got, ok := x.Get(lw.Key{Name: "b"}); ok {
		t.Errorf("Get(b) = %v", got)
	}
	if got, ok := snap.Get(lw.Key{Name: "b"}); got != (point{"b", "1"}) || !ok {
		t.Errorf("Get(b) of the snapshot = %v, %v", got, ok)
	}
	if versions.Len("1") != 0 || versions.Len("2") != 1 || versions.Len("3") != 1 {
		t.Errorf("Len() = %d, %d, %d, want 0, 1, 1", versions.Len("1"), versions.Len("2"), versions.Len("3"))
	}
}

// TestIndexFunctionIsCalledOnce has writers that meet indexes which are just being added.
func TestIndexFunctionIsCalledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := lw.NewIndexer(newRow("a", "1", "n"), newRow("b", "1", "n"))
		calls := make(map[string]int)
		lock := make(chan struct{}, 1)
		count := func(index int) func(r *row) string {
			return func(r *row) string {
				lock <- struct{}{}
				calls[fmt.Sprint(index, " ", r.Name, "@", r.ResourceVersion)]++
				<-lock
				return r.Node
			}
		}
		// The first index makes the writers of a@2 and d@1 wait until the second one has been added.
		gate := make(chan struct{})
		first := lw.NewIndex(x, func(r *row) string {
			if r.ResourceVersion == "2" || r.Name == "d" {
				<-gate
			}
			return count(1)(r)
		})
		go x.Set(newRow("a", "2", "n"))
		go x.Set(newRow("d", "1", "n"))
		synctest.Wait()
		second := lw.NewIndex(x, count(2))
		wantRows(t, "before", second.Lookup("n"), "a@1", "b@1")
		close(gate)
		synctest.Wait()
		x.Replace([]*row{newRow("a", "2", "n"), newRow("b", "2", "n")}, "3")
		x.Delete(lw.Key{Namespace: "ns", Name: "a"})
		wantRows(t, "first", first.Lookup("n"), "b@2")
		wantRows(t, "second", second.Lookup("n"), "b@2")
		want := map[string]int{
			"1 a@1": 1, "1 b@1": 1, "1 a@2": 1, "1 d@1": 1, "1 b@2": 1,
			"2 a@1": 1, "2 b@1": 1, "2 a@2": 1, "2 d@1": 1, "2 b@2": 1,
		}
		rig.Same(t, "calls", want, calls)
	})
}

// TestReadersDoNotWait has an index function that blocks in each kind of write.
func TestReadersDoNotWait(t *testing.T) {
	for name, write := range map[string]func(x *lw.Indexer[*row], block func(*row) string){
		"Set":     func(x *lw.Indexer[*row], _ func(*row) string) { x.Set(newRow("new", "2", "n")) },
		"Replace": func(x *lw.Indexer[*row], _ func(*row) string) { x.Replace([]*row{newRow("new", "2", "n")}, "2") },
		"NewIndex": func(x *lw.Indexer[*row], block func(*row) string) {
			lw.NewIndex(x, func(r *row) string { return block(newRow("new", "2", "n")) })
			x.Replace([]*row{newRow("new", "2", "n")}, "2")
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			x := lw.NewIndexer(newRow("old", "1", "n"))
			gate := make(chan struct{})
			block := func(r *row) string {
				if r.Name == "new" {
					<-gate
				}
				return r.Node
			}
			nodes := lw.NewIndex(x, (*row).node)
			if name != "NewIndex" {
				lw.NewIndex(x, block)
			}
			go write(x, block)
			synctest.Wait()
			read := func(want string) {
				wantRows(t, "List", slices.Values(x.List()), want)
				wantRows(t, "All", x.All(), want)
				wantRows(t, "Lookup", nodes.Lookup("n"), want)
				if nodes.Len("n") != 1 || x.Len() != 1 || x.ResourceVersion() != x.Snapshot().ResourceVersion() {
					t.Error("not one state")
				}
			}
			read("old@1")
			deleted := false
			go func() { x.Delete(lw.Key{Namespace: "ns", Name: "old"}); deleted = true }()
			synctest.Wait()
			if name != "Set" {
				if deleted {
					t.Error("a writer has not waited")
				}
				read("old@1")
			}
			close(gate)
			synctest.Wait()
			read("new@2")
		})
	}
}

// TestIndexerKeepsNothing deletes all objects in each way that there is, and expects that the
// garbage collector takes them.
func TestIndexerKeepsNothing(t *testing.T) {
	x := lw.NewIndexer[*row]()
	nodes := lw.NewIndex(x, (*row).node)
	tags := lw.NewMultiIndex(x, (*row).tags)
	fill := func() (all []weak.Pointer[row]) {
		for i := range 3000 {
			r := newRow(strconv.Itoa(i), "1", strconv.Itoa(i%100), "t", strconv.Itoa(i))
			x.Set(r)
			all = append(all, weak.Make(r))
		}
		return all
	}
	for name, empty := range map[string]func(){
		"Delete": func() {
			for _, r := range x.List() {
				x.Delete(lw.KeyOf(r))
			}
		},
		"Replace": func() { x.Replace(nil, "2") },
		"Update, Replace": func() {
			for _, r := range x.List() {
				x.Set(newRow(r.Name, "2", "other"))
			}
			x.Replace(nil, "3")
		},
		"Delete with a snapshot": func() {
			held := x.Snapshot()
			for r := range x.All() {
				x.Delete(lw.KeyOf(r))
			}
			if held.Len() != 3000 {
				t.Errorf("snapshot of %d, want 3000", held.Len())
			}
		},
	} {
		all := fill()
		empty()
		for range 3 {
			runtime.GC()
		}
		if slices.ContainsFunc(all, func(p weak.Pointer[row]) bool { return p.Value() != nil }) {
			t.Errorf("%s: objects are left", name)
		}
		if x.Len() != 0 || len(slices.Collect(nodes.Keys())) != 0 || len(slices.Collect(tags.Keys())) != 0 {
			t.Errorf("%s: not empty", name)
		}
	}
	runtime.KeepAlive(x)
	runtime.KeepAlive(nodes)
	runtime.KeepAlive(tags)
}

// OwnerUIDs yields what the object has, and stops where the loop does.
func TestOwnerUIDs(t *testing.T) {
	owned := partial("a", map[string]string{"app": "web"})
	owned.OwnerReferences = []metav1.OwnerReference{{UID: "u1"}, {UID: "u2"}}
	rig.Same(t, "owners", []types.UID{"u1", "u2"}, slices.Collect(lw.OwnerUIDs(owned)))
	for uid := range lw.OwnerUIDs(owned) {
		if uid != "u1" {
			t.Errorf("%s after the loop has ended", uid)
		}
		break
	}
}
