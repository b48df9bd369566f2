package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A verdict is what became of a mutant.
type verdict struct {
	state state
	by    string // the test that caught it
	took  time.Duration
}

type state int

const (
	untried   state = iota
	unreached       // no test comes by it
	survived
	caught
	hung        // the tests did not end, which they do otherwise
	caughtRaces // only the race detector sees it
)

func (v verdict) String() string {
	return [...]string{"not tried", "no test comes by it", "SURVIVED", "caught by " + v.by, "caught: the tests hang", "caught by the race detector, " + v.by}[v.state]
}

// errHung is the error of a run that was ended.
var errHung = errors.New("did not end in time")

// run runs a test binary with bounds to its time and its memory.
func (w *workshop) run(s *suite, binary string, limit time.Duration, env []string, args ...string) (out string, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	words := append([]string{binary, "-test.timeout=0", "-test.failfast"}, append(args, s.flags...)...)
	if binary != s.race {
		// A mutant may take all memory there is. The race detector reserves more address space than
		// any machine has memory.
		words = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -v %d && exec "$0" "$@"`, w.opts.memory<<20)}, words...)
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.dir, append(os.Environ(), env...), 5*time.Second
	var buf bytes.Buffer
	cmd.Stdout, cmd.Stderr = &buf, &buf
	start := time.Now()
	err = cmd.Run()
	if ctx.Err() != nil {
		err = errHung
	}
	return buf.String(), time.Since(start), err
}

// tryAll runs, for each mutant, the tests that come by it until one fails.
func (w *workshop) tryAll() {
	var done atomic.Int64
	each(w.opts.parallel, w.mutants, func(_ int, m *mutant) {
		start := time.Now()
		m.verdict = w.try(m, false)
		m.verdict.took = time.Since(start)
		n := done.Add(1)
		if v := m.verdict.state; w.opts.verbose || v == survived || v == unreached {
			progress("%d/%d %s: %s", n, len(w.mutants), m, m.verdict)
		}
	})
}

// tryRace builds the tests under the race detector, and runs them for what survived.
func (w *workshop) tryRace() error {
	if err := w.build(true); err != nil {
		return err
	}
	each(w.opts.parallel, w.mutants, func(_ int, m *mutant) {
		if m.verdict.state != survived {
			return
		}
		if v := w.try(m, true); v.state == caught {
			m.verdict.state, m.verdict.by = caughtRaces, v.by
		}
	})
	return nil
}

// quick is what a test takes that is run together with others.
const quick = 500 * time.Millisecond

// try runs the tests that come by m: the quick ones of its package, the others of it, and then
// those of the packages built from it.
func (w *workshop) try(m *mutant, race bool) verdict {
	reached := false
	for _, s := range w.suites {
		var batch, single []*test
		for _, t := range s.tests {
			switch {
			case !t.seen[m.id]:
			case t.took < quick:
				batch = append(batch, t)
			default:
				single = append(single, t)
			}
		}
		slices.SortFunc(single, func(a, b *test) int { return cmp.Compare(a.took, b.took) })
		runs := make([][]*test, 0, 1+len(single))
		if len(batch) > 0 {
			runs = append(runs, batch)
		}
		for _, t := range single {
			runs = append(runs, []*test{t})
		}
		for _, tests := range runs {
			reached = true
			if v := w.runTests(m, s, tests, race); v.state != survived {
				return v
			}
		}
	}
	if !reached {
		return verdict{state: unreached}
	}
	return verdict{state: survived}
}

func (w *workshop) runTests(m *mutant, s *suite, tests []*test, race bool) verdict {
	var took time.Duration
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = t.name
		took += t.took
	}
	binary, limit := s.binary, w.opts.patience+5*took
	if race {
		binary, limit = s.race, w.opts.patience+50*took
	}
	out, _, err := w.run(s, binary, limit, []string{mutantVariable + "=" + strconv.Itoa(m.id)}, "-test.run", "^("+strings.Join(names, "|")+")$")
	if w.opts.only != 0 {
		fmt.Printf("%s %s\n%s\n", s.path, names, out)
	}
	switch {
	case err == nil:
		return verdict{state: survived}
	case errors.Is(err, errHung):
		return verdict{state: hung}
	}
	return verdict{state: caught, by: catcher(out)}
}

var (
	failed   = regexp.MustCompile(`--- FAIL: (\S+)`)
	panicked = regexp.MustCompile(`(?m)^(?:panic|fatal error|runtime): (.{0,60})`)
)

// catcher names what made the tests fail.
func catcher(text string) string {
	if m := failed.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	if m := panicked.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return "a failure without a name"
}
