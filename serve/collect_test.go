package serve_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// boxes own parts.
var boxes = serve.Resource[*part]{Group: "example.io", Name: "boxes", Kind: "Box"}

const (
	aBox         = "/apis/example.io/v1/namespaces/n/boxes/box"
	noFinalizers = `{"metadata":{"finalizers":null}}`
)

// garbage is a server of boxes and parts with a garbage collector.
type garbage struct {
	*bubble
	boxes, parts *lw.Memory[*part]
}

func (b *bubble) garbage(r serve.Resource[*part]) *garbage {
	g := &garbage{b, lw.NewMemory[*part](), lw.NewMemory[*part]()}
	stored(b, g.parts, r)
	stored(b, g.boxes, boxes)
	return g
}

// own creates an object whose owners are given by their kinds and names.
func (g *garbage) own(in *lw.Memory[*part], name string, finalizer string, owners ...*part) *part {
	g.t.Helper()
	p := &part{}
	p.Namespace, p.Name = "n", name
	if finalizer != "" {
		p.Finalizers = []string{finalizer}
	}
	for _, o := range owners {
		kind := "Part"
		if _, err := g.boxes.Get(g.ctx, lw.KeyOf(o)); err == nil {
			kind = "Box"
		}
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: "example.io/v1", Kind: kind,
			Name: o.Name, UID: o.UID, BlockOwnerDeletion: new(true)})
	}
	p, err := in.Create(g.ctx, p)
	noErr(g.t, err)
	return p
}

// leaves checks which objects there are, with the number of their owners.
func (g *garbage) leaves(what, want string) {
	g.t.Helper()
	synctest.Wait()
	var all []string
	for p := range g.boxes.All() {
		all = append(all, p.Name)
	}
	for p := range g.parts.All() {
		all = append(all, fmt.Sprint(p.Name, len(p.OwnerReferences)))
	}
	slices.Sort(all)
	rig.Same(g.t, what, want, strings.Join(all, " "))
}

// gone deletes an object from its store.
func (g *garbage) gone(in *lw.Memory[*part], p *part) {
	g.t.Helper()
	noErr(g.t, second(in.Delete(g.ctx, lw.KeyOf(p), "")))
}

// The dependents of a deleted owner go after it, before it, or stay.
func TestCollect(t *testing.T) {
	for _, tt := range []struct{ policy, first, last string }{
		{"Background", "d1 y0", "y0"},
		{"Foreground", "box d1 y0", "y0"},
		{"Orphan", "a0 b1 c1 d0 y0", "a0 b1 c1 d0 y0"},
	} {
		inBubble(t, serve.Options{}, func(b *bubble) {
			g := b.garbage(parts)
			go b.h.Collect(b.ctx)
			box := g.own(g.boxes, "box", "")
			a := g.own(g.parts, "a", "", box)
			c := g.own(g.parts, "b", "", a)
			g.own(g.parts, "c", "", c)
			g.own(g.parts, "d", "example.io/held", box)
			g.own(g.parts, "y", "")
			g.leaves("before", "a1 b1 box c1 d1 y0")
			b.answers(200, "", "DELETE", aBox+"?propagationPolicy="+tt.policy, "")
			g.leaves(tt.policy, tt.first)
			b.answers(200, "", "PATCH", partsPath+"/d", noFinalizers, "Content-Type", mergeJSON)
			g.leaves(tt.policy+", when the last finalizer is gone", tt.last)
			if err := b.h.Collect(b.ctx); err == nil {
				t.Error("there are two collectors")
			}
		})
	}
}

// What is garbage already is found; an owner that is not served, or only later, is not gone; and a
// dependent whose deletion is refused is tried again, and holds up no other.
func TestCollectLate(t *testing.T) {
	r := parts
	var refuse atomic.Bool
	refuse.Store(true)
	r.Validate = func(_ context.Context, p, old *part) error {
		if p == nil && old.Name == "b" && refuse.Load() {
			return errors.New("not now")
		}
		return nil
	}
	var errs rig.Errors
	inBubble(t, serve.Options{OnError: errs.Add}, func(b *bubble) {
		g := &garbage{b, lw.NewMemory[*part](), lw.NewMemory[*part]()}
		box, lost := g.own(g.boxes, "box", ""), g.own(g.boxes, "lost", "")
		g.own(g.parts, "a", "", box)
		g.own(g.parts, "b", "", lost)
		g.own(g.parts, "c", "", lost)
		g.gone(g.boxes, lost)
		ctx, stop := context.WithCancel(b.ctx)
		go b.h.Collect(ctx)
		stored(b, g.parts, r)
		g.leaves("without the owners", "a1 b1 box c1")
		served, end := context.WithCancel(b.ctx)
		b.serve(func(context.Context) error { return serve.ServeStore(served, b.h, g.boxes, boxes) })
		g.leaves("with them", "a1 b1 box")
		errs.MustHave(t, "not now")
		refuse.Store(false)
		time.Sleep(time.Minute)
		g.leaves("later", "a1 box")
		rig.Same(t, "errors", 1, len(errs.All()))
		end() // what is served no more is not gone
		synctest.Wait()
		g.gone(g.boxes, box)
		g.leaves("after the end", "a1")
		stop()
		synctest.Wait()
		stored(b, g.boxes, boxes)
		g.leaves("without a collector", "a1")
		go b.h.Collect(b.ctx)
		g.leaves("by another collector", "")
	})
}

// A refusal is no race, whatever its code: it is tried again. What is not garbage any more is
// forgotten: when it is again, it does not wait for long.
func TestCollectPauses(t *testing.T) {
	for _, refusal := range []error{errors.New("not now"), apierrors.NewConflict(schema.GroupResource{}, "a",
		errors.New("not now")), apierrors.NewNotFound(schema.GroupResource{}, "not now")} {
		r := parts
		r.Validate = func(_ context.Context, p, _ *part) error {
			if p == nil {
				return refusal
			}
			return nil
		}
		var errs rig.Errors
		inBubble(t, serve.Options{OnError: errs.Add}, func(b *bubble) {
			g := b.garbage(r)
			go b.h.Collect(b.ctx)
			box := g.own(g.boxes, "box", "")
			a := g.own(g.parts, "a", "", box)
			g.gone(g.boxes, box)
			other := g.own(g.boxes, "other", "")
			kept := slices.Clone(a.OwnerReferences)
			kept[0].Name, kept[0].UID = other.Name, other.UID
			for _, free := range [][]metav1.OwnerReference{nil, kept} {
				var before int
				for _, owners := range [][]metav1.OwnerReference{free, a.OwnerReferences} {
					rig.Sleep(5 * time.Minute)
					before = len(errs.All())
					noErr(t, second(g.parts.Update(b.ctx, &part{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name,
						OwnerReferences: owners}})))
				}
				rig.Sleep(5 * time.Second)
				since := errs.All()[before:]
				if len(since) != 3 || !strings.Contains(since[0].Error(), "not now") { // after 0, 1 and 3 seconds
					t.Errorf("%v, after %d owners: %d errors: %v", refusal, len(free), len(since), since)
				}
			}
		})
	}
}

// Nothing is decided by what is not here yet: an owner whose dependents have not come is not let
// go, nor is one that has not come gone.
func TestCollectWaits(t *testing.T) {
	for _, late := range []string{"parts", "boxes"} {
		inBubble(t, serve.Options{OnError: func(error) {}}, func(b *bubble) {
			g := &garbage{b, lw.NewMemory[*part](), lw.NewMemory[*part]()}
			stores := map[string]*valve[*part]{"parts": newValve(g.parts), "boxes": newValve(g.boxes)}
			box := g.own(g.boxes, "box", "")
			for _, r := range []serve.Resource[*part]{parts, boxes} {
				r.Fresh = serve.FreshHere
				stored(b, stores[r.Name], r)
			}
			go b.h.Collect(b.ctx)
			synctest.Wait()
			stores[late].shut()
			if late == "parts" {
				g.own(g.parts, "a", "", box)
				g.own(g.parts, "b", "", box)
				b.answers(200, "", "DELETE", aBox+"?propagationPolicy=Orphan", "")
			} else {
				next := g.own(g.boxes, "next", "")
				g.own(g.parts, "a", "", box)
				g.own(g.parts, "b", "", next)
			}
			time.Sleep(2 * time.Second)
			before, after := "a1 b1 box", "a0 b0"
			if late == "boxes" {
				before, after = "a1 b1 box next", "a1 b1 box next"
			}
			g.leaves(late+" are late", before)
			stores[late].goOn()
			time.Sleep(time.Minute)
			g.leaves(late+" have come", after)
		})
	}
}

// Objects that own each other go, also if each waits for the other.
func TestCollectCycle(t *testing.T) {
	for _, deleted := range [][]string{{"a"}, {"a", "b", "c"}} {
		inBubble(t, serve.Options{OnError: func(err error) { t.Error(err) }}, func(b *bubble) {
			g := b.garbage(parts)
			a := g.own(g.parts, "a", "")
			last := g.own(g.parts, "c", "", g.own(g.parts, "b", "", a))
			a.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.io/v1", Kind: "Part", Name: "c", UID: last.UID,
				BlockOwnerDeletion: new(true)}}
			noErr(t, second(g.parts.Update(b.ctx, a)))
			for _, name := range deleted {
				b.answers(200, "", "DELETE", partsPath+"/"+name+"?propagationPolicy=Foreground", "")
			}
			go b.h.Collect(b.ctx)
			g.leaves(fmt.Sprint(deleted), "")
		})
	}
}

// A slowStore is a Memory whose Get of the part d waits.
type slowStore struct {
	*lw.Memory[*part]
	goOn chan struct{}
}

func (s slowStore) Get(ctx context.Context, key lw.Key) (*part, error) {
	if key.Name == "d" {
		<-s.goOn
	}
	return s.Memory.Get(ctx, key)
}

// What has changed between the collector's decision and its write is not deleted, and that is no
// error.
func TestCollectDecidesAnew(t *testing.T) {
	inBubble(t, serve.Options{OnError: func(err error) { t.Error(err) }}, func(b *bubble) {
		g := &garbage{b, lw.NewMemory[*part](), lw.NewMemory[*part]()}
		slow := slowStore{g.parts, make(chan struct{})}
		stored(b, slow, parts)
		stored(b, g.boxes, boxes)
		box := g.own(g.boxes, "box", "")
		d := g.own(g.parts, "d", "", box)
		g.gone(g.boxes, box)
		go b.h.Collect(b.ctx)
		synctest.Wait() // it has decided, and reads
		d.OwnerReferences = nil
		noErr(t, second(g.parts.Update(b.ctx, d)))
		synctest.Wait() // it knows
		close(slow.goOn)
		g.leaves("without an owner", "d0")
	})
}

// A deletecollection deletes what was written before it, also where readers want what is here.
func TestDeleteCollectionWaits(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		r := parts
		r.Fresh = serve.FreshHere
		late := stored(b, newValve(lw.NewMemory[*part]()), r)
		late.shut()
		b.answers(http.StatusCreated, "", "POST", partsPath, `{"metadata":{"name":"a"}}`)
		time.AfterFunc(time.Second, late.goOn)
		b.answers(http.StatusOK, `"name":"a"`, "DELETE", partsPath, "")
		b.answers(http.StatusNotFound, "", "GET", partsPath+"/a/scale", "") // which the store answers
	})
}

// An object that cannot be shown in one of its versions is there nevertheless, and holds up nobody.
func TestCollectVersions(t *testing.T) {
	inBubble(t, serve.Options{OnError: func(error) {}}, func(b *bubble) {
		g := b.garbage(parts)
		stored(b, serve.Converted(g.boxes, newer, older), newerParts("boxes", "Box"))
		go b.h.Collect(b.ctx)
		box, other := g.own(g.boxes, "box", ""), g.own(g.boxes, "other", "")
		g.own(g.parts, "a", "", box)
		g.own(g.parts, "b", "", other)
		box.Spec.Color = "unknown"
		noErr(t, second(g.boxes.Update(b.ctx, box)))
		for _, gone := range []struct {
			owner *part
			want  string
		}{{other, "a1 box"}, {box, ""}} {
			g.gone(g.boxes, gone.owner)
			time.Sleep(time.Minute)
			g.leaves("without "+gone.owner.Name, gone.want)
		}
	})
}

// An object that comes is looked at with those that it has to do with, and no others.
func BenchmarkCollect(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				collectAll(b, n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/object")
		})
	}
}

// collectAll deletes an owner of n objects, and waits until they are gone.
func collectAll(b *testing.B, n int) {
	b.StopTimer()
	h := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: quiet})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	m := lw.NewMemory[*part]()
	box, err := m.Create(ctx, &part{ObjectMeta: metav1.ObjectMeta{Name: "box", Namespace: "n"}})
	noErr(b, err)
	ref := metav1.OwnerReference{APIVersion: "example.io/v1", Kind: "Part", Name: "box", UID: box.UID}
	for i := range n {
		p := &part{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Namespace: "n",
			OwnerReferences: []metav1.OwnerReference{ref}}}
		noErr(b, second(m.Create(ctx, p)))
	}
	inf := lw.NewInformer(m, &lw.Options{Logger: quiet})
	go inf.Run(ctx)
	go serve.ServeStore(ctx, h, m, parts)
	go h.Collect(ctx)
	noErr(b, errors.Join(inf.WaitForSync(ctx), h.WaitForSync(ctx)))
	b.StartTimer()
	noErr(b, second(m.Delete(ctx, lw.KeyOf(box), "")))
	for changed := inf.Changed(ctx); inf.Store().Len() > 0; changed = inf.Changed(ctx) {
		<-changed
	}
}
