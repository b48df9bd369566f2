package kinds_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/kinds"
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
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, row) })
	}
}
