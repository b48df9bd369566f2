// Lwbuild builds the program in the current module, unmodified, with lw under client-go's
// informers.
//
//	go run github.com/go-lw/lw/cmd/lwbuild@v0.1.0 [flags] [flags of go build] ./cmd/manager
//
// No file of the program changes. Informers, factories, dynamic and metadata informers, controllers
// and reflectors of client-go are lw's in what it builds, and so those of controller-runtime's
// cache are. When the program runs, LW=off gives it client-go's own ones, LW_REPORT=file writes a
// page about them, LW_PACK=1 keeps their objects packed, LW_BOARD=:port serves lw's board, and
// LW_KINDS=wait has the informers of kinds that nobody serves make no request until these come, so
// that a manager of controller-runtime starts before its CustomResourceDefinitions.
//
//	-test  go test instead of go build
//	-n     print what would be done
//	-keep  refuse rather than raise the program's client-go
//	-bench=30s
//	       run the program that long, five times either side, with what follows -args, and compare;
//	       -svg=file draws the table, too
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	b := &builder{stdout: os.Stdout, stderr: os.Stderr}
	err := b.parse(os.Args[1:])
	if err == nil {
		err = b.run()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && b.ran {
		os.Exit(exit.ExitCode()) // go has said why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lwbuild:", err)
		os.Exit(2)
	}
}

// A builder is one call of lwbuild.
type builder struct {
	dir            string // of the module's package where go runs; "": the present one
	test, dry      bool
	keep           bool
	bench          time.Duration // how long a run of either side takes; 0: the program is not run
	args           []string      // what follows -args
	svg            string        // the file of the drawing of -bench; "": none
	flags          []string      // for go build or go test, in their order
	listFlags      []string      // those of them that decide which files count
	patterns       []string
	cache          string // the folder of patched copies; "": that of the user
	stdout, stderr io.Writer
	env            map[string]string // of go
	tmp            string
	ran            bool // go build or go test has run
}

// switches are the flags of go build and go test that take no value.
var switches = strings.Fields("a v x buildvcs race msan asan cover work trimpath linkshared modcacherw json c failfast short benchmem fullpath artifacts i")

// parse sorts the arguments.
func (b *builder) parse(args []string) error {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") {
			for j, arg := range args[i:] {
				if arg == "-args" || arg == "--args" {
					b.patterns, b.args = args[i:i+j], args[i+j+1:]
					return nil
				}
			}
			b.patterns = args[i:]
			return nil
		}
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !has && !slices.Contains(append(switches, "test", "n", "keep"), name) {
			if i++; i == len(args) {
				return fmt.Errorf("flag -%s needs a value", name)
			}
			value = args[i]
		}
		own, err := b.own(name, value, slices.ContainsFunc(args, isTest))
		if err != nil {
			return err
		}
		if own {
			continue
		}
		if slices.Contains([]string{"tags", "race", "msan", "asan"}, name) {
			b.listFlags = append(b.listFlags, flagOf(name, value, has))
		}
		if has || slices.Contains(switches, name) {
			b.flags = append(b.flags, arg)
		} else {
			b.flags = append(b.flags, "-"+name+"="+value)
		}
	}
	return nil
}

// own sets a flag that is lwbuild's own, and reports whether it is. With test, -bench is go test's.
func (b *builder) own(name, value string, test bool) (own bool, err error) {
	switch name {
	case "test", "n", "keep":
		of := map[string]*bool{"test": &b.test, "n": &b.dry, "keep": &b.keep}[name]
		if *of, err = strconv.ParseBool(cmp.Or(value, "true")); err != nil {
			return true, fmt.Errorf("flag -%s=%s is neither true nor false", name, value)
		}
	case "svg":
		b.svg = value
	case "C":
		b.dir = value
	case "bench":
		if test {
			return false, nil
		}
		if b.bench, err = time.ParseDuration(value); err != nil || b.bench <= 0 {
			return true, fmt.Errorf("flag -bench=%s: how long is a run? next: -bench=30s", value)
		}
	case "mod", "modfile", "overlay":
		return true, fmt.Errorf("flag -%s: lwbuild sets it itself; leave it out (it builds with -mod=mod from a copy of go.mod)", name)
	default:
		return false, nil
	}
	return true, nil
}

// isTest reports whether arg is the flag -test, and not -test=false.
func isTest(arg string) bool {
	name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	on, _ := strconv.ParseBool(cmp.Or(value, "true"))
	return strings.HasPrefix(arg, "-") && name == "test" && on
}

func flagOf(name, value string, has bool) string {
	if !has && value == "" {
		return "-" + name
	}
	return "-" + name + "=" + value
}

// run does all.
func (b *builder) run() (err error) {
	if b.svg != "" && b.bench == 0 {
		return fmt.Errorf("flag -svg=%s: it draws what -bench measures; next: -bench=30s", b.svg)
	}
	if b.tmp, err = os.MkdirTemp("", "lwbuild-"); err != nil {
		return err
	}
	if !b.dry {
		defer os.RemoveAll(b.tmp)
	}
	if err := b.environment(); err != nil {
		return err
	}
	versions, err := b.modules()
	if err != nil {
		return err
	}
	pkgs, err := b.packages()
	if err != nil {
		return err
	}
	overlay, err := b.overlay(pkgs, versions)
	if err != nil {
		return err
	}
	if err := b.patchManager(pkgs); err != nil {
		return err
	}
	command := "build"
	if b.test {
		command = "test"
	}
	args := append([]string{command, "-modfile=" + b.modfile(), "-mod=mod", "-overlay=" + overlay}, b.flags...)
	program := filepath.Join(b.tmp, "program")
	if b.bench > 0 {
		args = append(args, "-o="+program)
	}
	args = append(args, b.patterns...)
	if len(b.args) > 0 && b.bench == 0 {
		args = append(append(args, "-args"), b.args...)
	}
	fmt.Fprintln(b.stderr, "lwbuild:", versions)
	if b.dry {
		fmt.Fprintf(b.stdout, "# %s\nGOWORK=off GOFLAGS=%q go %s\n", versions, b.env["GOFLAGS"], strings.Join(args, " "))
		return nil
	}
	var said bytes.Buffer
	cmd := b.goCommand(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, b.stdout, io.MultiWriter(b.stderr, &said)
	b.ran = true
	err = cmd.Run()
	if next := nextStep(said.String(), versions); err != nil && next != "" {
		fmt.Fprintln(b.stderr, "lwbuild:", next)
	}
	if err != nil || b.bench == 0 {
		return err
	}
	b.ran = false // an error from here on is not go's
	return b.compare(program, versions)
}

// nextStep says what to do about what go has said, or "".
func nextStep(said, versions string) string {
	switch {
	case strings.Contains(said, "inconsistent vendoring"):
		return "vendor/ is out of step with go.mod: run go mod vendor, or delete vendor/"
	case strings.Contains(said, "requires cgo"), strings.Contains(said, "build constraints exclude all Go files"):
		return "a package needs cgo: set CGO_ENABLED=1, with a C compiler in PATH"
	case strings.Contains(said, "must not be replaced"):
		return "go refuses to build inside the module cache: copy the program's folder to another place, and build it there"
	case strings.Contains(versions, "raised") && strings.Contains(said, "k8s.io/"):
		return "the program may not compile with the raised versions: raise them in its go.mod first (go get k8s.io/client-go@" + raisedTo + "), until go build passes"
	}
	return ""
}

// goCommand returns a go command that sees neither go.work nor flags for modules.
func (b *builder) goCommand(args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+b.env["GOFLAGS"])
	return cmd
}

// output returns what a go command prints. Its error has what the command says, and the next step.
func output(cmd *exec.Cmd) ([]byte, error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	text := strings.TrimSpace(said.String())
	if next := nextStep(text, ""); next != "" {
		text += "\nnext: " + next
	}
	return nil, fmt.Errorf("go %s: %w: %s", strings.Join(cmd.Args[1:], " "), err, text)
}

func (b *builder) modfile() string { return filepath.Join(b.tmp, "lw.mod") }
