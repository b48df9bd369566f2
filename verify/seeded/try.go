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
	"time"
)

// memory bounds the address space of the tests of one bug, in KiB: a bug may take all there is.
const memory = 8 << 20

// verdict is the result for one bug.
type verdict struct {
	caught string        // what caught it; "": it survived
	cpu    time.Duration // of the compiler, the linker and the tests
	err    error         // why it could not be tried
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

// try runs the tests that should catch b, with b in the code.
func try(b bug, root, dir string, opts options) (v verdict) {
	if v.err = os.MkdirAll(dir, 0o755); v.err != nil {
		return v
	}
	defer os.RemoveAll(dir)
	texts, err := b.texts(root)
	if err != nil {
		return verdict{err: err}
	}
	tried := false
	for _, folder := range b.folders() {
		var s *suite
		if s, v.err = newSuite(filepath.Join(root, folder), b.tests()); v.err != nil {
			return v
		}
		if s == nil {
			continue
		}
		tried = true
		if s.try(&v, b, texts, dir, opts); v.caught != "" || v.err != nil {
			return v
		}
	}
	if !tried {
		v.err = fmt.Errorf("there is no test %s", b.tests())
	}
	return v
}

// try builds and runs the tests of s. The test binary is a child of its own, so that it ends with
// its time, and its memory is bounded.
func (s *suite) try(v *verdict, b bug, texts map[string]string, dir string, opts options) {
	binary := filepath.Join(dir, "test.bin")
	defer os.Remove(binary)
	build := func(without []string) (out string, err error) {
		overlay, err := writeOverlay(dir, texts, without)
		if err != nil {
			return "", err
		}
		cmd := exec.Command("go", "test", "-c", "-overlay", overlay, "-vet=off", "-ldflags=-s -w", "-o", binary, ".")
		cmd.Dir = s.folder // it may be in a module of its own
		return v.run(cmd)
	}
	_, err := build(s.unneeded)
	if err != nil && len(s.unneeded) > 0 {
		_, err = build(nil) // a file that seems unneeded has what is needed after all
	}
	if err != nil {
		out, _ := build(nil)
		v.err = fmt.Errorf("it does not compile:\n%s%w", out, err)
		return
	}
	timeout := opts.timeout
	if b.tests() == proofs { // a test that does not end counts as one that fails, and a bug that survives passes all proofs
		timeout *= 4
	}
	flags := []string{"-test.failfast", "-test.timeout", timeout.String(), "-test.run", b.tests()}
	program, err := os.ReadFile(binary)
	if err != nil {
		v.err = err
		return
	}
	if bytes.Contains(program, []byte("rapid.nofailfile")) { // it has rapid's flags
		flags = append(flags, "-rapid.nofailfile", "-rapid.shrinktime=1ms")
	}
	if b.tests() == proofs {
		flags = append(flags, fmt.Sprint("-rapid.checks=", opts.checks))
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", fmt.Sprintf(`ulimit -v %d && exec "$0" "$@"`, memory),
		binary}, flags...)...)
	cmd.Dir, cmd.WaitDelay = s.folder, 5*time.Second
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
}

// run adds what cmd costs to v.
func (v *verdict) run(cmd *exec.Cmd) (out string, err error) {
	text, err := cmd.CombinedOutput()
	if p := cmd.ProcessState; p != nil {
		v.cpu += p.UserTime() + p.SystemTime()
	}
	return string(text), err
}

// texts returns the text of each file that b changes, by its path.
func (b bug) texts(root string) (map[string]string, error) {
	texts := map[string]string{}
	for _, e := range b.edits {
		p, err := e.find(root, texts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.name, err)
		}
		texts[p.file] = p.put(e.new)
	}
	return texts, nil
}

// writeOverlay writes texts, and a build overlay that puts them in the place of the originals, and
// leaves files out. It returns the path of the overlay.
func writeOverlay(dir string, texts map[string]string, without []string) (path string, err error) {
	replace := map[string]string{}
	for file, text := range texts {
		to := filepath.Join(dir, fmt.Sprintf("%d_%s", len(replace), filepath.Base(file)))
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[file] = to
	}
	for _, file := range without {
		replace[file] = ""
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, data, 0o644)
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
