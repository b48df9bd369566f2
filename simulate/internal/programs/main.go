// Programs runs the foreign controllers of testdata/programs: each in its faulty version, of which
// a search must find the fault, and in the mended one, of which there must be no alarm. A
// controller of a package main is put beside its test by an overlay, from its module.
//
//	go run ./internal/programs -for 2m
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

func main() {
	long := flag.Duration("for", 0, "how long each test searches; 0: its own number of histories")
	run := flag.String("run", "", "the tests to run, as of go test")
	flag.Parse()
	modules, err := filepath.Glob("testdata/programs/*/go.mod")
	if err != nil || len(modules) == 0 {
		fmt.Fprintln(os.Stderr, "programs: run it in the folder simulate:", err)
		os.Exit(2)
	}
	wrong := 0
	for _, module := range modules {
		dir := filepath.Dir(module)
		test := func(mended bool, more ...string) {
			args := append([]string{"test", "-count=1", "-timeout=0", "-v", "-run=" + *run}, more...)
			args = append(args, overlay(dir)...)
			args = append(args, ".")
			if *long > 0 {
				args = append(args, "-simulate.for="+long.String())
			}
			cmd := exec.Command("go", args...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
			if err := cmd.Run(); (err == nil) != mended {
				fmt.Printf("%s, mended %t: %v\n", dir, mended, err)
				wrong++
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "mended.mod")); err == nil {
			test(false)
			test(true, "-modfile=mended.mod", "-tags=mended")
		} else if name := filepath.Base(dir); slices.Contains([]string{"endpointslicemirroring", "karpenter", "kuberay", "lws"}, name) {
			test(false) // the module proxy serves no mended version
		} else {
			test(true) // it is believed clean
		}
	}
	if wrong > 0 {
		os.Exit(1)
	}
}

// overlay returns the flag of go test that puts the controller.go of sample-controller into dir, if
// the test there is of it: a package main cannot be imported.
func overlay(dir string) []string {
	name := filepath.Base(dir)
	if name != "samplecontroller" {
		return nil
	}
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/sample-controller")
	list.Dir, list.Stderr = dir, os.Stderr
	module, err := list.Output()
	check(err)
	source, err := os.ReadFile(filepath.Join(string(bytes.TrimSpace(module)), "controller.go"))
	check(err)
	temp, err := os.MkdirTemp("", name)
	check(err)
	file := filepath.Join(temp, "controller.go")
	check(os.WriteFile(file, bytes.Replace(source, []byte("package main"), []byte("package "+name), 1), 0o600))
	at, err := filepath.Abs(filepath.Join(dir, "controller.go"))
	check(err)
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {at: file}})
	check(err)
	check(os.WriteFile(filepath.Join(temp, "overlay.json"), replace, 0o600))
	return []string{"-overlay=" + filepath.Join(temp, "overlay.json")}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(2)
	}
}
