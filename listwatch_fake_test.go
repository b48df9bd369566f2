package lw_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// A fake's objects carry versions that mean nothing: its events are believed as they come, and its versions are not the store's.
func TestLooseVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
		size := 1
		src := sourceOf[*appliance](func() *applianceList {
			return &applianceList{ListMeta: version10, Items: []appliance{*newAppliance("a", "7", size)}}
		}, fake)
		inf := lw.NewInformer[*appliance](src, &lw.Options{OnError: func(err error) { t.Error(err) }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- inf.Run(ctx) }()
		if err := inf.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		for _, w := range []*appliance{newAppliance("a", "3", 2), newAppliance("a", "3", 3), newAppliance("a", "99", 4), newAppliance("a", "5", 5)} {
			fake.Modify(w)
			time.Sleep(time.Second)
			if got, _ := inf.Store().Get(key("a")); got.Size != w.Size || inf.Store().ResourceVersion() != "10" {
				t.Errorf("the store has %d at %s, want %d", got.Size, inf.Store().ResourceVersion(), w.Size)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// apimachinery's fake watchers never end a streamed list. They are found out at once, also one that a test hands out again and
// again, and loses no event by that.
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
			t.Run(fmt.Sprintf("%s, shared %v", kind, shared), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
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
					errs := &errorLog{}
					inf := lw.NewInformer(src, &lw.Options{OnError: errs.add})
					ctx, cancel := context.WithCancel(t.Context())
					ran := make(chan error, 1)
					go func() { ran <- inf.Run(ctx) }()
					before := time.Now()
					if err := inf.WaitForSync(t.Context()); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(before); took != 0 {
						t.Errorf("the sync took %v", took)
					}
					synctest.Wait()
					w := made[len(made)-1]
					w.Add(newAppliance("b", "", 1))
					w.Modify(newAppliance("b", "", 2))
					w.Delete(newAppliance("a", "", 1))
					synctest.Wait()
					if b, ok := inf.Store().Get(key("b")); !ok || b.Size != 2 || inf.Store().Len() != 1 {
						t.Errorf("the store holds %v", inf.Store().List())
					}
					if len(errs.all()) != 0 {
						t.Errorf("errors: %v", errs.all())
					}
					cancel()
					<-ran
					for i, w := range made {
						if !w.IsStopped() {
							t.Errorf("watch %d of %d was not stopped", i, len(made))
						}
					}
				})
			})
		}
	}
}

// Only a streamed list is refused by a fake, which knows of none: its other watches are as they are.
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

// A fake clientset is not asked for a stream at all, and a hint of it passes through what is wrapped around.
func TestFromFakeClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &recordingClient{applianceClient{list: &applianceList{Items: []appliance{*newAppliance("a", "", 1)}}, w: watch.NewRaceFreeFake()}}
		same := func(g *appliance) (*appliance, error) { return g, nil }
		src := lw.Transform(lw.WithListOptions(lw.Source[*appliance](lw.FromClient(c))), same)
		inf := lw.NewInformer(src, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- inf.Run(ctx) }()
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		<-ran
		for i, o := range c.options {
			if o.SendInitialEvents != nil {
				t.Errorf("request %d asked for a stream", i)
			}
		}
		if len(c.options) != 2 {
			t.Errorf("%d requests, want a list and a watch", len(c.options))
		}
	})
}

// A fake clientset keeps an object that was created with a generateName under no name. A controller's test finds it there.
func TestUnnamedObjectsOfFakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := watch.NewRaceFreeFake()
		c := &recordingClient{applianceClient{list: &applianceList{Items: []appliance{*newAppliance("", "", 1), *newAppliance("a", "", 1)}}, w: fake}}
		errs := &errorLog{}
		src := lw.Transform(lw.FromClient(c), func(a *appliance) (*appliance, error) {
			if a.Size == 9 {
				a.Name = ""
			}
			return a, nil
		})
		inf := lw.NewInformer(src, &lw.Options{OnError: errs.add})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- inf.Run(ctx) }()
		expect := func(name string, size int) {
			t.Helper()
			synctest.Wait()
			got := 0
			if obj, ok := inf.Store().Get(key(name)); ok {
				got = obj.Size
			}
			if got != size {
				t.Errorf("the object of the name %q has size %d, want %d", name, got, size)
			}
		}
		expect("", 1)
		expect("a", 1)
		fake.Modify(newAppliance("", "", 2))
		expect("", 2)
		fake.Delete(newAppliance("", "", 2))
		expect("", 0)
		fake.Add(newAppliance("", "", 3))
		expect("", 3)
		if len(errs.all()) != 0 {
			t.Errorf("errors: %v", errs.all())
		}
		// A transform must still not take away a name.
		fake.Modify(newAppliance("a", "", 9))
		expect("a", 1)
		if got := len(errs.all()); got != 1 {
			t.Errorf("%d errors, want one of the transform", got)
		}
		cancel()
		<-ran
	})
}
