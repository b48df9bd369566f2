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
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
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
		rig.Same(t, "the labels are those of the last version", want, labelsOf(before) == labelsOf(after))
		// A list that brings the same, and one more.
		mustRelist(server, func() { done(gadgets.Create(newGadget("b", 1))) })
		rig.Sleep(time.Minute)
		mustSay(t, inf, func(s lw.Status) bool { return s.Objects == 2 && rig.Relists(s) == 1 })
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
	g := &rig.Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: rig.Key(name).Namespace, Name: name,
		Labels: map[string]string{"app": "gadgets"}}}
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
		"a shard": {true,
			func(src *lw.HTTP[*rig.Gadget]) lw.Source[*rig.Gadget] { return lw.Shard[*rig.Gadget](src, 0, 1) }, nil},
		"Whole": {false,
			func(src *lw.HTTP[*rig.Gadget]) lw.Source[*rig.Gadget] { src.Whole = true; return src }, nil},
		"a transform": {false, transformed, nil},
		"a shard of a transform": {false,
			func(src *lw.HTTP[*rig.Gadget]) lw.Source[*rig.Gadget] { return lw.Shard(transformed(src), 0, 1) }, nil},
		"a wrapper of somebody's own": {false, func(src *lw.HTTP[*rig.Gadget]) lw.Source[*rig.Gadget] { return wrapper{src} },
			nil},
		"a store that a test filled": {false, asIs,
			func(inf *lw.Informer[*rig.Gadget]) { inf.Fixture().Set(newGadget("a", 7)) }},
		"with an index": {true, asIs,
			func(inf *lw.Informer[*rig.Gadget]) { lw.NewIndex(inf, func(g *rig.Gadget) int { return g.Spec.Size }) }},
	} {
		t.Run(name, func(t *testing.T) { checkReuse(t, tt.want, tt.source, tt.prepare) })
	}
	t.Run("untyped", func(t *testing.T) {
		checkReuse(t, true,
			func(src *lw.HTTP[*unstructured.Unstructured]) lw.Source[*unstructured.Unstructured] { return src }, nil)
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

func (w wrapper) Watch(ctx context.Context, opts metav1.ListOptions,
	yield func(lw.WatchEvent[*rig.Gadget]) error) error {
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

// With DetectMutation, a list that brings an object as it was does not hide that it was changed.
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
			Backoff: every(time.Millisecond),
		})
		rig.Start(t, inf)
		rig.OK(t, inf.WaitForSync(t.Context()))
		w, _ := inf.Store().Get(rig.Key("1"))
		w.Spec.Size = 66
		mustRelist(server, func() { done(gadgets.Create(newGadget("b", 1))) })
		rig.Sleep(100 * time.Millisecond)
		rig.Same(t, "relists", 1, rig.Relists(inf.Status()))
	})
	rig.Same(t, "mutations", 1, len(errs.Mutations()))
}

// holder is a Sink that can be asked what it holds. It records what it is told.
type holder struct {
	recorder
	version string
	held    map[lw.Key]*rig.Widget
}

func (h *holder) Get(k lw.Key) (*rig.Widget, bool) { w, ok := h.held[k]; return w, ok }

func (h *holder) Replace(objs []*rig.Widget, version string) {
	h.recorder.Replace(objs, version)
	h.version = version
	clear(h.held)
	for _, w := range objs {
		h.held[lw.KeyOf(w)] = w
	}
}

func (h *holder) Apply(ev widgetEvent) {
	h.recorder.Apply(ev)
	if ev.Err != nil {
		h.got = append(h.got, "an error")
	}
	switch ev.Type {
	case watch.Added, watch.Modified:
		h.held[ev.Key()] = ev.Object
	case watch.Deleted:
		delete(h.held, ev.Key())
	}
}

// Behind a user's Sink a bad object stays as it was too, also through a list, where the Sink can be
// asked for it; the version waits for it, and the Sink is never handed an error.
func TestSinkKeepsWhatIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{badList("10", "c", "a1@9 b1@8"), badList("20", "b", "a2@15")},
			Watches: []rig.Stream{
				expiring(time.Minute, rig.BadEvent("b", "11"), modified("a2@15")),
				rig.Events(modified("b3@21"), rig.Bookmark("22")),
			},
		}
		sink := &holder{held: map[lw.Key]*rig.Widget{}}
		r := rig.ReflectInto(t, src, sink, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
		rig.Sleep(time.Second)
		mustSay(t, r, func(s lw.Status) bool { return s.ResourceVersion == "10" && len(s.SetAside) == 2 })
		rig.Sleep(90 * time.Second)
		want := []string{"replace a1 b1", "MODIFIED a2", "replace a2 b1", "MODIFIED b3", "BOOKMARK"}
		rig.Same(t, "calls of the sink", want, sink.got)
		mustSay(t, r, func(s lw.Status) bool { return s.ResourceVersion == "22" && len(s.SetAside) == 0 && s.Synced })
		// b is no newer.
		rig.Same(t, "the version of the list that was handed over", "10", sink.version)
	})
}

// A Sink that cannot be asked gets the list as it is, and is not told of what could not be read.
func TestSinkWithoutGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{listed("10", "a1@9 b1@8"), badList("20", "b", "a2@15")},
			Watches: []rig.Stream{expiring(time.Minute, rig.BadEvent("c", "11"), rig.Added("a", "12"), deleted("z1@13")),
				rig.Forever()},
		}
		sink := &recorder{}
		r := rig.ReflectInto(t, src, sink, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
		rig.Sleep(2 * time.Minute)
		// Nobody can tell that a was there, and z was not.
		rig.Same(t, "calls of the sink", []string{"replace a1 b1", "ADDED a1", "DELETED z1", "replace a2"}, sink.got)
		mustSay(t, r, func(s lw.Status) bool { return s.ResourceVersion == "20" && s.SetAside[rig.Key("b")] != nil })
	})
}

// What a Sink that can be asked knows better is a protocol error: an ADDED of what is there, a
// change of what is not. Both are applied, since they are true, and a list finds out what else was
// missed.
func TestChangesThatWereNotToCome(t *testing.T) {
	for _, tc := range map[string]struct {
		ev   widgetEvent
		want map[string]int
		text string
	}{
		"added":    {added("a2@11"), map[string]int{"a": 2}, "ADDED event of default/a, which was there already"},
		"modified": {modified("b2@11"), map[string]int{"a": 1, "b": 2}, "MODIFIED event of default/b, which was not there"},
		"deleted":  {deleted("b2@11"), map[string]int{"a": 1}, "DELETED event of default/b, which was not there"},
	} {
		for _, alone := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				src := &rig.Script{
					Lists:   []rig.Reply{listed("10", "a1@9"), {Err: context.DeadlineExceeded}},
					Watches: []rig.Stream{rig.Events(tc.ev), rig.Forever()},
				}
				errs := &rig.Errors{}
				opts := &lw.Options{List: lw.ListPages, OnError: errs.Add}
				var got lw.Reader[*rig.Widget]
				if alone {
					x := lw.NewIndexer[*rig.Widget]()
					rig.ReflectInto(t, src, x, opts)
					got = x
				} else {
					inf := lw.NewInformer[*rig.Widget](src, opts)
					rig.Start(t, inf)
					got = inf.Store()
				}
				rig.Sleep(100 * time.Millisecond)
				errs.MustHave(t, tc.text)
				rig.MustHold(t, got, "11", tc.want)
				rig.MustLog(t, src, "list limit 500", "watch 10", "list limit 500")
			})
		}
	}
}

// A Sink that can be asked what it holds is checked against as an informer's store is.
func TestSinkThatCanBeAsked(t *testing.T) {
	for name, tc := range map[string]struct {
		events []widgetEvent
		log    []string
	}{
		"an object that is added twice": {[]widgetEvent{rig.Added("a", "11")}, []string{"list", "watch 10", "list",
			"watch 30"}},
		"a change of what was never there": {[]widgetEvent{modified("x1@11")}, []string{"list", "watch 10", "list",
			"watch 30"}},
		"one version of two objects": {[]widgetEvent{modified("a2@11"), modified("b2@11")},
			[]string{"list", "watch 10"}},
		"one version of one object": {[]widgetEvent{modified("a2@11"), modified("a3@11")},
			[]string{"list", "watch 10", "list", "watch 30"}},
		"a bookmark, and then a change by one": {[]widgetEvent{rig.Bookmark("20"), modified("a2@21")},
			[]string{"list", "watch 10"}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{
				Lists:   []rig.Reply{listed("10", "a1@8 b1@9"), listed("30", "a3@20")},
				Watches: []rig.Stream{rig.Events(tc.events...), rig.Forever()},
			}
			store := lw.NewIndexer[*rig.Widget]()
			r := rig.ReflectInto(t, src, store, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
			rig.Sleep(5 * time.Second)
			rig.MustLog(t, src, tc.log...)
			rig.Same(t, "the version that the reflector reports", store.ResourceVersion(), r.Status().ResourceVersion)
		})
	}
}

// An Indexer of the user's own keeps what it had of what could not be read, over a relist too, and
// events after that do not move the version.
func TestAsideBehindAnIndexer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{listed("10", "a1@8 b1@9"), badList("30", "b", "a3@20")},
			Watches: []rig.Stream{
				expiring(time.Second, rig.BadEvent("b", "11"), modified("a2@12"), rig.Bookmark("13")),
				rig.Events(modified("a4@31")),
			},
		}
		store := lw.NewIndexer[*rig.Widget]()
		r := rig.ReflectInto(t, src, store, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		rig.Sleep(time.Minute)
		rig.MustHold(t, store, "10", map[string]int{"a": 4, "b": 1})
		mustSay(t, r, func(s lw.Status) bool { return s.ResourceVersion == "10" && len(s.SetAside) == 1 })
	})
}
