package lwdebug_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/internal/rig"
)

var rewriteBoard = flag.Bool("update", false, "write testdata/board.html and testdata/board.json")

// mustBeGolden compares got with a file of testdata, or writes that with -update.
func mustBeGolden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *rewriteBoard {
		rig.OK(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want := rig.Must[[]byte](t)(os.ReadFile(file))
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// The JSON and the page of a program in which much is wrong. The screenshot in docs is of this page.
func TestBoardGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBoardScene(t).report()
		out := rig.Must[[]byte](t)(r.JSON(true))
		mustBeGolden(t, "board.json", string(out)+"\n")
		mustBeGolden(t, "board.html", r.Page(0, false))
	})
}
