package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Everything but the figures: a package whose mutants are known, and what becomes of each.
func TestZoo(t *testing.T) {
	o := options{parallel: 2, patience: 10 * time.Second, memory: 8}
	packages, err := load([]string{"./testdata/zoo"})
	if err != nil {
		t.Fatal(err)
	}
	packages[0].find()
	all := number(packages[0], 0)
	w, err := newWorkshop(o, packages, choose(all, every, every, o))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if err := w.build(false); err != nil {
		t.Fatal(err)
	}
	if err := w.trace(); err != nil {
		t.Fatal(err)
	}
	w.tryAll()
	got := map[string]string{}
	for _, m := range all {
		what := fmt.Sprintf("%s: %s %s -> %s", m.function, m.kind, flat(m.was), flat(m.is))
		got[what] = m.verdict.String()
	}
	const clamp, count, hangs, unseen, survives = "caught by TestClamp", "caught by TestCount", "caught: the tests hang", "no test comes by it", "SURVIVED"
	const bit, queue, digits, named = "caught by TestBit", "caught by TestQueue", "caught by TestDigits", "caught by TestNames"
	const sorted, twice, span = "caught by TestSorted", "caught by TestTwice", "caught by TestSpan"
	panics := got["Count: condition decided i == len(list) -> false"] // its text is the runtime's
	want := map[string]string{
		"Clamp: condition decided n > most -> true":                                               clamp,
		"Clamp: condition decided n > most -> false":                                              clamp,
		"Clamp: boundary moved n > most -> n >= most":                                             survives, // it changes nothing
		"Clamp: result zeroed return most -> return *new(int)":                                    clamp,
		"Clamp: result zeroed return n -> return *new(int)":                                       clamp,
		"Count: constant changed 0 -> (0) + 1":                                                    panics,
		"Count: condition decided i == len(list) -> true":                                         count,
		"Count: condition decided i == len(list) -> false":                                        panics,
		"Count: break and continue break -> ":                                                     panics,
		"Count: break and continue break -> continue":                                             hangs,
		"Count: condition decided list[i] == v && len(list) > 0 -> false":                         count,
		"Count: condition decided list[i] == v && len(list) > 0 -> true":                          count,
		"Count: condition decided list[i] == v -> true":                                           count,
		"Count: condition decided len(list) > 0 -> true":                                          survives, // it is true
		"Count: boundary moved len(list) > 0 -> len(list) >= 0":                                   survives,
		"Count: && and || swapped list[i] == v && len(list) > 0 -> list[i] == v || len(list) > 0": count,
		"Count: statement removed n++ -> ":                                                        count,
		"Count: arithmetic changed n++ -> n--":                                                    count,
		"Count: statement removed i++ -> ":                                                        hangs,
		"Count: arithmetic changed i++ -> i--":                                                    panics,
		"Count: result zeroed return n -> return *new(uint8)":                                     count,
		"Forgotten: condition decided ok -> true":                                                 unseen,
		"Forgotten: condition decided ok -> false":                                                unseen,
		"Edge: constant changed wide -> (wide) * 2":                                               "not tried", // it does not compile
		"Edge: constant changed wide -> (wide) / 2":                                               "caught by TestEdge",
		"Bit: result zeroed return 1 << (n % 64) -> return *new(uint64)":                          bit,
		"Bit: arithmetic changed 1 << (n % 64) -> 1 >> (n % 64)":                                  bit,
		"Bit: arithmetic changed n % 64 -> n * 64":                                                bit,
		"Bit: constant changed 1 -> (1) + 1":                                                      bit,
		"Bit: constant changed 1 -> (1) - 1":                                                      bit,
		"Bit: constant changed 64 -> (64) * 2":                                                    bit,
		"Bit: constant changed 64 -> (64) / 2":                                                    bit,

		"(*Queue).Put: arithmetic changed q.last++ -> q.last--":                                               queue,
		"(*Queue).Put: statement removed q.items[q.last] = item -> ":                                          queue,
		"(*Queue).Put: statement removed q.last++ -> ":                                                        queue,
		"(*Queue).Put: statements exchanged q.items[q.last] = item -> q.last++":                               queue,
		"(*Queue).Put: value of the neighbour q.last -> q.first":                                              queue,
		"(*Span).DeepCopy: result zeroed return &c -> return *new(*Span)":                                     span,
		"(*Span).Moved: copy forgotten s.DeepCopy() -> s":                                                     span,
		"(*Span).Moved: result zeroed return s -> return *new(*Span)":                                         span,
		"(*Span).Moved: statement removed s = s.DeepCopy() -> ":                                               span,
		"(*Span).Moved: statement removed s.From += n -> ":                                                    span,
		"(*Span).Moved: statements exchanged s = s.DeepCopy() -> s.From += n":                                 span,
		"(*Span).Moved: value of the neighbour s.From -> s.To":                                                span,
		"Clamp: value of the neighbour most -> n":                                                             clamp,
		"Clamp: value of the neighbour n -> most":                                                             clamp,
		"Count: statements exchanged if i == len(list) { break } -> if list[i] == v && len(list) > 0 { n++ }": count,
		"Count: statements exchanged if list[i] == v && len(list) > 0 { n++ } -> i++":                         count,
		"Digits: arithmetic changed tens*10 + ones -> tens*10 - ones":                                         digits,
		"Digits: arithmetic changed tens*10 -> tens + 10":                                                     digits,
		"Digits: constant changed 10 -> (10) + 1":                                                             digits,
		"Digits: constant changed 10 -> (10) - 1":                                                             digits,
		"Digits: result zeroed return tens*10 + ones -> return *new(int)":                                     digits,
		"Digits: statements exchanged tens := next() -> ones := next()":                                       digits,
		"Digits: value of the neighbour ones -> tens":                                                         digits,
		"Digits: value of the neighbour tens -> ones":                                                         digits,
		"Names: condition decided len(bytes) == 0 -> false":                                                   named,
		"Names: condition decided len(bytes) == 0 -> true":                                                    named,
		"Names: constant changed 0 -> (0) + 1":                                                                named,
		"Names: copy forgotten string(bytes) -> lwString(bytes)":                                              named,
		"Names: result zeroed return \"none\" -> return *new(string)":                                         named,
		"Names: result zeroed return string(bytes) -> return *new(string)":                                    named,
		"Names: statement removed *why = \"empty\" -> ":                                                       named,
		"Names: statement removed return \"none\" -> ":                                                        named,
		"NewQueue: result zeroed return q -> return *new(*Queue)":                                             queue,
		"NewQueue: statement removed q.first = at -> ":                                                        queue,
		"NewQueue: statement removed q.last = at -> ":                                                         queue,
		"NewQueue: value of the neighbour q.first -> q.last":                                                  queue,
		"NewQueue: value of the neighbour q.last -> q.first":                                                  queue,
		"Parse: condition decided err == nil -> false":                                                        span,
		"Parse: condition decided err == nil -> true":                                                         span,
		"Parse: constant changed -1 -> (-1) + 1":                                                              span,
		"Parse: constant changed -1 -> (-1) - 1":                                                              span,
		"Parse: constant changed -2 -> (-2) + 1":                                                              span,
		"Parse: constant changed -2 -> (-2) - 1":                                                              span,
		"Parse: result zeroed return Span{From: min(s.From, s.To), To: s.To} -> return *new(Span)":            span,
		"Parse: statement removed if n, err := strconv.Atoi(from); err == nil { s.From = n } -> ":             span,
		"Parse: statement removed log.Info(\"not a number\", \"from\", from, \"to\", to) -> ":                 span,
		"Parse: statement removed s.From = n -> ":                                                             span,
		"Parse: statement removed s.To = n -> ":                                                               span,
		"Parse: statement removed switch n, err := strconv.Atoi(to); err { case nil: s.To = n default: log.Info(\"not a number\", \"from\", from, \"to\", to) } -> ": span,
		"Parse: value of the neighbour from -> to":                                    span,
		"Parse: value of the neighbour min(s.From, s.To) -> s.To":                     span,
		"Parse: value of the neighbour s.From -> s.To":                                span,
		"Parse: value of the neighbour s.To -> min(s.From, s.To)":                     span,
		"Parse: value of the neighbour s.To -> s.From":                                span,
		"Parse: value of the neighbour to -> from":                                    span,
		"Sorted: copy forgotten slices.Clone(list) -> list":                           sorted,
		"Sorted: result zeroed return list -> return *new([]string)":                  sorted,
		"Sorted: statement removed list = slices.Clone(list) -> ":                     sorted,
		"Sorted: statement removed slices.Sort(list) -> ":                             sorted,
		"Sorted: statements exchanged list = slices.Clone(list) -> slices.Sort(list)": sorted,
		"Twice: statement removed defer f() -> ":                                      twice,
		"Twice: statement removed defer g() -> ":                                      twice,
		"Twice: statements exchanged defer f() -> defer g()":                          twice,
		"Twice: value of the neighbour f -> g":                                        twice,
		"Twice: value of the neighbour g -> f":                                        twice,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if panics == survives || panics == unseen {
		t.Errorf("a panic is %q", panics)
	}
	if len(w.stillborn) != 1 || len(w.failing) != 0 {
		t.Errorf("%v are not Go, %v fail by themselves", w.stillborn, w.failing)
	}
}

// Every entry fits the code, has a reason, and what it names is not drawn.
func TestEquivalents(t *testing.T) {
	packages, err := load([]string{
		"../../..", "../../table", "../../decode", "../../equal", "../../signal", "../../../serve", "../../rest", "../../wire", "../../listopts", "../../order",
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []*mutant
	for _, p := range packages {
		p.find()
		all = append(all, number(p, len(all))...)
	}
	if len(all) < 8000 {
		t.Errorf("%d mutants, want 8000", len(all))
	}
	for _, e := range markEquivalents(all) {
		t.Errorf("none, or more than one, is %s", e)
	}
	for _, e := range equivalents {
		if e.why == "" {
			t.Errorf("%s %s: no reason", e.file, e.was)
		}
		if _, err := os.Stat(filepath.Join("../../..", e.file)); err != nil {
			t.Error(err) // markEquivalents passes over it
		}
	}
	for _, m := range choose(all, every, every, options{}) {
		if m.equivalent {
			t.Errorf("drawn: %s", m)
		}
	}
	a, b := choose(all, every, every, options{sample: 5, seed: 1}), choose(all, every, every, options{sample: 5, seed: 1})
	if len(a) != 50 || cmp.Diff(names(a), names(b)) != "" {
		t.Errorf("a sample is drawn differently: %v, %v", names(a), names(b))
	}
}

// flat is text in one line.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

var every = regexp.MustCompile("")

func names(list []*mutant) (out []string) {
	for _, m := range list {
		out = append(out, m.String())
	}
	return out
}
