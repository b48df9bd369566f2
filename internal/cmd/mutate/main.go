// Mutate shows what the tests do not notice: it makes thousands of small mistakes in the library,
// one at a time, and names those with which all tests still pass.
//
//	go run ./internal/cmd/mutate                               # all mutants of the default packages
//	go run ./internal/cmd/mutate -sample 100 -seed 7           # 100 of each package, by this seed
//	go run ./internal/cmd/mutate -package . -file reflector_watch.go
//	go run ./internal/cmd/mutate -package . -mutant 1234       # one, with what the tests print
//	go run ./internal/cmd/mutate -in websocket -package .      # a package of a nested module
//
// All mutants of a run are compiled into each test binary at once, and an environment variable
// switches one of them on: nothing is compiled per mutant. A first run of each test tells which
// mutants it comes by; only these tests are run for a mutant, the quick ones first. Nothing is
// written to the tree: the changed files are those of a build overlay.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
)

type options struct {
	folder   string
	packages string
	file     string
	match    string
	tests    string
	sample   int
	seed     uint64
	only     int
	list     bool
	race     bool
	own      bool
	verbose  bool
	parallel int
	patience time.Duration
	memory   int
}

func main() {
	var o options
	flag.StringVar(&o.folder, "in", ".", "`folder` of the module that the packages are of")
	flag.StringVar(&o.packages, "package", ". ./internal/table ./internal/decode", "packages to mutate, with spaces between them")
	flag.StringVar(&o.file, "file", "", "only files whose path matches this `expression`")
	flag.StringVar(&o.match, "match", "", "only mutants whose line, as -list prints it, matches this `expression`")
	flag.StringVar(&o.tests, "tests", "", "of the packages that are built from those, only the tests of those that match this `expression`")
	flag.IntVar(&o.sample, "sample", 0, "so many mutants of each package; 0: all")
	flag.Uint64Var(&o.seed, "seed", 1, "which sample")
	flag.IntVar(&o.only, "mutant", 0, "only the mutant of this `number`, with what the tests print")
	flag.BoolVar(&o.list, "list", false, "print the mutants and run nothing")
	flag.BoolVar(&o.race, "race", false, "run the tests of survivors under the race detector as well")
	flag.BoolVar(&o.own, "own", false, "run only the tests of the mutant's own package, for a quick look")
	flag.BoolVar(&o.verbose, "v", false, "print the verdict on each mutant")
	flag.IntVar(&o.parallel, "parallel", runtime.GOMAXPROCS(0), "mutants at a time")
	flag.DurationVar(&o.patience, "patience", 40*time.Second, "what a run of tests gets beside five times what it takes without a mutant")
	flag.IntVar(&o.memory, "memory", 8, "GiB of address space for a run of tests")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	file, err := regexp.Compile(o.file)
	if err != nil {
		return err
	}
	match, err := regexp.Compile(o.match)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := os.Chdir(o.folder); err != nil {
		return err
	}
	packages, err := load(strings.Fields(o.packages))
	if err != nil {
		return err
	}
	var all []*mutant
	for _, p := range packages {
		p.find()
		all = append(all, number(p, len(all))...)
	}
	if stale := markEquivalents(all); len(stale) > 0 {
		return fmt.Errorf("known equivalents that are no mutant any more, or more than one: %q", stale)
	}
	chosen := choose(all, file, match, o)
	if o.list {
		for _, m := range chosen {
			fmt.Println(m)
		}
		return nil
	}
	progress("%d of %d mutants", len(chosen), len(all))
	w, err := newWorkshop(o, packages, chosen)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.build(false); err != nil {
		return err
	}
	if err := w.trace(); err != nil {
		return err
	}
	w.tryAll()
	if o.race {
		if err := w.tryRace(); err != nil {
			return err
		}
	}
	report(os.Stdout, w, packages, chosen)
	fmt.Printf("%v on %d processors\n", time.Since(start).Round(time.Second), runtime.GOMAXPROCS(0))
	return nil
}

// number gives each mutant of p the number that switches it on.
func number(p *pkg, before int) []*mutant {
	for i, m := range p.mutants {
		m.id = before + i + 1
	}
	return p.mutants
}

// choose draws the mutants of a run; those that are known to change nothing are not drawn.
func choose(all []*mutant, file, match *regexp.Regexp, o options) (out []*mutant) {
	of := map[*pkg][]*mutant{}
	var order []*pkg
	for _, m := range all {
		switch {
		case o.only != 0 && o.only != m.id, o.only == 0 && m.equivalent, !file.MatchString(m.file.name), !match.MatchString(m.String()):
			continue
		case of[m.file.pkg] == nil:
			order = append(order, m.file.pkg)
		}
		of[m.file.pkg] = append(of[m.file.pkg], m)
	}
	for i, p := range order {
		ms := of[p]
		if o.sample > 0 && o.sample < len(ms) {
			r := rand.New(rand.NewPCG(o.seed, uint64(i)))
			r.Shuffle(len(ms), func(i, j int) { ms[i], ms[j] = ms[j], ms[i] })
			ms = ms[:o.sample]
		}
		out = append(out, ms...)
	}
	return out
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
