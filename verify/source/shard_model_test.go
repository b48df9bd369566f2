package source_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// partOf returns which of n parts an object belongs to. It is written without package shard.
func partOf(uid types.UID, n int) int {
	hash, ok := new(big.Int).SetString(sharding.HashField(string(uid)), 16)
	if !ok {
		panic(uid)
	}
	// The largest i whose range begins at or before the hash: i*2^64/n, rounded down, is at most
	// hash.
	for i := n - 1; ; i-- {
		begin := new(big.Int).Lsh(big.NewInt(int64(i)), 64)
		if begin.Div(begin, big.NewInt(int64(n))).Cmp(hash) <= 0 {
			return i
		}
	}
}

// A shardServer is a server of gadgets.
type shardServer interface {
	Create(*rig.Gadget) (*rig.Gadget, error)
	Update(*rig.Gadget) (*rig.Gadget, error)
	Delete(lw.Key) error
	All() iter.Seq[*rig.Gadget]
}

// fickle ignores the shard selectors of some requests: it forwards them without.
type fickle struct {
	lw.Source[*rig.Gadget]
	ignores atomic.Bool
}

func (f *fickle) asked(opts metav1.ListOptions) metav1.ListOptions {
	if f.ignores.Load() {
		opts.ShardSelector = ""
	}
	return opts
}

func (f *fickle) List(ctx context.Context, opts metav1.ListOptions,
	yield func(*rig.Gadget, error) error) (metav1.ListMeta, error) {
	return f.Source.List(ctx, f.asked(opts), yield)
}

func (f *fickle) Watch(ctx context.Context, opts metav1.ListOptions,
	yield func(lw.WatchEvent[*rig.Gadget]) error) error {
	return f.Source.Watch(ctx, f.asked(opts), yield)
}

// A shardWorld is a server and the informers of all parts of its gadgets, in one bubble.
type shardWorld struct {
	shardServer
	shards      []*shardReplica
	setSelects  func(on bool) // whether the server selects by shard selectors
	disconnect  func()
	compact     func()
	n           int
	created     int
	selectivity map[bool]int // how often it was set to either
}

// A shardReplica follows one part, and notes what it is told.
type shardReplica struct {
	inf *lw.Informer[*rig.Gadget]

	mu     sync.Mutex
	told   map[lw.Key]types.UID
	wrong  []string
	failed []error
}

func (r *shardReplica) note(i, n int, what string, g *rig.Gadget) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if part := partOf(g.UID, n); part != i {
		r.wrong = append(r.wrong, fmt.Sprintf("part %d of %d was told: %s %s, of part %d", i, n, what, lw.KeyOf(g), part))
	}
	if what == "delete" {
		delete(r.told, lw.KeyOf(g))
	} else {
		r.told[lw.KeyOf(g)] = g.UID
	}
}

func (r *shardReplica) OnError(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, err)
}

func (w *shardWorld) follow(ctx context.Context, n int, source func() lw.Source[*rig.Gadget],
	modes []lw.ListMode) (stop func()) {
	w.n = n
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	for i := range n {
		r := &shardReplica{told: map[lw.Key]types.UID{}}
		r.inf = lw.NewInformer(lw.Shard(source(), i, n), &lw.Options{List: modes[i], PageSize: 2, OnError: r.OnError})
		r.inf.AddHandler(lw.Handler[*rig.Gadget]{
			Add:    func(g *rig.Gadget) { r.note(i, n, "add", g) },
			Update: func(_, g *rig.Gadget) { r.note(i, n, "update", g) },
			Delete: func(g *rig.Gadget) { r.note(i, n, "delete", g) },
		})
		w.shards = append(w.shards, r)
		running.Go(func() { _ = r.inf.Run(ctx) }) // Memory and Server have no permanent error
	}
	return func() { cancel(); running.Wait() }
}

// check lets time pass, and compares the parts with the server.
func (w *shardWorld) check(t *rapid.T) {
	time.Sleep(2 * time.Minute) // longer than a pause after failures, and until a bookmark
	synctest.Wait()
	want := map[lw.Key]types.UID{}
	for g := range w.All() {
		want[lw.KeyOf(g)] = g.UID
	}
	held, told := map[lw.Key]types.UID{}, map[lw.Key]types.UID{}
	for i, r := range w.shards {
		for g := range r.inf.Store().All() {
			if _, twice := held[lw.KeyOf(g)]; twice {
				t.Fatalf("%s is in two parts", lw.KeyOf(g))
			}
			held[lw.KeyOf(g)] = g.UID
		}
		r.mu.Lock()
		for k, uid := range r.told {
			if _, twice := told[k]; twice {
				t.Fatalf("two parts were told of %s", k)
			}
			told[k] = uid
		}
		for _, err := range r.failed {
			if strings.Contains(err.Error(), "protocol error") || lwOp(err) == "shard" {
				t.Fatalf("part %d failed: %v", i, err)
			}
		}
		wrong := r.wrong
		r.mu.Unlock()
		if len(wrong) > 0 {
			t.Fatal(strings.Join(wrong, "\n"))
		}
	}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Fatalf("the parts together (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Fatalf("what was told of all parts (-want +got):\n%s", diff)
	}
}

// draw returns a gadget with a UID that no other has.
func (w *shardWorld) draw(t *rapid.T) *rig.Gadget {
	w.created++
	uid := fmt.Sprintf("%08x-%d", rapid.Uint32().Draw(t, "uid"), w.created)
	return &rig.Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: rapid.StringMatching("[a-h]").Draw(t, "name"),
		UID: types.UID(uid)}}
}

func (w *shardWorld) drawOld(t *rapid.T) *rig.Gadget {
	all := slices.Collect(w.All())
	if len(all) == 0 {
		t.Skip("there is none")
	}
	return rapid.SampledFrom(all).Draw(t, "object")
}

func (w *shardWorld) commands() map[string]func(*rapid.T) {
	must := func(t *rapid.T, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func(t *rapid.T) {
		if _, err := w.Create(w.draw(t)); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	update := func(t *rapid.T) {
		g := w.drawOld(t)
		g.Spec.Size++
		_, err := w.Update(g)
		must(t, err)
	}
	commands := map[string]func(*rapid.T){
		"create": create, "create too": create, "update": update, "update too": update,
		"delete": func(t *rapid.T) { must(t, w.Delete(lw.KeyOf(w.drawOld(t)))) },
		"recreate": func(t *rapid.T) { // most often in another part
			old, g := w.drawOld(t), w.draw(t)
			g.Name = old.Name
			must(t, w.Delete(lw.KeyOf(old)))
			_, err := w.Create(g)
			must(t, err)
		},
		"select": func(t *rapid.T) {
			on := rapid.Bool().Draw(t, "on")
			w.selectivity[on]++
			w.setSelects(on)
		},
		"disconnect": func(*rapid.T) { w.disconnect() },
		"compact":    func(*rapid.T) { w.compact() },
		"check":      w.check,
		"pass":       func(*rapid.T) { synctest.Wait() },
		"":           func(*rapid.T) {},
	}
	return commands
}

// Whether a server selects, ignores the selectors or changes its mind, and whatever happens to the
// objects and watches: no object is in two parts, no part is told of another's object, and together
// they have and were told of all.
func TestShardsAreDisjointAndComplete(t *testing.T) {
	servers := map[string]func(*rapid.T) (w *shardWorld, source func() lw.Source[*rig.Gadget], end func()){
		"memory": func(*rapid.T) (*shardWorld, func() lw.Source[*rig.Gadget], func()) {
			m := lw.NewMemory[*rig.Gadget]()
			f := &fickle{Source: m}
			w := &shardWorld{
				shardServer: rig.Plain[*rig.Gadget]{Memory: m}, disconnect: m.Disconnect, compact: m.Compact,
				setSelects: func(on bool) { f.ignores.Store(!on) },
			}
			return w, func() lw.Source[*rig.Gadget] { return f }, func() {}
		},
		"HTTP": func(t *rapid.T) (*shardWorld, func() lw.Source[*rig.Gadget], func()) {
			tb := &closer{}
			s := lwtest.NewServer(tb, lwtest.Resource{Group: "lw.test", Plural: "gadgets", Kind: "Gadget"})
			c := lwtest.Objects[*rig.Gadget](s, "gadgets")
			w := &shardWorld{shardServer: c, disconnect: func() { s.Cut() }, compact: s.Compact, setSelects: s.SetShards}
			return w, func() lw.Source[*rig.Gadget] { return c.Source() }, tb.close
		},
	}
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			parts, selectivity, histories := map[int]int{}, map[bool]int{}, 0
			rapid.Check(t, func(t *rapid.T) {
				histories++
				n := rapid.IntRange(2, 4).Draw(t, "n")
				var modes []lw.ListMode
				for range n {
					modes = append(modes, rapid.SampledFrom([]lw.ListMode{lw.ListAuto, lw.ListPages, lw.ListWhole}).Draw(t, "mode"))
				}
				rapid.SyncTest(t, func(t *rapid.T) {
					w, source, end := server(t)
					defer end()
					w.selectivity = selectivity
					for range rapid.IntRange(0, 8).Draw(t, "objects") {
						w.commands()["create"](t)
					}
					stop := w.follow(context.Background(), n, source, modes)
					defer stop()
					t.Repeat(w.commands())
					w.check(t)
					for i, r := range w.shards {
						parts[i] += r.inf.Store().Len()
					}
				})
			})
			if histories < 80 {
				return // too few, as with -short, to have had all of them for sure
			}
			if slices.Contains(slices.Collect(maps.Values(parts)), 0) || selectivity[true] == 0 || selectivity[false] == 0 {
				t.Errorf("the parts have had %v objects, and the server selected or not: %v", parts, selectivity)
			}
		})
	}
}

// A closer is the part of a testing.TB that NewServer needs.
type closer struct {
	testing.TB
	cleanups []func()
}

func (c *closer) Cleanup(f func()) { c.cleanups = append(c.cleanups, f) }

func (c *closer) close() {
	for _, f := range c.cleanups {
		f()
	}
}

// lwOp returns the Op of the *Error in err.
func lwOp(err error) string {
	if e, ok := errors.AsType[*lw.Error](err); ok {
		return e.Op
	}
	return ""
}
