// Programs runs the foreign controllers of testdata/programs: each in its faulty version, of which
// the tests named below must find the faults, and in the mended one, of which there must be no
// alarm. A controller of a package main is put beside its test by an overlay, from its module.
//
// All are one module. Where a program x needs another version than its go.mod has, that stands in
// x.mod; and its mended version in x-mended.mod.
//
//	go run ./internal/programs -for 2m
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// programs is the folder of the module, from that of simulate.
const programs = "testdata/programs"

// faulty are the tests that must fail, by program: each finds a fault of its version. All others
// must pass. Where there is a mended version, all tests of that one must pass.
var faulty = map[string][]string{
	"agentsandbox":           {"TestPool"},
	"endpointslicemirroring": {"TestMirroring"},
	"jobset":                 {"TestFails", "TestAgain"},
	"karpenter":              {"TestPool"},
	"kuberay":                {"TestTick"},
	"lws":                    {"TestSet"},
	"lwsagain":               {"TestAgain"},
}

func main() {
	long := flag.Duration("for", 0, "how long each test searches; 0: its own number of histories")
	run := flag.String("run", "", "the tests to run, as of go test")
	only := flag.String("program", "", "the programs to run, a regular expression; default: all")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	check(err)
	dirs, err := filepath.Glob(filepath.Join(programs, "*", "*_test.go"))
	check(err)
	for i := range dirs {
		dirs[i] = filepath.Base(filepath.Dir(dirs[i]))
	}
	names := slices.DeleteFunc(slices.Compact(dirs), func(name string) bool { return !wanted.MatchString(name) })
	wrong := 0
	for _, name := range names {
		test := func(must []string, more ...string) {
			args := append([]string{"test", "-json", "-vet=off", "-count=1", "-timeout=0", "-run=" + *run}, more...)
			args = append(args, overlay(name)...)
			args = append(args, "./"+name)
			if *long > 0 {
				args = append(args, "-simulate.for="+long.String())
			}
			results, err := tests(args)
			if *run != "" { // those that were left out
				must = slices.DeleteFunc(slices.Clone(must), func(name string) bool { return results[name] == "" })
			}
			for _, complaint := range judge(results, must, err) {
				fmt.Printf("programs: %s %s: %s\n", name, strings.Join(more, " "), complaint)
				wrong++
			}
		}
		var apart []string // the version is not that of go.mod, which another program has
		if has(name + ".mod") {
			apart = []string{"-modfile=" + name + ".mod"}
		}
		test(faulty[name], apart...)
		if has(name + "-mended.mod") {
			test(nil, "-modfile="+name+"-mended.mod", "-tags=mended")
		}
	}
	if wrong > 0 || len(names) == 0 {
		fmt.Printf("programs: %d of %d are not as they should be; it runs in the folder simulate\n", wrong, len(names))
		os.Exit(1)
	}
}

// tests runs the go command in programs, shows what it says, and returns what became of each test:
// "pass", "fail" or "skip". It returns an error if the tests did not end.
func tests(args []string) (results map[string]string, err error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = programs, os.Stderr
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	results = map[string]string{}
	for lines := json.NewDecoder(out); ; {
		var line struct{ Action, Test, Output string }
		if err = lines.Decode(&line); err != nil {
			break
		}
		fmt.Print(line.Output)
		if ends := []string{"pass", "fail", "skip"}; line.Test != "" && !strings.Contains(line.Test, "/") && slices.Contains(ends, line.Action) {
			results[line.Test] = line.Action
		}
	}
	if err == io.EOF {
		err = nil
	}
	ended := cmd.Wait()
	if fails := slices.Contains(slices.Collect(maps.Values(results)), "fail"); err == nil && ended != nil && !fails {
		err = ended // such as of what was not built
	}
	return results, err
}

// judge says what is not as it should be: the tests of must should have failed, and all others
// passed.
func judge(results map[string]string, must []string, err error) (complaints []string) {
	if err != nil {
		complaints = append(complaints, err.Error())
	}
	if len(results) == 0 {
		complaints = append(complaints, "no test ran")
	}
	for _, name := range slices.Sorted(maps.Keys(results)) {
		if result := results[name]; slices.Contains(must, name) && result != "fail" {
			complaints = append(complaints, name+" has not found the fault")
		} else if !slices.Contains(must, name) && result != "pass" {
			complaints = append(complaints, name+": "+result)
		}
	}
	for _, name := range must {
		if results[name] == "" {
			complaints = append(complaints, name+" did not run")
		}
	}
	return complaints
}

// overlay returns the flag of go test that puts the controller.go of sample-controller beside its
// test, if name is that program: a package main cannot be imported.
func overlay(name string) []string {
	if name != "samplecontroller" {
		return nil
	}
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/sample-controller")
	list.Dir, list.Stderr = programs, os.Stderr
	module, err := list.Output()
	check(err)
	source, err := os.ReadFile(filepath.Join(string(bytes.TrimSpace(module)), "controller.go"))
	check(err)
	temp, err := os.MkdirTemp("", name)
	check(err)
	file := filepath.Join(temp, "controller.go")
	check(os.WriteFile(file, bytes.Replace(source, []byte("package main"), []byte("package "+name), 1), 0o600))
	at, err := filepath.Abs(filepath.Join(programs, name, "controller.go"))
	check(err)
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {at: file}})
	check(err)
	check(os.WriteFile(filepath.Join(temp, "overlay.json"), replace, 0o600))
	return []string{"-overlay=" + filepath.Join(temp, "overlay.json")}
}

// has reports whether there is the file name in programs.
func has(name string) bool {
	_, err := os.Stat(filepath.Join(programs, name))
	return err == nil
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(2)
	}
}
