package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// parse reads the events of test2json. A test that has begun and not ended, since the process
// crashed, has failed.
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
	for name := range running {
		res.failed = append(res.failed, name)
	}
	slices.Sort(res.failed)
	return res, nil
}

// topLevel returns the names that are not of subtests.
func topLevel(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.Contains(name, "/") })
}
