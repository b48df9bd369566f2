package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/lwtest"
)

// aggregated is a server with the resource metrics of an aggregated API, which is served as the
// test says.
func aggregated(t *testing.T) *world {
	w := newWorld(t, lwtest.Resource{Group: "metrics.example.com", Plural: "widgets", Kind: "Widget"})
	w.server.SetServed("widgets", false)
	w.run()
	return w
}

// available is such a server whose APIService is available, and an informer of its object a/x.
func available(t *testing.T) (*world, *follower) {
	w := aggregated(t)
	w.server.SetServed("widgets", true)
	create(t, w.objects("widgets"), "a", "x")
	w.service("m", "True")
	f := w.follow(metric, nil)
	time.Sleep(time.Minute)
	f.take()
	return w, f
}

var metric = kinds.Name{Group: "metrics.example.com", Version: "v1", Kind: "Widget"}

// service writes the APIService of that group. to is the Service, or "" for a local one.
func (w *world) service(to, available string) {
	w.t.Helper()
	spec := map[string]any{"group": metric.Group, "version": "v1"}
	if to != "" {
		spec["service"] = map[string]any{"namespace": "a", "name": to}
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1." +
			metric.Group}, "spec": spec,
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": available}}},
	}}
	_, err := w.services.Create(o)
	if apierrors.IsAlreadyExists(err) {
		_, err = w.services.Update(o)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// forbid takes the right to read a resource.
func (w *world) forbid(plural string) {
	gr := schema.GroupResource{Resource: plural}
	w.server.Inject(lwtest.Fault{Plural: plural, Times: -1,
		Effect: lwtest.Fail(apierrors.NewForbidden(gr, "", errors.New("no")))})
}

// discoveries returns how often discovery was asked.
func (w *world) discoveries() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range w.urls {
		if u == "/apis" {
			n++
		}
	}
	return n
}

// The rows of aggregated APIs, of built-in kinds, and of a program without rights.
func TestCatalogRows(t *testing.T) {
	for name, row := range map[string]func(t *testing.T){
		"an APIService comes, goes, and comes again": func(t *testing.T) {
			w := aggregated(t)
			f := w.follow(metric, nil)
			time.Sleep(time.Hour)
			f.is(t, true, "no CRD serves metrics.example.com/v1 Widget", 0)
			w.server.SetServed("widgets", true)
			create(t, w.objects("widgets"), "a", "x")
			before := w.discoveries()
			w.service("m", "True")
			within(t, time.Second, "the object", func() bool { return f.Status().Objects == 1 })
			if n := w.discoveries() - before; n != 1 {
				t.Errorf("discovery was asked %d times", n)
			}
			f.take()
			if err := w.services.Delete(lw.Key{Name: "v1." + metric.Group}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			before = w.asked("/metrics.example.com/")
			time.Sleep(time.Hour)
			f.is(t, true, "no APIService serves metrics.example.com/v1", 1)
			if n := w.asked("/metrics.example.com/") - before; n != 0 {
				t.Errorf("%d requests", n)
			}
			create(t, w.objects("widgets"), "a", "y")
			w.service("m", "True")
			within(t, time.Second, "the new object", func() bool { return f.Status().Objects == 2 })
			if diff := cmp.Diff([]string{"add y"}, f.take()); diff != "" {
				t.Error(diff)
			}
			f.quiet(t)
		},
		"an APIService comes again, and discovery has nothing of it for half a minute": func(t *testing.T) {
			for _, groups := range []string{
				`{"items":[]}`, `{"items":[{"metadata":{"name":"metrics.example.com"},"versions":[{"version":"v1"}]}]}`,
			} {
				w, f := available(t)
				if err := w.services.Delete(lw.Key{Name: "v1." + metric.Group}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				w.discover(groups)
				w.service("m", "True")
				time.Sleep(30 * time.Second)
				f.is(t, true, "no APIService serves metrics.example.com/v1", 1)
				w.discover("")
				time.Sleep(time.Minute)
				f.is(t, true, "", 1)
				if calls := f.take(); len(calls) > 0 {
					t.Errorf("calls: %v", calls)
				}
				f.quiet(t)
				w.stop()
			}
		},
		"a program begins when discovery has nothing of an APIService yet": func(t *testing.T) {
			w := aggregated(t)
			w.server.SetServed("widgets", true)
			create(t, w.objects("widgets"), "a", "x")
			w.service("m", "True")
			w.discover(`{"items":[]}`)
			f := w.follow(metric, nil)
			time.Sleep(30 * time.Second)
			f.is(t, false, "discovery of metrics.example.com/v1 is stale", 0)
			w.discover("")
			time.Sleep(time.Minute)
			f.is(t, true, "", 1)
			f.quiet(t)
		},
		"an APIService is not available for three minutes": func(t *testing.T) {
			w, f := available(t)
			w.server.Inject(lwtest.Fault{Plural: "widgets", Times: -1,
				Effect: lwtest.Fail(apierrors.NewServiceUnavailable("the service is down"))})
			w.service("m", "False")
			w.server.Break()
			time.Sleep(3 * time.Minute)
			if s := f.Status(); s.Objects != 1 || s.Failures == 0 || s.Unserved != "" {
				t.Errorf("%+v", s)
			}
			w.server.Clear()
			create(t, w.objects("widgets"), "a", "y")
			w.service("m", "True")
			within(t, 2*time.Second, "the new object", func() bool { return f.Status().Objects == 2 })
			if diff := cmp.Diff([]string{"add y"}, f.take()); diff != "" {
				t.Error(diff)
			}
		},
		"an APIService is deleted amid a list": func(t *testing.T) {
			w, f := available(t)
			for _, verb := range []lwtest.Verb{lwtest.List, lwtest.Stream} {
				w.server.Inject(lwtest.Fault{Plural: "widgets", Verb: verb, Times: -1, Effect: lwtest.Hang()})
			}
			w.server.Error(apierrors.NewResourceExpired("too old"))
			time.Sleep(time.Second)
			if err := w.services.Delete(lw.Key{Name: "v1." + metric.Group}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			f.is(t, true, "no APIService serves metrics.example.com/v1", 1)
			if calls := f.take(); len(calls) > 0 {
				t.Errorf("calls: %v", calls)
			}
		},
		"one of several servers does not discover it for half a minute": func(t *testing.T) {
			w, f := undiscovered(t, `{"items":[]}`)
			time.Sleep(30 * time.Second)
			w.server.Clear()
			w.discover("")
			time.Sleep(time.Minute)
			f.is(t, true, "", 1)
			if calls := f.take(); len(calls) > 0 {
				t.Errorf("calls: %v", calls)
			}
		},
		"what discovery has of its group is stale": func(t *testing.T) {
			w, f := undiscovered(t,
				`{"items":[{"metadata":{"name":"example.com"},"versions":[{"version":"v1","freshness":"Stale"}]}]}`)
			time.Sleep(10 * time.Minute)
			f.is(t, true, "", 1)
			w.server.Clear()
			w.discover("")
			time.Sleep(2 * time.Minute)
			f.is(t, true, "", 1)
			if calls := f.take(); len(calls) > 0 {
				t.Errorf("calls: %v", calls)
			}
		},
		"an APIService moves to another server": func(t *testing.T) {
			w, f := available(t)
			before := f.Status().ListCauses["moved"]
			w.service("other", "True")
			time.Sleep(10 * time.Second)
			if n := f.Status().ListCauses["moved"] - before; n != 1 {
				t.Errorf("%d lists", n)
			}
			if calls := f.take(); len(calls) > 0 || f.Status().Epoch != 0 {
				t.Errorf("calls %v, epoch %d", calls, f.Status().Epoch)
			}
			f.quiet(t)
		},
		"a built-in kind": func(t *testing.T) {
			w := newWorld(t, lwtest.Resource{Group: "apps", Plural: "widgets", Kind: "Widget"},
				lwtest.Resource{Plural: "gadgets", Kind: "Gadget"})
			w.run()
			create(t, w.objects("widgets"), "a", "x")
			f := w.follow(kinds.Name{Group: "apps", Version: "v1", Kind: "Widget"}, nil)
			g := w.follow(kinds.Name{Version: "v1", Resource: "gadgets"}, nil)
			time.Sleep(time.Hour)
			f.is(t, true, "", 1)
			g.is(t, true, "", 0)
			if n := w.discoveries(); n > 2 {
				t.Errorf("discovery was asked %d times", n)
			}
		},
		"no right to read CRDs: it comes and goes": func(t *testing.T) {
			w := newWorld(t)
			w.forbid("customresourcedefinitions")
			w.forbid("apiservices")
			w.run()
			var all []*follower
			all = append(all, w.follow(widgetName, nil))
			for i := range 19 {
				all = append(all, w.follow(kinds.Name{Group: group, Version: "v1", Kind: fmt.Sprint("Gadget", i)}, nil))
			}
			f := all[0]
			time.Sleep(time.Hour)
			f.is(t, true, "discovery has no example.com/v1 Widget", 0)
			if n := w.asked("/"); n > 360 {
				t.Errorf("%d requests in an hour, %d of them of discovery", n, w.discoveries())
			} else {
				t.Logf("%d requests in an hour for 20 kinds, %d of them of discovery", n, w.discoveries())
			}
			if n := w.asked("/example.com/"); n != 0 {
				t.Errorf("%d requests of absent kinds", n)
			}
			if n := w.asked("/customresourcedefinitions"); n > 30 {
				t.Errorf("%d requests for CRDs in an hour", n)
			}
			before := w.discoveries()
			within(t, 11*time.Second, "a question", func() bool { return w.discoveries() > before })
			w.define(widgets)
			create(t, w.objects("widgets"), "a", "x")
			t.Log("found after", within(t, 11*time.Second, "the object", func() bool { return f.Status().Objects == 1 }))
			f.take()
			w.undefine(widgets)
			within(t, 3*time.Minute, "empty", func() bool { return f.Status().Objects == 0 })
			if diff := cmp.Diff([]string{"delete x"}, f.take()); diff != "" {
				t.Error(diff)
			}
			time.Sleep(5 * time.Second)
			w.define(widgets)
			create(t, w.objects("widgets"), "a", "y")
			within(t, 11*time.Second, "the object, soon after the last news", func() bool { return f.Status().Objects == 1 })
		},
		"no right to read CRDs, all are served": func(t *testing.T) {
			w := newWorld(t)
			w.forbid("customresourcedefinitions")
			w.run()
			w.define(widgets)
			f := w.follow(widgetName, nil)
			time.Sleep(time.Minute)
			f.is(t, true, "", 0)
			before := w.discoveries()
			time.Sleep(time.Hour)
			if n := w.discoveries() - before; n != 0 {
				t.Errorf("discovery was asked %d times", n)
			}
		},
		"rights are taken, and given": func(t *testing.T) {
			w, f := served(t, widgets)
			w.forbid("customresourcedefinitions")
			w.server.Break()
			time.Sleep(10 * time.Minute)
			f.is(t, true, "", 1)
			w.server.Clear()
			time.Sleep(10 * time.Minute)
			f.is(t, true, "", 1)
			if calls := f.take(); len(calls) > 0 {
				t.Errorf("calls: %v", calls)
			}
			w.undefine(widgets)
			time.Sleep(10 * time.Second)
			f.is(t, true, "no CRD serves example.com/v1 Widget", 0)
		},
		"no APIServices": func(t *testing.T) {
			w := newWorld(t)
			w.server.SetServed("apiservices", false)
			w.run()
			f := w.follow(widgetName, nil)
			time.Sleep(time.Minute)
			f.is(t, true, "no CRD serves example.com/v1 Widget", 0)
		},
		"Wait, Follow and Served": func(t *testing.T) {
			w := newWorld(t)
			if s := w.catalog.Served(widgetName); s.Known || s.Served {
				t.Errorf("before Run: %+v", s)
			}
			w.run()
			var states []string
			var stop func()
			stop = w.catalog.Follow(widgetName, func(s kinds.State) {
				w.mu.Lock()
				defer w.mu.Unlock()
				states = append(states, strings.TrimSpace(map[bool]string{true: "served"}[s.Served]+" "+s.Why))
				if s.Served {
					stop()
				}
			})
			ctx, cancel := context.WithTimeout(w.ctx, 242*time.Second)
			defer cancel()
			err := w.catalog.Wait(ctx, widgetName)
			if !errors.Is(err, kinds.ErrAbsent) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(),
				"no CRD serves example.com/v1 Widget, for 4m2s") {
				t.Errorf("Wait: %v", err)
			}
			w.define(widgets)
			if err := w.catalog.Wait(w.ctx, widgetName); err != nil {
				t.Error(err)
			}
			s := w.catalog.Served(widgetName)
			if !s.Served || !s.Known || !s.Namespaced || s.Resource.String() != "example.com/v1, Resource=widgets" {
				t.Errorf("%+v", s)
			}
			time.Sleep(time.Minute)
			w.undefine(widgets)
			time.Sleep(time.Minute)
			w.mu.Lock()
			defer w.mu.Unlock()
			if n := len(states); n < 2 || states[n-1] != "served" || states[n-2] != "no CRD serves example.com/v1 Widget" &&
				states[n-2] != "the CRD widgets.example.com is not established" {
				t.Errorf("%q", states)
			}
		},
		"after the end": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			w.stop()
			if err := w.catalog.Wait(t.Context(), widgetName); !errors.Is(err, lw.ErrStopped) {
				t.Errorf("Wait: %v", err)
			}
			w.catalog.Served(widgetName)
			if err := w.catalog.WaitForSync(t.Context()); !errors.Is(err, lw.ErrStopped) {
				t.Errorf("WaitForSync: %v", err)
			}
			if err := w.catalog.Run(t.Context()); !errors.Is(err, lw.ErrStarted) {
				t.Errorf("Run: %v", err)
			}
			stop := w.catalog.Follow(widgetName, func(kinds.State) {})
			stop()
		},
		"nothing is asked before the first name": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			time.Sleep(time.Hour)
			if w.asked("") != 0 {
				t.Errorf("%d requests", w.asked(""))
			}
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, row) })
	}
}

// undiscovered is a program without rights whose kind has the object a/x, answers 404, and is not
// in groups, which discovery answers.
func undiscovered(t *testing.T, groups string) (*world, *follower) {
	w := newWorld(t)
	w.forbid("customresourcedefinitions")
	w.forbid("apiservices")
	w.run()
	w.define(widgets)
	f := w.settled()
	w.discover(groups)
	w.server.Inject(lwtest.Fault{Plural: "widgets", Times: -1, Effect: lwtest.Fail(apierrors.NewNotFound(widgetResource, ""))})
	w.server.Break()
	return w, f
}

// A server without aggregated discovery, as before Kubernetes 1.27.
func TestPlainDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, lwtest.Resource{Plural: "gadgets", Kind: "Gadget"})
		w.forbid("customresourcedefinitions")
		w.forbid("apiservices")
		w.catalog = kinds.New(w.server.URL(), &http.Client{Transport: plain{w}})
		w.run()
		f, g := w.follow(widgetName, nil), w.follow(kinds.Name{Version: "v1", Kind: "Gadget"}, nil)
		time.Sleep(time.Minute)
		f.is(t, true, "discovery has no example.com/v1 Widget", 0)
		g.is(t, true, "", 0)
		w.define(widgets)
		within(t, 11*time.Second, "served", func() bool { return f.Status().Unserved == "" })
	})
}

// plain asks for no aggregated discovery.
type plain struct{ *world }

func (p plain) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.Header.Get("Accept"), "apidiscovery") {
		r = r.Clone(r.Context())
		r.Header.Set("Accept", "application/json")
	}
	return p.world.RoundTrip(r)
}
