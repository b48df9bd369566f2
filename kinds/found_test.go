package kinds_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/lwtest"
)

// What TestHistories has found.
func TestFound(t *testing.T) {
	for name, row := range map[string]func(t *testing.T){
		"a definition changes just after its kind, which is empty, was listed": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			f := w.follow(widgetName, nil)
			time.Sleep(time.Minute)
			for range 2 { // the second list is a stream
				w.define(widgets)
				time.Sleep(100 * time.Millisecond)
				w.redefine(spec{plural: "widgets", kind: "Widget", versions: "v1", description: "better"})
				time.Sleep(time.Minute)
				f.quiet(t)
				w.undefine(widgets)
				time.Sleep(time.Minute) // else a watch may go on from there in the next, and is told 410
			}
		},
		"made again under another plural, at once": func(t *testing.T) {
			w := newWorld(t)
			w.run()
			f := w.follow(widgetName, nil)
			for range 2 {
				w.define(widgets)
				create(t, w.objects("widgets"), "a", "x")
				time.Sleep(6 * time.Second)
				w.undefine(widgets)
			}
			w.define(spec{plural: "gizmos", kind: "Widget", versions: "v1"})
			create(t, w.objects("gizmos"), "a", "y")
			time.Sleep(200 * time.Millisecond) // without a pause of the reflector's, for requests that were none
			if n := f.Status().Objects; n != 1 {
				t.Errorf("%d objects: %q", n, f.take())
			}
		},
		"without rights, two kinds swap their plurals": func(t *testing.T) {
			w := newWorld(t)
			w.forbid("customresourcedefinitions")
			w.forbid("apiservices")
			w.run()
			gizmos := spec{plural: "gizmos", kind: "Gizmo", versions: "v1"}
			w.define(widgets)
			w.define(gizmos)
			f, g := w.follow(widgetName, nil), w.follow(kinds.Name{Group: group, Version: "v1", Kind: "Gizmo"}, nil)
			time.Sleep(time.Minute)
			w.undefine(widgets)
			w.undefine(gizmos)
			w.define(spec{plural: "widgets", kind: "Gizmo", versions: "v1"})
			w.define(spec{plural: "gizmos", kind: "Widget", versions: "v1"})
			create(t, w.objects("gizmos"), "a", "x")
			create(t, w.objects("widgets"), "a", "y")
			time.Sleep(time.Minute)
			if diff := cmp.Diff([][]string{{"add x"}, {"add y"}}, [][]string{f.take(), g.take()}); diff != "" {
				t.Error(diff)
			}
		},
		"a version goes and comes back while the server is asked whether it is the same": func(t *testing.T) {
			w, f := served(t, spec{plural: "widgets", kind: "Widget", versions: "v2 v1"})
			w.server.Inject(lwtest.Fault{Verb: lwtest.Watch, Plural: "widgets", Effect: lwtest.BreakIn(20 * time.Second)})
			w.server.Cut()
			time.Sleep(5 * time.Second)
			w.server.Inject(lwtest.Fault{Verb: lwtest.List, Plural: "widgets", Effect: lwtest.Reset()})
			within(t, time.Minute, "a question", func() bool { return w.server.Armed() == 0 })
			w.redefine(spec{plural: "widgets", kind: "Widget", versions: "v2 -v1"})
			time.Sleep(10 * time.Minute) // the pauses grow
			create(t, w.objects("widgets"), "a", "y")
			w.redefine(spec{plural: "widgets", kind: "Widget", versions: "v2 v1"})
			within(t, time.Second, "the new object", func() bool { return f.Status().Objects == 2 })
		},
		"without rights, it is discovered again before an answer is a minute newer than the first without it": func(t *testing.T) {
			w, f := undiscovered(t, `{"items":[]}`)
			time.Sleep(5 * time.Second)
			w.server.Clear()
			time.Sleep(54500 * time.Millisecond)
			w.discover("")
			w.mu.Lock()
			w.late = 5 * time.Second // in which what the last answer says would count
			w.mu.Unlock()
			time.Sleep(time.Minute)
			f.is(t, true, "", 1)
			if calls := f.take(); len(calls) > 0 {
				t.Errorf("calls: %v", calls)
			}
		},
		"without rights, a discovery that has not changed is not sent again": func(t *testing.T) {
			w, f := undiscovered(t, `{"items":[]}`)
			time.Sleep(2 * time.Minute)
			w.mu.Lock()
			unchanged := w.unchanged
			w.mu.Unlock()
			if n := w.discoveries(); unchanged < n/2 {
				t.Errorf("%d of %d answers were not sent", unchanged, n)
			}
			f.is(t, true, "discovery has no example.com/v1 Widget", 0)
		},
		"made again, and withdrawn, while the definitions cannot be read": func(t *testing.T) {
			w, f := served(t, widgets)
			f.take()
			w.server.Inject(lwtest.Fault{Plural: "customresourcedefinitions", Times: -1, Effect: lwtest.Reset()})
			w.server.Cut()
			time.Sleep(time.Second)
			// The informer takes these for those of the definition that it knows.
			w.undefine(widgets)
			w.define(widgets)
			time.Sleep(time.Second)
			create(t, w.objects("widgets"), "a", "new")
			within(t, time.Minute, "the new object", func() bool { return f.Store().Len() == 1 })
			w.redefine(spec{plural: "widgets", kind: "Widget", versions: "-v1"})
			time.Sleep(time.Second)
			w.server.Clear()
			time.Sleep(10 * time.Minute)
			if diff := cmp.Diff([]string{"add new", "delete x"}, f.take()); diff != "" {
				t.Error(diff)
			}
		},
		"without rights, made again with namespaces at once": func(t *testing.T) {
			w := newWorld(t)
			w.forbid("customresourcedefinitions")
			w.forbid("apiservices")
			w.run()
			global := widgets
			global.cluster = true
			w.define(global)
			f := w.follow(widgetName, &kinds.SourceOptions[*widget]{Namespace: "a"})
			time.Sleep(time.Minute)
			w.undefine(global)
			w.define(widgets)
			create(t, w.objects("widgets"), "a", "x")
			within(t, time.Minute, "the object", func() bool { return f.Status().Objects == 1 })
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, row) })
	}
}
