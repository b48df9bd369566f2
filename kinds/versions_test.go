package kinds_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// An absent kind has no version. Waits for one, and what is told, go through its coming and going.
func TestRowsOfVersions(t *testing.T) {
	for name, row := range map[string]func(t *testing.T){
		"an absent kind": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			f := w.follow(widgetName, nil)
			version, err := f.CatchUp(w.ctx)
			if version != "" || err != nil || w.asked("/widgets") != 0 {
				t.Errorf("CatchUp of an absent kind: %q, %v, %d requests", version, err, w.asked("/widgets"))
			}
			done := make(chan error, 1)
			w.running.Go(func() { done <- f.WaitForResourceVersion(w.ctx, "1") })
			time.Sleep(time.Minute)
			w.define(widgets)
			create(t, w.objects("widgets"), "a", "x")
			if err := <-done; err != nil {
				t.Errorf("WaitForResourceVersion: %v", err)
			}
		},
		"a kind that is listed again": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			f := w.follow(widgetName, nil)
			time.Sleep(time.Second)
			w.server.Inject(lwtest.Fault{Plural: "widgets", Match: func(r lwtest.Request) bool { return r.Options.Limit != 1 },
				Effect: lwtest.Delay(2 * time.Second)})
			w.define(widgets)
			o := create(t, w.objects("widgets"), "a", "x")
			time.Sleep(time.Second)
			if s := f.Status(); s.Unserved != "" || s.ResourceVersion != "" {
				t.Fatalf("the list is over, or has not begun: %+v", s)
			}
			done := make(chan error, 1)
			w.running.Go(func() { done <- f.WaitForResourceVersion(w.ctx, o.ResourceVersion) })
			if version, err := f.CatchUp(w.ctx); version == "" || err != nil || f.Status().Objects != 1 {
				t.Errorf("CatchUp: %q, %v, %d objects", version, err, f.Status().Objects)
			}
			if err := <-done; err != nil {
				t.Errorf("WaitForResourceVersion: %v", err)
			}
		},
		"a kind that goes": func(t *testing.T) {
			w, f := served(t, widgets)
			w.server.Inject(lwtest.Fault{Verb: lwtest.Watch, Plural: "widgets", Times: -1, Effect: lwtest.Hang()})
			w.server.Cut()
			time.Sleep(time.Minute)
			o := create(t, w.objects("widgets"), "a", "z")
			done, caught := make(chan error, 1), make(chan error, 1)
			w.running.Go(func() { done <- f.WaitForResourceVersion(w.ctx, o.ResourceVersion) })
			w.running.Go(func() {
				ctx, cancel := context.WithTimeout(w.ctx, time.Hour)
				defer cancel()
				version, err := f.CatchUp(ctx)
				if version != "" {
					t.Errorf("CatchUp says %q of a kind that is gone", version)
				}
				caught <- err
			})
			time.Sleep(time.Second)
			w.undefine(widgets)
			if err := <-caught; err != nil {
				t.Errorf("CatchUp: %v", err)
			}
			w.server.Clear()
			time.Sleep(time.Minute)
			select {
			case err := <-done:
				t.Fatalf("WaitForResourceVersion of a kind that is gone: %v", err)
			default:
			}
			w.define(widgets)
			if err := <-done; err != nil {
				t.Errorf("WaitForResourceVersion: %v", err)
			}
		},
		"told of an absent kind": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			f := w.follow(widgetName, nil)
			time.Sleep(time.Second)
			err := f.Tell(&widget{Meta: lw.Meta{Namespace: "a", Name: "x", UID: "u", ResourceVersion: "5"}})
			if !errors.Is(err, errors.ErrUnsupported) || f.Status().Objects != 0 {
				t.Errorf("Tell: %v, %d objects", err, f.Status().Objects)
			}
		},
		"told, and the kind goes": func(t *testing.T) {
			w, f := served(t, widgets)
			called := func(want ...string) {
				t.Helper()
				if diff := cmp.Diff(want, f.take()); diff != "" {
					t.Error(diff)
				}
			}
			w.server.Inject(lwtest.Fault{Verb: lwtest.Watch, Plural: "widgets", Times: -1, Effect: lwtest.Hang()})
			w.server.Cut()
			time.Sleep(time.Minute)
			made := create(t, w.objects("widgets"), "a", "z")
			old, ok := f.Store().Get(lw.Key{Namespace: "a", Name: "x"})
			if !ok {
				t.Fatal("x is missing")
			}
			if err := f.Tell(made); err != nil {
				t.Fatal(err)
			}
			if err := f.TellDeleted(lw.KeyOf(old), old.UID, ""); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			called("add z", "delete x")
			if s := f.Status(); s.Ahead != 2 || s.Objects != 1 {
				t.Errorf("%d are ahead, %d objects", s.Ahead, s.Objects)
			}
			w.undefine(widgets)
			time.Sleep(time.Minute)
			f.is(t, true, "no CRD serves example.com/v1 Widget", 0)
			called("delete z")
			before := w.asked("/widgets")
			time.Sleep(time.Hour)
			if s := f.Status(); s.Ahead != 0 {
				t.Errorf("%d are ahead", s.Ahead)
			}
			if n := w.asked("/widgets") - before; n != 0 {
				t.Errorf("%d requests", n)
			}
			w.server.Clear()
			w.define(widgets)
			create(t, w.objects("widgets"), "a", "x")
			create(t, w.objects("widgets"), "a", "z")
			within(t, time.Minute, "both", func() bool { return f.Status().Objects == 2 })
			called("add x", "add z")
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, row) })
	}
}
