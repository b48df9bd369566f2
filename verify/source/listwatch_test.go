package source_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"weak"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// An appliance is a type as a code generator makes them.
type appliance struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Size int
}

func (a *appliance) DeepCopyObject() kruntime.Object {
	out := *a
	out.ObjectMeta = *a.ObjectMeta.DeepCopy()
	return &out
}

type applianceList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []appliance
}

func (l *applianceList) DeepCopyObject() kruntime.Object {
	out := *l
	out.Items = slices.Clone(l.Items)
	return &out
}

// listOf is a list of pointers, and objectList one of what its decoder found.
type listOf[T kruntime.Object] struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []T
}

func (l *listOf[T]) DeepCopyObject() kruntime.Object { panic("not used") }

type objectList = listOf[kruntime.Object]

// noList has no items.
type noList struct {
	metav1.TypeMeta
	metav1.ListMeta
}

func (l *noList) DeepCopyObject() kruntime.Object { panic("not used") }

func newAppliance(name, rv string, size int) *appliance {
	return &appliance{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-" + "x", ResourceVersion: rv}, Size: size}
}

var version10 = metav1.ListMeta{ResourceVersion: "10"}

// sourceOf lists what f returns; watch is watched each time.
func sourceOf[T lw.Object, L kruntime.Object](f func() L, w watch.Interface) *lw.ListWatch[T, L] {
	return &lw.ListWatch[T, L]{
		ListFunc:  func(context.Context, metav1.ListOptions) (L, error) { return f(), nil },
		WatchFunc: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return w, nil },
	}
}

// listOnce returns what a source of list yields, as "name" or "error: text".
func listOnce[T lw.Object, L kruntime.Object](t *testing.T, list L) []string {
	t.Helper()
	var got []string
	m, err := sourceOf[T](func() L { return list }, nil).List(t.Context(), metav1.ListOptions{}, func(obj T, err error) error {
		if err != nil {
			got = append(got, "error: "+err.Error())
		} else {
			got = append(got, obj.GetName())
		}
		return nil
	})
	if err != nil {
		got = append(got, "failed: "+err.Error())
	} else if m.ResourceVersion != "10" {
		t.Errorf("version %q", m.ResourceVersion)
	}
	return got
}

func TestListTypes(t *testing.T) {
	ab := []string{"a", "b"}
	partial := func(name string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	loose := func(name string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
	}
	untyped := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{loose("a"), loose("b")}}
	untyped.SetResourceVersion("10")
	a, b := newAppliance("a", "1", 1), newAppliance("b", "2", 2)
	for name, tc := range map[string]struct{ got, want []string }{
		"values":       {listOnce[*appliance](t, &applianceList{ListMeta: version10, Items: []appliance{*a, *b}}), ab},
		"pointers":     {listOnce[*appliance](t, &listOf[*appliance]{ListMeta: version10, Items: []*appliance{a, b}}), ab},
		"interfaces":   {listOnce[*appliance](t, &objectList{ListMeta: version10, Items: []kruntime.Object{a, b}}), ab},
		"unstructured": {listOnce[*unstructured.Unstructured](t, untyped), ab},
		"metadata":     {listOnce[*metav1.PartialObjectMetadata](t, &metav1.PartialObjectMetadataList{ListMeta: version10, Items: []metav1.PartialObjectMetadata{partial("a"), partial("b")}}), ab},
		"none":         {listOnce[*appliance](t, &applianceList{ListMeta: version10}), nil},

		// Wrong ones: the error names both types, and the object where it has a name.
		"a list of something else": {listOnce[*appliance](t, &metav1.PartialObjectMetadataList{ListMeta: version10, Items: []metav1.PartialObjectMetadata{partial("a")}}),
			[]string{"error: lw: decode a: list *v1.PartialObjectMetadataList holds a *v1.PartialObjectMetadata, not a *source_test.appliance"}},
		"one of something else": {listOnce[*appliance](t, &objectList{ListMeta: version10, Items: []kruntime.Object{a, &metav1.PartialObjectMetadata{}, b}}),
			[]string{"a", "error: lw: decode: list *source_test.listOf[k8s.io/apimachinery/pkg/runtime.Object] holds a *v1.PartialObjectMetadata, not a *source_test.appliance", "b"}},
		"a nil pointer": {listOnce[*appliance](t, &listOf[*appliance]{ListMeta: version10, Items: []*appliance{nil, b}}),
			[]string{"error: lw: decode: item 0 of *source_test.listOf[*github.com/go-lw/lw/verify/source_test.appliance] is nil", "b"}},
		"a nil interface": {listOnce[*appliance](t, &objectList{ListMeta: version10, Items: []kruntime.Object{nil, b}}),
			[]string{"error: lw: decode: list *source_test.listOf[k8s.io/apimachinery/pkg/runtime.Object] holds a nil object, not a *source_test.appliance", "b"}},
		"a nil pointer in an interface": {listOnce[*appliance](t, &objectList{ListMeta: version10, Items: []kruntime.Object{(*appliance)(nil), b}}),
			[]string{"error: lw: decode: list *source_test.listOf[k8s.io/apimachinery/pkg/runtime.Object] holds a nil *source_test.appliance, not a *source_test.appliance", "b"}},
		"an object": {listOnce[*appliance](t, a),
			[]string{"failed: lw: ListWatch: ListFunc returned a *source_test.appliance: object does not implement the List interfaces"}},
		"nil": {listOnce[*appliance](t, kruntime.Object(nil)), []string{"failed: lw: ListWatch: ListFunc returned a nil object"}},
		"no items": {listOnce[*appliance](t, &noList{ListMeta: version10}),
			[]string{"failed: lw: ListWatch: *source_test.noList has no items: expected pointer, but got invalid kind"}},
		"a table": {listOnce[*appliance](t, &metav1.Table{ListMeta: version10}),
			[]string{"failed: lw: ListWatch: *v1.Table has no items: expected pointer, but got invalid kind"}},
		"a nil list": {listOnce[*appliance](t, (*applianceList)(nil)),
			[]string{"failed: lw: ListWatch: ListFunc returned a nil *source_test.applianceList"}},
	} {
		t.Run(name, func(t *testing.T) {
			if len(tc.want) == 1 && strings.Contains(tc.want[0], "has no items") && len(tc.got) == 1 && strings.HasPrefix(tc.got[0], tc.want[0][:40]) {
				return // the rest is apimachinery's
			}
			rig.Same(t, "list", tc.want, tc.got)
		})
	}
}

// One object that stays in a store does not keep the page that it came in.
func TestItemsDoNotPinTheirPage(t *testing.T) {
	const items = 1000
	l := &applianceList{ListMeta: version10, Items: make([]appliance, items)}
	for i := range l.Items {
		l.Items[i] = *newAppliance(fmt.Sprint(i), "1", i)
	}
	page := weak.Make(&l.Items[0])
	var kept *appliance
	src := sourceOf[*appliance](func() *applianceList { return l }, nil)
	if _, err := src.List(t.Context(), metav1.ListOptions{}, func(g *appliance, err error) error {
		if g.Size == items/2 {
			kept = g
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	l, src = nil, nil
	runtime.GC()
	if page.Value() != nil {
		t.Error("an item keeps its page")
	}
	rig.Same(t, "the item", items/2, kept.Size)
}

// watchOnce sends evs and returns what is yielded, and how the watch ended.
func watchOnce(t *testing.T, evs ...watch.Event) (got []lw.WatchEvent[*appliance], err error) {
	t.Helper()
	w := watch.NewFakeWithChanSize(len(evs), true)
	for _, ev := range evs {
		w.Action(ev.Type, ev.Object)
	}
	w.Stop()
	err = sourceOf[*appliance](func() *applianceList { return nil }, w).Watch(t.Context(), metav1.ListOptions{}, func(ev lw.WatchEvent[*appliance]) error {
		got = append(got, ev)
		return nil
	})
	return got, err
}

func TestListWatchEvents(t *testing.T) {
	g := newAppliance("a", "11", 1)
	marked := newAppliance("", "12", 0)
	marked.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	unmarked := newAppliance("", "13", 0)
	unmarked.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "false"}
	got, err := watchOnce(t,
		watch.Event{Type: watch.Added, Object: g}, watch.Event{Type: watch.Modified, Object: g}, watch.Event{Type: watch.Deleted, Object: g},
		watch.Event{Type: watch.Bookmark, Object: marked}, watch.Event{Type: watch.Bookmark, Object: unmarked},
		// A bookmark may be of any type that has metadata.
		watch.Event{Type: watch.Bookmark, Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "14"}}},
	)
	rig.OK(t, err)
	want := []lw.WatchEvent[*appliance]{
		{Type: watch.Added, Object: g, ResourceVersion: "11"}, {Type: watch.Modified, Object: g, ResourceVersion: "11"},
		{Type: watch.Deleted, Object: g, ResourceVersion: "11"},
		{Type: watch.Bookmark, ResourceVersion: "12", InitialEventsEnd: true}, {Type: watch.Bookmark, ResourceVersion: "13"},
		{Type: watch.Bookmark, ResourceVersion: "14"},
	}
	if !slices.EqualFunc(want, got, func(a, b lw.WatchEvent[*appliance]) bool {
		return a.Type == b.Type && a.Object == b.Object && a.ResourceVersion == b.ResourceVersion && a.InitialEventsEnd == b.InitialEventsEnd && b.Err == nil
	}) {
		t.Errorf("events: %+v", got)
	}
}

func TestListWatchBadEvents(t *testing.T) {
	other := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", ResourceVersion: "11"}}
	var none *appliance
	for name, tc := range map[string]struct {
		ev       watch.Event
		key      lw.Key
		err, end string
	}{
		"of another type": {watch.Event{Type: watch.Added, Object: other}, rig.Key("a"), "ADDED event holds a *v1.PartialObjectMetadata, not a *source_test.appliance", ""},
		"without object":  {watch.Event{Type: watch.Modified}, lw.Key{}, "MODIFIED event holds a nil object, not a *source_test.appliance", ""},
		"a nil pointer":   {watch.Event{Type: watch.Deleted, Object: none}, lw.Key{}, "DELETED event holds a nil *source_test.appliance, not a *source_test.appliance", ""},
		"a table":         {watch.Event{Type: watch.Added, Object: &metav1.Table{}}, lw.Key{}, "ADDED event holds a *v1.Table, not a *source_test.appliance", ""},
		"unknown type":    {watch.Event{Type: "WEIRD", Object: newAppliance("a", "11", 1)}, lw.Key{}, "", `event of unknown type "WEIRD"`},
		"bookmark of nil": {watch.Event{Type: watch.Bookmark}, lw.Key{}, "", "bookmark of type <nil> has no metadata"},
		"error of status": {watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "etcd went away"}}, lw.Key{}, "", "etcd went away"},
		"error of nil":    {watch.Event{Type: watch.Error}, lw.Key{}, "", "unexpected object"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := watchOnce(t, tc.ev, watch.Event{Type: watch.Added, Object: newAppliance("b", "12", 1)})
			if tc.end != "" {
				if len(got) != 0 || err == nil || !strings.Contains(err.Error(), tc.end) {
					t.Errorf("the watch ended with %v after %v", err, got)
				}
				return
			}
			if err != nil || len(got) != 2 || got[1].Err != nil {
				t.Fatalf("the watch ended with %v after %v", err, got)
			}
			var e *lw.Error
			if !errors.As(got[0].Err, &e) || e.Op != "decode" || e.Key != tc.key || e.Err.Error() != tc.err || got[0].Key() != tc.key ||
				(got[0].ResourceVersion == "11") != (tc.ev.Object == other) {
				t.Errorf("the event's error is %v", got[0].Err)
			}
		})
	}
}

func TestListWatchWithoutFunctions(t *testing.T) {
	src := &lw.ListWatch[*appliance, *applianceList]{}
	_, err := src.List(t.Context(), metav1.ListOptions{}, nil)
	rig.Same(t, "List", "lw: ListWatch: nil ListFunc", fmt.Sprint(err))
	err = src.Watch(t.Context(), metav1.ListOptions{}, nil)
	rig.Same(t, "Watch", "lw: ListWatch: nil WatchFunc", fmt.Sprint(err))
	if err := sourceOf[*appliance](func() *applianceList { return nil }, nil).Watch(t.Context(), metav1.ListOptions{}, nil); err == nil ||
		err.Error() != "lw: ListWatch: WatchFunc returned a nil watch" {
		t.Errorf("Watch of nil: %v", err)
	}
}

// The watch is stopped however it ends: the context, the yield, an ERROR event.
func TestListWatchStopsTheWatch(t *testing.T) {
	enough := errors.New("enough")
	for name, tc := range map[string]struct {
		ev   watch.Event
		want func(error) bool
	}{
		"context": {watch.Event{}, func(err error) bool { return errors.Is(err, context.Canceled) }},
		"yield":   {watch.Event{Type: watch.Added, Object: newAppliance("a", "11", 1)}, func(err error) bool { return err == enough }},
		"error":   {watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired("old").ErrStatus}, apierrors.IsResourceExpired},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch.NewFakeWithChanSize(1, true)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.ev.Type == "" {
				cancel()
			} else {
				w.Action(tc.ev.Type, tc.ev.Object)
			}
			err := sourceOf[*appliance](func() *applianceList { return nil }, w).Watch(ctx, metav1.ListOptions{}, func(lw.WatchEvent[*appliance]) error { return enough })
			if !tc.want(err) || !w.IsStopped() {
				t.Errorf("Watch: %v; stopped: %v", err, w.IsStopped())
			}
		})
	}
}

// An applianceClient is as a code generator makes them.
type applianceClient struct {
	options []metav1.ListOptions
	list    *applianceList
	w       watch.Interface
}

func (c *applianceClient) Get(context.Context, string, metav1.GetOptions) (*appliance, error) {
	panic("not called")
}

func (c *applianceClient) List(_ context.Context, opts metav1.ListOptions) (*applianceList, error) {
	c.options = append(c.options, opts)
	return c.list, nil
}

func (c *applianceClient) Watch(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	c.options = append(c.options, opts)
	return c.w, nil
}

// holds makes items what the client lists.
func (c *applianceClient) holds(items ...appliance) {
	c.list = &applianceList{ListMeta: version10, Items: items}
}

// FromClient infers all types; the tweaks see the options of each request and narrow them.
func TestFromClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &applianceClient{list: &applianceList{ListMeta: version10, Items: []appliance{*newAppliance("a", "9", 1)}}, w: watch.NewProxyWatcher(nil)}
		src := lw.FromClient(c, func(o *metav1.ListOptions) { o.LabelSelector = "app=web" }, func(o *metav1.ListOptions) { o.LabelSelector += ",tier=1" })
		narrowed := lw.WithListOptions(lw.Source[*appliance](src), func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=a" })
		inf := lw.NewInformer(narrowed, &lw.Options{List: lw.ListPages})
		stop := rig.Begin(t, inf)
		rig.OK(t, inf.WaitForSync(t.Context()))
		synctest.Wait()
		stop()
		rig.Same(t, "requests: a list and a watch", 2, len(c.options))
		for _, o := range c.options {
			rig.Same(t, "selectors", "app=web,tier=1 metadata.name=a", o.LabelSelector+" "+o.FieldSelector)
		}
		rig.Same(t, "version that the watch began at", "10", c.options[1].ResourceVersion)
	})
}

// The error of a client's watch says what was watched, also if an event ends it.
func TestFromClientNamesWhatEnded(t *testing.T) {
	events := make(chan watch.Event, 1)
	events <- watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "etcd went away", Code: 500}}
	src := lw.FromClient(&applianceClient{w: watch.NewProxyWatcher(events)}, func(o *metav1.ListOptions) { o.LabelSelector = "app=web" })
	err := src.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=a"}, nil)
	if want := `lw: FromClient: appliance, label selector "app=web", field selector "metadata.name=a": etcd went away`; err == nil || err.Error() != want {
		t.Errorf("the watch ended with %v, want %s", err, want)
	}
}

// What a list says of itself is what List returns; an error of ListFunc is List's.
func TestListWatchMeta(t *testing.T) {
	left := int64(7)
	want := metav1.ListMeta{ResourceVersion: "10", Continue: "c", RemainingItemCount: &left}
	list := &listOf[*appliance]{ListMeta: want}
	var fails error
	src := &lw.ListWatch[*appliance, *listOf[*appliance]]{ListFunc: func(context.Context, metav1.ListOptions) (*listOf[*appliance], error) { return list, fails }}
	got, err := src.List(t.Context(), metav1.ListOptions{}, nil)
	rig.OK(t, err)
	rig.Same(t, "metadata", want, got)
	fails = errors.New("down")
	if _, err := src.List(t.Context(), metav1.ListOptions{}, nil); err != fails {
		t.Errorf("got %v, want what ListFunc returned", err)
	}
}

// An answer proves something only if it is of the version asked for and of the object alone.
func TestStillHasByList(t *testing.T) {
	id := lw.Meta{Namespace: "default", Name: "a", UID: "uid-a", ResourceVersion: "7"}
	const no, useless = "false <nil>", "unsupported"
	for name, tc := range map[string]struct {
		answer rig.Reply
		id     lw.Meta
		want   string
	}{
		"the object":              {listed("10", "a1@7"), id, "true <nil>"},
		"without a UID":           {listed("10", "a1@7"), lw.Meta{Namespace: "default", Name: "a", ResourceVersion: "7"}, "true <nil>"},
		"another version of it":   {listed("10", "a1@8"), id, no},
		"another one of its name": {rig.List("10", &rig.Widget{Meta: lw.Meta{Namespace: "default", Name: "a", UID: "x", ResourceVersion: "7"}}), id, no},
		"none":                    {rig.List("10"), id, no},
		"a list of now":           {listed("11", "a1@8"), id, useless},
		"an empty list of now":    {rig.List("11"), id, useless},
		"no selection":            {listed("10", "b1@8"), id, useless},
		"all objects":             {listed("10", "b1@8 a1@7"), id, "true <nil>"},
		"what cannot be read":     {rig.Reply{Bad: []error{errors.New("sick")}, Meta: metav1.ListMeta{ResourceVersion: "10"}}, id, useless},
		"one that cannot be read": {rig.Reply{Bad: []error{&lw.Error{Key: lw.KeyOf(&id), Err: errors.New("sick")}}, Meta: metav1.ListMeta{ResourceVersion: "10"}}, id, no},
		"another that cannot be":  {rig.Reply{Bad: []error{&lw.Error{Key: rig.Key("b"), Err: errors.New("sick")}}, Meta: metav1.ListMeta{ResourceVersion: "10"}}, id, useless},
		"an error":                {rig.Reply{Err: errors.New("down")}, id, "false down"},
	} {
		t.Run(name, func(t *testing.T) {
			src := &rig.Script{Lists: []rig.Reply{tc.answer}}
			had, err := lw.StillHasByList(t.Context(), src, tc.id, "10")
			got := fmt.Sprint(had, " ", err)
			if errors.Is(err, errors.ErrUnsupported) && !had {
				got = useless
			}
			rig.Same(t, "had, error", tc.want, got)
			want := metav1.ListOptions{
				FieldSelector: "metadata.name=a,metadata.namespace=default", ResourceVersion: "10", ResourceVersionMatch: "Exact", Limit: 1,
			}
			rig.Same(t, "requests", []metav1.ListOptions{want}, src.Options)
		})
	}
}

// A namespacedClient is of one namespace, as client-go's are, and a namespacedFake as its fakes.
type namespacedClient struct{ applianceClient }

func (*namespacedClient) GetNamespace() string { return "blue" }

type namespacedFake struct{ applianceClient }

func (*namespacedFake) Namespace() string { return "blue" }

// A plate has what a ListWatch is told in another type, and a fridge is no pointer.
type plate struct {
	metav1.ObjectMeta
	Size int
}

type fridge struct{ *appliance }

// TestListWatchTold: what a ListWatch is told becomes one of its objects, in memory of its own, if
// the options and the client's namespace select it.
func TestListWatchTold(t *testing.T) {
	by := func(label, field string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = label, field }
	}
	src := func(label, field string) lw.Teller[*appliance] {
		return lw.FromClient(&applianceClient{}, by(label, field))
	}
	in := func(namespace string) *appliance {
		a := newAppliance("a", "7", 3)
		a.Namespace, a.Labels = namespace, map[string]string{"app": "web"}
		return a
	}
	other := &plate{ObjectMeta: in("blue").ObjectMeta, Size: 3}
	for _, tt := range []struct {
		name  string
		src   lw.Teller[*appliance]
		obj   lw.Identified
		stays bool
		fails bool
	}{
		{"of its type", src("", ""), in("blue"), true, false},
		{"of another type", src("", ""), other, true, false},
		{"by its labels", src("app=web", "metadata.name=a"), in("blue"), true, false},
		{"by other labels", src("app=db", ""), in("blue"), false, false},
		{"by another name", src("", "metadata.name!=a"), other, false, false},
		{"by a selector that does not parse", src("a in", ""), in("blue"), false, true},
		{"of the client's namespace", lw.FromClient(&namespacedClient{}), in("blue"), true, false},
		{"of another namespace", lw.FromClient(&namespacedClient{}), in("green"), false, false},
		{"of a fake's namespace", lw.FromClient(&namespacedFake{}), in("blue"), true, false},
		{"of another namespace than a fake's", lw.FromClient(&namespacedFake{}), in("green"), false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, stays, err := tt.src.Told(tt.obj)
			if stays != tt.stays || (err != nil) != tt.fails {
				t.Fatalf("stays %v, %v", stays, err)
			}
			if !stays {
				return
			}
			want := in(tt.obj.GetNamespace())
			if a, ok := tt.obj.(*appliance); ok {
				a.Labels["app"], a.Size = "changed", 99
			}
			rig.Same(t, "", want, got)
		})
	}
	_, _, err := (&lw.ListWatch[fridge, *applianceList]{}).Told(other)
	if err == nil || !strings.Contains(err.Error(), "plate") {
		t.Errorf("a type that cannot be made: %v", err)
	}
}
