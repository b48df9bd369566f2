package kinds_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A kind comes, goes, and comes again.
func TestComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run()
		f := w.follow(widgetName, nil)
		if err := f.WaitForSync(w.ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		s := f.Status()
		if w.asked("/example.com/") != 0 || s.Unserved == "" || s.Phase != "unserved" || !s.Synced || s.Failed != 0 ||
			s.Healthy() != nil {
			t.Errorf("absent: %d requests, status %+v", w.asked("/example.com/"), s)
		}
		if n := s.Requests["list"].Started + s.Requests["watch"].Started + s.Requests["stream"].Started; n > 1 {
			t.Errorf("%d requests are counted", n)
		}
		for round := range 3 {
			w.define(widgets)
			create(t, w.objects("widgets"), "a", "x")
			within(t, 200*time.Millisecond, "the first object", func() bool { return f.Status().Objects == 1 })
			create(t, w.objects("widgets"), "a", "y")
			if diff := cmp.Diff([]string{"add x", "add y"}, f.take()); diff != "" {
				t.Errorf("round %d: %s", round, diff)
			}
			time.Sleep(time.Hour)
			if s := f.Status(); s.Unserved != "" || s.Phase != "watching" {
				t.Errorf("served: %+v", s)
			}
			w.undefine(widgets)
			within(t, 3*time.Second, "empty", func() bool { return f.Status().Objects == 0 })
			if diff := cmp.Diff([]string{"delete x", "delete y"}, f.take()); diff != "" {
				t.Errorf("round %d: %s", round, diff)
			}
			time.Sleep(3 * time.Second)
			before := w.asked("/example.com/")
			time.Sleep(time.Hour)
			if n := w.asked("/example.com/") - before; n != 0 {
				t.Errorf("%d requests of an absent kind", n)
			}
			if n := f.waits(); n != round+2 {
				t.Errorf("%d lines that it waits: %s", n, &f.log)
			}
		}
		if errs := f.failures(); len(errs) > 0 {
			t.Errorf("failures: %v", errs)
		}
		begun := time.Now()
		w.stop()
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("stopped after %v", took)
		}
	})
}
