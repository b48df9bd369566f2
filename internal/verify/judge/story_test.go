package judge_test

import (
	"strings"
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/judge"
)

func TestStory(t *testing.T) {
	a2 := &lw.Meta{Name: "a", UID: "1", ResourceVersion: "2"}
	a5 := &lw.Meta{Name: "a", UID: "1", ResourceVersion: "5"}
	other := &lw.Meta{Name: "a", UID: "2", ResourceVersion: "9"}
	type story = *judge.Story[*lw.Meta]
	for name, tc := range map[string]struct {
		tell func(s story)
		err  string
	}{
		"add, update, delete, add": {func(s story) { s.Add(a2); s.Update(a2, a5); s.Delete(a5); s.Add(other) }, ""},
		"a resync":                 {func(s story) { s.Add(a2); s.Update(a2, a2) }, ""},
		"added twice":              {func(s story) { s.Add(a2); s.Add(a5) }, "added twice"},
		"updated, never added":     {func(s story) { s.Update(a2, a5) }, "never added"},
		"updated from another":     {func(s story) { s.Add(a2); s.Update(&lw.Meta{Name: "a", UID: "1", ResourceVersion: "2"}, a5) }, "was told as"},
		"updated across UIDs":      {func(s story) { s.Add(a2); s.Update(a2, other) }, "UID"},
		"an update back in time":   {func(s story) { s.Add(a5); s.Update(a5, a2) }, "version 5 to 2"},
		"an add back in time":      {func(s story) { s.Add(a5); s.Delete(a5); s.Add(a2) }, "version 5 to 2"},
		"deleted, never added":     {func(s story) { s.Delete(a2) }, "not what was told"},
		"deleted as another":       {func(s story) { s.Add(a2); s.Delete(a5) }, "not what was told"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			s := judge.NewStory[*lw.Meta](func(err error) { got = append(got, err.Error()) })
			tc.tell(s)
			if text := strings.Join(got, "; "); (text == "") != (tc.err == "") || !strings.Contains(text, tc.err) {
				t.Errorf("error %q, want %q", text, tc.err)
			}
		})
	}
}

func TestWhatAStoryAddsUpTo(t *testing.T) {
	a := &lw.Meta{Name: "a", UID: "1", ResourceVersion: "2"}
	a2 := &lw.Meta{Name: "a", UID: "1", ResourceVersion: "3"}
	b := &lw.Meta{Name: "b", UID: "2", ResourceVersion: "4"}
	s := judge.NewStory[*lw.Meta](func(err error) { t.Error(err) })
	h := s.Handler()
	h.Add(a)
	h.Update(a, a2)
	s.Tell(lw.Delta[*lw.Meta]{Type: lw.Added, New: b})
	s.Tell(lw.Delta[*lw.Meta]{Type: lw.Updated, Old: a2, New: a2})
	h.Delete(b)
	if got := s.Objects(); len(got) != 1 || got[lw.KeyOf(a)] != a2 {
		t.Errorf("objects %v, want %v", got, a2)
	}
	hash := func(m *lw.Meta) uint64 { return judge.Hash(m.ResourceVersion) }
	if got, want := s.State(hash), judge.State(hash(a2)); got != want {
		t.Errorf("state %d, want %d", got, want)
	}
	if got := s.Calls(); got != 5 {
		t.Errorf("%d calls, want 5", got)
	}
	s.Tell(lw.Delta[*lw.Meta]{Type: lw.Deleted, Old: a2})
	if got := s.Objects(); len(got) != 0 {
		t.Errorf("objects %v, want none", got)
	}
}

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
