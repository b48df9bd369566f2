// Command krt measures rows 35 to 40, of derived collections, beside Istio's krt:
//
//	go run ./cmd/krt
//
// krt is a package of Istio's main module, which cannot be required: its packages for clusters need
// modules that the proxy does not have. So this program takes the files of krt, and of the small
// packages that it needs, from the module cache to a temporary directory, as a module of its own.
// It leaves out krt's informers, and has stubs for what krt refers to but does not use here:
// clients, configurations, logs and metrics. krt gets its pods from an informer of lw, as the other
// sides do. Nothing of Istio is in this repository.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/go-lw/lw/bench/internal/compare"
)

// istio is the version of Istio's main module that has the krt to measure.
const istio = "istio.io/istio@v0.0.0-20260827124520-eed52ebb66ad"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "krt:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	cfg, err := compare.ParseFlags()
	if err != nil {
		return err
	}
	cfg.Log = nil // the program has its own
	bench, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lw-krt-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := prune(filepath.Join(dir, "istio")); err != nil {
		return err
	}
	program := filepath.Join(dir, "program")
	if err := writeProgram(program, bench); err != nil {
		return err
	}
	config, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	if err := command(program, "go", "mod", "tidy"); err != nil {
		return err
	}
	if err := command(program, "go", "build", "-o", "krt", "."); err != nil {
		return err
	}
	return command(bench, filepath.Join(program, "krt"), string(config)) // where -profile is relative to
}

// prune makes a module of krt and what it needs in dir.
func prune(dir string) error {
	out, err := exec.Command("go", "mod", "download", "-json", istio).Output()
	if err != nil {
		return fmt.Errorf("go mod download %s: %w", istio, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return err
	}
	for _, pkg := range packages {
		if err := copyPackage(filepath.Join(module.Dir, pkg), filepath.Join(dir, pkg)); err != nil {
			return err
		}
	}
	for name, text := range stubs {
		if err := write(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	return nil
}

// copyPackage copies the files of a package, but not its tests and those in leftOut.
func copyPackage(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: no files", from)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasSuffix(name, "_test.go") || leftOut[filepath.Base(from)+"/"+name] {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(to, name), string(text)); err != nil {
			return err
		}
	}
	return nil
}

// writeProgram writes the program that measures. Its module is below that of the benchmarks by its
// path, so that it may use their internal packages, and has the same requirements.
func writeProgram(dir, bench string) error {
	main, err := os.ReadFile(filepath.Join(bench, "cmd", "krt", "testdata", "program", "main.go"))
	if err != nil {
		return fmt.Errorf("run it in bench: %w", err)
	}
	mod, err := os.ReadFile(filepath.Join(bench, "go.mod"))
	if err != nil {
		return err
	}
	text := strings.Replace(string(mod), "module github.com/go-lw/lw/bench\n", "module github.com/go-lw/lw/bench/krt\n", 1)
	text = strings.ReplaceAll(text, "=> ../", "=> "+filepath.Dir(bench)+"/")
	text += fmt.Sprintf(`
require (
	github.com/go-lw/lw/bench v0.1.0
	istio.io/istio v0.0.0
)

replace (
	github.com/go-lw/lw/bench => %s
	istio.io/istio => ../istio
)
`, bench)
	sum, err := os.ReadFile(filepath.Join(bench, "go.sum"))
	if err != nil {
		return err
	}
	return errors.Join(
		write(filepath.Join(dir, "main.go"), string(main)),
		write(filepath.Join(dir, "go.mod"), text),
		write(filepath.Join(dir, "go.sum"), string(sum)),
	)
}

func write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o600)
}

// command runs a command in dir, and shows what it prints.
func command(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args[:min(3, len(cmd.Args))], " "), err)
	}
	return nil
}
