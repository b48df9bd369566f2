// Seeded shows that the tests can fail. It puts one bug after the other into the library, runs the
// tests that should catch it, and prints the test that did. It exits with an error if a bug
// survives.
//
//	go run ./internal/seeded            # all bugs
//	go run ./internal/seeded relist     # the bugs whose name matches
//	go run ./internal/seeded -compile   # only whether each bug compiles
//
// The source tree is not changed: go test reads the changed files through a build overlay.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	checks := flag.Int("checks", 500, "histories a round of a proof; there are three rounds")
	parallel := flag.Int("parallel", 2, "bugs at a time")
	timeout := flag.Duration("timeout", 90*time.Second, "for the tests of one bug")
	memory := flag.Int("memory", 8, "GiB of address space for the tests of one bug")
	compile := flag.Bool("compile", false, "only check that the bugs compile")
	flag.Parse()
	todo, root, err := prepare(flag.Arg(0))
	switch {
	case err != nil:
	case *compile:
		err = compileAll(todo, root)
	default:
		err = run(todo, root, *parallel, options{*checks, *timeout, *memory})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "seeded:", err)
		os.Exit(1)
	}
}

type options struct {
	checks  int
	timeout time.Duration
	memory  int
}

// verdict is the result for one bug.
type verdict struct {
	caught string // what caught it; "": it survived
	took   time.Duration
	err    error // why it could not be tried
}

// run tries bugs, parallel of them at a time, and prints a table.
func run(todo []bug, root string, parallel int, opts options) error {
	dir, err := os.MkdirTemp("", "seeded")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	start := time.Now()
	verdicts := make([]verdict, len(todo))
	var wait sync.WaitGroup
	slots := make(chan struct{}, max(1, parallel))
	for i, b := range todo {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			verdicts[i] = try(b, root, filepath.Join(dir, fmt.Sprint(i)), opts)
			fmt.Fprintf(os.Stderr, "%d/%d %s: %s\n", i+1, len(todo), b.name, verdicts[i])
		})
	}
	wait.Wait()
	survived := report(todo, verdicts)
	fmt.Printf("%d bugs in %v\n", len(todo), time.Since(start).Round(time.Second))
	if survived > 0 {
		return fmt.Errorf("%d of %d bugs were not caught", survived, len(todo))
	}
	return nil
}

// prepare returns the bugs whose name matches expression, and the root of the module.
func prepare(expression string) (todo []bug, root string, err error) {
	match, err := regexp.Compile(expression)
	if err != nil {
		return nil, "", err
	}
	for _, b := range bugs {
		if match.MatchString(b.name) {
			todo = append(todo, b)
		}
	}
	root, err = moduleRoot()
	return todo, root, err
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
	fmt.Fprintln(w, "bug\tcatalogue\tfile\tcaught by\tafter")
	for i, b := range todo {
		v := verdicts[i]
		if v.caught == "" {
			survived++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1f s\n", b.name, b.id, b.edits[0].file, v, v.took.Seconds())
	}
	w.Flush()
	return survived
}

func (v verdict) String() string {
	switch {
	case v.err != nil:
		return "ERROR: " + v.err.Error()
	case v.caught == "":
		return "SURVIVED"
	}
	return v.caught
}

// try runs the tests that should catch b, with b in the code. The test binary is a child of its
// own, so that it ends with its time, and its memory is bounded: a bug may take all there is.
func try(b bug, root, dir string, opts options) (v verdict) {
	overlay, err := b.overlay(root, dir)
	if err != nil {
		return verdict{err: err}
	}
	start := time.Now()
	binary := filepath.Join(dir, "test.bin")
	build := exec.Command("go", "test", "-c", "-overlay", overlay, "-vet=off", "-o", binary, ".")
	build.Dir = filepath.Join(root, b.pkg()) // it may be in a module of its own
	if out, err := build.CombinedOutput(); err != nil {
		return verdict{err: fmt.Errorf("it does not compile:\n%s", out)}
	}
	defer os.Remove(binary)
	ctx, cancel := context.WithTimeout(context.Background(), opts.timeout+time.Minute)
	defer cancel()
	args := []string{"-c", fmt.Sprintf(`ulimit -v %d && exec "$0" "$@"`, opts.memory<<20), binary,
		"-test.failfast", "-test.timeout", opts.timeout.String(), "-test.run", b.tests()}
	if b.tests() == proofs || b.pkg() == "." { // these have rapid's flags
		args = append(args, "-rapid.nofailfile", "-rapid.shrinktime=1ms")
	}
	if b.tests() == proofs {
		args = append(args, fmt.Sprint("-rapid.checks=", opts.checks))
	}
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir, cmd.WaitDelay = filepath.Join(root, b.pkg()), 5*time.Second
	out, err := cmd.CombinedOutput()
	v = verdict{took: time.Since(start)}
	text := string(out)
	switch {
	case strings.Contains(text, "no tests to run"):
		v.err = fmt.Errorf("there is no test %s", b.tests())
	case err == nil:
	case ctx.Err() != nil:
		v.err = ctx.Err()
	default:
		v.caught = catcher(text)
	}
	return v
}

var (
	violation = regexp.MustCompile(`(?m)(?:failed after \d+ tests: |Original traceback \()([A-Z]\d+): `)
	failed    = regexp.MustCompile(`--- FAIL: (\S+)`)
	panicked  = regexp.MustCompile(`(?m)^(?:panic|fatal error): (.{0,60})`)
	races     = regexp.MustCompile(`DATA RACE`)
)

// catcher returns from the output of go test what failed: the id of a broken promise of the proof,
// a data race, a test, a panic.
func catcher(text string) string {
	var by []string
	if m := violation.FindStringSubmatch(text); m != nil {
		by = append(by, m[1])
	}
	if races.MatchString(text) {
		by = append(by, "a data race")
	}
	if m := failed.FindStringSubmatch(text); m != nil {
		by = append(by, m[1])
	}
	if m := panicked.FindStringSubmatch(text); m != nil {
		by = append(by, "panic: "+m[1])
	}
	if len(by) == 0 {
		return "a failure without a name"
	}
	return strings.Join(by, ", ")
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

// overlay writes the files of b and a build overlay that puts them in the place of the originals.
// It returns the path of the overlay.
func (b bug) overlay(root, dir string) (path string, err error) {
	changed, err := b.changed(root)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, source := range changed {
		to := filepath.Join(dir, fmt.Sprintf("%d_%s", len(replace), filepath.Base(file)))
		if err := os.WriteFile(to, []byte(source), 0o644); err != nil {
			return "", err
		}
		replace[file] = to
	}
	if b.pkg() == "." {
		if err := leaveOut(root, replace); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, data, 0o644)
}

// unneeded are test files of the root that no bug needs: what they check is not what a bug changes.
var unneeded = regexp.MustCompile(`^(dependencies|readme|fuzz)_test\.go$`)

// leaveOut takes them out of the root's package: to compile them takes longer than to run these.
func leaveOut(root string, replace map[string]string) error {
	files, err := filepath.Glob(filepath.Join(root, "*_test.go"))
	for _, file := range files {
		if unneeded.MatchString(filepath.Base(file)) {
			replace[file] = "" // not there
		}
	}
	return err
}

// apply returns source with the edit applied. It fails unless the old text occurs exactly once.
func (e edit) apply(source string) (string, error) {
	if n := strings.Count(source, e.old); n != 1 {
		return "", fmt.Errorf("%s has %d times %q, want once: the code has moved on, and the bug has to follow", e.file, n, e.old)
	}
	return strings.Replace(source, e.old, e.new, 1), nil
}
