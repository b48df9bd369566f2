package lwdebug_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

var rewriteBoard = flag.Bool("update", false, "write testdata/board.html and testdata/board.json")

// mustBeGolden compares got with a file of testdata, or writes that with -update.
func mustBeGolden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *rewriteBoard {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// The JSON and the page of a program in which much is wrong. The screenshot in docs is of this page.
func TestBoardGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBoardScene(t).report()
		out, err := r.JSON(true)
		if err != nil {
			t.Fatal(err)
		}
		mustBeGolden(t, "board.json", string(out)+"\n")
		mustBeGolden(t, "board.html", r.Page(0, false))
	})
}
