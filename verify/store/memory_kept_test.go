package store_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A heavy has a body, which all copies of one version share.
type heavy struct {
	lw.Meta
	Size int
	Body *body
}

type body struct {
	of   string
	size int
}

// A census knows the body of each heavy that was made, whether it is in memory or not.
type census struct {
	mu     sync.Mutex
	bodies []weak.Pointer[body]
}

func (c *census) heavy(name string, size int) *heavy {
	w := &heavy{Meta: lw.Meta{Namespace: "default", Name: name}, Size: size, Body: &body{name, size}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies = append(c.bodies, weak.Make(w.Body))
	return w
}

// kept returns the bodies that are in memory after a collection, and that nothing of shown has.
func (c *census) kept(shown []func() iter.Seq[*heavy]) (kept []string) {
	for range 3 {
		runtime.GC()
		synctest.Wait()
	}
	here := map[*body]bool{}
	for _, all := range shown {
		for w := range all() {
			here[w.Body] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.bodies {
		if b := p.Value(); b != nil && !here[b] {
			kept = append(kept, fmt.Sprintf("%s at %d", b.of, b.size))
		}
	}
	return kept
}

// A keeper is what a case of TestKeepsWhatIsShown is built on: two informers and a graph.
type keeper struct {
	census
	t           *testing.T
	left, right *lw.Memory[*heavy]
	l, r        *lw.Informer[*heavy]
	g           *lw.Graph
	size        int                       // of what was made last
	shown       []func() iter.Seq[*heavy] // all that may be in memory
	each        []func()                  // called after each change
	leave       func()                    // ends what the case has begun, if it can end before the informers
}

// show has all that c shows be in memory, and its snapshots be taken now and then.
func (k *keeper) show(c lw.Collection[*heavy]) {
	k.shown = append(k.shown, c.Store().All)
	k.each = append(k.each, func() { c.Store().Snapshot().List() })
}

// follow runs an informer of src, and shows what it has.
func (k *keeper) follow(src lw.Source[*heavy]) {
	inf := lw.NewInformer(src, rig.Quiet())
	k.show(inf)
	rig.Start(k.t, inf)
}

// result returns what a collection derives from objects whose sizes add up to size.
func (k *keeper) result(name string, size int) *heavy {
	return k.heavy("of-"+name, -size)
}

func (k *keeper) put(m *lw.Memory[*heavy], from, to int) {
	k.t.Helper()
	var puts []*heavy
	for i := from; i < to; i++ {
		k.size++
		puts = append(puts, k.heavy(fmt.Sprint("w", i), k.size))
	}
	k.transact(m, puts)
}

func (k *keeper) remove(m *lw.Memory[*heavy], from, to int) {
	k.t.Helper()
	var gone []lw.Key
	for i := from; i < to; i++ {
		gone = append(gone, rig.Key(fmt.Sprint("w", i)))
	}
	k.transact(m, nil, gone...)
}

func (k *keeper) transact(m *lw.Memory[*heavy], puts []*heavy, gone ...lw.Key) {
	k.t.Helper()
	_, err := m.Transact(context.Background(), puts, gone...)
	rig.OK(k.t, err)
	k.settle()
}

func (k *keeper) settle() {
	synctest.Wait()
	for _, f := range k.each {
		f()
	}
	rig.Sleep(time.Second)
}

// live changes everything in each way that there is, and leaves few objects.
func (k *keeper) live() {
	for _, m := range []*lw.Memory[*heavy]{k.left, k.right} {
		for i := range 30 {
			k.put(m, i, i+1)
			k.put(m, i/2, i/2+1)
		}
		for i := range 10 {
			k.remove(m, i, i+1)
			k.put(m, i, i+1)
		}
		k.put(m, 0, 1000)
		k.put(m, 0, 1000)
		k.put(m, 500, 1000)
		k.remove(m, 300, 1000)
	}
	for i, m := range []*lw.Memory[*heavy]{k.left, k.right} { // relists
		m.Fail(errors.New("down"))
		k.put(m, 100*i, 200)
		k.remove(m, 100, 150)
		m.Compact()
		k.settle()
		m.Fail(nil)
		rig.Sleep(5 * time.Minute)
	}
	for _, m := range []*lw.Memory[*heavy]{k.left, k.right} {
		k.remove(m, 20, 100)
		k.remove(m, 150, 300)
		m.Compact()
		k.settle()
	}
}

func ofOne(k *keeper) func(*heavy) *heavy {
	return func(w *heavy) *heavy { return k.result(w.Name, w.Size) }
}

func ofAll(k *keeper) func(lw.Key, []*heavy) *heavy {
	return func(key lw.Key, all []*heavy) *heavy { return k.result(key.Name, all[0].Size) }
}

// length is a key that many share.
func length(w *heavy) int { return len(w.Name) }

// After any changes and a collection of garbage, the heap has what is shown.
func TestKeepsWhatIsShown(t *testing.T) {
	byName := lw.On[string, *heavy, *heavy]{
		Left:  lw.SingleKey(func(w *heavy) string { return w.Name }),
		Right: lw.SingleKey(func(w *heavy) string { return w.Name }),
	}
	pairOf := func(k *keeper) func(l, r *heavy) *heavy {
		return func(l, r *heavy) *heavy { return k.result(l.Name, l.Size+r.Size) }
	}
	for name, build := range map[string]func(k *keeper){
		"an informer": func(*keeper) {},
		"indexes": func(k *keeper) {
			byLength := lw.NewIndex(k.l, length)
			byNames := lw.NewMultiIndex(k.l, byName.Left)
			bySize := lw.NewSortedIndex(k.l, func(w *heavy) int { return w.Size })
			k.each = append(k.each, func() {
				byLength.List(2)
				byNames.List("w1")
				for range bySize.Up(0, 3) {
				}
			})
		},
		"handlers": func(k *keeper) {
			slow := k.l.AddHandler(lw.Handler[*heavy]{Add: func(*heavy) { time.Sleep(time.Second) }})
			filtered := k.l.AddHandler(lw.Handler[*heavy]{
				Filter: func(w *heavy) bool { return w.Size%2 == 0 }, Update: func(_, _ *heavy) { time.Sleep(time.Millisecond) }, EveryUpdate: true,
			})
			k.each = append(k.each, func() { rig.Sleep(time.Hour) })
			k.leave = func() { slow.Remove(); filtered.Remove() }
		},
		"events and followers": func(k *keeper) {
			ctx, cancel := context.WithCancel(k.t.Context())
			go func() {
				for range k.l.Events(ctx) {
				}
			}()
			go lw.Follow(ctx, k.l, emptyFollower{})
			k.leave = cancel
		},
		// What was kept as it was and set aside is forgotten with its object.
		"transform": func(k *keeper) {
			k.follow(lw.Transform(k.left, func(w *heavy) (*heavy, error) {
				switch w.Size % 4 {
				case 0:
					return nil, nil
				case 1:
					return nil, lw.ErrKeep
				case 2:
					return nil, errors.New("bad")
				}
				return k.result(w.Name, w.Size), nil
			}))
		},
		"poll": func(k *keeper) {
			k.follow(lw.Poll(func(context.Context) ([]*heavy, error) {
				all := []*heavy{}
				for w := range k.left.All() {
					all = append(all, k.result(w.Name, w.Size))
				}
				return all, nil
			}, time.Second))
		},
		"feed": func(k *keeper) {
			k.follow(lw.Feed(func(ctx context.Context, to *lw.Feeder[*heavy]) error {
				if err := to.Snapshot([]*heavy{}); err != nil {
					return err
				}
				for d := range k.l.Events(ctx) {
					var err error
					if d.Type == lw.Deleted {
						err = to.Change(nil, lw.KeyOf(k.result(d.Old.Name, 0)))
					} else {
						err = to.Change([]*heavy{k.result(d.New.Name, d.New.Size)})
					}
					if err != nil {
						return err
					}
				}
				return context.Cause(ctx)
			}))
		},
		"derive": func(k *keeper) {
			k.show(lw.Derive(k.g, k.l, ofOne(k)))
			many := lw.DeriveMany(k.g, k.l, func(w *heavy) iter.Seq[*heavy] {
				return func(yield func(*heavy) bool) {
					for i := range w.Size % 3 {
						if !yield(k.result(fmt.Sprint(w.Name, i), w.Size)) {
							return
						}
					}
				}
			})
			k.show(many)
			k.leave = func() { many.Close() }
		},
		"join": func(k *keeper) {
			k.show(lw.Join(k.g, k.l, k.r, byName, pairOf(k)))
		},
		"left join": func(k *keeper) {
			k.show(lw.LeftJoin(k.g, k.l, k.r, byName, func(l *heavy, all []*heavy) *heavy { return k.result(l.Name, l.Size+len(all)) }))
		},
		"group by": func(k *keeper) {
			k.show(lw.GroupBy(k.g, k.l, length, lw.Aggregate[*heavy, int]{
				Add:    func(acc int, w *heavy) int { return acc + w.Size },
				Remove: func(acc int, w *heavy) int { return acc - w.Size },
			}, func(n, acc int) *heavy { return k.result(fmt.Sprint(n), acc) }))
		},
		"group all": func(k *keeper) {
			k.show(lw.GroupAll(k.g, k.l, length, func(n int, all []*heavy) *heavy { return k.result(fmt.Sprint(n), all[0].Size) }))
			k.show(lw.GroupAll(k.g, k.l, lw.KeyOf, ofAll(k)))
		},
		"union": func(k *keeper) {
			d := lw.Derive(k.g, k.r, ofOne(k))
			u := lw.NewUnion[*heavy](k.g, k.l)
			k.show(u)
			remove := u.Add(d)
			k.each = append(k.each, func() { u.Derived.At(k.g.Snapshot()) })
			k.leave = func() { remove(); d.Close() }
		},
		"a log that is read": func(k *keeper) {
			q := lw.NewFIFO[*heavy]()
			c := q.Subscribe()
			rig.Start(k.t, lw.NewReflector(k.left, q, nil))
			go func() {
				for err := error(nil); err == nil; {
					_, err = c.Next(k.t.Context())
				}
			}()
			k.leave = c.Close
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			k := &keeper{t: t, left: lw.NewMemory[*heavy](), right: lw.NewMemory[*heavy](), g: lw.NewGraph(nil)}
			k.l, k.r = lw.NewInformer(k.left, rig.Quiet()), lw.NewInformer(k.right, rig.Quiet())
			k.shown = append(k.shown, k.left.All, k.right.All)
			k.show(k.l)
			k.show(k.r)
			k.put(k.left, 0, 40)
			k.put(k.right, 0, 40)
			build(k)
			rig.Start(t, k.l)
			rig.Start(t, k.r)
			rig.Start(t, k.g)
			rig.OK(t, k.g.WaitForSync(t.Context()))
			k.live()
			if kept := k.kept(k.shown); len(kept) > 0 {
				t.Errorf("%d objects are kept that nothing shows: %.300s", len(kept), fmt.Sprint(kept))
			}
			if k.leave == nil {
				return
			}
			k.leave()
			k.leave = nil // it has what the case has made
			k.settle()
			if kept := k.kept(k.shown); len(kept) > 0 {
				t.Errorf("%d objects are kept after the end: %.300s", len(kept), fmt.Sprint(kept))
			}
			runtime.KeepAlive(k)
		})
	}
}

type emptyFollower struct{}

func (emptyFollower) Begin(*lw.Snapshot[*heavy], bool) {}
func (emptyFollower) Change(lw.Delta[*heavy])          {}
func (emptyFollower) Progress(string)                  {}
