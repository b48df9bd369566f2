package clientgo

import (
	"slices"
	"testing"
)

func TestProblems(t *testing.T) {
	s := suite{pkg: "p", skipped: map[string]string{"TestSkip": "needs a disk", "TestSkip/gone": "needs two"}}
	excluded := map[string]string{"TestOut": "private", "TestA/x": "private"}
	tests := []string{"TestA", "TestOut", "TestSkip", "TestLazy", "TestBad", "TestLost"}
	res := &result{
		passed:  []string{"TestA", "TestA/y"},
		failed:  []string{"TestBad"},
		skipped: []string{"TestSkip", "TestLazy"},
		output:  map[string]string{"TestBad": "so bad", "TestLazy": "no time"},
	}
	want := []string{
		"TestBad has failed:\nso bad",
		"TestLazy was skipped:\nno time",
		"TestLost has not run",
		"TestSkip/gone should have been skipped",
		"the tests have made no informer",
	}
	if got := s.problems(res, tests, excluded); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	res = &result{passed: []string{"TestA"}, informers: 1}
	if got := (suite{}).problems(res, []string{"TestA"}, nil); len(got) > 0 {
		t.Errorf("a good run has problems: %q", got)
	}
}

func TestPattern(t *testing.T) {
	if got, want := pattern([]string{"TestA", "TestB/x_(y)"}), `^TestA$|^TestB$/^x_\(y\)$`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := missing([]string{"TestA", "TestB"}, []string{"TestB", "TestC"}); !slices.Equal(got, []string{"TestA"}) {
		t.Errorf("missing: got %q", got)
	}
}
