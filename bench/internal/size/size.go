// Package size measures how large programs are that follow collections, with lw and with client-go.
package size

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/go-lw/lw/bench/internal/compare"
)

// Case compares the sizes of programs that are built as they are shipped: stripped, by go build
// -trimpath -ldflags="-s -w". It must run in the directory of the module bench.
//
// What a further type adds is a tenth of the difference between eleven types and one. An API type
// has Go code and descriptors of its own, which is no part of an informer. So the line with a goal
// is of programs that use a clientset as well: both then have the code of all API types, as those
// of client-go always do.
func Case() compare.Case {
	return compare.Case{
		Name: "program sizes",
		Once: true,
		Lines: []compare.Line{
			{Row: 33, What: "program that follows a small type; client-go: a dynamic informer", Unit: compare.Bytes, Key: small},
			{Row: 33, What: "program that follows pods", Unit: compare.Bytes, Key: typed(1)},
			{Row: 33, What: "program that follows 5 core types", Unit: compare.Bytes, Key: typed(5)},
			{Row: 33, What: "program that follows 11 core types", Unit: compare.Bytes, Key: typed(11)},
			{Row: 33, What: "program that follows pods and uses a clientset", Unit: compare.Bytes, Key: beside(1)},
			{Row: 33, What: "each further type, with its Go type", Unit: compare.Bytes, Key: "whole"},
			{Row: 33, What: "each further type, beside a clientset, which has its Go type", Unit: compare.Bytes, Key: "beside", Goal: compare.Most(100_000)},
		},
		Setup: func(compare.Config) ([]compare.Side, func()) {
			return []compare.Side{
				{Name: compare.ClientGo, Measure: func() compare.Sample { return measure(clientGoPrograms()) }},
				{Name: compare.LW, Measure: func() compare.Sample { return measure(lwPrograms()) }},
			}, nil
		},
	}
}

const small = "small"

// typed is the name of the program that follows n core types, beside that of the one that uses a
// clientset as well.
func typed(n int) string  { return fmt.Sprint(n) }
func beside(n int) string { return fmt.Sprint("clientset, ", n) }

func lwPrograms() []program {
	programs := []program{{name: small, source: lwSmall}}
	for _, n := range []int{1, 5, 11} {
		programs = append(programs, program{name: typed(n), source: lwTyped, Kinds: kinds[:n]})
	}
	for _, n := range []int{1, 11} {
		programs = append(programs, program{name: beside(n), source: lwTyped, Kinds: kinds[:n], Clientset: true})
	}
	return programs
}

func clientGoPrograms() []program {
	programs := []program{{name: small, source: clientGoSmall}}
	for _, n := range []int{1, 5, 11} {
		programs = append(programs, program{name: typed(n), source: clientGoTyped, Kinds: kinds[:n]})
	}
	return programs
}

func measure(programs []program) compare.Sample {
	sample := compare.Sample{}
	for _, p := range programs {
		n, err := p.size()
		if err != nil {
			panic("size: " + err.Error())
		}
		sample[p.name] = n
	}
	return further(sample)
}

// further adds what each further type adds to the sizes of a side's programs. The programs of
// client-go always use a clientset.
func further(sizes compare.Sample) compare.Sample {
	for _, n := range []int{1, 11} {
		if _, ok := sizes[beside(n)]; !ok {
			sizes[beside(n)] = sizes[typed(n)]
		}
	}
	sizes["whole"] = (sizes[typed(11)] - sizes[typed(1)]) / 10
	sizes["beside"] = (sizes[beside(11)] - sizes[beside(1)]) / 10
	return sizes
}

// size builds the program and returns its size in bytes.
func (p program) size() (float64, error) {
	dir, err := os.MkdirTemp("", "lw-size")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "program")
	text, err := p.main()
	if err != nil {
		return 0, err
	}
	if err := build(dir, text, "-trimpath", "-ldflags=-s -w", "-o", out); err != nil {
		return 0, fmt.Errorf("%s: %w", p.name, err)
	}
	info, err := os.Stat(out)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()), nil
}

// build runs go build on a package of one file, with the text. The file is in the module bench by
// an overlay, which is written to dir, so it sees the module's dependencies.
func build(dir, text string, args ...string) error {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return err
	}
	root := filepath.Dir(strings.TrimSpace(string(mod)))
	const pkg = "internal/size/program"
	main := filepath.Join(dir, "main.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, pkg, "main.go"): main}})
	if err != nil {
		return err
	}
	for file, content := range map[string][]byte{main: []byte(text), main + ".json": overlay} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return err
		}
	}
	cmd := exec.Command("go", append(append([]string{"build"}, args...), "-overlay", main+".json", "./"+pkg)...)
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, text)
	}
	return nil
}
