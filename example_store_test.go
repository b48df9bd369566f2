package lw_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// A host is an object of one's own.
type host struct {
	lw.Meta
	Rack   string
	Roles  []string
	Labels map[string]string
}

func (h *host) GetLabels() map[string]string { return h.Labels }

func newHost(name, rack string, roles ...string) *host {
	return &host{Meta: lw.Meta{Namespace: "dc1", Name: name}, Rack: rack, Roles: roles}
}

// names returns the names of hosts, sorted, since a store has no order.
func names(hosts iter.Seq[*host]) []string {
	var all []string
	for h := range hosts {
		all = append(all, h.Name)
	}
	slices.Sort(all)
	return all
}

func ExampleIndexer() {
	hosts := lw.NewIndexer(newHost("a", "r1"), newHost("b", "r1"))
	old, replaced := hosts.Set(newHost("b", "r2"))
	fmt.Println(old.Rack, replaced)
	hosts.Delete(lw.Key{Namespace: "dc1", Name: "a"})

	b, ok := hosts.Get(lw.Key{Namespace: "dc1", Name: "b"})
	fmt.Println(b.Rack, ok)
	fmt.Println(hosts.Len(), names(hosts.All()))
	// Output:
	// r1 true
	// r2 true
	// 1 [b]
}

func ExampleNewIndex() {
	hosts := lw.NewIndexer(newHost("a", "r1"), newHost("b", "r1"), newHost("c", "r2"))
	racks := lw.NewIndex(hosts, func(h *host) string { return h.Rack })
	fmt.Println(names(racks.Lookup("r1")))

	hosts.Set(newHost("b", "r2"))
	for _, rack := range slices.Sorted(racks.Keys()) {
		fmt.Println(rack, racks.Len(rack), names(racks.Lookup(rack)))
	}
	// Output:
	// [a b]
	// r1 1 [a]
	// r2 2 [b c]
}

func ExampleNewMultiIndex() {
	hosts := lw.NewIndexer(newHost("a", "r1", "web", "db"), newHost("b", "r1", "web"))
	roles := lw.NewMultiIndex(hosts, func(h *host) iter.Seq[string] { return slices.Values(h.Roles) })
	fmt.Println(names(roles.Lookup("web")), names(roles.Lookup("db")))
	// Output: [a b] [a]
}

func ExampleNewSortedIndex() {
	hosts := lw.NewIndexer(newHost("a", "r3"), newHost("b", "r1"), newHost("c", "r2"), newHost("d", "r2"))
	byRack := lw.NewSortedIndex(hosts, func(h *host) string { return h.Rack })
	for h := range byRack.Down(0, 2) { // the top two
		fmt.Println(h.Rack, h.Name)
	}
	fmt.Println(names(byRack.Between("r1", "r3"))) // r1 and r2

	// The second page of two, and the number of all, of one state.
	now := byRack.At(hosts.Snapshot())
	hosts.Delete(lw.Key{Namespace: "dc1", Name: "d"})
	fmt.Println(names(now.Up(2, 2)), now.Len(), byRack.Len())
	// Output:
	// r3 a
	// r2 d
	// [b c d]
	// [a d] 4 3
}

func ExampleSnapshot() {
	hosts := lw.NewIndexer(newHost("a", "r1"))
	snap := hosts.Snapshot()
	hosts.Set(newHost("b", "r1"))
	hosts.Set(newHost("a", "r2"))

	a, _ := snap.Get(lw.Key{Namespace: "dc1", Name: "a"})
	fmt.Println(snap.Len(), names(snap.All()), a.Rack)
	fmt.Println(hosts.Len(), names(hosts.All()))
	// Output:
	// 1 [a] r1
	// 2 [a b]
}

func ExampleOwnerUIDs() {
	owned := func(name string, uid types.UID) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: name, OwnerReferences: []metav1.OwnerReference{{UID: uid}},
		}}
	}
	pods := lw.NewIndexer(owned("a", "set-1"), owned("b", "set-2"))
	owners := lw.NewMultiIndex(pods, lw.OwnerUIDs[*metav1.PartialObjectMetadata])
	for pod := range owners.Lookup("set-2") {
		fmt.Println(pod.Name)
	}
	// Output: b
}

// A service is an object of one's own: it embeds its identity.
type service struct {
	lw.Meta
	Port int
}

func newService(name, uid, version string, port int) *service {
	return &service{lw.Meta{Namespace: "shop", Name: name, UID: types.UID(uid), ResourceVersion: version}, port}
}

func ExampleFIFO() {
	q := lw.NewFIFO[*service]()
	c := q.Subscribe()
	defer c.Close()

	// A Reflector does this: lists, then events.
	q.Replace([]*service{newService("cart", "1", "10", 80), newService("pay", "2", "11", 80)}, "12")
	q.Apply(lw.WatchEvent[*service]{Type: watch.Modified, Object: newService("cart", "1", "13", 8080), ResourceVersion: "13"})
	q.Replace([]*service{newService("cart", "1", "13", 8080)}, "15")
	q.Close()

	for {
		deltas, err := c.Next(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, d := range deltas {
			fmt.Println(d.Cause, d.Type, d.Key(), d.Object().Port)
		}
	}
	// Output:
	// initial added shop/cart 80
	// initial added shop/pay 80
	// watch updated shop/cart 8080
	// relist deleted shop/pay 80
	// lw: stopped
}

// A consumer that is far behind is told what it has missed as one change an object.
func ExampleCursor_Next_slow() {
	q := lw.NewFIFO[*service]()
	c := q.Subscribe()
	defer c.Close()

	q.Replace([]*service{newService("cart", "1", "1", 0)}, "1")
	for port := 1; port <= 5000; port++ {
		version := fmt.Sprint(port + 1)
		q.Apply(lw.WatchEvent[*service]{Type: watch.Modified, Object: newService("cart", "1", version, port), ResourceVersion: version})
	}

	deltas, err := c.Next(context.Background())
	if err != nil {
		fmt.Println(err)
	}
	for _, d := range deltas {
		fmt.Println(d.Type, d.Key(), d.New.Port)
	}
	// Output:
	// added shop/cart 5000
}

// Wait until an object is as you want it, and until it is gone.
func ExampleWaitFor() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)
	go widgets.Run(ctx)
	a := lw.Key{Namespace: "default", Name: "a"}
	patience, done := context.WithTimeout(ctx, time.Minute)
	defer done()

	go func() { // somebody else, such as a controller
		w, _ := server.Get(ctx, a)
		w.Size = 3
		server.Update(ctx, w)
	}()
	w, err := lw.WaitFor(patience, widgets, a, func(w *Widget) bool { return w != nil && w.Size > 2 })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("size", w.Size)

	// A delete returns no version to wait for. The object is gone if there is none, or another one.
	if _, err := server.Delete(ctx, a, ""); err != nil {
		fmt.Println(err)
		return
	}
	_, err = lw.WaitFor(patience, widgets, a, func(now *Widget) bool { return now == nil || now.UID != w.UID })
	if err != nil {
		fmt.Println(err)
		return
	}
	_, ok := widgets.Store().Get(a)
	fmt.Println("found", ok)
	// Output:
	// size 3
	// found false
}

// Follow one object in a select, beside all else that a goroutine waits for.
func ExampleInformer_Changed() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)
	go widgets.Run(ctx)
	a := lw.Key{Namespace: "default", Name: "a"}

	for {
		changed := widgets.Changed(ctx, a) // before the read, so that no change is missed
		if w, ok := widgets.Store().Get(a); ok {
			fmt.Println("size", w.Size)
			if w.Size == 3 {
				return
			}
			w, _ = server.Get(ctx, a)
			w.Size++
			server.Update(ctx, w)
		}
		select {
		case <-changed:
		case <-widgets.Stopped():
			return
		case <-ctx.Done():
			return
		}
	}
	// Output:
	// size 1
	// size 2
	// size 3
}

// Wait until a group of an index has what you need.
func ExampleIndex_Changed() {
	hosts := lw.NewIndexer(newHost("a", "r1"))
	byRack := lw.NewIndex(hosts, func(h *host) string { return h.Rack })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	go func() {
		hosts.Set(newHost("b", "r2")) // of another rack
		hosts.Set(newHost("c", "r1"))
	}()
	for {
		changed := byRack.Changed(ctx, "r1") // before the read, so that no change is missed
		if byRack.Len("r1") == 2 {
			break
		}
		<-changed
	}
	fmt.Println(names(byRack.Lookup("r1")))
	// Output:
	// [a c]
}

// Read your writes: wait for the resource version that a write returned, and then read the store.
func ExampleInformer_WaitForResourceVersion() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)
	bySize := lw.NewIndex(widgets, func(w *Widget) int { return w.Size })
	go widgets.Run(ctx)

	b, err := server.Create(ctx, widget("b", 7))
	if err != nil {
		fmt.Println(err)
		return
	}
	patience, done := context.WithTimeout(ctx, time.Minute) // a version may never come
	defer done()
	if err := widgets.WaitForResourceVersion(patience, b.ResourceVersion); err != nil {
		fmt.Println(err)
		return
	}
	for w := range bySize.Lookup(7) {
		fmt.Println(w.Name)
	}

	// A version without an order cannot be waited for.
	fmt.Println(widgets.WaitForResourceVersion(patience, "latest") != nil)

	// Output:
	// b
	// true
}

// DetectMutation finds code that changes the shared objects: here a handler. Switch it on in tests.
func ExampleOptions_detectMutation() {
	server := lw.NewMemory(widget("a", 1))
	found := make(chan error, 1)
	widgets := lw.NewInformer(server, &lw.Options{
		DetectMutation: true,
		OnError:        func(err error) { found <- err },
	})
	reg := widgets.AddHandler(lw.Handler[*Widget]{Add: func(w *Widget) { w.Size = 66 }})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go widgets.Run(ctx)
	if err := reg.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}

	// An object is checked about once in a second, and when it leaves the store.
	server.Delete(ctx, lw.Key{Namespace: "default", Name: "a"}, "")
	fmt.Println(<-found)

	// Output:
	// lw: Widget: mutation default/a: a cached object was changed: Size: 1 is now 66
}

// A journal is a Follower: it has every change since its beginning, and the version up to which it
// is complete.
type journal struct{ lines chan string }

func (j *journal) Begin(snap *lw.Snapshot[*Widget], epoch bool) {
	j.lines <- fmt.Sprintln("begins with", snap.Len(), "widgets")
}

func (j *journal) Change(d lw.Delta[*Widget]) {
	j.lines <- fmt.Sprintln(d.Type, d.Key().Name)
}

func (j *journal) Progress(version string) {
	j.lines <- fmt.Sprintln("complete up to", version)
}

// A history of a collection, which begins anew where changes are not known.
func ExampleFollow() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)
	go widgets.Run(ctx)

	j := &journal{make(chan string, 10)}
	go lw.Follow(ctx, widgets, j)
	fmt.Print(<-j.lines, <-j.lines)
	server.Create(ctx, widget("b", 1))
	fmt.Print(<-j.lines, <-j.lines)
	server.Delete(ctx, lw.Key{Namespace: "default", Name: "a"}, "")
	fmt.Print(<-j.lines, <-j.lines)

	// Output:
	// begins with 1 widgets
	// complete up to 2
	// added b
	// complete up to 3
	// deleted a
	// complete up to 4
}

// A read that is as new as a list of the server would be, for any number of callers at the price of
// a few requests.
func ExampleInformer_CatchUp() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	widgets := lw.NewInformer(server, nil)
	go widgets.Run(ctx)

	server.Create(ctx, widget("b", 1)) // somewhere else, so that nobody here knows its version
	version, err := widgets.CatchUp(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(widgets.Store().Len(), "widgets at", version)

	// Output: 2 widgets at 3
}
