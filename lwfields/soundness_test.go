package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var rounds = flag.Int("rounds", 40, "so many random objects for each program that is run")

// TestSoundness: a golden program prints the same of whole objects and of objects that are cut to
// the mask that was found. A read that was missed shows as a difference.
func TestSoundness(t *testing.T) {
	dir := filepath.Join("testdata", "programs")
	masks := map[string][]string{}
	work := module(t)
	for _, g := range programs(t, dir, "./...") {
		files, err := filepath.Glob(filepath.Join(dir, g.name, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(text, []byte("func Run(w io.Writer, pods []*corev1.Pod)")) {
				continue
			}
			masks[g.name] = g.mask()
			write(t, filepath.Join(work, g.name, filepath.Base(file)), string(text))
		}
	}
	if len(masks) < 15 {
		t.Fatalf("%d programs can be run, want more", len(masks))
	}
	runTwice(t, work, masks)
}

// mask is what was found of a Pod: "ALL", or paths.
func (g golden) mask() []string {
	for _, typ := range g.report.Types {
		if typ.Name == podType {
			if len(typ.All) > 0 {
				return []string{"ALL"}
			}
			return typ.Mask
		}
	}
	return nil
}

// module makes a copy of the module of testdata/programs, with its driver and nothing else.
func module(t *testing.T) string {
	work := t.TempDir()
	root, err := filepath.Abs(filepath.Join(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum", "driver/driver.go"} {
		text, err := os.ReadFile(filepath.Join("testdata", "programs", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(work, filepath.FromSlash(name)), strings.ReplaceAll(string(text), "=> ../../..", "=> "+filepath.ToSlash(root)))
	}
	return work
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// runTwice builds the programs that have a mask into one, and runs it.
func runTwice(t *testing.T, work string, masks map[string][]string) {
	t.Helper()
	var main strings.Builder
	main.WriteString("package main\n\nimport (\n\t\"example.com/programs/driver\"\n")
	for name := range masks {
		fmt.Fprintf(&main, "\t%q\n", "example.com/programs/"+name)
	}
	main.WriteString(")\n\nfunc main() {\n\tdriver.Main(map[string]driver.Program{\n")
	for name := range masks {
		fmt.Fprintf(&main, "\t\t%q: %s.Run,\n", name, name)
	}
	fmt.Fprintf(&main, "\t}, %d)\n}\n", *rounds)
	write(t, filepath.Join(work, "main", "main.go"), main.String())
	build := exec.Command("go", "build", "-o", "twice", "./main")
	build.Dir = work
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	input, err := json.Marshal(masks)
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(filepath.Join(work, "twice"))
	run.Stdin = bytes.NewReader(input)
	out, err := run.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
