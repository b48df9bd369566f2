package judge_test

import (
	"strings"
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/judge"
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
