package unkind

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// A Result is what a run of a command has come to.
type Result struct {
	Failed bool
	Faults []string // the faults that its servers have told of, a line each, in time
}

// A Run runs a command once, with servers that are as unkind as a day says. Its error is that of a
// command that could not be run.
type Run func(ctx context.Context, day Day) (Result, error)

const (
	again = 3  // how often a command runs with each kind alone
	most  = 60 // how many faults of a run are printed
)

// Explain runs a command on a kind day and then on day. If it fails by the day, it runs it again
// with each kind of fault alone, three times, and writes to w which ones it fails by, what was done
// to it, and the line that repeats that. It returns whether the command has failed on either day.
func Explain(ctx context.Context, day Day, command []string, run Run, w io.Writer) (failed bool, err error) {
	e := explainer{command: command, run: run, w: w}
	kind, err := e.once(ctx, Day{})
	if err != nil {
		return false, err
	}
	if kind.Failed {
		e.say("lwenvtest: the command fails on a kind day, so an unkind one would say nothing")
		return true, nil
	}
	e.say("lwenvtest: the command passes on a kind day; the seed of the unkind one is %d", day.Seed)
	first, err := e.once(ctx, day)
	if err != nil {
		return false, err
	}
	switch {
	case len(first.Faults) == 0:
		e.say("lwenvtest: no request has met a fault, so this says nothing%s", hint(day))
		return first.Failed, nil
	case !first.Failed:
		e.say("lwenvtest: the command passes on the unkind day too, with %d faults", len(first.Faults))
		return false, nil
	}
	e.say("lwenvtest: the command fails on the unkind day, with %d faults; now with each kind alone", len(first.Faults))
	alone := false
	for _, kind := range sorted(day.kinds()) {
		found, err := e.alone(ctx, day, kind)
		if err != nil {
			return true, err
		}
		alone = alone || found
	}
	if !alone {
		e.say("lwenvtest: no kind alone makes it fail; this is what all did together")
		e.show(day, first)
	}
	return true, nil
}

// hint says what may be wrong with a day on which nothing has happened.
func hint(day Day) string {
	if day.Agent == nil {
		return ""
	}
	return fmt.Sprintf(": is there a User-Agent like %q?", day.Agent)
}

// An explainer is Explain at work.
type explainer struct {
	command []string
	run     Run
	w       io.Writer
}

func (e explainer) say(format string, args ...any) { fmt.Fprintf(e.w, format+"\n", args...) }

// once runs the command once, unless ctx is done.
func (e explainer) once(ctx context.Context, day Day) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	return e.run(ctx, day)
}

// alone runs the command with one of the day's kinds, and reports whether it has failed.
func (e explainer) alone(ctx context.Context, day Day, kind Kind) (bool, error) {
	day.Kinds = map[Kind]float64{kind: day.Kinds[kind]}
	var last Result
	fell := 0
	for range again {
		r, err := e.once(ctx, day)
		if err != nil {
			return false, err
		}
		if r.Failed {
			fell++
			last = r
		}
	}
	e.say("lwenvtest: %s: fails %d times of %d", kind, fell, again)
	if fell > 0 {
		e.show(day, last)
	}
	return fell > 0, nil
}

// show prints the faults of a run, and how to repeat it.
func (e explainer) show(day Day, r Result) {
	for i, line := range r.Faults {
		if i == most {
			e.say("  and %d more", len(r.Faults)-most)
			break
		}
		e.say("  %s", line)
	}
	words := append([]string{"lwenvtest"}, day.Flags()...)
	words = append(append(words, "--"), e.command...)
	for i, word := range words {
		words[i] = quote(word)
	}
	e.say("again: %s", strings.Join(words, " "))
}

// quote returns a word as a shell reads it.
func quote(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
