package lwdebug_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/board"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/lwdebug"
)

// TestBoardBehind: the board says how late the server's writes come, as long as one came lately.
func TestBoardBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		inf := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), &lw.Options{Board: &b, OnError: func(error) {}})
		rig.Start(t, inf)
		synctest.Wait()
		if got := lwdebug.ReportOf(&b).Informers[0].Behind; got != nil {
			t.Errorf("before it was measured: %v", got)
		}
		rig.Must[string](t)(inf.CatchUp(t.Context()))
		none := board.Seconds(0)
		for _, want := range []board.Delay{{By: "asked", Half: &none, Most: &none, Count: 1}, {By: "asked", Count: 1}} {
			if diff := cmp.Diff([]board.Delay{want}, lwdebug.ReportOf(&b).Informers[0].Behind); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			page := body(t, askBoard(&b, "GET", "/"))
			if got := strings.Contains(page, "asked writes half within 0 s and 99 % within 0 s"); got != (want.Half != nil) {
				t.Errorf("the page says so: %v, %+v", got, want)
			}
			rig.Sleep(11 * time.Minute)
		}
	})
}
