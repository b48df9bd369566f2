// Package unkind is a day on which an API server is as unkind as a real one may be: watches end and
// lag, others write first, answers come late or not at all. It is made of the faults of package
// lwtest. A [Day] says what happens, [Day.Begin] has it happen to a server, and [Explain] finds out
// which kind of fault a command fails by.
//
// What happens follows from the seed and the object: the second update of default/web meets the
// same whatever the order of the requests. Objects whose names the server makes count as one by
// their generateName, since their names are others each time.
package unkind

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Kind is a kind of fault.
type Kind string

// The kinds that caches meet, which are the default.
const (
	Cut     Kind = "cut"     // a watch ends after some seconds, half of them amid an event
	Expired Kind = "expired" // a watch ends with 410, so that its client must list again
	Lag     Kind = "lag"     // each event of a watch comes up to 0.3 s late
)

// The kinds that only a program knows to bear which expects failures. A test calls the server with
// neither a retry nor a loop, so they are for an Agent.
const (
	Conflict Kind = "conflict" // somebody else writes an object just before an update of a version
	Late     Kind = "late"     // a write is done at once, and its answer comes up to 0.5 s later
	Lose     Kind = "lose"     // a write is done, and its answer is an error of the connection or a 504
	Error    Kind = "error"    // a request is answered with 500, and nothing is done
	Busy     Kind = "busy"     // a request is answered with 429, and a second to wait; only when named
)

// caches are the kinds that caches meet. They have no rate: each watch meets them, and its ends are
// counted.
var caches = []Kind{Cut, Expired, Lag}

// rates are how many of the requests that a kind is about meet it.
var rates = map[Kind]float64{Cut: 1, Expired: 1, Lag: 1, Conflict: .2, Late: .2, Lose: .05, Error: .05, Busy: .1}

const (
	maxLag  = 300 * time.Millisecond
	maxLate = 500 * time.Millisecond
	// A worker that does one thing after the other waits for each late answer. So they are late by
	// sumLate at most in each sumWithin, all together.
	sumLate   = 5 * time.Second
	sumWithin = time.Minute
	// A program that tries again gets there, but one whose cache lags tries five times for each
	// conflict, and a queue of client-go doubles its pause each time, up to a quarter of an hour. So an
	// object meets maxFails faults of a verb after which that must be tried again.
	maxFails = 2
	// client-go waits 0.8 s when a watch has ended, and longer each time, up to half a minute, until
	// two minutes have passed without an end: a cache whose watch always ends soon is dead.
	maxEnds    = 2
	endsWithin = 2 * time.Minute
)

// A Day is what a server does on one day. The zero Day is kind: nothing happens.
type Day struct {
	Seed uint64 // 0: the day is kind
	// Agent is whose requests meet faults, by their User-Agent. nil: everybody's.
	Agent *regexp.Regexp
	// Kinds are the kinds of faults, with their rates: 0 is the kind's own. Another one has no bound
	// by object: it is for few specs, and many faults. nil: the kinds that caches meet, and with an
	// Agent all but Busy.
	Kinds map[Kind]float64
}

// ParseKinds reads the value of the flag -kinds: "conflict,error=0.3".
func ParseKinds(text string) (map[Kind]float64, error) {
	kinds := map[Kind]float64{}
	for part := range strings.SplitSeq(text, ",") {
		name, rate, rated := strings.Cut(strings.TrimSpace(part), "=")
		kind := Kind(name)
		if _, known := rates[kind]; !known {
			return nil, fmt.Errorf("lwenvtest: -kinds=%s: no kind of fault is %q; there are %s", text, name, join(sorted(rates)))
		}
		kinds[kind] = 0
		if !rated {
			continue
		}
		r, err := strconv.ParseFloat(rate, 64)
		if err == nil && (r <= 0 || r > 1 || slices.Contains(caches, kind)) {
			err = fmt.Errorf("a rate is above 0 and at most 1, and %s have none", join(caches))
		}
		if err != nil {
			return nil, fmt.Errorf("lwenvtest: -kinds=%s: the rate of %s: %w", text, name, err)
		}
		kinds[kind] = r
	}
	return kinds, nil
}

// AddFlags adds the flags -unkind, -agent and -kinds, which make the Day. A plain -unkind has a seed
// that nobody knows before.
func AddFlags(flags *flag.FlagSet) *Day {
	day := &Day{}
	flags.BoolFunc("unkind", "run on an unkind day too; -unkind=`SEED` repeats one", func(text string) (err error) {
		if text == "true" {
			day.Seed = 1 + rand.Uint64N(999_999)
			return nil
		}
		if day.Seed, err = strconv.ParseUint(text, 10, 64); err == nil && day.Seed == 0 {
			err = errors.New("the seed is above 0")
		}
		return err
	})
	flags.Func("agent", "the `REGEXP` of the User-Agents that meet faults, more of them", func(text string) (err error) {
		day.Agent, err = regexp.Compile(text)
		return err
	})
	flags.Func("kinds", "the `KINDS` of faults, with commas between: "+join(sorted(rates))+"; error=0.3 sets a rate", func(text string) (err error) {
		day.Kinds, err = ParseKinds(text)
		return err
	})
	return day
}

// Flags returns the flags of lwenvtest that say the Day.
func (d Day) Flags() []string {
	if d.Seed == 0 {
		return nil
	}
	flags := []string{"-unkind=" + strconv.FormatUint(d.Seed, 10)}
	if d.Agent != nil {
		flags = append(flags, "-agent="+d.Agent.String())
	}
	if d.Kinds == nil {
		return flags
	}
	var kinds []string
	for _, kind := range sorted(d.Kinds) {
		text := string(kind)
		if rate := d.Kinds[kind]; rate > 0 {
			text += "=" + strconv.FormatFloat(rate, 'g', -1, 64)
		}
		kinds = append(kinds, text)
	}
	return append(flags, "-kinds="+strings.Join(kinds, ","))
}

// kinds returns the kinds of faults with the rates that they have.
func (d Day) kinds() map[Kind]float64 {
	kinds := map[Kind]float64{}
	for kind, own := range rates {
		rate, named := d.Kinds[kind]
		if named || d.Kinds == nil && (slices.Contains(caches, kind) || d.Agent != nil && kind != Busy) {
			kinds[kind] = cmp.Or(rate, own)
		}
	}
	return kinds
}

func sorted(kinds map[Kind]float64) []Kind { return slices.Sorted(maps.Keys(kinds)) }

func join(kinds []Kind) string {
	var names []string
	for _, kind := range kinds {
		names = append(names, string(kind))
	}
	return strings.Join(names, ", ")
}

// Environ returns env, with what a suite on Gomega needs to bear a server that is late: its default
// is to wait for a second.
func Environ(env []string) []string {
	const wait = "GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT="
	if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, wait) }) {
		return env
	}
	return append(slices.Clip(env), wait+"20s")
}
