package clientgo

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A binary is the compiled test of one package.
type binary struct {
	pkg, path string
	dir       string // the package's
}

// The informers that a test binary can be run with; see testdata/lwhook.
const (
	ofClientGo = "client-go" // client-go's own
	ofLW       = "lw"
	mute       = "mute"      // of lw, but no handler is called
	forgetful  = "forgetful" // of lw, but the store is empty
	undying    = "undying"   // of lw, but no handler learns of deletions
)

// A result is what one run of a test binary has shown.
type result struct {
	passed, failed, skipped []string          // the tests, and with a slash the subtests
	unended                 []string          // they have begun, and not ended yet
	output                  map[string]string // of each test; that of "" belongs to none
	informers               int               // how many were made
	took                    time.Duration
}

// list returns the names of the tests.
func (b *binary) list(ctx context.Context) ([]string, error) {
	cmd := exec.CommandContext(ctx, b.path, "-test.list", ".")
	cmd.Dir = b.dir
	cmd.Env = b.environment(ofClientGo, os.DevNull)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("upstream: list the tests of %s: %w\n%s", b.pkg, err, stderr.Bytes())
	}
	names := strings.Fields(string(out))
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "Test") }), nil
}

// run runs the tests, with the informers: those of run, or all if it is empty, but not those of
// skip. Both have names of tests and of subtests.
func (b *binary) run(ctx context.Context, informers string, run, skip []string,
	timeout time.Duration) (*result, error) {
	witness, err := os.CreateTemp("", "lw-upstream-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(witness.Name())
	defer witness.Close()

	args := []string{"tool", "test2json", "-t", "-p", b.pkg, b.path, "-test.v=test2json", "-test.paniconexit0",
		"-test.timeout", timeout.String(), "-test.run", pattern(run)}
	if len(skip) > 0 {
		args = append(args, "-test.skip", pattern(skip))
	}
	start := time.Now()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.dir
	cmd.Env = b.environment(informers, witness.Name())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	res, err := parse(bufio.NewReader(stdout))
	waited := cmd.Wait()
	if err != nil {
		return nil, fmt.Errorf("upstream: run the tests of %s: %w\n%s", b.pkg, err, stderr.Bytes())
	}
	res.exited(b.pkg, waited == nil, fmt.Sprintf("%v\n%s%s", waited, res.output[""], stderr.Bytes()))
	made, err := witness.Stat()
	if err != nil {
		return nil, err
	}
	res.informers, res.took = int(made.Size()), time.Since(start)
	return res, nil
}

func (b *binary) environment(informers, witness string) []string {
	return append(os.Environ(), "PWD="+b.dir, "LW_UPSTREAM_INFORMERS="+informers, "LW_UPSTREAM_WITNESS="+witness)
}

// pattern returns the regular expression for -test.run that matches these tests and subtests only.
func pattern(names []string) string {
	var alternatives []string
	for _, name := range names {
		parts := strings.Split(name, "/")
		for i := range parts {
			parts[i] = "^" + regexp.QuoteMeta(parts[i]) + "$"
		}
		alternatives = append(alternatives, strings.Join(parts, "/"))
	}
	return strings.Join(alternatives, "|")
}
