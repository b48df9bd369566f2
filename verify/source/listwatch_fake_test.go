package source_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A fake's objects carry versions that mean nothing: its events are believed as they come, and its
// versions are not the store's.
func TestLooseVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
		size := 1
		src := sourceOf[*appliance](func() *applianceList {
			return &applianceList{ListMeta: version10, Items: []appliance{*newAppliance("a", "7", size)}}
		}, fake)
		inf := lw.NewInformer[*appliance](src, &lw.Options{OnError: func(err error) { t.Error(err) }})
		rig.Start(t, inf)
		rig.OK(t, inf.WaitForSync(t.Context()))
		for _, w := range []*appliance{newAppliance("a", "3", 2), newAppliance("a", "3", 3), newAppliance("a", "99", 4),
			newAppliance("a", "5", 5)} {
			fake.Modify(w)
			time.Sleep(time.Second)
			if got, _ := inf.Store().Get(rig.Key("a")); got.Size != w.Size || inf.Store().ResourceVersion() != "10" {
				t.Errorf("the store has %d at %s, want %d", got.Size, inf.Store().ResourceVersion(), w.Size)
			}
		}
	})
}

// apimachinery's fake watchers never end a streamed list. They are found out at once, also one that
// a test hands out again and again, and loses no event by that.
func TestFakeWatchers(t *testing.T) {
	type fake interface {
		watch.Interface
		Add(kruntime.Object)
		Modify(kruntime.Object)
		Delete(kruntime.Object)
		IsStopped() bool
	}
	kinds := map[string]func() fake{
		"Fake":         func() fake { return watch.NewFake() },
		"RaceFreeFake": func() fake { return watch.NewRaceFreeFake() },
	}
	for kind, newFake := range kinds {
		for _, shared := range []bool{true, false} {
			rig.Subtest(t, fmt.Sprintf("%s, shared %v", kind, shared), func(t *testing.T) {
				var made []fake
				src := &lw.ListWatch[*appliance, *applianceList]{
					ListFunc: func(context.Context, metav1.ListOptions) (*applianceList, error) {
						return &applianceList{Items: []appliance{*newAppliance("a", "", 1)}}, nil // a fake clientset has no versions
					},
					WatchFunc: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
						if len(made) == 0 || !shared {
							made = append(made, newFake())
						}
						return made[len(made)-1], nil
					},
				}
				errs := &rig.Errors{}
				inf := lw.NewInformer(src, &lw.Options{OnError: errs.Add})
				stop := rig.Begin(t, inf)
				before := time.Now()
				rig.OK(t, inf.WaitForSync(t.Context()))
				rig.Same(t, "the sync took", 0, time.Since(before))
				synctest.Wait()
				w := made[len(made)-1]
				w.Add(newAppliance("b", "", 1))
				w.Modify(newAppliance("b", "", 2))
				w.Delete(newAppliance("a", "", 1))
				synctest.Wait()
				if b, ok := inf.Store().Get(rig.Key("b")); !ok || b.Size != 2 || inf.Store().Len() != 1 {
					t.Errorf("the store holds %v", inf.Store().List())
				}
				errs.MustBeNone(t)
				stop()
				for i, w := range made {
					if !w.IsStopped() {
						t.Errorf("watch %d of %d was not stopped", i, len(made))
					}
				}
			})
		}
	}
}

// A fake, which knows of no streamed lists, refuses only these: its other watches are as they are.
func TestFakeWatchWithoutInitialEvents(t *testing.T) {
	for initial, want := range map[*bool]bool{nil: true, new(false): true, new(true): false} {
		fake := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
		fake.Add(newAppliance("a", "", 1))
		src := sourceOf[*appliance](func() *applianceList { return &applianceList{} }, fake)
		ctx, cancel := context.WithCancel(t.Context())
		seen := false
		err := src.Watch(ctx, metav1.ListOptions{SendInitialEvents: initial}, func(lw.WatchEvent[*appliance]) error {
			seen = true
			cancel()
			return nil
		})
		if seen != want || err == nil {
			t.Errorf("with initial events %v there was an event: %v; the error is %v", initial, seen, err)
		}
		cancel()
	}
}

// A clientset's fake is known by its recorder.
type recordingClient struct{ applianceClient }

func (c *recordingClient) ClearActions() {}

// A fake clientset is not asked for a stream at all, also through what is wrapped around it.
func TestFromFakeClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &recordingClient{applianceClient{list: &applianceList{Items: []appliance{*newAppliance("a", "", 1)}},
			w: watch.NewRaceFreeFake()}}
		same := func(g *appliance) (*appliance, error) { return g, nil }
		src := lw.Transform(lw.WithListOptions(lw.Source[*appliance](lw.FromClient(c))), same)
		inf := lw.NewInformer(src, nil)
		stop := rig.Begin(t, inf)
		rig.OK(t, inf.WaitForSync(t.Context()))
		synctest.Wait()
		stop()
		for i, o := range c.options {
			if o.SendInitialEvents != nil {
				t.Errorf("request %d asked for a stream", i)
			}
		}
		rig.Same(t, "requests: a list and a watch", 2, len(c.options))
	})
}

// A fake clientset keeps an object that was created with a generateName under no name. A
// controller's test finds it there.
func TestUnnamedObjectsOfFakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := watch.NewRaceFreeFake()
		c := &recordingClient{applianceClient{list: &applianceList{Items: []appliance{*newAppliance("", "", 1),
			*newAppliance("a", "", 1)}}, w: fake}}
		errs := &rig.Errors{}
		src := lw.Transform(lw.FromClient(c), func(a *appliance) (*appliance, error) {
			if a.Size == 9 {
				a.Name = ""
			}
			return a, nil
		})
		inf := lw.NewInformer(src, &lw.Options{OnError: errs.Add})
		rig.Start(t, inf)
		expect := func(name string, size int) {
			t.Helper()
			synctest.Wait()
			got := 0
			if obj, ok := inf.Store().Get(rig.Key(name)); ok {
				got = obj.Size
			}
			rig.Same(t, fmt.Sprintf("size of the object of the name %q", name), size, got)
		}
		expect("", 1)
		expect("a", 1)
		fake.Modify(newAppliance("", "", 2))
		expect("", 2)
		fake.Delete(newAppliance("", "", 2))
		expect("", 0)
		fake.Add(newAppliance("", "", 3))
		expect("", 3)
		errs.MustBeNone(t)
		// A transform must still not take away a name.
		fake.Modify(newAppliance("a", "", 9))
		expect("a", 1)
		mustCount(t, errs, 1)
	})
}

// optedOut is a real client that wants whole lists.
type optedOut struct{ applianceClient }

func (o *optedOut) IsWatchListSemanticsUnSupported() bool { return true }

// streamingFake is a fake that streams lists as a server does.
type streamingFake struct{ recordingClient }

func (s *streamingFake) IsWatchListSemanticsUnSupported() bool { return false }

// A client that opts out of streamed lists is no fake by that. What its lists say decides.
func TestOptOutOfStreams(t *testing.T) {
	noStream, fake := lw.SourceHints{NoStream: true}, lw.SourceHints{NoStream: true, Unversioned: true}
	facts := cmp.Options{cmpopts.IgnoreFields(lw.SourceHints{}, "StillHas"), cmpopts.IgnoreUnexported(lw.SourceHints{})}
	unnamed := func(h lw.SourceHints) bool { return reflect.ValueOf(h).FieldByName("unnamed").Bool() }
	generated := newAppliance("", "", 1)
	generated.GenerateName = "a-"
	for name, tc := range map[string]struct {
		client interface {
			lw.Client[*appliance, *applianceList]
			holds(...appliance)
		}
		before  lw.SourceHints
		items   []appliance
		after   lw.SourceHints
		unnamed bool // objects may have no name
	}{
		"nothing":  {&optedOut{}, noStream, nil, noStream, false},
		"versions": {&optedOut{}, noStream, []appliance{*newAppliance("a", "9", 1)}, noStream, false},
		"a version": {&optedOut{}, noStream, []appliance{*newAppliance("a", "", 1),
			*newAppliance("b", "9", 1), *newAppliance("c", "", 1)}, noStream, false},
		"no version": {&optedOut{}, noStream, []appliance{*newAppliance("a", "", 1)},
			lw.SourceHints{NoStream: true, Unversioned: true}, false},
		"no name": {&optedOut{}, noStream, []appliance{*newAppliance("", "9", 1)}, noStream, false},
		"no name, and no version": {&optedOut{}, noStream, []appliance{*newAppliance("a", "9", 1), {}},
			noStream, true},
		"no name, but a UID": {&optedOut{}, noStream, []appliance{*newAppliance("a", "9", 1),
			*newAppliance("", "", 1)}, noStream, false},
		"no name, but a version": {&optedOut{}, noStream, []appliance{*newAppliance("a", "9", 1),
			{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}}}, noStream, false},
		"no name was generated": {&optedOut{}, noStream, []appliance{*newAppliance("a", "9", 1), *generated},
			noStream, true},
		"no client's method": {&applianceClient{}, lw.SourceHints{}, []appliance{*newAppliance("a", "9", 1)},
			lw.SourceHints{}, false},
		"a fake with versions": {&recordingClient{}, fake, []appliance{*newAppliance("a", "9", 1)}, fake, true},
		"a fake that streams": {&streamingFake{}, lw.SourceHints{}, []appliance{*newAppliance("a", "9", 1)},
			lw.SourceHints{}, false},
		"a fake that streams, no version": {&streamingFake{}, lw.SourceHints{}, []appliance{*newAppliance("a", "", 1)},
			lw.SourceHints{Unversioned: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			src := lw.FromClient(tc.client)
			if !tc.before.Unversioned {
				tc.before.Decoder, tc.after.Decoder = "client-go", "client-go"
			}
			rig.Same(t, "before the list", tc.before, src.Hints(), facts)
			list := func() {
				t.Helper()
				read(t, src)
			}
			tc.client.holds(tc.items...)
			list()
			rig.Same(t, "after the list", tc.after, src.Hints(), facts)
			tc.client.holds() // an empty list says nothing
			list()
			rig.Same(t, "objects may be unnamed", tc.unnamed, unnamed(src.Hints()))
			rig.Same(t, "after an empty list", tc.after, src.Hints(), facts)
		})
	}
}

// TestUnnamedInTheFirstList: a fake opts out of streamed lists by client-go's method, and its list
// has an object without a name. Before the first watch, nothing but the object says that this is a
// fake.
func TestUnnamedInTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &optedOut{applianceClient{list: &applianceList{Items: []appliance{{Size: 1}}}, w: watch.NewRaceFreeFake()}}
		errs := &rig.Errors{}
		inf := lw.NewInformer(lw.FromClient(c), &lw.Options{OnError: errs.Add})
		rig.Start(t, inf)
		synctest.Wait()
		if obj, ok := inf.Store().Get(lw.Key{}); !ok || obj.Size != 1 || !inf.Status().Synced || len(errs.All()) != 0 {
			t.Errorf("%v, %v, synced %v, errors %v", obj, ok, inf.Status().Synced, errs.All())
		}
	})
}

// A watch.ProxyWatcher is a channel in a test, which knows no streamed lists. It syncs at once and
// loses nothing, whether its objects have versions or not. After an object with a version, one
// without is a mistake.
func TestProxyWatcher(t *testing.T) {
	for name, tc := range map[string]struct {
		list   []appliance
		events []*appliance
		want   map[string]int // the sizes at the end
		err    string         // the first error
	}{
		"no versions": {[]appliance{*newAppliance("a", "", 1)}, []*appliance{newAppliance("b", "", 1),
			newAppliance("b", "", 2)}, map[string]int{"a": 1, "b": 2}, ""},
		"nothing, no versions": {nil, []*appliance{newAppliance("b", "", 1), newAppliance("b", "", 2)},
			map[string]int{"b": 2}, ""},
		"versions": {[]appliance{*newAppliance("a", "9", 1)}, []*appliance{newAppliance("b", "11", 1),
			newAppliance("b", "12", 2)}, map[string]int{"a": 1, "b": 2}, ""},
		"nothing, versions": {nil, []*appliance{newAppliance("b", "11", 1), newAppliance("b", "12", 2)},
			map[string]int{"b": 2}, ""},
		"a version is left out": {nil, []*appliance{newAppliance("b", "11", 1), newAppliance("b", "", 2)}, map[string]int{},
			"lw: appliance: watch: protocol error: MODIFIED event of default/b without a resource version"},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			changes := make(chan watch.Event, len(tc.events))
			for i, obj := range tc.events {
				typ := watch.Modified
				if i == 0 {
					typ = watch.Added
				}
				changes <- watch.Event{Type: typ, Object: obj}
			}
			src := &lw.ListWatch[*appliance, *applianceList]{
				ListFunc: func(context.Context, metav1.ListOptions) (*applianceList, error) {
					return &applianceList{ListMeta: version10, Items: tc.list}, nil
				},
				WatchFunc: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
					return watch.NewProxyWatcher(changes), nil
				},
			}
			errs := &rig.Errors{}
			inf := lw.NewInformer(src, &lw.Options{OnError: errs.Add})
			rig.Start(t, inf)
			begun := time.Now()
			if err := inf.WaitForSync(t.Context()); err != nil || time.Since(begun) > 0 {
				t.Errorf("synced after %v, error %v", time.Since(begun), err)
			}
			rig.Sleep(time.Minute)
			got := map[string]int{}
			for _, obj := range inf.Store().List() {
				got[obj.Name] = obj.Size
			}
			rig.Same(t, "sizes", tc.want, got)
			rig.Same(t, "Unversioned", strings.HasSuffix(name, "no versions"), src.Hints().Unversioned)
			first := ""
			if all := errs.All(); len(all) > 0 {
				first = all[0].Error()
			}
			rig.Same(t, "the first error", tc.err, first)
		})
	}
}

// A watch.ProxyWatcher may wrap a watch that streams lists. Who insists gets one.
func TestProxyWatcherThatStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := newAppliance("", "10", 0)
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		src := &lw.ListWatch[*appliance, *applianceList]{
			WatchFunc: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				changes := make(chan watch.Event, 2)
				changes <- watch.Event{Type: watch.Added, Object: newAppliance("a", "9", 1)}
				changes <- watch.Event{Type: watch.Bookmark, Object: end}
				return watch.NewProxyWatcher(changes), nil
			},
		}
		errs := &rig.Errors{}
		inf := rig.RunFor(t, src, &lw.Options{List: lw.ListStream, OnError: errs.Add}, time.Minute)
		mustSay(t, inf, func(s lw.Status) bool { return s.Objects == 1 && len(errs.All()) == 1 })
	})
}
