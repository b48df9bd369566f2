package clientgo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// parse reads the events of test2json.
func parse(events io.Reader) (*result, error) {
	res := &result{output: map[string]string{}}
	running := map[string]bool{}
	dec := json.NewDecoder(events)
	for {
		var ev struct{ Action, Test, Output string }
		err := dec.Decode(&ev)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("upstream: the output of test2json: %w", err)
		}
		switch ev.Action {
		case "output":
			res.output[ev.Test] += ev.Output
			continue
		case "run":
			running[ev.Test] = true
			continue
		}
		if ev.Test == "" {
			continue // the end of the package
		}
		switch ev.Action {
		case "pass":
			res.passed = append(res.passed, ev.Test)
		case "fail":
			res.failed = append(res.failed, ev.Test)
		case "skip":
			res.skipped = append(res.skipped, ev.Test)
		default:
			continue // pause, cont
		}
		delete(running, ev.Test)
	}
	res.unended = slices.Sorted(maps.Keys(running))
	return res, nil
}

// exited takes in how the process of the tests of pkg has ended: whether with success, and what it
// said outside of any test. A test that has begun and not ended, since the process crashed, has
// failed. So has pkg itself, if nothing else explains that there was no success.
func (r *result) exited(pkg string, success bool, said string) {
	for _, name := range r.unended {
		r.failed = append(r.failed, name)
		r.output[name] += said
	}
	if !success && len(r.failed) == 0 {
		r.failed = append(r.failed, pkg)
		r.output[pkg] = said
	}
	r.unended = nil
	slices.Sort(r.failed)
}

// topLevel returns the names that are not of subtests.
func topLevel(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.Contains(name, "/") })
}
