package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/etcd/internal/suite"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// TestWritesAsMemory makes the same random writes to an etcd and to an lw.Memory: both answer with
// the same errors, of the same reasons, and have the same objects.
func TestWritesAsMemory(t *testing.T) {
	client := dial(t, startServer(t).endpoint)
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		real, err := etcd.New[*thing](client, newPrefix(), nil)
		noErr(rt, err)
		w := &pair{rt: rt, stores: [2]lw.Writable[*thing]{lw.NewMemory[*thing](), real}}
		rt.Repeat(map[string]func(*rapid.T){
			"create": func(rt *rapid.T) { w.write(rt, "create", lw.Writable[*thing].Create) },
			"update": func(rt *rapid.T) { w.write(rt, "update", lw.Writable[*thing].Update) },
			"delete": w.remove,
			"get": func(rt *rapid.T) {
				key := w.key(rt)
				w.both("get", key, func(s lw.Writable[*thing]) (*thing, error) { return s.Get(ctx, key) })
			},
			"": func(rt *rapid.T) {
				var lists [2][]string
				for i, s := range w.stores {
					if _, err := s.List(ctx, metav1.ListOptions{}, func(o *thing, err error) error {
						lists[i] = append(lists[i], fmt.Sprint(lw.KeyOf(o), o.N, o.Labels))
						return err
					}); err != nil {
						rt.Fatal(err)
					}
				}
				if diff := cmp.Diff(lists[0], lists[1]); diff != "" {
					rt.Fatalf("the objects (-Memory +etcd):\n%s", diff)
				}
			},
		})
	})
}

// TestWritable is the suite that each store with typed writes passes.
func TestWritable(t *testing.T) {
	client, _, _ := begin(t)
	lwtest.Writable(t, func() (lw.Writable[*thing], func()) {
		c, err := etcd.New[*thing](client, newPrefix(), nil)
		if err != nil {
			panic(err)
		}
		return c, func() {}
	}, func(key lw.Key, n int) *thing { return newThing(key.Namespace, key.Name, n) },
		func(obj *thing, n int) { obj.N = n })
}

// A pair is two stores with the same objects, but for their versions and UIDs.
type pair struct {
	rt     *rapid.T
	stores [2]lw.Writable[*thing]
	// seen are the versions and UIDs that the stores have given, in step.
	seen [2][]lw.Meta
}

func (p *pair) key(rt *rapid.T) lw.Key {
	return lw.Key{Namespace: "ns", Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name")}
}

// write writes an object: with the version and the UID of any that was seen, or with others.
func (p *pair) write(rt *rapid.T, op string, do func(lw.Writable[*thing], context.Context, *thing) (*thing, error)) {
	key := p.key(rt)
	n := rapid.IntRange(0, 2).Draw(rt, "n")
	version, uid := p.draw(rt, "version"), p.draw(rt, "uid")
	p.both(op, key, func(s lw.Writable[*thing]) (*thing, error) {
		obj := newThing(key.Namespace, key.Name, n)
		i := p.index(s)
		if version >= 0 {
			obj.ResourceVersion = p.seen[i][version].ResourceVersion
		}
		if uid >= 0 {
			obj.UID = p.seen[i][uid].UID
		}
		if op == "create" {
			obj.ResourceVersion, obj.UID = "", ""
		}
		return do(s, context.Background(), obj)
	})
}

// draw draws something that was seen, mostly the last; -1 for none.
func (p *pair) draw(rt *rapid.T, what string) int {
	n := len(p.seen[0])
	if n == 0 || rapid.Bool().Draw(rt, "no "+what) {
		return -1
	}
	return n - 1 - rapid.IntRange(0, min(n, 4)-1).Draw(rt, what+" back")
}

func (p *pair) index(s lw.Writable[*thing]) int { return slices.Index(p.stores[:], s) }

func (p *pair) remove(rt *rapid.T) {
	key, version := p.key(rt), p.draw(rt, "version")
	var versions [2]string
	p.both("delete", key, func(s lw.Writable[*thing]) (*thing, error) {
		i, at := p.index(s), ""
		if version >= 0 {
			at = p.seen[i][version].ResourceVersion
		}
		var err error
		versions[i], err = s.Delete(context.Background(), key, at)
		if err == nil {
			meta, lerr := s.List(context.Background(), metav1.ListOptions{Limit: 1}, func(*thing, error) error { return nil })
			if lerr != nil || meta.ResourceVersion != versions[i] {
				p.rt.Fatalf("delete %v: version %s, and the store is at %s (%v)", key, versions[i], meta.ResourceVersion, lerr)
			}
		}
		return nil, err
	})
}

// both does the same to both stores, and compares.
func (p *pair) both(op string, key lw.Key, do func(lw.Writable[*thing]) (*thing, error)) {
	var reasons [2]metav1.StatusReason
	var results [2]*thing
	for i, s := range p.stores {
		obj, err := do(s)
		if reasons[i] = apierrors.ReasonForError(err); err != nil && reasons[i] == "" {
			p.rt.Fatalf("%s %v: store %d: %v", op, key, i, err)
		}
		if results[i] = obj; err != nil && obj != nil {
			p.rt.Fatalf("%s %v: store %d: both an object and %v", op, key, i, err)
		}
	}
	if reasons[0] != reasons[1] {
		p.rt.Fatalf("%s %v: Memory says %q, etcd %q", op, key, reasons[0], reasons[1])
	}
	if results[0] != nil {
		if a, b := results[0], results[1]; lw.KeyOf(a) != lw.KeyOf(b) || a.N != b.N {
			p.rt.Fatalf("%s %v: Memory has %v, etcd %v", op, key, a, b)
		}
		for i, obj := range results {
			if obj.UID == "" || obj.ResourceVersion == "" {
				p.rt.Fatalf("%s %v: store %d: no UID or version: %v", op, key, i, obj)
			}
			p.seen[i] = append(p.seen[i], obj.Meta)
		}
	}
}

// TestWaitForWrites waits for each own write on a prefix where nothing else happens, and for a
// write elsewhere: a round trip and 100 ms at most.
func TestWaitForWrites(t *testing.T) {
	client, prefix, things := begin(t)
	f := follow(t, things, prefix)
	ctx := within(t, time.Minute)
	wait := func(what, version string, err error) {
		t.Helper()
		noErr(t, err)
		begun := time.Now()
		if err := f.WaitForResourceVersion(ctx, version); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Logf("%s: %v", what, time.Since(begun))
		// No timed test: but a wait that is not answered when it asks takes 30 s, that is Progress.
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("the wait for %s took %v", what, took)
		}
	}
	key := lw.Key{Namespace: "ns", Name: "a"}
	obj, err := things.Create(ctx, newThing("ns", "a", 1))
	wait("a creation", obj.ResourceVersion, err)
	if got, ok := f.Store().Get(key); !ok || got.N != 1 {
		t.Errorf("after the creation: %v", got)
	}
	obj.N = 2
	obj, err = things.Update(ctx, obj)
	wait("an update", obj.ResourceVersion, err)
	if got, _ := f.Store().Get(key); got.N != 2 {
		t.Errorf("after the update: %v", got)
	}
	version, err := things.Delete(ctx, key, "")
	wait("a deletion", version, err)
	if got, ok := f.Store().Get(key); ok {
		t.Errorf("after the deletion: %v", got)
	}
	for range 3 {
		put, err := client.Put(ctx, "/elsewhere", "x")
		wait("a write elsewhere", fmt.Sprint(put.Header.Revision), err)
	}
	if s := f.Status(); s.Requests["watch"].Started != 1 {
		t.Errorf("%d watches: a wait has ended the watch", s.Requests["watch"].Started)
	}
}

// TestWriteErrors has the errors that only an etcd has. TestInvalid of package etcd has those for
// which nobody is asked.
func TestWriteErrors(t *testing.T) {
	client, prefix, things := begin(t)
	ctx := within(t, time.Minute)
	large, huge := newThing("ns", "large", 1), newThing("ns", "huge", 1)
	large.Text, huge.Text = strings.Repeat("x", 1_800_000), strings.Repeat("x", 3<<20)
	patient := collect(t, dialLarge(t, client.Endpoints()[0]), prefix, nil)
	for who, err := range map[string]error{
		"etcd":                 second(things.Create(ctx, large)),
		"the client":           second(things.Create(ctx, huge)),
		"the server's network": second(patient.Create(ctx, huge)),
	} {
		if !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("%s says %v, want RequestEntityTooLarge", who, err)
		}
	}
	// The conflict names the version that is there.
	obj, err := things.Create(ctx, newThing("ns", "a", 1))
	noErr(t, err)
	old := *obj
	obj.N = 5
	obj, err = things.Update(ctx, obj)
	noErr(t, err)
	_, err = things.Update(ctx, &old)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), obj.ResourceVersion) {
		t.Errorf("an old version: %v, want a Conflict that names %s", err, obj.ResourceVersion)
	}
	if _, err = things.Delete(ctx, lw.KeyOf(obj), old.ResourceVersion); !apierrors.IsConflict(err) ||
		!strings.Contains(err.Error(), obj.ResourceVersion) {
		t.Errorf("an old version: %v, want a Conflict that names %s", err, obj.ResourceVersion)
	}
	if _, err := things.Update(rig.Canceled(t), obj); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is done: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// noErr ends the test if there is an error.
func noErr(t rig.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// TestLeaseRunsOut is a lease that nobody renews.
func TestLeaseRunsOut(t *testing.T) {
	client, prefix, things := begin(t)
	f := follow(t, things, prefix)
	lease, err := client.Grant(within(t, time.Minute), 1)
	noErr(t, err)
	noErr(t, second(things.WithLease(lease.ID).Create(within(t, time.Minute), newThing("ns", "a", 1))))
	f.caughtUp(t, client)
	rig.Met(t, time.Minute, "the object is still there", func() bool { return f.Store().Len() == 0 })
	f.caughtUp(t, client)
}

// TestSource checks the collection with random histories on a real etcd: selectors, compaction,
// connections that are closed, and a writer on another prefix.
func TestSource(t *testing.T) {
	s := startServer(t)
	connect := func() *clientv3.Client {
		client, err := newClient(s.endpoint)
		if err != nil {
			panic(err)
		}
		return client
	}
	for name, scoped := range map[string]bool{"namespaced": false, "cluster": true} {
		t.Run(name, func(t *testing.T) {
			lwtest.Source(t, func() lwtest.Subject[*thing] {
				return suite.Subject(connect, newPrefix(), scoped, func(key lw.Key, n int) *thing {
					o := newThing(key.Namespace, key.Name, n)
					o.Labels = map[string]string{"parity": fmt.Sprint(n % 2)}
					return o
				})
			})
		})
	}
}
