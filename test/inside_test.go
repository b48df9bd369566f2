package lw_test

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-lw/lw"
)

// These tests stand in a folder of their own, so that the root is short. A few of them ask what the
// library holds for a consumer that has gone. There is no public name for that: field reads what is
// not exported, and a name that no longer exists panics.

// field returns the field of x that path leads to.
func field(x any, path ...string) reflect.Value {
	v := reflect.ValueOf(x)
	for _, name := range path {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if v = v.FieldByName(name); !v.IsValid() {
			panic(fmt.Sprintf("%T has no field %v any more", x, path))
		}
	}
	return v
}

// lock locks the mutex v, which is a sync.Mutex or a pointer to one.
func lock(v reflect.Value) (unlock func()) {
	if v.Kind() != reflect.Pointer {
		v = v.Addr()
	}
	mu := (*sync.Mutex)(v.UnsafePointer())
	mu.Lock()
	return mu.Unlock
}

func loaded32(v reflect.Value) int { return int((*atomic.Int32)(v.Addr().UnsafePointer()).Load()) }
func loaded64(v reflect.Value) int { return int((*atomic.Int64)(v.Addr().UnsafePointer()).Load()) }

// followers returns how many consumers inf has, and how many of them wait for its first list.
func followers[T lw.Object](inf *lw.Informer[T]) (all, waiting int) {
	defer lock(field(inf, "hub", "mu"))()
	waiting = field(inf, "hub", "waiting").Len()
	return loaded32(field(inf, "hub", "log", "live")) + waiting, waiting
}

// copies returns how many copies the search for mutations has.
func copies[T lw.Object](inf *lw.Informer[T]) int {
	defer lock(field(inf, "check", "mu"))()
	return field(inf, "check", "copies").Len()
}

// versionWaits returns how many waits for a version there are, and how many the writer knows of.
func versionWaits[T lw.Object](inf *lw.Informer[T]) (n, noted int) {
	defer lock(field(inf, "hub", "waits", "mu"))()
	return field(inf, "hub", "waits", "waits").Len(), loaded32(field(inf, "hub", "waits", "n"))
}

// renamed returns how many names the result of a Transform remembers.
func renamed[T lw.Object](src lw.Source[T]) int {
	defer lock(field(src, "mu"))()
	return field(src, "renamed").Len()
}

// kept returns how many informers g has, and how many keys of Share.
func kept(g *lw.Group) (members, keys int) {
	defer lock(field(g, "mu"))()
	return field(g, "members").Len(), field(g, "shared").Len()
}

// signals returns how many channels of Changed inf has, with those of WaitFor.
func signals[T lw.Object](inf *lw.Informer[T]) int {
	return loaded64(field(inf, "hub", "changes", "n"))
}

// indexSignals returns how many channels of Changed ix has.
func indexSignals[K comparable, T lw.Object](ix *lw.Index[K, T]) int {
	return loaded64(field(ix, "groups", "signals", "n"))
}

// visits returns how often an input of g was looked at to find out what depends on it.
func visits(g *lw.Graph) int {
	defer lock(field(g, "mu"))()
	return int(field(g, "visits").Int())
}

// joinedMembers returns how many members of u, also such as have left, its operator knows.
func joinedMembers[T lw.Object](u *lw.Union[T]) int { return field(u, "Derived", "op", "joined").Len() }

// movedResults returns of how many inputs d, which is made by Derive, keeps that their results have another key.
func movedResults[T lw.Object](d *lw.Derived[T]) int { return field(d, "op", "elsewhere").Len() }

// afterStep has the goroutine of g's Run call f after each step. It must be called before Run.
func afterStep(g *lw.Graph, f func()) {
	*(*func())(field(g, "afterStep").Addr().UnsafePointer()) = f
}

// midCommit has the goroutine of g's Run call f in each long commit, when all stores are changed and
// before reads show it. It must be called before Run.
func midCommit(g *lw.Graph, f func()) {
	*(*func())(field(g, "midCommit").Addr().UnsafePointer()) = f
}

// midBrief is midCommit for commits for which reads wait.
func midBrief(g *lw.Graph, f func()) {
	*(*func())(field(g, "midBrief").Addr().UnsafePointer()) = f
}

// setBrief sets how many changes a commit of g may have for which reads wait. It must be called
// before Run.
func setBrief(g *lw.Graph, n int) { *(*int)(field(g, "brief").Addr().UnsafePointer()) = n }

// A field that has another name is found by this test alone, and not only by those that need it.
func TestFieldIsThere(t *testing.T) {
	inf := lw.NewInformer(lw.NewMemory[*Widget](), &lw.Options{DetectMutation: true})
	byName := lw.NewIndex(inf, func(w *Widget) string { return w.Name })
	g := lw.NewGraph(nil)
	all, waiting := followers(inf)
	waits, noted := versionWaits(inf)
	members, keys := kept(new(lw.Group))
	for i, n := range []int{all, waiting, copies(inf), waits, noted, members, keys, signals(inf), indexSignals(byName), visits(g),
		renamed(lw.Transform(lw.NewMemory[*Widget](), func(w *Widget) (*Widget, error) { return w, nil }))} {
		if n != 0 {
			t.Errorf("number %d of what nobody has used yet is %d", i, n)
		}
	}
	afterStep(g, func() {})
	midCommit(g, func() {})
	midBrief(g, func() {})
	setBrief(g, 1)
}
