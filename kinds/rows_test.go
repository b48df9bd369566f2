package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/lwtest"
)

var widgetResource = schema.GroupResource{Group: group, Resource: "widgets"}

// bare is a server whose definitions are written by the test, conditions and all, and whose resource
// widgets is served as the test says.
func bare(t *testing.T) *world {
	w := &world{t: t}
	w.server = lwtest.NewServer(t,
		lwtest.Resource{Group: "apiextensions.k8s.io", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition", Cluster: true},
		lwtest.Resource{Group: "apiregistration.k8s.io", Plural: "apiservices", Kind: "APIService", Cluster: true},
		lwtest.Resource{Group: group, Plural: "widgets", Kind: "Widget"})
	return w.start(t)
}

// raw is a definition with conditions, such as "Established=False".
func raw(s spec, conditions ...string) *unstructured.Unstructured {
	o := s.object()
	var all []any
	for _, c := range conditions {
		typ, status, _ := strings.Cut(c, "=")
		all = append(all, map[string]any{"type": typ, "status": status, "reason": "KindConflict", "message": "in use"})
	}
	status := map[string]any{"conditions": all}
	if slices.Contains(conditions, "Established=True") {
		status["acceptedNames"] = map[string]any{"plural": s.plural, "kind": s.kind}
	}
	o.Object["status"] = status
	return o
}

// Every row of the table of rules in which one kind is followed by name.
func TestRows(t *testing.T) {
	for name, row := range map[string]func(t *testing.T){
		"not established, then established": func(t *testing.T) {
			w := bare(t)
			w.run()
			w.put(raw(widgets, "NamesAccepted=True", "Established=False"))
			f := w.follow(widgetName, nil)
			time.Sleep(time.Minute)
			f.is(t, true, "the CRD widgets.example.com is not established", 0)
			w.put(raw(widgets, "Established=True"))
			create(t, w.objects("widgets"), "a", "x")
			within(t, time.Second, "the object", func() bool { return f.Status().Objects == 1 })
			f.quiet(t)
		},
		"names not accepted": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			w.define(widgets)
			w.define(spec{plural: "gadgets", kind: "Widget", versions: "v1"})
			f := w.follow(kinds.Name{Group: group, Version: "v1", Resource: "gadgets"}, nil)
			time.Sleep(time.Second)
			f.is(t, true, `the names of the CRD gadgets.example.com are not accepted: ListKindConflict: "WidgetList" is already in use`, 0)
		},
		"once established, names not accepted": func(t *testing.T) {
			w := bare(t)
			w.run()
			w.put(raw(widgets, "Established=True", "NamesAccepted=False"))
			f := w.follow(widgetName, nil)
			time.Sleep(time.Second)
			f.is(t, true, "", 0)
		},
		"404 for 8 s after Established": func(t *testing.T) {
			w := bare(t)
			w.run()
			w.server.SetServed("widgets", false)
			f := w.follow(widgetName, nil)
			time.Sleep(time.Minute)
			w.put(raw(widgets, "Established=True"))
			time.Sleep(8 * time.Second)
			w.server.SetServed("widgets", true)
			create(t, w.objects("widgets"), "a", "x")
			within(t, 1100*time.Millisecond, "the object", func() bool { return f.Status().Objects == 1 })
			if s := f.Status(); s.Mode != lw.ListStream {
				t.Errorf("mode %s", s.Mode)
			}
			f.quiet(t)
		},
		"404 for a minute turns no stream off, and is a failure": func(t *testing.T) {
			w := bare(t)
			w.run()
			w.server.SetServed("widgets", false)
			f := w.follow(widgetName, nil)
			time.Sleep(time.Minute)
			w.put(raw(widgets, "Established=True"))
			before := w.asked("/widgets")
			time.Sleep(time.Minute)
			if n := w.asked("/widgets") - before; n > 60 {
				t.Errorf("%d requests in a minute", n)
			}
			if errs := f.failures(); len(errs) == 0 {
				t.Error("404 for a minute was not reported")
			}
			w.server.SetServed("widgets", true)
			w.put(raw(spec{plural: "widgets", kind: "Widget", versions: "v1", description: "news"}, "Established=True"))
			within(t, time.Second, "in step after the next news", func() bool { return f.Status().Synced && f.Status().Phase == "watching" })
			if s := f.Status(); s.Mode != lw.ListStream {
				t.Errorf("mode %s", s.Mode)
			}
		},
		"429 at birth": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			f := w.follow(widgetName, nil)
			time.Sleep(time.Minute)
			w.server.Inject(lwtest.Fault{Plural: "widgets", Times: 1,
				Effect: lwtest.Fail(apierrors.NewTooManyRequests("storage is (re)initializing", 1))})
			w.define(widgets)
			create(t, w.objects("widgets"), "a", "x")
			within(t, 1200*time.Millisecond, "the object", func() bool { return f.Status().Objects == 1 })
			f.quiet(t)
		},
		"version withdrawn, and back": func(t *testing.T) {
			w, f := served(t, spec{plural: "widgets", kind: "Widget", versions: "v2 v1"})
			w.redefine(spec{plural: "widgets", kind: "Widget", versions: "v2 -v1"})
			time.Sleep(4 * time.Second)
			before := w.asked("/v1/widgets")
			time.Sleep(10 * time.Minute)
			if n := w.asked("/v1/widgets") - before; n != 0 {
				t.Errorf("%d requests", n)
			}
			s := f.Status()
			if s.Objects != 1 || s.Failures == 0 || !strings.Contains(s.Err.Error(), "the CRD widgets.example.com serves v2 only") {
				t.Errorf("withdrawn: %d objects, %v", s.Objects, s.Err)
			}
			create(t, w.objects("widgets"), "a", "y")
			w.redefine(spec{plural: "widgets", kind: "Widget", versions: "v2 v1"})
			within(t, time.Second, "the new object", func() bool { return f.Status().Objects == 2 })
			if diff := cmp.Diff([]string{"add y"}, f.take()); diff != "" {
				t.Error(diff)
			}
		},
		"version not served at the start": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			w.define(spec{plural: "widgets", kind: "Widget", versions: "v2 -v1"})
			w.define(spec{plural: "gadgets", kind: "Gadget", versions: "-v1"})
			for n, want := range map[kinds.Name]string{
				widgetName:                     "the CRD widgets.example.com serves v2 only",
				{Group: group, Kind: "Gadget"}: "the CRD gadgets.example.com serves no version",
			} {
				f := w.follow(n, nil)
				ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
				defer cancel()
				if err := f.WaitForSync(ctx); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v: %v, want %s", n, err, want)
				}
			}
			if n := w.asked("/widgets") + w.asked("/gadgets"); n != 0 {
				t.Errorf("%d requests", n)
			}
		},
		"any version moves to a served one": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			w.define(spec{plural: "widgets", kind: "Widget", versions: "v1 v2"})
			create(t, w.objects("widgets"), "a", "x")
			f := w.follow(kinds.Name{Group: group, Kind: "Widget"}, nil)
			time.Sleep(time.Minute)
			f.take()
			w.redefine(spec{plural: "widgets", kind: "Widget", versions: "-v1 v2"})
			time.Sleep(10 * time.Second)
			create(t, w.objects("widgets"), "a", "y")
			time.Sleep(time.Second)
			if diff := cmp.Diff([]string{"add y"}, f.take()); diff != "" || w.asked("/v2/widgets") == 0 {
				t.Error(diff)
			}
			f.quiet(t)
		},
		"a change of the schema": func(t *testing.T) {
			w, f := served(t, widgets)
			lists := f.Status().Requests["list"].Started + f.Status().Requests["stream"].Started
			w.redefine(spec{plural: "widgets", kind: "Widget", versions: "v1", description: "better"})
			time.Sleep(time.Second)
			create(t, w.objects("widgets"), "a", "y")
			time.Sleep(time.Second)
			s := f.Status()
			if n := s.Requests["list"].Started + s.Requests["stream"].Started; n != lists {
				t.Errorf("%d lists more", n-lists)
			}
			if diff := cmp.Diff([]string{"add y"}, f.take()); diff != "" {
				t.Error(diff)
			}
			f.quiet(t)
		},
		"made again, and the catalog hears of it late": func(t *testing.T) {
			w := newWorld(t)
			w.server.Inject(lwtest.Fault{Verb: lwtest.Watch, Plural: "customresourcedefinitions", Times: -1,
				Effect: lwtest.Trail(time.Second)})
			w.run()
			w.define(widgets)
			f := w.settled()
			w.undefine(widgets)
			w.define(widgets)
			create(t, w.objects("widgets"), "a", "y")
			time.Sleep(10 * time.Second)
			if diff := cmp.Diff([]string{"add y", "delete x"}, f.take()); diff != "" {
				t.Error(diff)
			}
			f.quiet(t)
		},
		"made again with another scope and plural, by kind": func(t *testing.T) {
			w, f := served(t, widgets)
			w.undefine(widgets)
			w.define(spec{plural: "widgeten", kind: "Widget", versions: "v1", cluster: true})
			create(t, w.objects("widgeten"), "", "y")
			time.Sleep(5 * time.Second)
			if diff := cmp.Diff([]string{"add y", "delete x"}, f.take()); diff != "" {
				t.Error(diff)
			}
			f.quiet(t)
		},
		"another kind behind the same plural, by kind and by resource": func(t *testing.T) {
			w, f := served(t, widgets)
			byResource := w.follow(kinds.Name{Group: group, Version: "v1", Resource: "widgets"}, nil)
			time.Sleep(time.Second)
			byResource.take()
			w.undefine(widgets)
			w.define(spec{plural: "widgets", kind: "Gizmo", versions: "v1"})
			create(t, w.objects("widgets"), "a", "y")
			time.Sleep(5 * time.Second)
			f.is(t, true, "no CRD serves example.com/v1 Widget", 0)
			if diff := cmp.Diff([]string{"add y", "delete x"}, byResource.take()); diff != "" {
				t.Error(diff)
			}
		},
		"two kinds swap their plurals": func(t *testing.T) {
			w, f := served(t, widgets)
			g := w.follow(kinds.Name{Group: group, Version: "v1", Kind: "Gizmo"}, nil)
			w.define(spec{plural: "gizmos", kind: "Gizmo", versions: "v1"})
			create(t, w.objects("gizmos"), "a", "g")
			time.Sleep(time.Second)
			w.undefine(widgets)
			w.undefine(spec{plural: "gizmos"})
			w.define(spec{plural: "widgets", kind: "Gizmo", versions: "v1"})
			w.define(spec{plural: "gizmos", kind: "Widget", versions: "v1"})
			create(t, w.objects("widgets"), "a", "g2")
			create(t, w.objects("gizmos"), "a", "w2")
			time.Sleep(5 * time.Second)
			if diff := cmp.Diff([]string{"add w2", "delete x"}, f.take()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"add g", "add g2", "delete g"}, g.take()); diff != "" {
				t.Error(diff)
			}
		},
		"terminating is served": func(t *testing.T) {
			w, f := served(t, widgets)
			all := lwtest.Objects[*unstructured.Unstructured](w.server, "widgets")
			held := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "a", "name": "held", "finalizers": []any{"example.com/x"}}}}
			if _, err := all.Create(held); err != nil {
				t.Fatal(err)
			}
			w.undefine(widgets)
			time.Sleep(time.Minute)
			if diff := cmp.Diff([]string{"add held", "delete x", "update held 0"}, f.take()); diff != "" || f.Status().Unserved != "" {
				t.Errorf("terminating: %s %s", diff, f.Status().Unserved)
			}
			now, err := all.Get(lw.Key{Namespace: "a", Name: "held"})
			if err != nil {
				t.Fatal(err)
			}
			now.SetFinalizers(nil)
			if _, err := all.Update(now); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			if diff := cmp.Diff([]string{"delete held"}, f.take()); diff != "" {
				t.Error(diff)
			}
			f.is(t, true, "no CRD serves example.com/v1 Widget", 0)
			f.quiet(t)
		},
		"gone, and the watch is silent": func(t *testing.T) {
			w, f := servedBare(t)
			w.remove(widgets) // and the server forgets to end the watch
			time.Sleep(time.Second)
			if f.Status().Objects != 1 {
				t.Error("the watch had no time to bring its last events")
			}
			time.Sleep(1100 * time.Millisecond)
			f.is(t, true, "no CRD serves example.com/v1 Widget", 0)
			if diff := cmp.Diff([]string{"delete x"}, f.take()); diff != "" {
				t.Error(diff)
			}
			f.quiet(t)
		},
		"made again without its version": func(t *testing.T) {
			w, f := servedBare(t)
			w.remove(widgets)
			w.put(raw(spec{plural: "widgets", kind: "Widget", versions: "v2 -v1"}, "Established=True"))
			time.Sleep(time.Minute)
			if s := f.Status(); s.Objects != 0 || s.Failures == 0 || !strings.Contains(s.Err.Error(), "serves v2 only") {
				t.Errorf("%d objects of a definition that is gone, %v", s.Objects, s.Err)
			}
			if diff := cmp.Diff([]string{"delete x"}, f.take()); diff != "" {
				t.Error(diff)
			}
		},
		"made again, objects left in the storage": func(t *testing.T) {
			w, f := servedBare(t)
			w.remove(widgets)
			time.Sleep(5 * time.Second)
			f.take()
			w.put(raw(widgets, "Established=True"))
			time.Sleep(time.Second)
			if diff := cmp.Diff([]string{"add x"}, f.take()); diff != "" {
				t.Error(diff)
			}
		},
		"gone and made again while the server is away": func(t *testing.T) {
			// The catalog hears of it last, or gets no answer for a minute.
			for _, effect := range []lwtest.Effect{lwtest.Delay(5 * time.Second),
				lwtest.Fail(apierrors.NewServiceUnavailable("etcd")), lwtest.Reset()} {
				w, f := served(t, widgets)
				w.server.SetDown(true)
				time.Sleep(time.Minute)
				w.undefine(widgets)
				w.define(widgets)
				create(t, w.objects("widgets"), "a", "y")
				w.server.Inject(lwtest.Fault{Plural: "customresourcedefinitions", Times: -1, Effect: effect})
				w.server.SetDown(false)
				time.Sleep(time.Minute)
				w.server.Clear()
				time.Sleep(5 * time.Minute)
				if diff := cmp.Diff([]string{"add y", "delete x"}, f.take()); diff != "" || f.Status().Epoch != 0 {
					t.Errorf("the server went back in time %d times; calls: %s", f.Status().Epoch, diff)
				}
				w.stop()
			}
		},
		"gone and made again in 1 ms": func(t *testing.T) {
			w, f := served(t, widgets)
			w.undefine(widgets)
			time.Sleep(time.Millisecond)
			w.define(widgets)
			create(t, w.objects("widgets"), "a", "x")
			time.Sleep(5 * time.Second)
			if diff := cmp.Diff([]string{"add x", "delete x"}, f.take()); diff != "" {
				t.Error(diff)
			}
			f.quiet(t)
		},
		"made again amid a watch that goes on, and the catalog hears of it late": func(t *testing.T) {
			// A server without a cache of its storage goes on with the watch of the definition before.
			w := newWorld(t, lwtest.Resource{Group: group, Plural: "stored", Kind: "Widget"})
			w.run()
			w.define(widgets)
			stored := w.objects("stored")
			create(t, stored, "a", "x")
			f := w.follow(widgetName, &kinds.SourceOptions[*widget]{Make: func(kinds.State) lw.Source[*widget] { return stored.Source() }})
			w.server.Inject(lwtest.Fault{Verb: lwtest.Watch, Plural: "customresourcedefinitions", Times: -1, Effect: lwtest.Slow(3 * time.Second)})
			w.server.Cut()
			time.Sleep(time.Minute)
			if err := stored.Delete(lw.Key{Namespace: "a", Name: "x"}); err != nil {
				t.Fatal(err)
			}
			w.undefine(widgets)
			w.define(widgets)
			create(t, stored, "a", "y")
			time.Sleep(5500 * time.Millisecond) // the catalog knows of the end alone, and the watch has had its grace
			if diff := cmp.Diff([]string{"add x", "add y", "delete x"}, f.take()); diff != "" {
				t.Error(diff)
			}
			time.Sleep(time.Minute)
			if calls := f.take(); len(calls) > 0 {
				t.Errorf("calls: %v", calls)
			}
		},
		"made again with another scope": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			w.define(widgets)
			var made follower // notes the scopes
			w.follow(widgetName, &kinds.SourceOptions[*widget]{Make: func(s kinds.State) lw.Source[*widget] {
				made.note(&made.calls, fmt.Sprint("namespaced: ", s.Namespaced))
				return &lw.HTTP[*widget]{URL: w.server.URL() + "/apis/example.com/v1/widgets", Client: w.server.Client()}
			}})
			time.Sleep(time.Second)
			w.undefine(widgets)
			w.define(spec{plural: "widgets", kind: "Widget", versions: "v1", cluster: true})
			time.Sleep(time.Minute)
			if diff := cmp.Diff([]string{"namespaced: false", "namespaced: true"}, made.take()); diff != "" {
				t.Error(diff)
			}
		},
		"made again amid the first list": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			f := w.followWith(widgetName, nil, lw.Options{List: lw.ListPages}, nil)
			time.Sleep(time.Minute)
			w.server.Inject(lwtest.Fault{Plural: "widgets", Times: 1, Effect: lwtest.Hang()})
			w.define(widgets)
			time.Sleep(100 * time.Millisecond)
			relist := make(chan struct{}) // in which the catalog sees both at once
			w.server.Inject(lwtest.Fault{Verb: lwtest.Watch, Plural: "customresourcedefinitions", Effect: lwtest.Fail(apierrors.NewResourceExpired("too old"))})
			w.server.Inject(lwtest.Fault{Verb: lwtest.List, Plural: "customresourcedefinitions", Effect: lwtest.Until(relist)})
			w.server.Cut()
			time.Sleep(10 * time.Second)
			w.undefine(widgets)
			w.define(widgets)
			create(t, w.objects("widgets"), "a", "y")
			close(relist)
			within(t, 200*time.Millisecond, "the object", func() bool { return f.Status().Objects == 1 })
			f.quiet(t)
		},
		"gone amid the first list": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			f := w.follow(widgetName, nil)
			time.Sleep(time.Minute)
			w.server.Inject(lwtest.Fault{Plural: "widgets", Times: 1, Effect: lwtest.Hang()})
			w.define(widgets)
			create(t, w.objects("widgets"), "a", "x")
			time.Sleep(100 * time.Millisecond)
			w.undefine(widgets)
			time.Sleep(3 * time.Second)
			f.is(t, true, "no CRD serves example.com/v1 Widget", 0)
			if calls := f.take(); len(calls) > 0 {
				t.Errorf("calls: %v", calls)
			}
			f.quiet(t)
		},
		"404, and the catalog hears of it later": func(t *testing.T) {
			w, f := servedBare(t)
			w.server.SetServed("widgets", false)
			time.Sleep(50 * time.Millisecond)
			w.remove(widgets)
			time.Sleep(10 * time.Second)
			f.is(t, true, "no CRD serves example.com/v1 Widget", 0)
			f.quiet(t)
		},
		"403 on the kind": func(t *testing.T) {
			w, f := served(t, widgets)
			w.server.Inject(lwtest.Fault{Plural: "widgets", Times: -1,
				Effect: lwtest.Fail(apierrors.NewForbidden(widgetResource, "", errors.New("no")))})
			w.server.Break()
			time.Sleep(10 * time.Minute)
			if s := f.Status(); s.Objects != 1 || s.Failures == 0 || !apierrors.IsForbidden(s.Err) || s.Unserved != "" {
				t.Errorf("%+v", s)
			}
			if calls := f.take(); len(calls) > 0 {
				t.Errorf("calls: %v", calls)
			}
		},
		"404 of a kind that is there deletes nothing": func(t *testing.T) {
			w, f := served(t, widgets)
			w.server.Inject(lwtest.Fault{Plural: "widgets", Times: -1,
				Effect: lwtest.Fail(apierrors.NewNotFound(widgetResource, ""))})
			w.server.Break()
			time.Sleep(10 * time.Minute)
			if s := f.Status(); s.Objects != 1 || s.Failures == 0 || s.Unserved != "" {
				t.Errorf("%+v", s)
			}
			if calls := f.take(); len(calls) > 0 {
				t.Errorf("calls: %v", calls)
			}
		},
		"a namespace of a kind without namespaces": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			f := w.follow(widgetName, &kinds.SourceOptions[*widget]{Namespace: "a"})
			time.Sleep(time.Second)
			f.is(t, true, "no CRD serves example.com/v1 Widget", 0)
			w.define(spec{plural: "widgets", kind: "Widget", versions: "v1", cluster: true})
			time.Sleep(time.Minute)
			if s := f.Status(); s.Failures == 0 || !strings.Contains(s.Err.Error(), "it has no namespaces") || w.asked("/widgets") != 0 {
				t.Errorf("%v, %d requests", s.Err, w.asked("/widgets"))
			}
		},
		"the catalog has not answered": func(t *testing.T) {
			w := newWorld(t)
			w.server.Inject(lwtest.Fault{Plural: "customresourcedefinitions", Times: -1,
				Effect: lwtest.Fail(apierrors.NewServiceUnavailable("etcd"))})
			w.run()
			w.define(widgets)
			f := w.follow(widgetName, nil)
			ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
			defer cancel()
			err := f.WaitForSync(ctx)
			if err == nil || !strings.Contains(err.Error(), "the catalog has not answered: ") || !strings.Contains(err.Error(), "etcd") {
				t.Errorf("the wait says %v", err)
			}
			if w.asked("/widgets") != 0 {
				t.Errorf("%d requests", w.asked("/widgets"))
			}
			f.quiet(t)
			w.server.Clear()
			within(t, time.Minute, "in step", func() bool { return f.Status().Synced })
		},
		"the catalog loses its watch": func(t *testing.T) {
			w, f := served(t, widgets)
			w.server.Inject(lwtest.Fault{Plural: "customresourcedefinitions", Times: -1,
				Effect: lwtest.Fail(apierrors.NewServiceUnavailable("etcd"))})
			w.server.Break()
			time.Sleep(10 * time.Minute)
			f.is(t, true, "", 1)
		},
		"a nil catalog serves all": func(t *testing.T) {
			m := lw.NewMemory[*widget]()
			src := kinds.Source(nil, widgetName, &kinds.SourceOptions[*widget]{Make: func(s kinds.State) lw.Source[*widget] {
				if !s.Served || !s.Known {
					t.Errorf("%+v", s)
				}
				return m
			}})
			if src != lw.Source[*widget](m) {
				t.Error("another source")
			}
		},
		"made again as a list ends": func(t *testing.T) {
			w, _ := served(t, widgets)
			_, err := w.gate().List(w.ctx, metav1.ListOptions{}, func(_ *widget, err error) error {
				w.undefine(widgets)
				w.define(widgets)
				time.Sleep(time.Minute) // the catalog has heard of both
				return err
			})
			if !errors.Is(err, request.ErrMoved) {
				t.Errorf("a list of a definition that is gone: %v", err)
			}
		},
		"a list without a reflector": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			src := kinds.Source[*widget](w.catalog, widgetName, nil)
			if _, err := src.List(w.ctx, metav1.ListOptions{}, nil); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, row) })
	}
}

// served returns an informer of a kind that is served, with the object a/x.
func served(t *testing.T, s spec) (*world, *follower) {
	w := newWorld(t)
	w.run()
	w.define(s)
	return w, w.settled()
}

func servedBare(t *testing.T) (*world, *follower) {
	w := bare(t)
	w.run()
	w.put(raw(widgets, "Established=True"))
	return w, w.settled()
}

func (w *world) settled() *follower {
	create(w.t, w.objects("widgets"), "a", "x")
	f := w.follow(widgetName, nil)
	time.Sleep(time.Minute)
	if diff := cmp.Diff([]string{"add x"}, f.take()); diff != "" {
		w.t.Fatal(diff)
	}
	return f
}

// is compares what the informer shows.
func (f *follower) is(t *testing.T, synced bool, unserved string, objects int) {
	t.Helper()
	s := f.Status()
	why, _, _ := strings.Cut(s.Unserved, ", since ")
	if s.Synced != synced || why != unserved || s.Objects != objects {
		t.Errorf("synced %t, unserved %q, %d objects; want %t, %q, %d", s.Synced, why, s.Objects, synced, unserved, objects)
	}
}

// quiet fails if there was a failure.
func (f *follower) quiet(t *testing.T) {
	t.Helper()
	if errs := f.failures(); len(errs) > 0 {
		t.Errorf("failures: %v", errs)
	}
}
