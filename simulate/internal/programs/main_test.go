package main

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A fault that is not found, an alarm, and tests that did not run or were not built are complaints.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		results map[string]string
		must    []string
		err     error
		want    []string
	}{
		"as it should be": {results: map[string]string{"TestA": "fail", "TestB": "pass"}, must: []string{"TestA"}},
		"not found": {results: map[string]string{"TestA": "pass"}, must: []string{"TestA"},
			want: []string{"TestA has not found the fault"}},
		"one of two found": {results: map[string]string{"TestA": "fail", "TestB": "pass"}, must: []string{"TestA", "TestB"},
			want: []string{"TestB has not found the fault"}},
		"an alarm": {results: map[string]string{"TestA": "fail"}, want: []string{"TestA: fail"}},
		"skipped":  {results: map[string]string{"TestA": "skip"}, want: []string{"TestA: skip"}},
		"not built": {must: []string{"TestA"}, err: errors.New("exit status 1"), want: []string{"exit status 1",
			"no test ran", "TestA did not run"}},
	} {
		if diff := cmp.Diff(c.want, judge(c.results, c.must, c.err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
