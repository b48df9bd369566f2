package judge_test

import (
	"strings"
	"testing"

	"github.com/go-lw/lw/internal/judge"
)

// history is a at 2, b at 3, a again at 5, b gone at 7.
func history() (*judge.Truth, map[uint64]judge.State) {
	a, b, a2 := judge.Hash("a", "1"), judge.Hash("b", "1"), judge.Hash("a", "2")
	truth := judge.New(1, 100)
	for _, w := range []struct {
		key           string
		version, hash uint64
	}{{"a", 2, a}, {"b", 3, b}, {"a", 0, a}, {"a", 5, a2}, {"b", 7, 0}} {
		truth.Write(w.key, func() (uint64, uint64) { return w.version, w.hash })
	}
	return truth, map[uint64]judge.State{
		1: 0, 2: judge.State(a), 3: judge.State(a + b), 5: judge.State(a2 + b), 7: judge.State(a2),
	}
}

func TestTruth(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to string
		state    uint64 // the version that the state is of
		err      string
	}{
		"a state at its version":             {"3", "3", 3, ""},
		"a state until the next write":       {"4", "4", 3, ""},
		"the empty state":                    {"1", "1", 1, ""},
		"the last state, later on":           {"9", "9", 7, ""},
		"a state of another version":         {"5", "5", 3, "never had"},
		"the state before its version":       {"2", "2", 3, "never had"},
		"no list yet":                        {"", "", 1, ""},
		"objects before the first list":      {"", "", 3, "before the first list"},
		"a state between two versions":       {"2", "7", 5, ""},
		"a state before the first of two":    {"5", "7", 3, "never had"},
		"versions that fall within one read": {"5", "3", 3, "after version 5"},
		"a version that is no number":        {"x", "x", 3, "invalid syntax"},
	} {
		t.Run(name, func(t *testing.T) {
			truth, states := history()
			err := truth.EndWithin(truth.Begin(), tc.from, tc.to, states[tc.state])
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

func TestReadsInRealTime(t *testing.T) {
	truth, states := history()
	early := truth.Begin()
	if err := truth.End(truth.Begin(), "5", states[5]); err != nil {
		t.Fatal(err)
	}
	if err := truth.End(early, "3", states[3]); err != nil {
		t.Errorf("a read that began before: %v", err)
	}
	if err := truth.End(truth.Begin(), "3", states[3]); err == nil {
		t.Error("a read that began afterwards may not go back")
	}
	if got := truth.Judged(); got != 2 {
		t.Errorf("%d reads judged, want 2", got)
	}
}
