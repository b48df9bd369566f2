package kinds_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/lwtest"
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

// A cutOff source returns from its first list only when back is closed.
type cutOff struct {
	lw.Source[*widget]
	back   <-chan struct{}
	listed *atomic.Bool
}

func (c cutOff) List(ctx context.Context, opts metav1.ListOptions,
	yield func(*widget, error) error) (metav1.ListMeta, error) {
	if c.listed.Swap(true) {
		return c.Source.List(ctx, opts, yield)
	}
	<-ctx.Done()
	<-c.back
	return metav1.ListMeta{}, fmt.Errorf("cut off: %w", ctx.Err())
}

// A list that its kind has cut off is no failure, also if the kind is back as it was when the list
// returns.
func TestBackAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run()
		w.define(spec{plural: "widgets", kind: "Widget", versions: "v2 v1"})
		create(t, w.objects("widgets"), "a", "x")
		back, listed := make(chan struct{}), new(atomic.Bool)
		f := w.followWith(widgetName, &kinds.SourceOptions[*widget]{Make: func(s kinds.State) lw.Source[*widget] {
			return cutOff{w.http(s), back, listed}
		}}, lw.Options{List: lw.ListWhole}, nil)
		time.Sleep(time.Second)
		for _, versions := range []string{"v2 -v1", "v2 v1"} {
			w.redefine(spec{plural: "widgets", kind: "Widget", versions: versions})
			time.Sleep(time.Second)
		}
		close(back)
		within(t, time.Second, "the object", func() bool { return f.Status().Objects == 1 })
		if errs := f.failures(); len(errs) > 0 {
			t.Errorf("failures: %v", errs)
		}
		w.stop()
	})
}

// After a change of its schema a kind has another storage. As of kube-apiserver 1.36, its watches end
// later than the news, the storage is not ready at first, and then its history begins anew.
func TestChangedSchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := servedBare(t)
		expired := apierrors.NewResourceExpired("too old resource version")
		for _, description := range []string{"better", "best"} {
			w.put(raw(spec{plural: "widgets", kind: "Widget", versions: "v1", description: description}, "Established=True"))
			time.Sleep(time.Second)
			w.server.Inject(lwtest.Fault{Verb: lwtest.Watch, Plural: "widgets",
				Effect: lwtest.Fail(apierrors.NewTooManyRequests("storage is (re)initializing", 1))})
			w.server.Inject(lwtest.Fault{Verb: lwtest.Watch, Plural: "widgets", Effect: lwtest.ErrorIn(0, expired)})
			w.server.Cut()
			create(t, w.objects("widgets"), "a", description)
			time.Sleep(1500 * time.Millisecond)
			if diff := cmp.Diff([]string{"add " + description}, f.take()); diff != "" || w.server.Armed() != 0 {
				t.Error(diff, w.server.Armed())
			}
		}
		f.quiet(t)
		if s := f.Status(); s.ListCauses["expired"] != 2 || s.Failed != 0 {
			t.Errorf("%+v", s)
		}
		again := func() {
			w.server.Inject(lwtest.Fault{Verb: lwtest.Watch, Plural: "widgets", Effect: lwtest.ErrorIn(0, expired)})
			w.server.Cut()
			time.Sleep(2 * time.Second)
			if errs := f.failures(); len(errs) != 1 || !strings.Contains(errs[0], "too old resource version") {
				t.Errorf("410 without news: %v", errs)
			}
		}
		again()
		w.put(raw(widgets, "Established=True"))
		time.Sleep(time.Minute)
		again()
		if diff := cmp.Diff([]string(nil), f.take()); diff != "" {
			t.Error(diff)
		}
	})
}
