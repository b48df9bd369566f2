package serve_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/serve"
)

// What a history has dropped is not kept: not by the history, nor by the states of the past that
// were asked for, nor by a watch that has sent it, nor by what is there after a new beginning.
func TestForgets(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		s := &scripted{"5", nil, make(chan lw.WatchEvent[*Widget])}
		var told []weak.Pointer[Widget]
		tell := func(typ watch.EventType, n string, version int) {
			ev := lw.WatchEvent[*Widget]{Type: typ, ResourceVersion: fmt.Sprint(version), Object: at(n, fmt.Sprint(version), version)}
			told = append(told, weak.Make(ev.Object))
			s.events <- ev
			ev.Object = nil
			synctest.Wait()
		}
		left := func() (all []int) {
			runtime.GC()
			runtime.GC()
			for i, p := range told {
				if p.Value() != nil {
					all = append(all, i)
				}
			}
			return all
		}
		r := widgets
		r.History.Events = 4
		b.scripted(s, r)
		watching, selected := b.watch("resourceVersion=5"), b.watch("resourceVersion=5&fieldSelector=size=0")
		tell(watch.Added, "a", 6)
		for v := 7; v < 20; v++ {
			tell(watch.Modified, "a", v)
		}
		tell(watch.Deleted, "a", 20)
		for v := 21; v < 25; v++ { // the history has these
			tell(watch.Added, fmt.Sprint("b", v), v)
		}
		watching.take()
		b.client.CloseIdleConnections()
		if diff := cmp.Diff([]int{15, 16, 17, 18}, left()); diff != "" { // the objects of now
			t.Errorf("what is left of the past (-want +got):\n%s", diff)
		}
		// A new beginning, from which on there are only few objects.
		for v := 23; v < 25; v++ {
			b.do("GET", path+fmt.Sprintf("?resourceVersionMatch=Exact&resourceVersion=%d", v), "")
		}
		s.version, s.objects = "30", []*Widget{at("c", "30", 1)}
		s.events <- lw.WatchEvent[*Widget]{}
		time.Sleep(time.Minute)
		b.lists(t, "30", "c 30")
		watching.take()
		selected.take()
		for v := 31; v < 36; v++ { // whatever the informer keeps of before is gone with these
			s.events <- lw.WatchEvent[*Widget]{Type: watch.Modified, ResourceVersion: fmt.Sprint(v), Object: at("c", fmt.Sprint(v), v)}
			synctest.Wait()
		}
		if all := left(); len(all) > 0 {
			t.Errorf("of what was before a new beginning is left %d", all)
		}
	})
}

// Of a client that has gone nothing is kept, not even its name.
func TestForgetsClients(t *testing.T) {
	var freed atomic.Int32
	opts := serve.Options{Client: func(*http.Request) string {
		n := strings.Repeat("x", 1000) // each has its own
		runtime.AddCleanup(unsafe.StringData(n), func(freed *atomic.Int32) { freed.Add(1) }, &freed)
		return n
	}}
	h := handleMemory(t, opts, lw.NewMemory[*Widget](), widgets).h
	for range 5 {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(rig.Canceled(t), "GET", path+"?watch=1&resourceVersion=1", nil))
	}
	rig.Met(t, patience, "the names of the clients are free", func() bool { runtime.GC(); return freed.Load() == 5 })
}
