package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A trial is the tests in one folder that should catch a bug.
type trial struct {
	folder string
	suite  *suite
	needed map[*testDecl]bool // of suite
}

// suites has the test files of each folder, which are read once.
type suites struct {
	root string

	mu       sync.Mutex
	byFolder map[string]*suite
}

func newSuites(root string) *suites { return &suites{root: root, byFolder: map[string]*suite{}} }

// trials finds the tests of b. Its regular expression may choose some of the root and some of
// ./test.
func (s *suites) trials(b bug) (out []trial, err error) {
	for _, folder := range b.folders() {
		suite, err := s.in(folder)
		if err != nil {
			return nil, err
		}
		needed, err := suite.needed(b.tests())
		if err != nil {
			return nil, err
		}
		if needed != nil {
			out = append(out, trial{folder, suite, needed})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: there is no test %s in %s", b.name, b.tests(), strings.Join(b.folders(), " or "))
	}
	return out, nil
}

func (s *suites) in(folder string) (*suite, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if read := s.byFolder[folder]; read != nil {
		return read, nil
	}
	read, err := loadSuite(filepath.Join(s.root, folder))
	if err != nil {
		return nil, err
	}
	s.byFolder[folder] = read
	return read, nil
}

// try runs the tests that should catch b, with b in the code.
func try(b bug, root, dir string, opts options) (v verdict) {
	start := time.Now()
	defer func() { v.took = time.Since(start) }()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return verdict{err: err}
	}
	defer os.RemoveAll(dir)
	trials, err := opts.suites.trials(b)
	if err != nil {
		return verdict{err: err}
	}
	for _, t := range trials {
		if v = v.and(t.try(b, root, dir, opts)); v.caught != "" || v.err != nil {
			break
		}
	}
	return v
}

// try builds and runs the tests of t. The test binary is a child of its own, so that it ends with
// its time, and its memory is bounded: a bug may take all there is.
func (t trial) try(b bug, root, dir string, opts options) (v verdict) {
	binary := filepath.Join(dir, "test.bin")
	defer os.Remove(binary)
	out, err := t.build(&v, b, root, dir, binary)
	if err == nil && out != "" {
		v.whole = true
		t.needed = nil
		out, err = t.build(&v, b, root, dir, binary)
	}
	if err == nil && out != "" {
		err = fmt.Errorf("it does not compile:\n%s", out)
	}
	if err != nil {
		v.err = err
		return v
	}
	flags, err := t.flags(b, binary, opts)
	if err != nil {
		v.err = err
		return v
	}
	ctx, cancel := context.WithTimeout(context.Background(), opts.bound(b)+time.Minute)
	defer cancel()
	args := []string{"-c", fmt.Sprintf(`ulimit -v %d && exec "$0" "$@"`, opts.memory<<20), binary}
	cmd := exec.CommandContext(ctx, "sh", append(args, flags...)...)
	cmd.Dir, cmd.WaitDelay = filepath.Join(root, t.folder), 5*time.Second
	text, err := v.run(cmd)
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

// build writes the test binary with b in the code, and returns what the compiler has against that.
func (t trial) build(v *verdict, b bug, root, dir, binary string) (out string, err error) {
	overlay, err := b.overlay(root, dir, t)
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "test", "-c", "-overlay", overlay, "-vet=off", "-ldflags=-s -w", "-o", binary, ".")
	cmd.Dir = filepath.Join(root, t.folder) // it may be in a module of its own
	if out, err = v.run(cmd); err == nil {
		return "", nil
	}
	return out + err.Error(), nil
}

// run adds what cmd costs to v.
func (v *verdict) run(cmd *exec.Cmd) (out string, err error) {
	text, err := cmd.CombinedOutput()
	if p := cmd.ProcessState; p != nil {
		v.cpu += p.UserTime() + p.SystemTime()
	}
	return string(text), err
}

// bound returns how long the tests of b may run. A test that does not end counts as one that fails,
// so that the proofs, of which a bug that survives passes all, get more.
func (o options) bound(b bug) time.Duration {
	if b.tests() == proofs {
		return 4 * o.timeout
	}
	return o.timeout
}

// flags returns those of the test binary.
func (t trial) flags(b bug, binary string, opts options) ([]string, error) {
	out := []string{"-test.failfast", "-test.timeout", opts.bound(b).String(), "-test.run", b.tests()}
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(program, []byte("rapid.nofailfile")) { // it has rapid's flags
		out = append(out, "-rapid.nofailfile", "-rapid.shrinktime=1ms")
	}
	if b.tests() == proofs {
		out = append(out, fmt.Sprint("-rapid.checks=", opts.checks))
	}
	return out, nil
}

// and adds the verdict of another folder's tests.
func (v verdict) and(other verdict) verdict {
	other.cpu += v.cpu
	other.whole = other.whole || v.whole
	return other
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

// overlay writes the files of b, and what t needs of its test files, and a build overlay that puts
// them in the place of the originals. It returns the path of the overlay.
func (b bug) overlay(root, dir string, t trial) (path string, err error) {
	changed, err := b.changed(root)
	if err != nil {
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
	if t.needed != nil {
		if err := t.suite.overlay(t.needed, dir, replace); err != nil {
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
