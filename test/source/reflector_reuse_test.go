package source_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/lwtest"
)

// labelsOf returns where the labels of obj are.
func labelsOf(obj metav1.Object) uintptr {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return reflect.ValueOf(u.Object["metadata"].(map[string]any)["labels"]).Pointer()
	}
	return reflect.ValueOf(obj.GetLabels()).Pointer()
}

// checkReuse writes an object twice, and then makes the informer list anew. It checks whether the
// second version has the labels of the first, and whether the list leaves the object as it is.
func checkReuse[T interface {
	lw.Object
	metav1.Object
}](t *testing.T, want bool, source func(*lw.HTTP[T]) lw.Source[T], prepare func(*lw.Informer[T])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Group: "lw.test", Plural: "gadgets", Kind: "Gadget"})
		gadgets := lwtest.Objects[*rig.Gadget](server, "gadgets")
		g := done(gadgets.Create(newGadget("a", 1)))
		src := &lw.HTTP[T]{URL: gadgets.Source().URL, Client: server.Client()}
		inf := lw.NewInformer(source(src), nil)
		if prepare != nil {
			prepare(inf)
		}
		rig.Start(t, inf)
		rig.OK(t, inf.WaitForSync(t.Context()))
		before, _ := inf.Store().Get(rig.Key("a"))
		g.Spec.Size = 2
		g = done(gadgets.Update(g))
		synctest.Wait()
		after, _ := inf.Store().Get(rig.Key("a"))
		if after.GetResourceVersion() != g.ResourceVersion {
			t.Fatalf("the store has version %s, want %s", after.GetResourceVersion(), g.ResourceVersion)
		}
		if got := labelsOf(before) == labelsOf(after); got != want {
			t.Errorf("the labels are those of the last version: %v, want %v", got, want)
		}
		// A list that brings the same, and one more.
		mustRelist(server, func() { done(gadgets.Create(newGadget("b", 1))) })
		rig.Sleep(time.Minute)
		if n := inf.Store().Len(); n != 2 || rig.Relists(inf.Status()) != 1 {
			t.Fatalf("%d objects after %d relists", n, rig.Relists(inf.Status()))
		}
		if again, _ := inf.Store().Get(rig.Key("a")); !reflect.DeepEqual(after, again) {
			t.Errorf("the list has changed %v to %v", after, again)
		}
	})
}

// mustRelist cuts the watches and forgets the history of the change before they can be resumed.
func mustRelist(server *lwtest.Server, change func()) {
	server.SetDown(true)
	server.Cut()
	change()
	server.Compact()
	server.SetDown(false)
}

// done returns the object that a server has written.
func done(g *rig.Gadget, err error) *rig.Gadget {
	if err != nil {
		panic(err)
	}
	return g
}

func newGadget(name string, size int) *rig.Gadget {
	g := &rig.Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: rig.Key(name).Namespace, Name: name, Labels: map[string]string{"app": "gadgets"}}}
	g.Spec.Size = size
	return g
}

// Where the source decodes, and nobody else writes to the store, a version takes from the last one
// what did not change.
func TestReuse(t *testing.T) {
	asIs := func(src *lw.HTTP[*rig.Gadget]) lw.Source[*rig.Gadget] { return src }
	transformed := func(src *lw.HTTP[*rig.Gadget]) lw.Source[*rig.Gadget] {
		return lw.Transform(src, func(g *rig.Gadget) (*rig.Gadget, error) { return g, nil })
	}
	for name, tt := range map[string]struct {
		want    bool
		source  func(*lw.HTTP[*rig.Gadget]) lw.Source[*rig.Gadget]
		prepare func(*lw.Informer[*rig.Gadget])
	}{
		"HTTP": {true, asIs, nil},
		"with options": {true, func(src *lw.HTTP[*rig.Gadget]) lw.Source[*rig.Gadget] {
			return lw.WithListOptions[*rig.Gadget](src, func(*metav1.ListOptions) {})
		}, nil},
		"a shard":                     {true, func(src *lw.HTTP[*rig.Gadget]) lw.Source[*rig.Gadget] { return lw.Shard[*rig.Gadget](src, 0, 1) }, nil},
		"Whole":                       {false, func(src *lw.HTTP[*rig.Gadget]) lw.Source[*rig.Gadget] { src.Whole = true; return src }, nil},
		"a transform":                 {false, transformed, nil},
		"a shard of a transform":      {false, func(src *lw.HTTP[*rig.Gadget]) lw.Source[*rig.Gadget] { return lw.Shard(transformed(src), 0, 1) }, nil},
		"a wrapper of somebody's own": {false, func(src *lw.HTTP[*rig.Gadget]) lw.Source[*rig.Gadget] { return wrapper{src} }, nil},
		"a store that a test filled":  {false, asIs, func(inf *lw.Informer[*rig.Gadget]) { inf.Fixture().Set(newGadget("a", 7)) }},
		"with an index":               {true, asIs, func(inf *lw.Informer[*rig.Gadget]) { lw.NewIndex(inf, func(g *rig.Gadget) int { return g.Spec.Size }) }},
	} {
		t.Run(name, func(t *testing.T) { checkReuse(t, tt.want, tt.source, tt.prepare) })
	}
	t.Run("untyped", func(t *testing.T) {
		checkReuse(t, true, func(src *lw.HTTP[*unstructured.Unstructured]) lw.Source[*unstructured.Unstructured] { return src }, nil)
	})
	t.Run("metadata", func(t *testing.T) {
		checkReuse(t, true, func(src *lw.HTTP[*metav1.PartialObjectMetadata]) lw.Source[*metav1.PartialObjectMetadata] {
			src.Kind = "Gadget"
			return src
		}, nil)
	})
}

// A wrapper yields other objects than its source has decoded.
type wrapper struct{ lw.Source[*rig.Gadget] }

func (w wrapper) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*rig.Gadget]) error) error {
	return w.Source.Watch(ctx, opts, func(ev lw.WatchEvent[*rig.Gadget]) error {
		if ev.Object != nil {
			ev.Object = ev.Object.DeepCopyObject().(*rig.Gadget)
		}
		return yield(ev)
	})
}

// A user's Sink may have anything, so nothing of it is lent.
func TestReuseNotOfASink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Group: "lw.test", Plural: "gadgets", Kind: "Gadget"})
		gadgets := lwtest.Objects[*rig.Gadget](server, "gadgets")
		g := done(gadgets.Create(newGadget("a", 1)))
		sink := lw.NewIndexer[*rig.Gadget]()
		rig.Start(t, lw.NewReflector(gadgets.Source(), sink, nil))
		synctest.Wait()
		before, _ := sink.Get(rig.Key("a"))
		g.Spec.Size = 2
		done(gadgets.Update(g))
		synctest.Wait()
		after, _ := sink.Get(rig.Key("a"))
		if before == nil || after == nil || before == after || labelsOf(before) == labelsOf(after) {
			t.Errorf("%v and %v share labels", before, after)
		}
	})
}

// With DetectMutation, a list that brings an object as it was does not hide that the object was
// changed.
func TestReuseKeepsMutationsVisible(t *testing.T) {
	errs := &rig.Errors{}
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Group: "lw.test", Plural: "gadgets", Kind: "Gadget"})
		gadgets := lwtest.Objects[*rig.Gadget](server, "gadgets")
		for i := range 3 {
			done(gadgets.Create(newGadget(fmt.Sprint(i), 1)))
		}
		inf := lw.NewInformer[*rig.Gadget](gadgets.Source(), &lw.Options{
			DetectMutation: true, OnError: errs.Add, List: lw.ListWhole,
			// The list comes before the next look at the cache.
			Backoff: func(int) time.Duration { return time.Millisecond },
		})
		rig.Start(t, inf)
		rig.OK(t, inf.WaitForSync(t.Context()))
		w, _ := inf.Store().Get(rig.Key("1"))
		w.Spec.Size = 66
		mustRelist(server, func() { done(gadgets.Create(newGadget("b", 1))) })
		rig.Sleep(100 * time.Millisecond)
		if rig.Relists(inf.Status()) != 1 {
			t.Errorf("%d relists", rig.Relists(inf.Status()))
		}
	})
	if n := len(errs.Mutations()); n != 1 {
		t.Errorf("%d mutations were found, want 1: %v", n, errs.All())
	}
}
