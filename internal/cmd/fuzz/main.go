// Fuzz searches with every fuzz target of the module, one after the other, for inputs that break
// what it checks.
//
//	go run ./internal/cmd/fuzz -for 1h            # each of them for an hour
//	go run ./internal/cmd/fuzz -for 10m Protobuf  # those whose package and name match
//
// A search begins with the target's seeds, the corpus in testdata, and what earlier searches on
// this machine found worth keeping. An input that fails is written to testdata, to be committed
// with what mends it: from then on "go test" runs it. A target that fails does not keep the others
// from their turn. CI runs seeds and corpora alone: a search finds by chance.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"time"

	"github.com/go-lw/lw/internal/progress"
)

func main() {
	each := flag.Duration("for", time.Minute, "how long to search with each target, one after the other")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	match, err := regexp.Compile(flag.Arg(0))
	if err == nil {
		err = run(ctx, match, *each)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

// A target is a fuzz test of a package.
type target struct{ pkg, name string }

func (t target) String() string { return t.pkg + "." + t.name }

func run(ctx context.Context, match *regexp.Regexp, each time.Duration) error {
	targets, err := find(ctx, match)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		return fmt.Errorf("no target matches %q", match)
	}
	fmt.Printf("%d targets, each for %v: %v in all\n", len(targets), each, time.Duration(len(targets))*each)
	var failed []error
	for i, t := range targets {
		fmt.Printf("%d/%d %s\n", i+1, len(targets), t)
		cmd := exec.CommandContext(ctx, "go", t.args(each)...)
		// An interrupt reaches go test as well, which then keeps what it has found.
		cmd.Cancel = func() error { return nil }
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", t, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// args are those of the go command that searches for so long.
func (t target) args(d time.Duration) []string {
	return []string{"test", "-run", "^$", "-fuzz", "^" + t.name + "$", "-fuzztime", d.String(), "-timeout", "0", t.pkg}
}

// find returns the targets that match.
func find(ctx context.Context, match *regexp.Regexp) ([]target, error) {
	packages, err := output(ctx, "list", "./...")
	if err != nil {
		return nil, err
	}
	var targets []target
	defer progress.Start(os.Stderr, "looking for targets")()
	for pkg := range strings.FieldsSeq(packages) {
		tests, err := output(ctx, "test", "-list", "^Fuzz", pkg)
		if err != nil {
			return nil, err
		}
		for _, t := range targetsIn(pkg, tests) {
			if match.MatchString(t.String()) {
				targets = append(targets, t)
			}
		}
	}
	return targets, nil
}

// targetsIn reads what "go test -list" prints of a package: the names, and a line about the
// package.
func targetsIn(pkg, listed string) (targets []target) {
	for line := range strings.Lines(listed) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, "Fuzz") {
			targets = append(targets, target{pkg, name})
		}
	}
	return targets
}

func output(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return string(out), err
}
