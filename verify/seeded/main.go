// Seeded shows that the tests can fail. It puts one bug after the other into the library, runs the
// tests that should catch it, and prints the test that did. It exits with an error if a bug
// survives.
//
//	go run ./verify/seeded                             # all bugs
//	go run ./verify/seeded relist                      # the bugs whose name matches
//	go run ./verify/seeded -sample 6 -seed "$(git rev-parse HEAD)"
//
// The source tree is not changed: go test reads the changed files through a build overlay.
package main

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
)

// A bug is one mistake, and where the tests are that should find it.
type bug struct {
	name  string
	run   string // the tests; "": the proofs
	in    string // their package; "": that of the proofs where run is "", else the root or a folder of verify
	edits []edit // most often one
}

var bugs = slices.Concat(rootBugs, storeBugs, wireBugs, serverBugs, doorBugs, kindBugs)

const proofs = "^TestProof"

func (b bug) tests() string {
	if b.run == "" {
		return proofs
	}
	return b.run
}

// folders returns where the tests are looked for.
func (b bug) folders() []string {
	switch {
	case b.in != "":
		return []string{b.in}
	case b.run == "":
		return []string{"./internal/verify/proof"}
	}
	return []string{".", "./verify/graph", "./verify/handlers", "./verify/http", "./verify/pack", "./verify/source", "./verify/store"}
}

type options struct {
	checks  int
	timeout time.Duration
}

func main() {
	var opts options
	flag.IntVar(&opts.checks, "checks", 500, "histories a round of a proof; there are three rounds")
	flag.DurationVar(&opts.timeout, "timeout", 90*time.Second,
		"for the tests of one bug; the proofs have four times as long")
	parallel := flag.Int("parallel", 2, "bugs at a time")
	sample := flag.Int("sample", 0, "how many bugs to draw of those that match; 0: all")
	seed := flag.String("seed", "", "what the sample is drawn by, such as a commit")
	flag.Parse()
	todo, err := choose(flag.Arg(0), *sample, *seed)
	if err == nil {
		err = run(todo, *parallel, opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "seeded:", err)
		os.Exit(1)
	}
}

// choose returns the bugs whose name matches expression, or n of them.
func choose(expression string, n int, seed string) (todo []bug, err error) {
	match, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	for _, b := range bugs {
		if match.MatchString(b.name) {
			todo = append(todo, b)
		}
	}
	if len(todo) == 0 {
		return nil, fmt.Errorf("no bug has a name that matches %q", expression)
	}
	if n > 0 && n < len(todo) {
		h := fnv.New64a()
		h.Write([]byte(seed))
		rand.New(rand.NewPCG(h.Sum64(), 0)).Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
		todo = todo[:n]
	}
	return todo, nil
}

// run tries bugs, parallel of them at a time, and prints a table.
func run(todo []bug, parallel int, opts options) error {
	start := time.Now()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	root := strings.TrimSpace(string(out))
	dir, err := os.MkdirTemp("", "seeded")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	verdicts := make([]verdict, len(todo))
	var pool errgroup.Group
	pool.SetLimit(max(1, parallel))
	for i, b := range todo {
		pool.Go(func() error {
			v := try(b, root, filepath.Join(dir, fmt.Sprint(i)), opts)
			verdicts[i] = v
			fmt.Fprintf(os.Stderr, "%d/%d %s: %s (%.1f s)\n", i+1, len(todo), b.name, v, v.cpu.Seconds())
			return nil // the verdict has it
		})
	}
	if err := pool.Wait(); err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "bug\tplace\tcaught by\tprocessor")
	var cpu time.Duration
	survived := 0
	for i, v := range verdicts {
		if v.caught == "" {
			survived++
		}
		cpu += v.cpu
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1f s\n", todo[i].name, todo[i].edits[0].where, v, v.cpu.Seconds())
	}
	w.Flush()
	fmt.Printf("%d bugs in %v, %v of the processors\n", len(todo), time.Since(start).Round(time.Second),
		cpu.Round(time.Second))
	if survived > 0 {
		return fmt.Errorf("%d of %d bugs were not caught", survived, len(todo))
	}
	return nil
}
