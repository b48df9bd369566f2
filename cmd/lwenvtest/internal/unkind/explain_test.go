package unkind_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/unkind"
)

// A command is one that fails by some kinds of faults, or by several together.
type command struct {
	fails  func(kinds []unkind.Kind, run int) bool
	faults int
	days   []string // the flags of each run
}

func (c *command) run(_ context.Context, day unkind.Day) (unkind.Result, error) {
	flags := strings.Join(day.Flags(), " ")
	c.days = append(c.days, flags)
	var kinds []unkind.Kind
	if _, list, named := strings.Cut(flags, "-kinds="); named {
		for name := range strings.SplitSeq(list, ",") {
			kind, _, _ := strings.Cut(name, "=")
			kinds = append(kinds, unkind.Kind(kind))
		}
	} else if day.Seed != 0 {
		kinds = []unkind.Kind{unkind.Cut, unkind.Expired, unkind.Lag}
	}
	r := unkind.Result{Failed: c.fails(kinds, len(c.days))}
	if day.Seed != 0 {
		for i := range c.faults {
			r.Faults = append(r.Faults, fmt.Sprintf("+%d.000s fault of run %d", i, len(c.days)))
		}
	}
	return r, nil
}

func TestExplain(t *testing.T) {
	has := func(kind unkind.Kind) func([]unkind.Kind, int) bool {
		return func(kinds []unkind.Kind, _ int) bool { return slices.Contains(kinds, kind) }
	}
	program := regexp.MustCompile("my program|its")
	three := map[unkind.Kind]float64{unkind.Lag: 0, unkind.Error: .3, unkind.Cut: 0}
	for _, c := range []struct {
		name   string
		day    unkind.Day
		fails  func(kinds []unkind.Kind, run int) bool
		faults int
		runs   int
		failed bool
		want   string
	}{
		{"fails anyway", unkind.Day{Seed: 7}, func([]unkind.Kind, int) bool { return true }, 1, 1, true,
			`lwenvtest: the command fails on a kind day, so an unkind one would say nothing
`},
		{"passes", unkind.Day{Seed: 7}, func([]unkind.Kind, int) bool { return false }, 2, 2, false,
			`lwenvtest: the command passes on a kind day; the seed of the unkind one is 7
lwenvtest: the command passes on the unkind day too, with 2 faults
`},
		{"meets nothing", unkind.Day{Seed: 7}, func([]unkind.Kind, int) bool { return false }, 0, 2, false,
			`lwenvtest: the command passes on a kind day; the seed of the unkind one is 7
lwenvtest: no request has met a fault, so this says nothing
`},
		{"of an agent that is not there", unkind.Day{Seed: 7, Agent: program}, func([]unkind.Kind, int) bool { return false }, 0, 2, false,
			`lwenvtest: the command passes on a kind day; the seed of the unkind one is 7
lwenvtest: no request has met a fault, so this says nothing: is there a User-Agent like "my program|its"?
`},
		{"by one kind", unkind.Day{Seed: 7, Agent: program, Kinds: three}, has(unkind.Error), 2, 11, true,
			`lwenvtest: the command passes on a kind day; the seed of the unkind one is 7
lwenvtest: the command fails on the unkind day, with 2 faults; now with each kind alone
lwenvtest: cut: fails 0 times of 3
lwenvtest: error: fails 3 times of 3
  +0.000s fault of run 8
  +1.000s fault of run 8
again: lwenvtest -unkind=7 '-agent=my program|its' -kinds=error=0.3 -- go test -run 'It'\''s|that' ./...
lwenvtest: lag: fails 0 times of 3
`},
		{"once of three", unkind.Day{Seed: 7}, func(_ []unkind.Kind, run int) bool { return run == 2 || run == 6 }, 1, 11, true,
			`lwenvtest: the command passes on a kind day; the seed of the unkind one is 7
lwenvtest: the command fails on the unkind day, with 1 faults; now with each kind alone
lwenvtest: cut: fails 0 times of 3
lwenvtest: expired: fails 1 times of 3
  +0.000s fault of run 6
again: lwenvtest -unkind=7 -kinds=expired -- go test -run 'It'\''s|that' ./...
lwenvtest: lag: fails 0 times of 3
`},
		{"by all together", unkind.Day{Seed: 7}, func(kinds []unkind.Kind, _ int) bool { return len(kinds) > 1 }, 62, 11, true,
			`lwenvtest: the command passes on a kind day; the seed of the unkind one is 7
lwenvtest: the command fails on the unkind day, with 62 faults; now with each kind alone
lwenvtest: cut: fails 0 times of 3
lwenvtest: expired: fails 0 times of 3
lwenvtest: lag: fails 0 times of 3
lwenvtest: no kind alone makes it fail; this is what all did together
` + lines(60) + `  and 2 more
again: lwenvtest -unkind=7 -- go test -run 'It'\''s|that' ./...
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			cmd := &command{fails: c.fails, faults: c.faults}
			failed, err := unkind.Explain(t.Context(), c.day, []string{"go", "test", "-run", "It's|that", "./..."}, cmd.run, &out)
			if failed != c.failed || err != nil || len(cmd.days) != c.runs || cmd.days[0] != "" {
				t.Errorf("failed: %v, %v; %d runs, want %d: %q", failed, err, len(cmd.days), c.runs, cmd.days)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  +%d.000s fault of run 2\n", i)
	}
	return b.String()
}

// A command that cannot be run, and a context that is done, end it.
func TestExplainErrors(t *testing.T) {
	broken := errors.New("no such command")
	for stop := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		runs := 0
		run := func(_ context.Context, day unkind.Day) (unkind.Result, error) {
			if runs++; runs > stop {
				return unkind.Result{}, broken
			}
			return unkind.Result{Failed: day.Seed != 0, Faults: []string{"one"}}, nil
		}
		var out strings.Builder
		failed, err := unkind.Explain(ctx, unkind.Day{Seed: 1}, nil, run, &out)
		if !errors.Is(err, broken) || runs != stop+1 || failed != (stop > 1) {
			t.Errorf("stop %d: failed %v, %v after %d runs", stop, failed, err, runs)
		}
		runs = -100
		if cancel(); stop == 0 {
			if _, err := unkind.Explain(ctx, unkind.Day{Seed: 1}, nil, run, &out); !errors.Is(err, context.Canceled) || runs != -100 {
				t.Errorf("done: %v after %d runs", err, runs+100)
			}
		}
	}
}
