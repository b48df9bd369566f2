package proof

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/oracle"
)

// Small scopes: not some histories of any length, but all short ones. A fault that any history
// shows, a short one shows nearly always. README.md says what is in a scope, and how to run
// more of it.

var (
	scopeFlag   = flag.Int("scope", 2, "small scopes: `commands` of the longest history")
	historyFlag = flag.String("history", "", "small scopes: run this `history` only, as a failure printed it")
)

// SmallScope runs every history of up to so many commands over two keys with each incident at each
// place, against a server behind HTTP. over returns the transport of one history.
func SmallScope(t *testing.T, over func() Transport) {
	relay := over().Relays > 0
	scope{
		server: func() partServer { return newWeb(over()) },
		setups: []scopeSetup{
			{mode: lw.ListAuto, http: true, relay: relay, less: 1}, {mode: lw.ListPages, full: true, http: true,
				relay: relay, less: 2},
		},
	}.run(t)
}

// A scope is a set of histories.
type scope struct {
	server func() partServer
	setups []scopeSetup
}

// A scopeSetup is what a history begins with.
type scopeSetup struct {
	mode     lw.ListMode
	full     bool // a, b and c are there; else nothing is
	selector bool
	turns    bool // with a transform
	http     bool
	relay    bool // behind a relay
	less     int  // its histories are so many commands shorter
}

func (s scopeSetup) String() string {
	words := []string{map[lw.ListMode]string{lw.ListAuto: "auto", lw.ListPages: "pages"}[s.mode]}
	for _, w := range []struct {
		is   bool
		word string
	}{{s.full, "full"}, {s.selector, "selector"}, {s.turns, "transform"}, {s.http, "http"}, {s.relay, "relay"}} {
		if w.is {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, " ")
}

// A scopeHistory is a sequence of steps, of which one at most is an incident.
type scopeHistory struct {
	setup scopeSetup
	steps []string
}

func (h scopeHistory) String() string { return h.setup.String() + ": " + strings.Join(h.steps, "; ") }

// run runs all of the scope, on all processors.
func (s scope) run(t *testing.T) {
	todo := make(chan scopeHistory)
	var (
		mu     sync.Mutex
		counts = map[string]int{}
		faults = map[string]int{}
		failed int
		met    = map[string]int{}
		wait   sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			// A bubble that fails, as after a race, ends its goroutine. The sender must not wait
			// for it.
			defer func() {
				for range todo {
				}
			}()
			for h := range todo {
				result, injected, err := s.try(t, h)
				mu.Lock()
				counts[h.setup.String()]++
				for _, id := range injected {
					faults[id]++
				}
				for id, n := range result.Premises {
					met[id] += n
				}
				if err != nil {
					if failed++; failed <= 5 {
						t.Errorf("%v\nagain, in the directory of the test: go test -run '^%s$' -history '%s'", err, t.Name(), h)
					}
				}
				mu.Unlock()
			}
		})
	}
	all := 0
	add := func(h scopeHistory) { todo <- h; all++ }
	if *historyFlag != "" {
		s.parse(t, *historyFlag, add)
	} else {
		s.each(add)
	}
	close(todo)
	wait.Wait()
	if *historyFlag == "" && *scopeFlag-s.setups[0].less >= 2 {
		s.guard(t, met, faults)
	}
	t.Logf("all %d histories of up to %d commands, each with %d incidents; %d failed: %v", all, *scopeFlag, len(faults),
		failed, counts)
}

// parse reads a history as a failure prints it.
func (s scope) parse(t *testing.T, text string, yield func(scopeHistory)) {
	in, steps, _ := strings.Cut(text, ": ")
	for _, setup := range s.setups {
		if setup.String() == in {
			yield(scopeHistory{setup, strings.Split(steps, "; ")})
			return
		}
	}
	t.Errorf("%s has no histories of %q, but of %v", t.Name(), in, s.setups)
}

// guard fails a scope that puts nothing to the test.
func (s scope) guard(t *testing.T, met, faults map[string]int) {
	for _, id := range strings.Fields("S1 S2 S11 H1 H3 H4 H6 H7 H8 A2 Y2 R1 R2 R3 R5 R7 R9 R12 R13 R16 R17 G1 L1 L2 L3 L4 L5") {
		if met[id] == 0 {
			t.Errorf("no history put %s to the test", id)
		}
	}
	for _, setup := range s.setups {
		for _, in := range scopeIncidents(setup) {
			if faults[in.name] == 0 {
				t.Errorf("no history came by the incident %q", in.name)
			}
		}
	}
}

// each calls yield for all histories, always in the same order.
func (s scope) each(yield func(scopeHistory)) {
	for _, setup := range s.setups {
		for n := range max(1, *scopeFlag-setup.less+1) {
			scopeCommands(n, setup.full, func(commands []string) { setup.each(commands, yield) })
		}
	}
}

// scopeCommands yields all sequences of n writes to a and b that change something.
func scopeCommands(n int, full bool, yield func([]string)) {
	there := map[string]bool{"a": full, "b": full}
	var steps []string
	var next func()
	next = func() {
		if len(steps) == n {
			yield(steps)
			return
		}
		for _, name := range []string{"a", "b"} {
			was := there[name]
			verbs := []string{"create"}
			if was {
				verbs = []string{"update", "delete", "recreate"}
			}
			for _, verb := range verbs {
				there[name] = verb != "delete"
				steps = append(steps, verb+" "+name)
				next()
				steps = steps[:len(steps)-1]
			}
			there[name] = was
		}
	}
	next()
}

// each yields commands alone, and with each incident at each place, after which time passes or does
// not.
func (s scopeSetup) each(commands []string, yield func(scopeHistory)) {
	history := func(steps ...string) {
		yield(scopeHistory{s, slices.Clone(steps)})
	}
	insert := func(at int, what ...string) {
		steps := append([]string{"start"}, commands[:max(at, 0)]...)
		if at < 0 {
			steps = append(what, "start")
		} else {
			steps = append(steps, what...)
		}
		history(append(steps, commands[max(at, 0):]...)...)
	}
	insert(0)
	for _, in := range scopeIncidents(s) {
		name := "[" + in.name + "]"
		if in.early {
			insert(-1, name)
		}
		for at := range len(commands) + 1 {
			for _, trigger := range in.triggers {
				insert(at, name+trigger)
				if at < len(commands) { // at the end time passes anyway
					insert(at, name+trigger, "time")
				}
			}
		}
	}
}

// try runs one history in a bubble of its own.
func (s scope) try(t *testing.T, h scopeHistory) (result oracle.Result, injected []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	synctest.Test(t, func(*testing.T) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		w := newScopeRun(h.setup, s.server())
		for _, step := range h.steps {
			w.step(step)
		}
		w.after()
		w.cameBy()
		w.settle()
		w.end()
		result, injected = w.log.Check(func(ref any) oracle.Item { return *describe(ref.(*Part)) }), w.injected
	})
	if err == nil && len(result.Violations) > 0 {
		err = fmt.Errorf("%v", result.Violations[0])
	}
	return result, injected, err
}
