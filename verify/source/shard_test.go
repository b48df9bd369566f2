package source_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// inPart returns a widget whose UID is in part i of 2.
func inPart(i int, name string, size int, rv string) *rig.Widget {
	w := rig.Stamped(name, size, rv)
	for n := 0; partOf(w.UID, 2) != i; n++ {
		w.UID = types.UID(fmt.Sprintf("%s-%d", name, n))
	}
	return w
}

// The only part of one is the source itself: no selector is sent, and nothing is weaker.
func TestShardOfOne(t *testing.T) {
	m := lw.NewMemory[*rig.Widget]()
	if src := lw.Shard[*rig.Widget](m, 0, 1); src != lw.Source[*rig.Widget](m) {
		t.Errorf("got %v, want the source", src)
	}
}

// Every request has its options, and the selector of the part as apimachinery writes it.
func TestShardSelector(t *testing.T) {
	for i, want := range []sharding.ShardRangeRequirement{
		{Key: "object.metadata.uid", Start: "0x0000000000000000", End: "0x5555555555555555"},
		{Key: "object.metadata.uid", Start: "0x5555555555555555", End: "0xaaaaaaaaaaaaaaaa"},
		{Key: "object.metadata.uid", Start: "0xaaaaaaaaaaaaaaaa", End: "0x10000000000000000"},
	} {
		src := &rig.Script{Lists: []rig.Reply{rig.List("5")}, Watches: []rig.Stream{{}}}
		part := lw.Shard[*rig.Widget](src, i, 3)
		opts := metav1.ListOptions{LabelSelector: "a=b", Limit: 7, ResourceVersion: "4", ShardSelector: "another"}
		if _, err := part.List(t.Context(), opts, nil); err != nil {
			t.Fatal(err)
		}
		rig.OK(t, part.Watch(t.Context(), opts, nil))
		opts.ShardSelector = sharding.NewSelector(want).String()
		rig.Same(t, fmt.Sprintf("options of part %d", i), []metav1.ListOptions{opts, opts}, src.Options)
	}
}

// What a server says of the selector comes through every source. One that ignores it says nothing.
func TestShardInfo(t *testing.T) {
	const selector = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"
	info := &metav1.ShardInfo{Selector: selector}
	loose := &unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "4"}}}
	looseInfo := &unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{"shardInfo": map[string]any{"selector": selector}}}}
	typed := func(info *metav1.ShardInfo) lw.Source[*rig.Gadget] {
		return sourceOf[*rig.Gadget](func() *listOf[*rig.Gadget] { return &listOf[*rig.Gadget]{ListMeta: metav1.ListMeta{ShardInfo: info}} }, nil)
	}
	dynamic := func(l *unstructured.UnstructuredList) lw.Source[*unstructured.Unstructured] {
		return sourceOf[*unstructured.Unstructured](func() *unstructured.UnstructuredList { return l }, nil)
	}
	memory := lw.NewMemory(&rig.Gadget{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	server := lwtest.NewServer(t, lwtest.Resource{Group: "lw.test", Plural: "gadgets", Kind: "Gadget"})
	gadgets := lwtest.Objects[*rig.Gadget](server, "gadgets").Source()
	var contentType string
	partial := &lw.HTTP[*metav1.PartialObjectMetadata]{URL: gadgets.URL, Kind: "Gadget", Client: &http.Client{
		Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := gadgets.Client.Do(r)
			if err == nil {
				contentType = resp.Header.Get("Content-Type")
			}
			return resp, err
		}),
	}}
	for _, tt := range []struct {
		name string
		get  func() metav1.ListMeta
		want *metav1.ShardInfo
	}{
		{"a typed list", func() metav1.ListMeta { return listMeta(t, typed(info)) }, info},
		{"a typed list without", func() metav1.ListMeta { return listMeta(t, typed(nil)) }, nil},
		{"a dynamic list", func() metav1.ListMeta { return listMeta(t, dynamic(looseInfo)) }, info},
		{"a dynamic list without", func() metav1.ListMeta { return listMeta(t, dynamic(loose)) }, nil},
		{"Memory", func() metav1.ListMeta { return listMeta(t, lw.Shard[*rig.Gadget](memory, 1, 2)) }, info},
		{"Memory without", func() metav1.ListMeta { return listMeta[*rig.Gadget](t, memory) }, nil},
		{"HTTP in JSON", func() metav1.ListMeta { return listMeta(t, lw.Shard[*rig.Gadget](gadgets, 1, 2)) }, info},
		{"HTTP in protobuf", func() metav1.ListMeta { return listMeta(t, lw.Shard[*metav1.PartialObjectMetadata](partial, 1, 2)) }, info},
		{"HTTP without", func() metav1.ListMeta { return listMeta[*rig.Gadget](t, gadgets) }, nil},
		{"a server that changed its mind", func() metav1.ListMeta {
			server.SetShards(false)
			return listMeta(t, lw.Shard[*rig.Gadget](gadgets, 1, 2))
		}, nil},
	} {
		rig.Same(t, tt.name, tt.want, tt.get().ShardInfo)
	}
	if !strings.HasPrefix(contentType, "application/vnd.kubernetes.protobuf") {
		t.Errorf("the list in protobuf came as %s", contentType)
	}
}

// A selector that does not parse is refused, as a server with the feature gate refuses it.
func TestBadShardSelector(t *testing.T) {
	bad := metav1.ListOptions{ShardSelector: "object.metadata.uid == '1'"}
	_, err := lw.NewMemory[*rig.Widget]().List(t.Context(), bad, nil)
	if want := "invalid shard selector: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	rig.Same(t, "error of a watch", err.Error(), fmt.Sprint(lw.NewMemory[*rig.Widget]().Watch(t.Context(), bad, nil)))
}

func listMeta[T lw.Object](t *testing.T, src lw.Source[T]) metav1.ListMeta {
	t.Helper()
	m, err := src.List(t.Context(), metav1.ListOptions{}, func(T, error) error { return nil })
	rig.OK(t, err)
	return m
}

// A server that ignores the selector sends everything. The events of other parts are not shown, but
// move the version.
func TestShardOfServerThatIgnoresIt(t *testing.T) {
	for _, mode := range []lw.ListMode{lw.ListStream, lw.ListPages} {
		rig.Subtest(t, string(mode), func(t *testing.T) {
			ours, foreign := inPart(0, "a", 1, "1"), inPart(1, "b", 1, "2")
			m := lw.NewMemory(ours, foreign)
			ignores := lw.WithListOptions(m, func(o *metav1.ListOptions) { o.ShardSelector = "" })
			var log rig.Calls
			errs := &rig.Errors{}
			inf := lw.NewInformer(lw.Shard(ignores, 0, 2), &lw.Options{List: mode, OnError: errs.Add})
			inf.AddHandler(log.Handler())
			rig.Start(t, inf)
			log.MustBe(t, "add a1", "synced")
			rig.Update(t, m, "b", 2)
			rig.Update(t, m, "a", 2)
			rig.Remove(t, m, "b")
			rig.Create(t, m, "c", 3) // its UID is Memory's
			synctest.Wait()
			rig.OK(t, inf.WaitForResourceVersion(t.Context(), m.ResourceVersion()))
			c, _ := m.Get(t.Context(), rig.Key("c"))
			want := []string{"update a1 a2"}
			if partOf(c.UID, 2) == 0 {
				want = append(want, "add c3")
			}
			log.MustBe(t, want...)
			mustSay(t, inf, func(s lw.Status) bool { return len(errs.All()) == 0 && rig.Relists(s) == 0 })
		})
	}
}

// shardOf runs an informer of part 0 of 2 of src, which lists in pages and calls log.
func shardOf(t *testing.T, src *rig.Script, log *rig.Calls) (*lw.Informer[*rig.Widget], *rig.Errors) {
	t.Helper()
	errs := &rig.Errors{}
	inf := lw.NewInformer(lw.Shard[*rig.Widget](src, 0, 2), &lw.Options{List: lw.ListPages, OnError: errs.Add})
	inf.AddHandler(log.Handler())
	rig.Start(t, inf)
	synctest.Wait()
	return inf, errs
}

// An object of another part that has taken the key of ours shows that ours is gone, even if no
// deletion was sent.
func TestShardLosesKeyToAnotherPart(t *testing.T) {
	other := inPart(1, "a", 2, "6")
	undecoded := widgetEvent{
		Type: watch.Modified, ResourceVersion: "6",
		Err: &lw.Error{Op: "decode", Key: lw.KeyOf(other), UID: other.UID, Err: errors.New("odd")},
	}
	for name, ev := range map[string]widgetEvent{"decoded": rig.Modified(other), "not decoded": undecoded} {
		rig.Subtest(t, name, func(t *testing.T) {
			var log rig.Calls
			inf, errs := shardOf(t, &rig.Script{Lists: []rig.Reply{rig.List("5", inPart(0, "a", 1, "5"))}, Watches: []rig.Stream{rig.Events(ev)}}, &log)
			log.MustBe(t, "add a1", "synced", "delete a1")
			rig.MustHold(t, inf.Store(), "6", map[string]int{})
			errs.MustBeNone(t)
		})
	}
}

// Objects of one transaction have one version: those of other parts look like no event sent twice.
func TestShardOfOneVersion(t *testing.T) {
	for _, mode := range []lw.ListMode{lw.ListStream, lw.ListPages} {
		rig.Subtest(t, string(mode), func(t *testing.T) {
			ours := inPart(0, "a", 1, "6")
			changes := []widgetEvent{
				rig.Modified(inPart(0, "a", 2, "7")), rig.Modified(inPart(1, "b", 2, "7")), rig.Modified(inPart(1, "c", 2, "7")),
			}
			initial := []widgetEvent{
				{Type: watch.Added, Object: ours, ResourceVersion: "6"},
				{Type: watch.Added, Object: inPart(1, "b", 1, "6"), ResourceVersion: "6"},
				{Type: watch.Added, Object: inPart(1, "c", 1, "6"), ResourceVersion: "6"},
			}
			src := &rig.Script{
				Lists:   []rig.Reply{rig.List("6", ours, inPart(1, "b", 1, "6"), inPart(1, "c", 1, "6"))},
				Watches: []rig.Stream{rig.Events(changes...)},
				// The changes come before the initial events end.
				OnStream: func() rig.Stream { return rig.Events(append(append(initial, changes...), rig.End("7"))...) },
			}
			errs := &rig.Errors{}
			inf := rig.Run(t, lw.Shard[*rig.Widget](src, 0, 2), &lw.Options{List: mode, OnError: errs.Add})
			rig.MustHold(t, inf.Store(), "7", map[string]int{"a": 2})
			errs.MustBeNone(t)
		})
	}
}

// An object that cannot be decoded is set aside in its own part; in every part if its UID is
// unknown, and so is one without a UID.
func TestShardSetsAside(t *testing.T) {
	odd := func(w *rig.Widget) error {
		return &lw.Error{Op: "decode", Key: lw.KeyOf(w), UID: w.UID, Err: errors.New("odd")}
	}
	bare := func(name, rv string) *rig.Widget {
		w := rig.Stamped(name, 1, rv)
		w.UID = ""
		return w
	}
	oddEvent := func(w *rig.Widget, rv string) widgetEvent {
		return widgetEvent{Type: watch.Added, ResourceVersion: rv, Err: odd(w)}
	}
	first := rig.List("5", inPart(0, "a", 1, "5"), inPart(1, "b", 1, "5"), bare("bare", "5"))
	first.Bad = []error{odd(inPart(0, "ours", 1, "5")), odd(inPart(1, "foreign", 1, "5")), odd(bare("unknown", "5"))}
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{Lists: []rig.Reply{first}, Watches: []rig.Stream{rig.Events(
			oddEvent(inPart(0, "ours too", 1, "6"), "6"), oddEvent(inPart(1, "foreign too", 1, "7"), "7"),
			rig.Modified(bare("bare too", "8")), rig.Deleted(bare("bare", "9")),
		)}}
		var log rig.Calls
		inf, errs := shardOf(t, src, &log)
		log.MustBe(t, "add a1", "synced")
		aside := map[string]string{}
		for k, err := range inf.Status().SetAside {
			e, _ := errors.AsType[*lw.Error](err)
			aside[k.Name] = e.Op + ": " + e.Err.Error()
		}
		want := map[string]string{
			"ours":     "decode: odd",
			"unknown":  "decode: odd",
			"ours too": "decode: odd",
			"bare too": "shard: the object has no UID, by which Shard divides",
		}
		rig.Same(t, "set aside", want, aside)
		errs.MustHave(t, "lw: Widget: shard default/bare: the object has no UID, by which Shard divides")
		// The objects that were set aside on the watch hold back the version of the list.
		rig.MustHold(t, inf.Store(), "5", map[string]int{"a": 1})
	})
}

// A list that leaves out nearly everything makes progress all the same, and is not mistaken for one
// of which nothing can be used.
func TestShardWithoutObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.List("5", inPart(1, "b", 1, "5"))
		r.Bad = []error{&lw.Error{Op: "decode", Key: rig.Key("c"), Err: errors.New("odd")}}
		inf, _ := shardOf(t, &rig.Script{Lists: []rig.Reply{r}}, &rig.Calls{})
		rig.OK(t, inf.WaitForSync(t.Context()))
		rig.MustHold(t, inf.Store(), "5", map[string]int{})
	})
}

// A Transform around a Shard has the events of its part only, each once.
func TestTransformOfShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(inPart(0, "a", 1, "1"), inPart(1, "b", 1, "2"))
		var names []string
		withoutUID := lw.Transform(lw.Shard(m, 0, 2), func(w *rig.Widget) (*rig.Widget, error) {
			names = append(names, w.Name)
			w.UID = ""
			return w, nil
		})
		inf := rig.Run(t, withoutUID, nil)
		rig.Update(t, m, "b", 2)
		rig.Update(t, m, "a", 2)
		synctest.Wait()
		rig.MustHold(t, inf.Store(), m.ResourceVersion(), map[string]int{"a": 2})
		rig.Same(t, "transformed", []string{"a", "a"}, names)
	})
}

// The Source of a part keeps the rules of every Source, whether its server selects or not. All
// objects are in the part.
func TestShardIsSource(t *testing.T) {
	for _, selects := range []bool{true, false} {
		t.Run(fmt.Sprint("selects ", selects), func(t *testing.T) {
			lwtest.Source(t, func() lwtest.Subject[*rig.Widget] {
				m := lw.NewMemory[*rig.Widget]()
				var src lw.Source[*rig.Widget] = m
				if !selects {
					src = lw.WithListOptions(m, func(o *metav1.ListOptions) { o.ShardSelector = "" })
				}
				created := 0
				return lwtest.Subject[*rig.Widget]{
					Source: func() lw.Source[*rig.Widget] { return lw.Shard(src, 0, 2) },
					Object: func(key lw.Key, n int) *rig.Widget {
						return &rig.Widget{Meta: lw.Meta{Namespace: key.Namespace, Name: key.Name}, Size: n}
					},
					Create: func(w *rig.Widget) (*rig.Widget, error) {
						created++
						w.UID = inPart(0, fmt.Sprint(created), 0, "").UID
						return m.Create(t.Context(), w)
					},
					Update: rig.Plain[*rig.Widget]{Memory: m}.Update, Delete: rig.Plain[*rig.Widget]{Memory: m}.Delete, Compact: m.Compact, Disconnect: m.Disconnect, Bookmark: m.Bookmark,
				}
			})
		})
	}
}

// An event of the part costs no allocation.
func TestShardAllocations(t *testing.T) {
	ours, foreign := rig.Modified(inPart(0, "a", 1, "5")), rig.Modified(inPart(1, "b", 1, "5"))
	for name, tt := range map[string]struct {
		ev   widgetEvent
		want float64
	}{"ours": {ours, 0}, "foreign": {foreign, 1}} {
		src := &endless{ev: tt.ev}
		part := lw.Shard[*rig.Widget](src, 0, 2)
		watch := func(n int) float64 {
			src.n = n
			return testing.AllocsPerRun(1, func() {
				if err := part.Watch(context.Background(), metav1.ListOptions{}, func(widgetEvent) error { return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		// What a watch itself allocates is drawn under the race detector, which empties pools at random.
		rig.Same(t, name+": allocations an event", tt.want, math.Round((watch(1100)-watch(100))/1000))
	}
}

// endless is a Source whose watch yields one event n times.
type endless struct {
	lw.Source[*rig.Widget]
	ev widgetEvent
	n  int
}

func (e *endless) Watch(_ context.Context, _ metav1.ListOptions, yield func(widgetEvent) error) error {
	for range e.n {
		if err := yield(e.ev); err != nil {
			return err
		}
	}
	return nil
}

// The error of an object that cannot be used has its UID, by which Shard finds its part.
func TestErrorUID(t *testing.T) {
	odd := `{"metadata":{"namespace":"ns","name":"a","uid":"ua"},"spec":{"size":"x"}}`
	c, _, _ := rig.Answer(200, rig.ContentType("application/json"), `{"kind":"GadgetList","apiVersion":"lw.test/v1","metadata":{},"items":[`+odd+`]}`)
	item := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "ua"}}
	memory := lw.NewMemory(&rig.Gadget{ObjectMeta: item.ObjectMeta})
	transforms := func(f func(*rig.Gadget) (*rig.Gadget, error)) func(yield func(*rig.Gadget, error) error) error {
		return func(yield func(*rig.Gadget, error) error) error {
			_, err := lw.Transform(memory, f).List(t.Context(), metav1.ListOptions{}, yield)
			return err
		}
	}
	for name, read := range map[string]func(yield func(*rig.Gadget, error) error) error{
		"HTTP": func(yield func(*rig.Gadget, error) error) error {
			_, err := (&lw.HTTP[*rig.Gadget]{URL: "http://server/gadgets", Client: c}).List(t.Context(), metav1.ListOptions{}, yield)
			return err
		},
		"a list of another type": func(yield func(*rig.Gadget, error) error) error {
			list := func() *metav1.PartialObjectMetadataList {
				return &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{*item}}
			}
			_, err := sourceOf[*rig.Gadget](list, nil).List(t.Context(), metav1.ListOptions{}, yield)
			return err
		},
		"an event of another type": func(yield func(*rig.Gadget, error) error) error {
			src := &lw.ListWatch[*rig.Gadget, *listOf[*rig.Gadget]]{WatchFunc: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				w := watch.NewFakeWithChanSize(1, false)
				w.Add(item)
				return w, nil
			}}
			enough := errors.New("enough")
			err := src.Watch(t.Context(), metav1.ListOptions{}, func(ev lw.WatchEvent[*rig.Gadget]) error {
				return errors.Join(yield(ev.Object, ev.Err), enough)
			})
			if !errors.Is(err, enough) {
				return err
			}
			return nil
		},
		"a Transform that fails": transforms(func(*rig.Gadget) (*rig.Gadget, error) { return nil, errors.New("odd") }),
		"a Transform that takes the name away": transforms(func(g *rig.Gadget) (*rig.Gadget, error) {
			g.Name, g.UID = "", ""
			return g, nil
		}),
	} {
		var uids []types.UID
		err := read(func(_ *rig.Gadget, err error) error {
			if e, ok := errors.AsType[*lw.Error](err); ok {
				uids = append(uids, e.UID)
			}
			return nil
		})
		if err != nil {
			t.Error(name, err)
		}
		rig.Same(t, name, []types.UID{"ua"}, uids)
	}
}

// A nil object belongs to no part. Each passes it on, so that it is reported.
func TestShardOfNil(t *testing.T) {
	for i := range 2 {
		src := &rig.Script{Lists: []rig.Reply{rig.List("20", nil)}}
		nils := 0
		_, err := lw.Shard[*rig.Widget](src, i, 2).List(t.Context(), metav1.ListOptions{}, func(w *rig.Widget, err error) error {
			if w == nil && err == nil {
				nils++
			}
			return nil
		})
		if err != nil || nils != 1 {
			t.Errorf("part %d: %v, %d nil objects", i, err, nils)
		}
	}
}
