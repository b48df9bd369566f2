package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/go-lw/lw/lwtest"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/unkind"
)

// A command's servers read from their environment what day it is, and where they say what they do.
const (
	envDay    = "LWENVTEST_DAY"
	envFaults = "LWENVTEST_FAULTS"
)

// checkDay reports what is wrong with a day of flags.
func checkDay(day *unkind.Day) error {
	if day.Seed == 0 && (day.Agent != nil || day.Kinds != nil) {
		return errors.New("-agent and -kinds need -unkind")
	}
	return nil
}

// runUnkind runs a command on several days, and says what it fails by.
func runUnkind(ctx context.Context, day unkind.Day, assets string, args []string, stdout, stderr io.Writer) error {
	run := func(ctx context.Context, day unkind.Day) (unkind.Result, error) {
		dir, err := os.MkdirTemp("", "lwenvtest-")
		if err != nil {
			return unkind.Result{}, err
		}
		defer os.RemoveAll(dir)
		// "go test" does not run again what has passed while what it reads is the same. Each run has
		// a folder of its own, so that it is not.
		own := filepath.Join(dir, "assets")
		if os.Symlink(assets, own) != nil {
			if err := os.CopyFS(own, os.DirFS(assets)); err != nil {
				return unkind.Result{}, err
			}
		}
		env := append(unkind.Environ(os.Environ()), envDay+"="+strings.Join(day.Flags(), "\n"), envFaults+"="+dir)
		err = runCommand(ctx, own, args, env, stdout, stderr)
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return unkind.Result{}, err
		}
		faults, readErr := readFaults(dir)
		return unkind.Result{Failed: err != nil, Faults: faults}, readErr
	}
	failed, err := unkind.Explain(ctx, day, args, run, stderr)
	if err == nil && failed {
		err = errors.New("the command failed")
	}
	return err
}

// readFaults returns what the servers of a run have done, one server after the other.
func readFaults(dir string) (lines []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "faults-*"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		lines = append(lines, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
	}
	return lines, nil
}

// beginDay has a server of such a command be as unkind as the command's day.
func beginDay(s *lwtest.Server) (end func() error, err error) {
	end = func() error { return nil }
	text := os.Getenv(envDay)
	if text == "" {
		return end, nil
	}
	flags := flag.NewFlagSet(envDay, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	day := unkind.AddFlags(flags)
	if err = flags.Parse(strings.Split(text, "\n")); err == nil {
		err = checkDay(day)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", envDay, err)
	}
	f, err := os.CreateTemp(os.Getenv(envFaults), "faults-*")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", envFaults, err)
	}
	day.Begin(s, func(fault unkind.Fault) { fmt.Fprintln(f, fault) })
	return f.Close, nil
}
