// Package inside asks what the library holds for a consumer that has gone, and stops a graph
// between its steps. There is no public name for that: field reads what is not exported, and a name
// that no longer exists panics.
package inside

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/go-lw/lw"
)

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

// Followers returns how many consumers inf has, and how many of them wait for its first list.
func Followers[T lw.Object](inf *lw.Informer[T]) (all, waiting int) {
	defer lock(field(inf, "hub", "mu"))()
	waiting = field(inf, "hub", "waiting").Len()
	return loaded32(field(inf, "hub", "log", "live")) + waiting, waiting
}

// Copies returns how many copies the search for mutations has.
func Copies[T lw.Object](inf *lw.Informer[T]) int {
	defer lock(field(inf, "check", "mu"))()
	return field(inf, "check", "copies").Len()
}

// VersionWaits returns how many waits for a version there are, and how many the writer knows of.
func VersionWaits[T lw.Object](inf *lw.Informer[T]) (n, noted int) {
	defer lock(field(inf, "hub", "waits", "mu"))()
	return field(inf, "hub", "waits", "waits").Len(), loaded32(field(inf, "hub", "waits", "n"))
}

// Kept returns how many informers g has, and how many keys of Share.
func Kept(g *lw.Group) (members, keys int) {
	defer lock(field(g, "mu"))()
	return field(g, "members").Len(), field(g, "shared").Len()
}

// Signals returns how many channels of Changed inf has, with those of WaitFor.
func Signals[T lw.Object](inf *lw.Informer[T]) int {
	return loaded64(field(inf, "hub", "changes", "n"))
}

// IndexSignals returns how many channels of Changed ix has.
func IndexSignals[K comparable, T lw.Object](ix *lw.Index[K, T]) int {
	return loaded64(field(ix, "groups", "signals", "n"))
}

// Visits returns how often an input of g was looked at to find out what depends on it.
func Visits(g *lw.Graph) int {
	defer lock(field(g, "mu"))()
	return int(field(g, "visits").Int())
}

// JoinedMembers returns how many members of u, also such as have left, its operator knows.
func JoinedMembers[T lw.Object](u *lw.Union[T]) int { return field(u, "Derived", "op", "joined").Len() }

// MovedResults returns of how many inputs d, which is made by Derive, keeps that their results have
// another key.
func MovedResults[T lw.Object](d *lw.Derived[T]) int { return field(d, "op", "elsewhere").Len() }

// AfterStep has the goroutine of g's Run call f after each step. It must be called before Run.
func AfterStep(g *lw.Graph, f func()) {
	*(*func())(field(g, "afterStep").Addr().UnsafePointer()) = f
}

// MidCommit has the goroutine of g's Run call f in each long commit, when all stores are changed
// and before reads show it. It must be called before Run.
func MidCommit(g *lw.Graph, f func()) {
	*(*func())(field(g, "midCommit").Addr().UnsafePointer()) = f
}

// MidBrief is midCommit for commits for which reads wait.
func MidBrief(g *lw.Graph, f func()) {
	*(*func())(field(g, "midBrief").Addr().UnsafePointer()) = f
}

// SetBrief sets how many changes a commit of g may have for which reads wait. It must be called
// before Run.
func SetBrief(g *lw.Graph, n int) { *(*int)(field(g, "brief").Addr().UnsafePointer()) = n }
