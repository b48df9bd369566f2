// Programs runs the foreign controllers of testdata/programs: each in its faulty version, of which
// a search must find the fault, and in the mended one, of which there must be no alarm.
//
//	go run ./internal/programs -for 2m
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
		} else if name := filepath.Base(dir); name == "karpenter" || name == "kuberay" || name == "lws" {
			test(false) // the module proxy serves no mended version
		} else {
			test(true) // it is believed clean
		}
	}
	if wrong > 0 {
		os.Exit(1)
	}
}
