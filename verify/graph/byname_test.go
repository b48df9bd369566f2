package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A guarded source may be asked for single objects only, and for those whose names begin with "no"
// it may not be asked, nor ever for those that begin with "never".
type guarded struct {
	*lw.Memory[*rig.Widget]
	hangs atomic.Bool // lists take long

	mu      sync.Mutex
	at      map[string]int // lists and watches of each name that are under way; guarded by mu
	most    int            // of all lists at a time
	refused bool           // it was asked for all
}

func (g *guarded) enter(opts metav1.ListOptions, what string) (leave func(), err error) {
	name, ok := strings.CutPrefix(opts.FieldSelector, "metadata.name=")
	g.mu.Lock()
	defer g.mu.Unlock()
	if !ok {
		g.refused = true
		return nil, errors.New("not allowed")
	}
	if strings.HasPrefix(name, "no") {
		return nil, errors.New("not allowed")
	}
	if strings.HasPrefix(name, "never") {
		return nil, lw.ErrPermanent
	}
	if g.at == nil {
		g.at = map[string]int{}
	}
	g.at[what+name]++
	lists := 0
	for at := range g.at {
		if strings.HasPrefix(at, "list ") {
			lists++
		}
	}
	g.most = max(g.most, lists)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.at[what+name]--; g.at[what+name] == 0 {
			delete(g.at, what+name)
		}
	}, nil
}

func (g *guarded) List(ctx context.Context, opts metav1.ListOptions,
	yield func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	leave, err := g.enter(opts, "list ")
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer leave()
	if g.hangs.Load() {
		<-ctx.Done()
		return metav1.ListMeta{}, ctx.Err()
	}
	time.Sleep(time.Second)
	return g.Memory.List(ctx, opts, yield)
}

func (g *guarded) Watch(ctx context.Context, opts metav1.ListOptions,
	yield func(lw.WatchEvent[*rig.Widget]) error) error {
	leave, err := g.enter(opts, "watch ")
	if err != nil {
		return err
	}
	defer leave()
	return g.Memory.Watch(ctx, opts, yield)
}

// A namesBench is a ByName of a guarded source.
type namesBench struct {
	t    *testing.T
	src  *guarded
	keys lw.KeySet
	errs rig.Errors
	all  *lw.ByName[*rig.Widget]
	stop func()
}

func newNamesBench(t *testing.T, limit int, names ...string) *namesBench {
	b := &namesBench{t: t, src: &guarded{Memory: lw.NewMemory[*rig.Widget]()}}
	for i, name := range names {
		rig.Create(t, b.src.Memory, name, i+1)
	}
	g := lw.NewGraph(&lw.GraphOptions{OnError: b.errs.Add})
	b.all = lw.NewByName(g, &b.keys, func(lw.Key) lw.Source[*rig.Widget] { return b.src },
		&lw.ByNameOptions{Limit: limit, Options: lw.Options{List: lw.ListWhole, OnError: func(error) {}}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- b.all.Run(ctx) }()
	go func() { done <- g.Run(ctx) }()
	b.stop = func() {
		cancel()
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	return b
}

func (b *namesBench) want(owner string, names ...string) {
	var keys []lw.Key
	for _, name := range names {
		keys = append(keys, rig.Key(name))
	}
	b.keys.Set(owner, keys...)
}

// waits begins a wait of a minute for the object, and returns how it ends.
func (b *namesBench) waits(t *testing.T, name string) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- b.all.WaitForKey(within(t, time.Minute), rig.Key(name)) }()
	synctest.Wait()
	return ended
}

func (b *namesBench) shows(want ...string) {
	b.t.Helper()
	synctest.Wait()
	var got []string
	for _, w := range b.all.Store().List() {
		got = append(got, fmt.Sprint(w.Name, w.Size))
	}
	slices.Sort(got)
	rig.Same(b.t, "objects", want, got)
}

func TestByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newNamesBench(t, 0, "a", "b", "c")
		await := func(name string, want error) {
			t.Helper()
			if err := <-b.waits(t, name); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		await("a", lw.ErrUnwanted)
		b.want("x", "a", "b", "empty", "nobody")
		b.want("y", "b")
		await("a", nil)
		await("b", nil)
		b.shows("a1", "b2")
		await("empty", nil)
		await("nobody", context.DeadlineExceeded)
		rig.Update(t, b.src.Memory, "b", 20)
		rig.Update(t, b.src.Memory, "c", 30)
		rig.Create(t, b.src.Memory, "empty", 4)
		rig.Remove(t, b.src.Memory, "a")
		time.Sleep(time.Second)
		b.shows("b20", "empty4")
		b.want("x", "c")
		await("c", nil)
		b.shows("b20", "c30")
		b.want("y")
		b.shows("c30")
		if len(b.src.at) != 1 || b.src.at["watch c"] != 1 || b.src.refused {
			t.Errorf("under way: %v; asked for all: %v", b.src.at, b.src.refused)
		}
		b.want("z", "never")
		await("never", lw.ErrPermanent)
		b.want("z", "no")
		done := b.waits(t, "no")
		b.want("z")
		mustFail(t, "what nobody wants any more", <-done, lw.ErrUnwanted)
		b.stop()
		b.want("x", "c", "b")
		await("b", lw.ErrStopped)
		mustFail(t, "a second Run", b.all.Run(t.Context()), lw.ErrStarted)
		if len(b.src.at) != 0 {
			t.Errorf("under way after Run: %v", b.src.at)
		}
	})
}

// A source that selects by a field of its own has the named objects, and no others.
func TestByNameOfSelectedFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, keys := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 1), rig.NewWidget("c", 1)), &lw.KeySet{}
		selected := lw.WithListOptions[*rig.Widget](src,
			func(o *metav1.ListOptions) { o.FieldSelector = "metadata.namespace=default" })
		g := lw.NewGraph(nil)
		all := lw.NewByName(g, keys, func(lw.Key) lw.Source[*rig.Widget] { return selected }, nil)
		rig.Begin(t, g)
		rig.Begin(t, all)
		keys.Set("me", rig.Key("a"), rig.Key("b"))
		for _, name := range []string{"a", "b"} {
			rig.OK(t, all.WaitForKey(t.Context(), rig.Key(name)))
		}
		rig.Same(t, "objects", 2, all.Store().Len())
	})
}

// There are at most so many informers, the error says so once, and what does not fit has its turn.
// A wait for it ends when nobody wants it.
func TestByNameLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := strings.Split("abcdefghijklmnopqr", "")
		b := newNamesBench(t, 17, names...)
		defer b.stop()
		b.want("x", names...)
		time.Sleep(time.Minute)
		if n := b.all.Store().Len(); n != 17 {
			t.Errorf("%d objects", n)
		}
		b.want("y", "r")
		time.Sleep(time.Minute)
		if got := b.errs.All(); len(got) != 1 ||
			got[0].Error() != "lw: Widget: watch default/r: 18 objects are wanted by name, more than ByNameOptions.Limit: 17" {
			t.Errorf("errors: %v", got)
		}
		done := b.waits(t, "r")
		b.want("x", names[:17]...)
		b.want("y")
		mustFail(t, "what nobody wants any more", <-done, lw.ErrUnwanted)
		b.want("y", "r")
		b.want("x", "b")
		time.Sleep(time.Minute)
		b.shows("b2", "r18")
	})
}

// Up to 16 objects are read at a time, and those that cannot be read keep no others waiting.
func TestByNameReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 60 {
			names = append(names, fmt.Sprint("a", i))
		}
		b := newNamesBench(t, 0, names...)
		defer b.stop()
		b.want("x", names...)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := b.all.Store().Len(); n != 60 || b.src.most > 16 {
			t.Errorf("%d objects, %d lists at a time", n, b.src.most)
		}
		b.want("x")
		time.Sleep(time.Minute)
		b.src.hangs.Store(true)
		b.want("x", names[:20]...)
		time.Sleep(time.Second)
		b.src.hangs.Store(false)
		time.Sleep(20 * time.Second)
		if n := b.all.Store().Len(); n != 4 {
			t.Errorf("%d objects beside 16 that hang", n)
		}
	})
}

// At rest the union is what is wanted of what there is, whatever came before.
func TestByNameModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			b := newNamesBench(t, 100)
			defer b.stop()
			name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
			wants, has := map[string][]string{}, map[string]int{}
			rt.Repeat(map[string]func(*rapid.T){
				"want": func(rt *rapid.T) {
					owner := rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "owner")
					wants[owner] = rapid.SliceOfN(name, 0, 3).Draw(rt, "names")
					b.want(owner, wants[owner]...)
				},
				"write": func(rt *rapid.T) {
					of := name.Draw(rt, "name")
					if has[of]++; has[of] == 1 {
						rig.Create(t, b.src.Memory, of, 1)
					} else {
						rig.Update(t, b.src.Memory, of, has[of])
					}
				},
				"delete": func(rt *rapid.T) {
					if of := name.Draw(rt, "name"); has[of] > 0 {
						rig.Remove(t, b.src.Memory, of)
						delete(has, of)
					}
				},
				"pause": func(rt *rapid.T) {
					time.Sleep(time.Duration(rapid.IntRange(0, 2000).Draw(rt, "ms")) * time.Millisecond)
				},
				"": func(rt *rapid.T) {
					if !rapid.Bool().Draw(rt, "rest") {
						return
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					want := map[string]int{}
					for _, names := range wants {
						for _, of := range names {
							if has[of] > 0 {
								want[of] = has[of]
							}
						}
					}
					if diff := cmp.Diff(want, sizes(b.all.Store())); diff != "" {
						rt.Fatalf("(-want +got):\n%s", diff)
					}
				},
			})
		})
	})
}
