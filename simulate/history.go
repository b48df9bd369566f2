package simulate

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/yaml"
)

// A history is one run of the program, in one bubble. All of it happens in the bubble's root
// goroutine, apart from what the program and the server do in theirs.
type history struct {
	world  *World
	plan   plan
	calm   *calmRun // nil: this is the calm run
	server *lwtest.Server
	gate   *gate
	rng    *rand.Rand // nil: first come, first served

	// The program.
	cancel   context.CancelFunc
	ended    chan error
	restarts int // after it has ended by itself

	// The scheduler.
	weights map[string]int
	round   int // how often the program has come to rest
	tries   int // the writes that the program has tried
	writes  int // those that have changed something
	holds   []*holding
	used    []bool         // which faults of the plan have happened
	idle    map[string]int // the actors that had nothing to do, with the change at which that was so
	absent  map[string]bool
	stale   map[string]int  // the fault that makes the next list of a resource an older one
	lists   map[string]bool // the resources of which a list may be older
	last    bool            // the steps are done
	story   []string        // what happened
	live    bool            // each line is printed at once, too
	began   int             // the line of the last step of World.Steps

	// What is known of the server.
	version  string
	seen     State    // all objects, at that version
	recent   []change // the last ones
	held     string   // what state prints, at that version
	changes  int      // of the version
	changed  time.Time
	marks    []*imprint
	kept     []*imprint     // those that are finalizers
	loses    bool           // the program has removed a mark that it had seen
	known    map[string]int // the UIDs that this start of the program may know of, with the rest since when
	made     string         // the UID of what it makes now
	asked    int            // the rest at which it has asked for that
	children map[string]int
	fault    map[string]int // how many of each kind have happened
	pairs    map[string]bool
	names    map[string]bool // the kinds and names of all objects that there were
	error    string          // that was logged at rest
}

const never = 1 << 30 // of rests

// A holding is a watch that a fault holds.
type holding struct {
	on   string
	till int       // the change that ends it,
	end  time.Time // if time does not
}

// hold holds watches for some changes, or with 0 for as long as a fault may. No watch lags for ever:
// a program that makes what another one deletes would not come to rest before.
func (h *history) hold(on string, long int) {
	if long == 0 {
		long = 50 + h.calm.Changes
	}
	h.holds = append(h.holds, &holding{on, h.changes + long, time.Now().Add(longest)})
}

// A failure ends a history.
type failure struct {
	Oracle string // what is wrong, in a few words
	Text   string
}

func (f failure) Error() string { return f.Oracle + ": " + f.Text }

// fail ends the history. It is recovered in run.
func (h *history) fail(oracle, format string, args ...any) {
	panic(failure{oracle, fmt.Sprintf(format, args...)})
}

// run makes the history within a bubble, and returns what it found.
func (h *history) run() (out outcome) {
	h.server = lwtest.StartServer(h.world.Resources...)
	h.gate = newGate(h.server)
	h.version, h.changed = h.server.ResourceVersion(), time.Now()
	h.idle, h.weights, h.known, h.absent, h.children = map[string]int{}, map[string]int{}, map[string]int{}, map[string]bool{}, map[string]int{}
	h.fault, h.pairs, h.names, h.lists = map[string]int{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	h.used = make([]bool, len(h.plan.faults))
	if h.plan.order != 0 {
		h.rng = rand.New(rand.NewPCG(h.plan.order, 1))
	}
	utilrand.Seed(int64(h.plan.order) + 1)
	//lint:ignore SA1019 client-go's pauses use this source, which GODEBUG lets a worker seed.
	mathrand.Seed(int64(h.plan.order) + 1)
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			out.Failure = &f
			h.gate.crash()
			if h.cancel != nil {
				h.cancel()
				h.await("")
			}
		}
		h.server.Close()
		out.Loses = h.loses
		out.Story, out.Faults, out.Pairs = h.story, h.fault, keys(h.pairs)
		out.Digest = digest(h.story, h.world.names(State{names: h.stems()}))
		out.Writes, out.Children, out.Error, out.Stale = h.tries, h.children, h.error, keys(h.lists)
	}()
	for _, yaml := range h.world.Before {
		h.apply(yaml)
	}
	h.start()
	h.settle()
	if h.world.Steps != nil {
		h.world.Steps(&W{Server: h.server, h: h})
	}
	h.last = true
	h.settle()
	out.end = h.state()
	out.end.names = h.stems()
	out.Watched = h.watched()
	h.compare(out.end)
	h.restart(&out)
	if h.calm == nil {
		h.proves()
	}
	h.stop()
	return out
}

// An outcome is what a history has shown.
type outcome struct {
	Failure  *failure
	Story    []string
	Digest   uint64
	Faults   map[string]int
	Pairs    []string
	Writes   int
	Watched  []string
	Children map[string]int
	Restart  []string // what a restart wrote at the end
	Error    string   // that was logged at rest
	Changes  int
	Stale    []string // of what a start may read an older state
	Leaks    bool     // goroutines were left
	Loses    bool     // see history
	end      State
}

func (h *history) start() {
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), newLog()))
	h.gate.mu.Lock()
	life := h.gate.life
	h.gate.mu.Unlock()
	config := &rest.Config{
		Host: h.server.URL(), Transport: network{h.gate, life}, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}
	h.cancel, h.ended, h.known = cancel, make(chan error, 1), map[string]int{}
	h.narrate("the program starts")
	go func() {
		defer func() {
			if r := recover(); r != nil {
				stack := make([]byte, 8<<10)
				h.ended <- fmt.Errorf("panic: %v\n%s", r, stack[:runtime.Stack(stack, false)])
			}
		}()
		h.ended <- h.world.Start(ctx, config)
	}()
}

// await waits until Start returns after its context is done, and serves what it asks for until
// then; what: what is said if it does not return.
func (h *history) await(what string) {
	timeout := time.NewTimer(10 * time.Minute)
	defer timeout.Stop()
	for {
		synctest.Wait()
		if requests, _ := h.gate.open(); len(requests) > 0 {
			if requests[0].answer == nil {
				h.serve(requests[0])
			}
			h.gate.release(requests[0])
			continue
		}
		select {
		case <-h.ended:
			h.cancel = nil
			return
		case <-h.gate.wake:
		case <-timeout.C:
			if h.cancel = nil; what != "" {
				h.fail("goroutines", "Start has not returned ten minutes after its context was done (%s): it must end what it started\n%s", what, stacks())
			}
			return
		}
	}
}

// crash ends the program as a process ends, and starts it again.
func (h *history) crash(how string) {
	h.narrate("THE PROGRAM CRASHES %s", how)
	h.gate.crash()
	h.cancel()
	h.await("after a crash")
	h.startStale()
}

// depose ends the program as a manager that has lost its lease ends: it still has a network. If it
// has a lease, its renewals fail from now on, so it does the rest itself, and the answer is false.
func (h *history) depose(how string) bool {
	h.narrate("THE PROGRAM LOSES ITS LEADERSHIP %s", how)
	if h.gate.refuseLease() {
		return false
	}
	h.cancel()
	h.await("after its leadership was lost")
	h.gate.crash()
	h.startStale()
	return true
}

// stop ends the program as a signal does.
func (h *history) stop() {
	h.cancel()
	h.await("at the end")
	h.gate.crash()
}

// restart starts the program once more when all is done: it may read, and has nothing to write.
func (h *history) restart(out *outcome) {
	h.narrate("everything is at rest, and the program is stopped and started again, without a fault")
	h.stop()
	h.plan.faults, h.used, h.rng = nil, nil, nil
	before, from := h.writes, len(h.story)
	h.start()
	h.settle()
	if h.writes == before {
		return
	}
	for _, line := range h.story[from:] {
		if strings.HasPrefix(line, "the program: ") {
			out.Restart = append(out.Restart, line)
		}
	}
	if h.calm != nil && len(h.calm.Restart) == 0 {
		h.fail(mends, "at rest the program had nothing left to do; started again, it made %d writes: what it wrote it should have written before\n  %s",
			h.writes-before, strings.Join(out.Restart, "\n  "))
	}
}

// apply and delete are those of W.
func (h *history) apply(text string) {
	for _, obj := range h.objects(text) {
		h.pause()
		c := h.collection(obj)
		key := lw.KeyOf(obj)
		old, err := c.Get(key)
		if err == nil {
			merge(old.Object, obj.Object)
			_, err = c.Update(old)
		} else {
			_, err = c.Create(obj)
		}
		if err != nil {
			h.fail("the world", "Apply of %s %s: %v", obj.GetKind(), key, err)
		}
		h.user("a user applies %s %s", obj.GetKind(), key)
		h.look()
	}
}

func (h *history) delete(text string, how metav1.DeletionPropagation) {
	for _, obj := range h.objects(text) {
		h.pause()
		path := strings.TrimPrefix(h.collection(obj).URL(obj.GetNamespace()), h.server.URL()) + "/" + obj.GetName()
		asked, err := http.NewRequest(http.MethodDelete, path+"?propagationPolicy="+string(how), http.NoBody)
		if err != nil {
			h.fail("the world", "Delete of %s %s: %v", obj.GetKind(), lw.KeyOf(obj), err)
		}
		answer := &recorder{header: http.Header{}, code: http.StatusOK}
		if h.server.ServeHTTP(answer, asked); answer.code >= 300 {
			h.fail("the world", "Delete of %s %s: %d %s", obj.GetKind(), lw.KeyOf(obj), answer.code, messageOf(answer.body.String()))
		}
		in := ""
		if how != metav1.DeletePropagationBackground {
			in = " (" + string(how) + ")"
		}
		h.user("a user deletes %s %s%s", obj.GetKind(), lw.KeyOf(obj), in)
		h.look()
	}
}

// pause lets some things happen before a step of the user, in a history with an order of its own.
func (h *history) pause() {
	if h.rng == nil || h.cancel == nil {
		return // or nothing runs yet
	}
	for range h.rng.IntN(8) {
		if h.rest(); !h.step() {
			return
		}
	}
	h.rest()
}

func merge(to, from map[string]any) {
	for name, v := range from {
		inner, ok := v.(map[string]any)
		if old, is := to[name].(map[string]any); ok && is {
			merge(old, inner)
		} else {
			to[name] = v
		}
	}
}

// objects reads YAML, of a file unless it is a text.
func (h *history) objects(text string) []*unstructured.Unstructured {
	if !strings.Contains(text, "\n") {
		b, err := os.ReadFile(text)
		if err != nil {
			h.fail("the world", "%v", err)
		}
		text = string(b)
	}
	var out []*unstructured.Unstructured
	for doc := range strings.SplitSeq("\n"+text, "\n---") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &obj.Object); err != nil {
			h.fail("the world", "this is no YAML of an object: %v\n%s", err, doc)
		}
		if len(obj.Object) > 0 {
			out = append(out, obj)
		}
	}
	return out
}

func (h *history) collection(obj *unstructured.Unstructured) *lwtest.Collection[*unstructured.Unstructured] {
	gvk := obj.GroupVersionKind()
	for _, r := range h.world.Resources {
		if r.Version == "" {
			r.Version = "v1"
		}
		if r.Group == gvk.Group && r.Version == gvk.Version && r.Kind == gvk.Kind {
			if !r.Cluster && obj.GetNamespace() == "" {
				obj.SetNamespace("default")
			}
			return lwtest.Objects[*unstructured.Unstructured](h.server, r.Plural)
		}
	}
	h.fail("the world", "the server has no kind %v: give its Resource to World.Resources", gvk)
	return nil
}

func (h *history) watched() []string {
	var out []string
	for _, w := range func() []*watch { _, ws := h.gate.open(); return ws }() {
		if !slices.Contains(out, w.of.plural) {
			out = append(out, w.of.plural)
		}
	}
	slices.Sort(out)
	return out
}

// stopped fails if the program has ended by itself, or has panicked.
func (h *history) stopped() {
	select {
	case err := <-h.ended:
		h.cancel = nil
		if err != nil && len(h.fault) > 0 && h.restarts < 5 {
			h.restarts++ // as a cluster would start it again
			h.narrate("THE PROGRAM ENDS: %v", err)
			h.gate.crash()
			h.startStale()
			return
		}
		hint := "it must run until its context is done"
		if said := lacked(err); said != "" {
			hint = "the server has no such kind: give its Resource to World.Resources, or its definition to World.CRDs (" + said + ")"
		} else if err != nil && strings.Contains(err.Error(), "already exists") {
			hint = "a restart in one process needs ctrl.Options.Controller.SkipNameValidation"
		} else if early := new(cache.ErrCacheNotStarted); errors.As(err, &early) {
			hint = "the caches start with the manager: read before by mgr.GetAPIReader(), or in a Runnable that is added to it"
		} else if len(h.story) < 3 {
			hint = "Start should return what the manager's Start returns"
		}
		h.fail("the program ends", "Start has returned %v: %s", errors.Join(err), hint)
	default:
	}
	if ps := takePanics(); len(ps) > 0 {
		h.fail("panic", "%s", ps[0])
	}
}

func (h *history) stems() map[string]bool {
	out := map[string]bool{}
	for name := range h.names {
		out[bare(name)] = true
	}
	return out
}

func keys(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
