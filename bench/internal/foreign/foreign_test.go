package foreign_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/bench/internal/foreign"
	"github.com/go-lw/lw/internal/verify/rig"
)

func TestChanged(t *testing.T) {
	before, after := t.TempDir(), t.TempDir()
	for dir, files := range map[string]map[string]string{before: {"same": "1", "other": "1", "sub/gone": "1"},
		after: {"same": "1", "other": "2", "new": ""}} {
		for name, text := range files {
			rig.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
			rig.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
		}
	}
	got, err := foreign.Changed(before, after)
	if diff := cmp.Diff([]string{"other", filepath.Join("sub", "gone"), "new"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := foreign.Changed(before, before); err != nil || got != nil {
		t.Errorf("of itself: %q, %v", got, err)
	}
}
