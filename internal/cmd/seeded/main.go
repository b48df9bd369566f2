// Seeded shows that the tests can fail. It puts one bug after the other into the library, runs the
// tests that should catch it, and prints the test that did. It exits with an error if a bug
// survives.
//
//	go run ./internal/cmd/seeded            # all bugs
//	go run ./internal/cmd/seeded relist     # the bugs whose name matches
//	go run ./internal/cmd/seeded -from 400  # those from the 400th on, where a run was ended
//	go run ./internal/cmd/seeded -compile   # only whether each bug compiles
//	go run ./internal/cmd/seeded -clean     # only whether the tests pass without the bugs
//
// The source tree is not changed: go test reads the changed files through a build overlay.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	checks := flag.Int("checks", 500, "histories a round of a proof; there are three rounds")
	parallel := flag.Int("parallel", 2, "bugs at a time")
	timeout := flag.Duration("timeout", 90*time.Second, "for the tests of one bug; the proofs have four times as long")
	memory := flag.Int("memory", 8, "GiB of address space for the tests of one bug")
	from := flag.Int("from", 1, "number of the first bug to try, of those that match")
	compile := flag.Bool("compile", false, "only check that the bugs compile")
	clean := flag.Bool("clean", false, "only check that the tests pass without the bugs")
	flag.Parse()
	todo, root, err := prepare(flag.Arg(0), *from)
	opts := options{*from, *checks, *timeout, *memory, newSuites(root)}
	switch {
	case err != nil:
	case *compile:
		err = compileAll(todo, root)
	case *clean:
		err = checkClean(todo, root, *parallel, opts)
	default:
		err = run(todo, root, *parallel, opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "seeded:", err)
		os.Exit(1)
	}
}

type options struct {
	from    int // the number of the first bug
	checks  int
	timeout time.Duration
	memory  int
	suites  *suites
}

// verdict is the result for one bug.
type verdict struct {
	caught string // what caught it; "": it survived
	took   time.Duration
	cpu    time.Duration // of the compiler, the linker and the tests
	whole  bool          // all tests had to be compiled
	err    error         // why it could not be tried
}

// run tries bugs, and prints a table.
func run(todo []bug, root string, parallel int, opts options) error {
	start := time.Now()
	verdicts, err := tryAll(todo, root, parallel, opts)
	if err != nil {
		return err
	}
	survived := report(todo, verdicts)
	var cpu time.Duration
	for _, v := range verdicts {
		cpu += v.cpu
	}
	fmt.Printf("%d bugs in %v, %v of the processors\n", len(todo), time.Since(start).Round(time.Second), cpu.Round(time.Second))
	if survived > 0 {
		return fmt.Errorf("%d of %d bugs were not caught", survived, len(todo))
	}
	return nil
}

// tryAll tries bugs, parallel of them at a time.
func tryAll(todo []bug, root string, parallel int, opts options) ([]verdict, error) {
	dir, err := os.MkdirTemp("", "seeded")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	verdicts := make([]verdict, len(todo))
	var pool errgroup.Group
	pool.SetLimit(max(1, parallel))
	for i, b := range todo {
		pool.Go(func() error {
			v := try(b, root, filepath.Join(dir, fmt.Sprint(i)), opts)
			verdicts[i] = v
			fmt.Fprintf(os.Stderr, "%d/%d %s: %s (%.1f s)\n", opts.from+i, opts.from-1+len(todo), b.name, v, v.cpu.Seconds())
			return nil // the verdict has it
		})
	}
	return verdicts, pool.Wait()
}

// prepare returns the bugs whose name matches expression, without those before number from, and the
// root of the module.
func prepare(expression string, from int) (todo []bug, root string, err error) {
	match, err := regexp.Compile(expression)
	if err != nil {
		return nil, "", err
	}
	for _, b := range bugs {
		if match.MatchString(b.name) {
			todo = append(todo, b)
		}
	}
	switch {
	case len(todo) == 0:
		return nil, "", fmt.Errorf("no bug has a name that matches %q", expression)
	case from < 1 || from > len(todo):
		return nil, "", fmt.Errorf("-from %d of %d bugs", from, len(todo))
	}
	root, err = moduleRoot()
	return todo[from-1:], root, err
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// report prints a table of the bugs, and returns how many survived or could not be tried.
func report(todo []bug, verdicts []verdict) (survived int) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "bug\tcatalogue\tfile\tcaught by\tafter\tprocessor")
	for i, b := range todo {
		v := verdicts[i]
		if v.caught == "" {
			survived++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1f s\t%.1f s\n", b.name, b.id, b.edits[0].file, v, v.took.Seconds(), v.cpu.Seconds())
	}
	w.Flush()
	return survived
}

// checkClean checks that the tests of bugs pass without them: else they would catch nothing.
func checkClean(todo []bug, root string, parallel int, opts options) error {
	tried := map[string]bool{}
	var clean []bug
	for _, b := range todo {
		b.name, b.edits = fmt.Sprint(b.tests(), " in ", strings.Join(b.folders(), " or ")), nil
		if !tried[b.name] {
			tried[b.name] = true
			clean = append(clean, b)
		}
	}
	verdicts, err := tryAll(clean, root, parallel, opts)
	var errs []error
	for i, v := range verdicts {
		if v.err != nil || v.caught != "" {
			errs = append(errs, fmt.Errorf("%s: %v", clean[i].name, v))
		}
	}
	return errors.Join(append(errs, err)...)
}

func (v verdict) String() string {
	text := v.caught
	switch {
	case v.err != nil:
		text = "ERROR: " + v.err.Error()
	case text == "":
		text = "SURVIVED"
	}
	if v.whole {
		text += " (all tests of the folder compiled)"
	}
	return text
}

// changed returns the text of each file that b changes, by its path.
func (b bug) changed(root string) (texts map[string]string, err error) {
	texts = map[string]string{}
	for _, e := range b.edits {
		file := filepath.Join(root, e.file)
		text, ok := texts[file]
		if !ok {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		if texts[file], err = e.apply(text); err != nil {
			return nil, fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return texts, nil
}

// apply returns source with the edit applied. It fails unless the old text occurs exactly once.
func (e edit) apply(source string) (string, error) {
	if n := strings.Count(source, e.old); n != 1 {
		return "", fmt.Errorf("%s has %d times %q, want once: the code has moved on, and the bug has to follow", e.file, n, e.old)
	}
	return strings.Replace(source, e.old, e.new, 1), nil
}
