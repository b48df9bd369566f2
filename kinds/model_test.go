package kinds_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/lwtest"
)

// TestHistories: definitions, APIServices and rights come and go in any order, and change, while
// objects are written and requests fail. Whatever happens:
//
//  1. at rest, a store has the server's objects if the kind is served, none if it is gone, and the
//     same as before if only its version or its APIService is gone;
//  2. a handler is called with Add, Updates, Delete of each object, an Update is of the same object,
//     and the calls add up to the store;
//  3. a kind that is known to be absent is not asked for;
//  4. absence is no failure, and is logged once;
//  5. the first list comes soon after Established;
//  6. no object that the server has is Deleted;
//  7. nothing is left running, and the end comes at once;
//  8. no store has objects of two kinds, or of two definitions.
//
// Owners and what a manager sets up are not part of it: package kinds has neither.
//
// On one processor a history that fails fails again. Without a flag the histories are always the
// same ones: others are for those who ask for more by -rapid.checks, or for others by -rapid.seed.
func TestHistories(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" || f.Name == "rapid.seed" })
	if seed := flag.Lookup("rapid.seed").Value; !asked {
		was := seed.String()
		rig.OK(t, seed.Set("38"))
		defer func() { rig.OK(t, seed.Set(was)) }()
	}
	rapid.Check(t, func(r *rapid.T) { rapid.SyncTest(r, runHistory) })
}

// A history is what happens to one server, and what is known of it.
type history struct {
	*world
	r      *rapid.T
	rights bool // may be taken; if not, there is an APIService instead
	metric *lwtest.Collection[*widget]

	taken   bool // the right to read definitions
	unsure  bool // it was taken at some time: what discovery says is less
	calm    bool // since the last rest, nothing went wrong that a first list may wait for
	excused bool // since the last rest, something was done that is a failure
	lagging bool // the catalog's watch is slow

	specs map[string]spec // by plural, of the definitions that there are

	// mu is held while the server is written, and while a handler judges what it is called with.
	mu      sync.Mutex
	all     []*subject
	live    map[types.UID]bool      // the objects that the server has
	born    map[types.UID]types.UID // of each object, its definition
	service string                  // the Service of the APIService, or ""
	slow    bool                    // the catalog's next watch is slow
	trouble int                     // the status of requests for objects until then
	until   time.Time
	up      bool // there was a Service
	down    bool // it does not answer
	wrong   string
}

// A subject is one informer of a history.
type subject struct {
	*follower
	of        kinds.Name
	namespace string
	handlers  []*lw.Registration
	folded    []map[lw.Key]*widget // what each handler was told; guarded by history.mu
	excused   bool                 // since the last rest, it had a reason to fail
	cut       bool                 // since it was last empty or as the server, something went wrong
}

func runHistory(r *rapid.T) {
	h := &history{r: r, calm: true, specs: map[string]spec{}, live: map[types.UID]bool{}, born: map[types.UID]types.UID{}}
	h.rights = rapid.Bool().Draw(r, "rights may be taken")
	h.world = &world{t: r, server: lwtest.StartServer(append(lwtest.Definitions(),
		lwtest.Resource{Group: metric.Group, Plural: "metrics", Kind: metric.Kind})...)}
	defer h.server.Close()
	h.begin(context.Background())
	defer h.stop()
	h.saw = h.asks
	h.metric = h.objects("metrics")
	h.faults()
	if rapid.Bool().Draw(r, "defined at the start") {
		h.write(func() { h.specs["widgets"] = widgets; h.put(widgets.object()) })
	}
	h.run()
	follow := func(n kinds.Name, namespace string) {
		s := &subject{of: n, namespace: namespace}
		s.follower = h.follow(n, &kinds.SourceOptions[*widget]{Namespace: namespace})
		h.mu.Lock()
		h.all = append(h.all, s)
		h.mu.Unlock()
		h.handle(s, 0)
	}
	follow(widgetName, "")
	follow(kinds.Name{Group: group, Version: "v1", Resource: "widgets"}, "")
	follow(kinds.Name{Group: group, Kind: "Gizmo"}, "")
	follow(widgetName, "a")
	if !h.rights {
		follow(metric, "")
	}
	steps := map[string]func(*rapid.T){
		"":           func(*rapid.T) { h.judge() },
		"define":     h.defines,
		"undefine":   h.undefines,
		"again":      h.again,
		"swap":       func(*rapid.T) { h.swap() },
		"change":     h.change,
		"write":      h.writes,
		"write more": h.writes,
		"release":    func(*rapid.T) { h.release() },
		"trouble":    h.troubles,
		"cut":        func(*rapid.T) { h.calm, h.excused = false, true; h.server.Cut() },
		"break":      func(*rapid.T) { h.calm, h.excused = false, true; h.server.Break() },
		"lag":        h.lag,
		"handler":    h.handlers,
		"sleep": func(r *rapid.T) {
			time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, 300 * time.Millisecond, 3 * time.Second,
				20 * time.Second}).Draw(r, "time"))
		},
		"rest": func(r *rapid.T) { h.rest(rapid.IntRange(0, 7).Draw(r, "an hour") == 0) },
	}
	if h.rights {
		steps["rights"] = h.right
	} else {
		steps["service"] = h.aggregates
	}
	r.Repeat(steps)
	if rapid.Bool().Draw(r, "to the end") {
		h.rest(false)
		h.leaves()
	}
	begun := time.Now()
	h.stop()
	if took := time.Since(begun); took > 100*time.Millisecond+slowest {
		r.Fatalf("7: the end took %v", took)
	}
	h.judge()
}

// faults has requests for objects fail as the history says.
func (h *history) faults() {
	mine := func(r lwtest.Request) bool { return r.Group == group || r.Group == metric.Group }
	for code, err := range map[int]error{
		404: apierrors.NewNotFound(widgetResource, ""),
		429: apierrors.NewTooManyRequests("storage is (re)initializing", 1),
		403: apierrors.NewForbidden(widgetResource, "", errors.New("no")),
		503: apierrors.NewServiceUnavailable("away"),
	} {
		h.server.Inject(lwtest.Fault{Times: -1, Effect: lwtest.Fail(err), Match: func(r lwtest.Request) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return mine(r) && h.trouble == code && time.Now().Before(h.until) ||
				r.Group == metric.Group && h.down && code == 503
		}})
	}
	no := apierrors.NewForbidden(widgetResource, "", errors.New("no"))
	h.server.Inject(lwtest.Fault{Times: -1, Effect: lwtest.Fail(no),
		Match: func(r lwtest.Request) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.taken && (r.Plural == "customresourcedefinitions" || r.Plural == "apiservices")
		}})
	h.server.Inject(lwtest.Fault{Verb: lwtest.Watch, Plural: "customresourcedefinitions", Times: -1,
		Effect: lwtest.Slow(200 * time.Millisecond), Match: func(lwtest.Request) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			slow := h.slow
			h.slow = false
			return slow
		}})
}

// write changes what the server has.
func (h *history) write(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	clear(h.live)
	for _, d := range h.defined() {
		if !d.served() {
			continue
		}
		for o := range h.objects(d.Status.AcceptedNames.Plural + "." + group).All() {
			h.live[o.UID] = true
			if h.born[o.UID] == "" {
				h.born[o.UID] = d.UID
			}
		}
	}
	for o := range h.metric.All() {
		h.live[o.UID], h.born[o.UID] = true, "metrics"
	}
	for _, s := range h.all {
		stand, _ := h.truth(s)
		s.excused = s.excused || stand == isKept
	}
}

// leaves checks that what runs for kinds that are gone is what ran before they came.
func (h *history) leaves() {
	gone := func() int {
		for _, d := range h.defined() {
			h.write(func() { h.undefine(spec{plural: strings.TrimSuffix(d.Name, "."+group)}) })
		}
		h.release()
		h.rest(false)
		h.server.Client().CloseIdleConnections()
		synctest.Wait()
		return runtime.NumGoroutine()
	}
	before := gone()
	for range 3 {
		h.write(func() { h.put(widgets.object()); h.create("widgets", "a", "x") })
		time.Sleep(time.Minute)
		h.write(func() { h.undefine(widgets) })
		time.Sleep(time.Minute)
	}
	if after := gone(); after > before+2 { // a connection may be another one
		buf := make([]byte, 1<<20)
		h.r.Fatalf("7: %d goroutines, and before %d\n%s", after, before, buf[:runtime.Stack(buf, true)])
	}
}

func keyOf(o *widget) lw.Key { return lw.Key{Namespace: o.Namespace, Name: o.Name} }

func (h *history) put(o *unstructured.Unstructured) { h.world.put(o) }

// note has the history fail with a mistake that another goroutine has found. mu is held.
func (h *history) noteLocked(format string, args ...any) {
	if h.wrong == "" {
		h.wrong = fmt.Sprintf(format, args...)
	}
}
