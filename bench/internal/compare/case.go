// Package compare runs the same work with several implementations in turn, and computes the ratios
// of their costs.
package compare

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-lw/lw/bench/internal/measure"
)

// Config says how much to measure.
type Config struct {
	// Rounds is the least number of rounds of a case. A short case has more, unless Short is set.
	Rounds int
	Short  bool
	Log    io.Writer // receives the progress
	// Profile is a directory for a CPU profile of the last run of each side. "" means none.
	// Profiling makes a run slower.
	Profile string
}

// ProfileOf returns the path for a profile of a side, without its extension, or "" if no profile is
// wanted.
func (c Config) ProfileOf(name, side string) string {
	if c.Profile == "" {
		return ""
	}
	return filepath.Join(c.Profile, fileName(name+" "+side))
}

func fileName(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }),
		"-")
}

// N returns full, or short if c.Short is set.
func (c Config) N(full, short int) int {
	if c.Short {
		return short
	}
	return full
}

// A Case is work that several sides do. The doc comment of the function that returns the Case says
// what it compares.
type Case struct {
	Name  string
	Lines []Line
	// Once: one round is enough, because the case does not measure time.
	Once bool
	// Profiles: the sides write their profiles themselves.
	Profiles bool
	// Setup prepares what all rounds need, and returns the sides. It is called just before the case
	// runs, and done after it, so that no other case's data are in memory. done may be nil.
	Setup func(c Config) (sides []Side, done func())
}

// A Side is one implementation of a case's work. Measure does the work once and returns its costs.
type Side struct {
	Name    string
	Measure func() Sample
}

// A Sample is the costs of one run of a side. Its keys are those that the lines of the case name.
type Sample = map[string]float64

// The names of the usual sides. A line compares LW with ClientGo unless it names others.
const (
	ClientGo = "client-go"
	LW       = "lw"
)

// A Line is one line of the table: one value of a case's samples.
type Line struct {
	Row   int    // the row of the goal table
	What  string // what the value is
	Unit  Unit   // the unit of the value
	Key   string // the value's key in a Sample
	Base  string // the side to compare with; default: client-go
	Side  string // the side that is compared; default: lw
	Goal  Goal
	Chart bool // README's chart shows the line
}

// A Goal is what a line's ratio or value must reach. The zero Goal means that there is none: the
// line is only shown.
type Goal struct {
	kind  goalKind
	value float64
}

type goalKind int

const (
	noGoal goalKind = iota
	times
	most
)

// Times asks that the side is at least x times as good as its base: that it costs at most 1/x, or
// does at least x times as much in a second. An x below 1 allows it to be worse.
func Times(x float64) Goal { return Goal{times, x} }

// Most asks for a value of at most v, whatever the value of the base is.
func Most(v float64) Goal { return Goal{most, v} }

// describe returns g as text.
func (g Goal) describe(u Unit) string {
	switch g.kind {
	case times:
		return fmt.Sprintf("≥ %sx", number(g.value))
	case most:
		return "≤ " + u.format(g.value)
	}
	return ""
}

func (g Goal) met(ratio, side float64) bool {
	switch g.kind {
	case times:
		return ratio >= g.value
	case most:
		return side <= g.value
	}
	return true
}

// A Result is the result of a line: medians over the rounds.
type Result struct {
	Row   int
	What  string
	Unit  Unit
	Base  float64
	Side  float64
	Ratio *float64 // nil if it is infinite or not a number
	Low   *float64
	High  *float64
	Goal  string
	Met   *bool
	Bar   *Bar // nil if the chart does not show the line
}

// A Bar is a bar of the chart: how many times better the side is than its base, and how many times
// better it must be.
type Bar struct {
	Times float64
	Goal  float64 // 0: none
}

// bar returns the bar of a line, or nil if it has none.
func (l Line) bar(ratio float64) *Bar {
	if !l.Chart || finite(ratio) == nil {
		return nil
	}
	bar := &Bar{Times: ratio}
	if l.Goal.kind == times {
		bar.Goal = l.Goal.value
	}
	return bar
}

const (
	// A case has Config.Rounds rounds at least. Then it goes on for moreTime in all, or up to
	// moreRounds times as many rounds. The median of a few short rounds would show what else the
	// machine did in that second.
	moreTime   = 12 * time.Second
	moreRounds = 5
)

// Run measures all sides of c in turn, in cfg.Rounds rounds or more, and returns the results of its
// lines. Each round begins with another side, so that no side always comes after the same one.
func (c *Case) Run(cfg Config) []Result {
	sides, done := c.Setup(cfg)
	if done != nil {
		defer done()
	}
	rounds, most := cfg.Rounds, cfg.N(moreRounds*cfg.Rounds, cfg.Rounds)
	if c.Once {
		rounds, most = 1, 1
	}
	samples := map[string][]Sample{}
	start := time.Now()
	for round := 0; round < rounds || round < most && time.Since(start) < moreTime; round++ {
		for i := range sides {
			s := sides[(i+round)%len(sides)]
			var sample Sample
			measured := func() { sample = s.Measure() }
			if file := cfg.ProfileOf(c.Name, s.Name); file == "" || c.Profiles {
				measured()
			} else if err := measure.Profile(file+".pprof", measured); err != nil {
				panic("compare: " + err.Error())
			}
			samples[s.Name] = append(samples[s.Name], sample)
		}
	}
	results := make([]Result, len(c.Lines))
	for i, line := range c.Lines {
		results[i] = line.result(samples)
	}
	return results
}

// result computes the result of a line from the samples of each side.
func (l Line) result(samples map[string][]Sample) Result {
	values := func(side string) []float64 {
		if len(samples[side]) == 0 {
			panic(fmt.Sprintf("compare: %s: no side %q", l.What, side))
		}
		var values []float64
		for _, s := range samples[side] {
			v, ok := s[l.Key]
			if !ok {
				panic(fmt.Sprintf("compare: %s: side %q has no %q", l.What, side, l.Key))
			}
			values = append(values, v)
		}
		return values
	}
	base, side := values(cmp.Or(l.Base, ClientGo)), values(cmp.Or(l.Side, LW))
	// Take the ratio within each round: the machine may be slower in one round than in another.
	ratios := make([]float64, len(side))
	for i := range side {
		ratios[i] = l.Unit.ratio(base[i], side[i])
	}
	r := Result{
		Row: l.Row, What: l.What, Unit: l.Unit, Goal: l.Goal.describe(l.Unit), Base: median(base), Side: median(side),
	}
	ratio := median(ratios)
	r.Ratio, r.Low, r.High = finite(ratio), finite(slices.Min(ratios)), finite(slices.Max(ratios))
	r.Bar = l.bar(ratio)
	if l.Goal.kind != noGoal {
		met := l.Goal.met(ratio, r.Side)
		r.Met = &met
	}
	return r
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	if n%2 == 0 && !math.IsInf(values[n/2], 0) {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[n/2]
}

// finite returns nil for an infinite v or NaN, which JSON cannot encode.
func finite(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}
