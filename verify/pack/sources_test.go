package pack_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/serve"
)

// A carpWay leads from a source of carps to what a program sees of them in the end.
type carpWay[E lw.Object] func(t *testing.T, keys *lw.KeySet, source func() lw.Source[E], open func(E) *carp.Carp) shownCarps

type shownCarps func() map[lw.Key]*carp.Carp

// carpWays are the ways on which packed objects must come through as others do.
var carpWays = []struct {
	name   string
	plain  carpWay[*carp.Carp]
	packed carpWay[*lw.Packed[*carp.Carp]]
}{
	{"Union", unionOfCarps[*carp.Carp], unionOfCarps[*lw.Packed[*carp.Carp]]},
	{"Wanted", wantedCarps[*carp.Carp], wantedCarps[*lw.Packed[*carp.Carp]]},
	{"ByName", carpsByName[*carp.Carp], carpsByName[*lw.Packed[*carp.Carp]]},
	{"Shard", shardedCarps[*carp.Carp], shardedCarps[*lw.Packed[*carp.Carp]]},
	{"Derive", derivedCarps[*carp.Carp], derivedCarps[*lw.Packed[*carp.Carp]]},
	{"late handler", lateCarps[*carp.Carp], lateCarps[*lw.Packed[*carp.Carp]]},
	{"slow handler", slowCarps[*carp.Carp], slowCarps[*lw.Packed[*carp.Carp]]},
	{"relay", relayOfCarps[*carp.Carp](nil), relayOfCarps[*lw.Packed[*carp.Carp]](nil)},
	{"relay of bytes", relayOfCarps[*carp.Carp](nil), relayOfCarps(func(p *lw.Packed[*carp.Carp]) ([]byte, error) {
		data, _ := p.Bytes(nil) // the source asks for JSON
		return data, nil
	})},
}

// showing returns what is in a store.
func showing[E lw.Object](open func(E) *carp.Carp, stores ...lw.Reader[E]) shownCarps {
	return func() map[lw.Key]*carp.Carp {
		shown := map[lw.Key]*carp.Carp{}
		for _, s := range stores {
			for e := range s.All() {
				shown[lw.KeyOf(e)] = open(e)
			}
		}
		return shown
	}
}

func following[E lw.Object](t *testing.T, src lw.Source[E]) *lw.Informer[E] {
	inf := lw.NewInformer(src, &lw.Options{OnError: func(error) {}})
	rig.Start(t, inf)
	return inf
}

func labelled[E lw.Object](src lw.Source[E], app string) lw.Source[E] {
	return lw.WithListOptions(src, func(o *metav1.ListOptions) { o.LabelSelector = "app=" + app })
}

func unionOfCarps[E lw.Object](t *testing.T, _ *lw.KeySet, source func() lw.Source[E], open func(E) *carp.Carp) shownCarps {
	g := lw.NewGraph(nil)
	u := lw.NewUnion[E](g, following(t, labelled(source(), "a0")), following(t, labelled(source(), "a1")))
	rig.Start(t, g)
	return showing(open, u.Store())
}

func wantedCarps[E lw.Object](t *testing.T, keys *lw.KeySet, source func() lw.Source[E], open func(E) *carp.Carp) shownCarps {
	return showing[E](open, following(t, lw.Wanted(source(), keys)).Store())
}

func carpsByName[E lw.Object](t *testing.T, keys *lw.KeySet, source func() lw.Source[E], open func(E) *carp.Carp) shownCarps {
	g := lw.NewGraph(nil)
	src := source()
	b := lw.NewByName(g, keys, func(lw.Key) lw.Source[E] { return src }, &lw.ByNameOptions{
		Options: lw.Options{OnError: func(error) {}}})
	rig.Start(t, g)
	rig.Start(t, b)
	return showing(open, b.Store())
}

func shardedCarps[E lw.Object](t *testing.T, _ *lw.KeySet, source func() lw.Source[E], open func(E) *carp.Carp) shownCarps {
	return showing[E](open, following(t, lw.Shard(source(), 0, 2)).Store(), following(t, lw.Shard(source(), 1, 2)).Store())
}

// derivedCarps has the carps themselves in a derived collection, which compares versions.
func derivedCarps[E lw.Object](t *testing.T, _ *lw.KeySet, source func() lw.Source[E], open func(E) *carp.Carp) shownCarps {
	g := lw.NewGraph(nil)
	d := lw.Derive(g, following(t, source()), func(e E) E {
		if open(e).Spec.NodeName == "node1" {
			return *new(E)
		}
		return e
	})
	rig.Start(t, g)
	return showing(open, d.Store())
}

// carpHandler returns a handler that adds up what it is called with, after each, and what that is.
func carpHandler[E lw.Object](t *testing.T, open func(E) *carp.Carp, each func()) (lw.Handler[E], shownCarps) {
	var mu sync.Mutex
	seen := map[lw.Key]*carp.Carp{} // guarded by mu
	change := func(old, e E, now *carp.Carp) {
		each()
		mu.Lock()
		defer mu.Unlock()
		key := lw.KeyOf(e)
		if old != *new(E) {
			if diff := cmp.Diff(seen[key], open(old)); diff != "" {
				t.Errorf("the old object is not the last one:\n%s", diff)
			}
		}
		if seen[key] = now; now == nil {
			delete(seen, key)
		}
	}
	return lw.Handler[E]{
			Add:    func(e E) { change(*new(E), e, open(e)) },
			Update: func(old, e E) { change(old, e, open(e)) },
			Delete: func(e E) { change(e, e, nil) },
		}, func() map[lw.Key]*carp.Carp {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(seen)
		}
}

// lateCarps is what a handler has seen that came when all was there.
func lateCarps[E lw.Object](t *testing.T, _ *lw.KeySet, source func() lw.Source[E], open func(E) *carp.Carp) shownCarps {
	inf := following(t, source())
	return func() map[lw.Key]*carp.Carp {
		h, shown := carpHandler(t, open, func() {})
		defer inf.AddHandler(h).Remove()
		synctest.Wait()
		return shown()
	}
}

// slowCarps is what a handler has seen that is so slow that changes wait for it. Each may make one
// for every step, and there are minutes after the last one.
func slowCarps[E lw.Object](t *testing.T, _ *lw.KeySet, source func() lw.Source[E], open func(E) *carp.Carp) shownCarps {
	inf := following(t, source())
	h, shown := carpHandler(t, open, func() { time.Sleep(10 * time.Second) })
	inf.AddHandler(h)
	return shown
}

// relayOfCarps is what a client of a relay has.
func relayOfCarps[E lw.Object](encode func(E) ([]byte, error)) carpWay[E] {
	return func(t *testing.T, _ *lw.KeySet, source func() lw.Source[E], open func(E) *carp.Carp) shownCarps {
		h := serve.New(&serve.Options{Authorize: serve.AllowAll})
		front := apiserver.New(apiserver.Options{Wrap: func(http.Handler) http.Handler { return h }})
		t.Cleanup(front.Close)
		ctx, cancel := context.WithCancel(t.Context())
		done, inf := make(chan struct{}), following(t, source())
		go func() {
			defer close(done)
			_ = serve.Serve(ctx, h, inf, serve.Resource[E]{Name: "carps", Kind: "Carp", Encode: encode})
		}()
		synctest.Wait()
		client := front.Client()
		t.Cleanup(func() { cancel(); <-done; client.CloseIdleConnections() })
		end := following(t, &lw.HTTP[*carp.Carp]{URL: "http://relay/api/v1/carps", Client: client, Accept: "application/json"})
		return showing[*carp.Carp](func(c *carp.Carp) *carp.Carp {
			c = c.DeepCopy()
			c.TypeMeta = metav1.TypeMeta{} // a relay adds it
			return c
		}, end.Store())
	}
}

// On every way packed objects come through as others do, while objects change, the server fails and
// a collector runs.
func TestPackOnEveryWay(t *testing.T) {
	leak.Collect(t, 20*time.Millisecond)
	rapid.Check(t, func(rt *rapid.T) {
		way, wrong := carpWays[rapid.IntRange(0, len(carpWays)-1).Draw(rt, "way")], ""
		rt.Log(way.name)
		synctest.Test(t, func(t *testing.T) {
			server := lwtest.NewServer(t, carpResource)
			objects := lwtest.Objects[*carp.Carp](server, "carps")
			source := func() *lw.HTTP[*carp.Carp] {
				src := objects.Source()
				src.Accept = "application/json"
				return src
			}
			var keys lw.KeySet
			plain := way.plain(t, &keys, func() lw.Source[*carp.Carp] { return source() },
				func(c *carp.Carp) *carp.Carp { return c })
			packed := way.packed(t, &keys, func() lw.Source[*lw.Packed[*carp.Carp]] {
				return lw.Pack(source(), lw.PackOptions{})
			}, (*lw.Packed[*carp.Carp]).Open)
			changeCarps(t, rt, server, objects, &keys)
			server.Clear()
			last := newCarp("last", 0) // every way shows it, so no history compares nothing with nothing
			rig.Must[*carp.Carp](t)(objects.Create(last))
			keys.Set("last", lw.KeyOf(last))
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			want := plain()
			if wrong = cmp.Diff(want, packed()); want[lw.KeyOf(last)] == nil {
				wrong = "the last object is not shown"
			}
		})
		if wrong != "" {
			rt.Fatalf("(-plain +packed):\n%s", wrong)
		}
	})
}

// A handler that is far behind is called with the net effect of what has happened: the old object
// is the last one that it has seen, which nobody else has any more, and the new one is what is
// there.
func TestPackFolds(t *testing.T) {
	leak.Collect(t, 20*time.Millisecond)
	rig.Subtest(t, "", func(t *testing.T) {
		server := lwtest.NewServer(t, carpResource)
		objects := lwtest.Objects[*carp.Carp](server, "carps")
		inf := following(t, lw.Pack(objects.Source(), lw.PackOptions{}))
		released := make(chan struct{})
		h, shown := carpHandler(t, (*lw.Packed[*carp.Carp]).Open, func() { <-released })
		inf.AddHandler(h)
		names := []string{"a", "bb", "c", "dd", "e", "ff"}
		for n := range 300 * len(names) { // more than wait without being folded
			c := newCarp(names[n%len(names)], n)
			if _, err := objects.Get(lw.KeyOf(c)); err != nil {
				rig.Must[*carp.Carp](t)(objects.Create(c))
			} else if n%77 == 0 {
				if err := objects.Delete(lw.KeyOf(c)); err != nil {
					t.Fatal(err)
				}
			} else {
				rig.Must[*carp.Carp](t)(objects.Update(c))
			}
			if n%100 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		close(released)
		synctest.Wait()
		if s := inf.Status().Handlers[0]; s.Pending > 0 || s.Folded == 0 {
			t.Errorf("%d changes wait, %d were folded", s.Pending, s.Folded)
		}
		there := showing((*lw.Packed[*carp.Carp]).Open, inf.Store())
		if diff := cmp.Diff(there(), shown()); diff != "" {
			t.Errorf("(-there +shown):\n%s", diff)
		}
	})
}

// changeCarps writes objects, wants some of them, and lets the server fail.
func changeCarps(t *testing.T, rt *rapid.T, server *lwtest.Server, objects *lwtest.Collection[*carp.Carp], keys *lw.KeySet) {
	names, outages := []string{"a", "bb", "c", "dd", "e", "ff"}, lwtest.Outages()
	for n := range rapid.IntRange(5, 30).Draw(rt, "steps") {
		c := newCarp(rapid.SampledFrom(names).Draw(rt, "name"), n)
		switch rapid.SampledFrom([]string{"write", "write", "write", "remove", "want", "outage", "gc", "rest"}).Draw(rt, "step") {
		case "write":
			if _, err := objects.Get(lw.KeyOf(c)); err != nil {
				rig.Must[*carp.Carp](t)(objects.Create(c))
			} else {
				rig.Must[*carp.Carp](t)(objects.Update(c))
			}
		case "remove":
			_ = objects.Delete(lw.KeyOf(c))
		case "want":
			other := newCarp(rapid.SampledFrom(names).Draw(rt, "other"), n)
			keys.Set(fmt.Sprint(n%2), lw.KeyOf(c), lw.KeyOf(other))
		case "outage":
			o := outages[rapid.IntRange(0, len(outages)-1).Draw(rt, "outage")]
			o.Do(server)
			time.Sleep(o.Lasts)
		case "gc":
			runtime.GC()
		case "rest":
			time.Sleep(time.Duration(rapid.IntRange(0, 90).Draw(rt, "seconds")) * time.Second)
		}
	}
}

// With DetectMutation a forbidden change of what was decoded is reported, also if nobody has it
// when the collector comes; without, it is gone then, and the bytes are as they were.
func TestPackDetectsMutation(t *testing.T) {
	for _, detect := range []bool{true, false} {
		rig.Subtest(t, fmt.Sprint(detect), func(t *testing.T) {
			server := lwtest.NewServer(t, carpResource)
			objects := lwtest.Objects[*carp.Carp](server, "carps")
			rig.Must[*carp.Carp](t)(objects.Create(newCarp("a", 1)))
			rig.Must[*carp.Carp](t)(objects.Create(newCarp("bb", 2)))
			var errs rig.Errors
			inf := lw.NewInformer(lw.Pack(objects.Source(), lw.PackOptions{}), &lw.Options{DetectMutation: detect,
				OnError: errs.Add})
			rig.Start(t, inf)
			synctest.Wait()
			key := lw.KeyOf(newCarp("a", 1))
			get := func() *carp.Carp {
				p, _ := inf.Store().Get(key)
				return p.Open()
			}
			get().Spec.Hostname = "changed"
			// The event tells the race detector that the next look comes after the change.
			rig.Must[*carp.Carp](t)(objects.Create(newCarp("c", 3)))
			runtime.GC()
			runtime.GC()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			found := errs.Mutations()
			if detect != (len(found) == 1 && found[0].Key == key && rig.Matches(found[0], "Spec.Hostname")) {
				t.Errorf("reported are %v", errs.All())
			}
			if got := get().Spec.Hostname; !detect && got != "host1" {
				t.Errorf("the host is %q", got)
			}
		})
	}
}
