// Programs builds real programs, unmodified, with lwbuild, and runs their own tests either side.
//
//	go run ./cmd/programs [names]
//
// Each file of bench/programs is a program: its module, which comes from the module proxy, its main
// package, the packages whose tests make informers, and what they need. The baseline is the
// untouched module with its own versions.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A program is a file of bench/programs.
type program struct {
	Module, Version, Command, Needs string
	Tests                           []string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(1)
	}
}

func run(names []string) error {
	files, err := filepath.Glob("programs/*.json")
	if err != nil || len(files) == 0 {
		return cmp.Or(err, fmt.Errorf("there is no programs/*.json here: call it in bench"))
	}
	tmp, err := os.MkdirTemp("", "programs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	lwbuild := filepath.Join(tmp, "lwbuild")
	if _, _, err := command(filepath.Join("..", "cmd", "lwbuild"), nil, "go", "build", "-o", lwbuild, "."); err != nil {
		return err
	}
	fmt.Printf("| program | versions | build | own tests, untouched | on lw | informers they make |\n|---|---|---|---|---|---|\n")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var p program
		if err := json.Unmarshal(data, &p); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		row, err := p.row(name, lwbuild, filepath.Join(tmp, name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Println(row)
	}
	return nil
}

// row fetches, builds and tests p in dir, and returns its row of the table.
func (p program) row(name, lwbuild, dir string) (string, error) {
	out, _, err := command(os.TempDir(), nil, "go", "mod", "download", "-json", p.Module+"@"+p.Version)
	if err != nil {
		return "", err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	// go builds nothing inside the module cache.
	if err := os.CopyFS(dir, os.DirFS(module.Dir)); err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return cmp.Or(err, os.Chmod(path, 0o777))
	}); err != nil {
		return "", err
	}
	began := time.Now()
	_, said, err := command(dir, nil, lwbuild, "-p", "1", "-o", filepath.Join(dir, ".lw"), p.Command)
	if err != nil {
		return "", err
	}
	took := time.Since(began).Round(time.Second)
	versions, _, _ := strings.Cut(strings.TrimPrefix(string(said), "lwbuild: "), "\n")
	test := append([]string{"-p", "1", "-count=1", "-json"}, p.Tests...)
	// A test that fails is a result.
	plain, said, err := command(dir, nil, "go", append([]string{"test"}, test...)...)
	if len(plain) == 0 {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	report := filepath.Join(dir, ".report")
	with, said, err := command(dir, []string{"LW_REPORT=" + report}, lwbuild, append([]string{"-test"}, test...)...)
	if len(with) == 0 {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	lines, err := os.ReadFile(report)
	if err != nil {
		return "", fmt.Errorf("the tests make no informers: %w", err)
	}
	return fmt.Sprintf("| %s %s | %s | %v | %s | %s | %d |", name, p.Version, versions, took, verdict(plain), verdict(with), bytes.Count(lines, []byte("\n"))), nil
}

// verdict counts what go test -json says of tests, with subtests, and names those that failed.
func verdict(events []byte) string {
	count := map[string]int{}
	var failed []string
	lines := bufio.NewScanner(bytes.NewReader(events))
	lines.Buffer(nil, 64<<20) // what a test prints may be one line
	for lines.Scan() {
		var e struct{ Action, Test, Package string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		if e.Test != "" {
			count[e.Action]++
		}
		if e.Action == "fail" {
			failed = append(failed, cmp.Or(e.Test, e.Package))
		}
	}
	text := fmt.Sprintf("%d passed", count["pass"])
	if len(failed) > 0 {
		text += ", failed: " + strings.Join(failed, ", ")
	}
	return text
}

// command runs a program in dir, with more in its environment.
func command(dir string, env []string, name string, args ...string) (stdout, stderr []byte, err error) {
	cmd := exec.Command(name, args...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), &out, &said
	if err := cmd.Run(); err != nil {
		return out.Bytes(), said.Bytes(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, said.Bytes())
	}
	return out.Bytes(), said.Bytes(), nil
}
