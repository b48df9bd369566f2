package clientgo

import (
	"fmt"
	"slices"
	"time"
)

// A suite is the tests of one of upstream's packages. Tests and subtests are named as go test
// prints them.
type suite struct {
	pkg string
	// tests are the tests to run, which must exist; nil: all.
	tests []string
	// excluded are not run with lw's informers. The values say why.
	excluded map[string]string
	// skipped skip themselves. The values say why.
	skipped map[string]string
	// sees has the kinds of broken informers that the suite must notice, and for each a test that
	// fails with them; "": any.
	sees    map[string]string
	timeout time.Duration // of one run; 0: five minutes
}

// problems returns what is wrong with a run of tests, of which all that are not excluded should
// have passed.
func (s suite) problems(res *result, tests []string, excluded map[string]string) []string {
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, name := range res.failed {
		problem("%s has failed:\n%s", name, res.output[name])
	}
	for _, name := range res.skipped {
		if s.skipped[name] == "" {
			problem("%s was skipped:\n%s", name, res.output[name])
		}
	}
	for name := range s.skipped {
		if !slices.Contains(res.skipped, name) {
			problem("%s should have been skipped", name)
		}
	}
	for _, name := range missing(tests, res.ended()) {
		if excluded[name] == "" {
			problem("%s has not run", name)
		}
	}
	if res.informers == 0 {
		problem("the tests have made no informer")
	}
	slices.Sort(problems)
	return problems
}

// ended returns the tests and subtests that have ended, however.
func (r *result) ended() []string { return slices.Concat(r.passed, r.failed, r.skipped) }

// missing returns the tests of want that are not in got.
func missing(want, got []string) []string {
	return slices.DeleteFunc(slices.Clone(want), func(name string) bool { return slices.Contains(got, name) })
}
