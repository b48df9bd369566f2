// Lwfields finds the fields of Kubernetes' objects that a program reads, so that its informers need
// not keep the others.
//
//	go tool lwfields [flags] [packages]
//
// The packages are the main packages of one program; default ./... Without a main package all
// functions count. It prints, for each type, the paths that are read, with the lines that read
// them, and the lines that need the whole object, with what to write instead. Flag -o writes the
// paths as Go code, an lw.Fields for lw.HTTP.Only; -check compares such code with the program.
//
// It is experimental: README.md says what it promises, and what it does not see.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/types"
	"io"
	"os"
	"regexp"
	"strings"
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// Exit statuses.
const (
	exitDone    = 0
	exitOutside = 1 // -check has found a difference
	exitFailed  = 2
)

// options are the flags.
type options struct {
	types    []string // path.Name or path.Name=variable
	out      string
	check    bool
	exact    bool
	why      string
	ignore   string
	json     bool
	logs     string
	tags     string
	dir      string
	patterns []string
}

func command(args []string, stdout, stderr io.Writer) int {
	var o options
	set := flag.NewFlagSet("lwfields", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Func("type", "API `type`, path.Name or path.Name=variable; repeat it. Default: the types that the packages cache", func(s string) error {
		o.types = append(o.types, s)
		return nil
	})
	set.StringVar(&o.out, "o", "", "`file` for the masks as Go code")
	set.BoolVar(&o.check, "check", false, "compare with the masks in the packages: variables with //lwfields:mask type")
	set.BoolVar(&o.exact, "exact", false, "with -check: a mask that keeps what nobody reads fails as well")
	set.StringVar(&o.why, "why", "", "print every line that reads a `path`, and how the object came there; ALL for the whole object")
	set.StringVar(&o.ignore, "ignore", "", "`regexp` of functions that are not part of the program, such as an old transform function")
	set.BoolVar(&o.json, "json", false, "print the report as JSON")
	set.StringVar(&o.logs, "logs", "count", "`ignore`: what is only logged does not count, and is shorter in the log then")
	set.StringVar(&o.tags, "tags", "", "build `tags`, as for go build")
	set.StringVar(&o.dir, "C", ".", "`directory` to run in")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitDone
		}
		return exitFailed
	}
	o.patterns = set.Args()
	if len(o.patterns) == 0 {
		o.patterns = []string{"./..."}
	}
	status, err := o.run(stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "lwfields:", err)
		return exitFailed
	}
	return status
}

func (o *options) run(stdout, stderr io.Writer) (status int, err error) {
	defer func() {
		if r := recover(); r != nil && os.Getenv("LWFIELDS_PANIC") == "" {
			err = fmt.Errorf("internal error: %v", r)
		} else if r != nil {
			panic(r)
		}
	}()
	if o.logs != "count" && o.logs != "ignore" {
		return 0, fmt.Errorf("-logs=%s: want count or ignore", o.logs)
	}
	var ignore *regexp.Regexp
	if o.ignore != "" {
		if ignore, err = regexp.Compile(o.ignore); err != nil {
			return 0, err
		}
	}
	var flags []string
	if o.tags != "" {
		flags = []string{"-tags=" + o.tags}
	}
	p, err := load(o.dir, o.patterns, flags)
	if err != nil {
		return 0, err
	}
	var masks []*mask
	if o.check {
		if masks, err = findMasks(p); err != nil {
			return 0, err
		}
		if o.types = nil; len(masks) == 0 {
			return 0, errors.New("-check: the packages have no variable with //lwfields:mask")
		}
		for _, m := range masks {
			o.types = append(o.types, m.typ)
		}
	}
	a, err := analyze(p, o.types, ignore)
	if err != nil {
		return 0, err
	}
	report := a.report(map[string]bool{"logged": o.logs == "ignore"})
	names := o.names()
	switch {
	case o.why != "":
		if !a.why(stdout, report, o.why) {
			fmt.Fprintf(stderr, "lwfields: nobody reads %s\n", o.why)
		}
		return exitDone, nil
	case o.check:
		return checkMasks(p, masks, report, o.exact, stderr), nil
	case o.out != "":
		return exitDone, generate(o, p, report, names)
	case o.json:
		return exitDone, report.WriteJSON(stdout)
	}
	return exitDone, report.WriteText(stdout)
}

// names are the variables that -type asks for, by type.
func (o *options) names() map[string]string {
	names := map[string]string{}
	for _, t := range o.types {
		if path, name, ok := strings.Cut(t, "="); ok {
			names[path] = name
		}
	}
	return names
}

// maxRounds is how often packages are read again because objects were given to them.
const maxRounds = 4

// analyze finds what a program reads of types; of the types that it caches, if none are named. It
// reads a library from source only if an object is given to one of its functions.
func analyze(p *program, names []string, ignore *regexp.Regexp) (*analysis, error) {
	for round := 1; ; round++ {
		if err := p.build(); err != nil {
			return nil, err
		}
		var named []*types.Named
		for _, name := range names {
			path, _, _ := strings.Cut(name, "=")
			t, err := p.lookup(path)
			if err != nil {
				return nil, err
			}
			named = append(named, t)
		}
		if len(names) == 0 {
			named = p.cached()
			if len(named) == 0 {
				return nil, errors.New("the packages cache no objects that are found; name the types with -type")
			}
		}
		a := newAnalysis(p, named, ignore)
		a.run()
		if len(a.want) == 0 || round == maxRounds {
			return a, nil
		}
		for one := range a.want {
			one.source = true
		}
	}
}
