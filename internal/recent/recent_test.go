package recent_test

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/internal/recent"
	"github.com/go-lw/lw/internal/verify/leak"
)

type thing struct {
	name string
	more *string
	room [40]int
}

func (t *thing) String() string { return t.name }

func newThing(name string) *thing {
	more := "more of " + name
	return &thing{name: name, more: &more}
}

// A Ref of a pointer and of an interface finds the object while somebody has it, and not after.
func TestRef(t *testing.T) {
	t.Run("pointer", func(t *testing.T) { testRef(t, func(x *thing) *thing { return x }) })
	t.Run("interface", func(t *testing.T) { testRef(t, func(x *thing) fmt.Stringer { return x }) })
}

func testRef[T fmt.Stringer](t *testing.T, as func(*thing) T) {
	kind := recent.KindOf[T](reflect.TypeFor[*thing]())
	var r recent.Ref[T]
	if _, ok := r.Load(kind); ok {
		t.Fatal("the zero Ref refers to something")
	}
	one, other := newThing("one"), newThing("other")
	if now, again := r.Make(kind, as(one)); any(now) != any(one) || again {
		t.Fatal("the first Make is not what it got")
	}
	if now, again := r.Make(kind, as(other)); any(now) != any(one) || !again {
		t.Fatal("a second Make has replaced what somebody has")
	}
	runtime.GC()
	if now, ok := r.Load(kind); !ok || any(now) != any(one) {
		t.Fatal("it was let go of while somebody has it")
	}
	runtime.KeepAlive(one)
	one = nil
	runtime.GC()
	if now, ok := r.Load(kind); ok {
		t.Fatalf("%v is kept", now)
	}
	if now, again := r.Make(kind, as(other)); any(now) != any(other) || !again {
		t.Fatal("a Make after the collection is not what it got")
	}
	runtime.KeepAlive(other)
}

// Many goroutines load and make with a collector beside them: what they get is whole, and while one
// has an object all get that one.
func TestRefsWhileCollected(t *testing.T) {
	t.Run("pointer", func(t *testing.T) { testCollected(t, func(x *thing) *thing { return x }) })
	t.Run("interface", func(t *testing.T) { testCollected(t, func(x *thing) fmt.Stringer { return x }) })
}

func testCollected[T fmt.Stringer](t *testing.T, as func(*thing) T) {
	leak.Collect(t, time.Microsecond)
	kind := recent.KindOf[T](reflect.TypeFor[*thing]())
	refs := make([]recent.Ref[T], 5000) // more than are loaded in one collection, which keeps what it sees loaded
	var made atomic.Int64
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 20_000 {
				if i%4000 == 0 {
					runtime.GC() // the other collector may get no turn
				}
				at := (i + 1250*g) % len(refs)
				obj, ok := refs[at].Load(kind)
				if !ok {
					made.Add(1)
					obj, _ = refs[at].Make(kind, as(newThing(fmt.Sprint(at))))
				}
				x := any(obj).(*thing)
				if want := fmt.Sprint(at); x.name != want || *x.more != "more of "+want || x.room != [40]int{} {
					t.Errorf("ref %d has %q and %q", at, x.name, *x.more)
					return
				}
				if now, ok := refs[at].Load(kind); !ok || any(now) != any(x) {
					t.Errorf("ref %d has another object while somebody has one", at)
					return
				}
				runtime.KeepAlive(x)
			}
		})
	}
	all.Wait()
	if !testing.Short() && made.Load() <= int64(len(refs)) {
		t.Error("nothing was collected")
	}
}

// A Ring keeps the last objects, up to its bytes, and lets go of the others.
func TestRing(t *testing.T) {
	r := recent.NewRing(1000)
	kind := recent.KindOf[*thing](nil)
	refs := make([]recent.Ref[*thing], 100)
	for i := range refs {
		x := newThing(fmt.Sprint(i))
		refs[i].Make(kind, x)
		r.Keep(x, 100)
	}
	big := new(recent.Ref[*thing])
	x := newThing("big")
	big.Make(kind, x)
	r.Keep(x, 251)
	x = nil
	runtime.GC()
	for i := range refs {
		if _, ok := refs[i].Load(kind); ok != (i >= 90) {
			t.Errorf("object %d of 100: kept is %v", i, ok)
		}
	}
	if _, ok := big.Load(kind); ok {
		t.Error("what is too large is kept")
	}
	runtime.KeepAlive(r)
}

func TestMain(m *testing.M) { leak.Main(m) }

// A limit counts from its first byte on, once.
func TestPacingJoins(t *testing.T) {
	const limit = 1 << 20
	var p recent.Pacing
	var joined []bool
	for _, n := range []int64{1, 1, 8 << 20} {
		joined = append(joined, p.Grown(n, limit))
	}
	defer recent.Leave(limit)
	if diff := cmp.Diff([]bool{true, false, false}, joined); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
