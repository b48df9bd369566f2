package lw_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
)

// A server that was restored and written to again may give a version that was seen to another object: in a new epoch versions
// are not believed, only what an object holds.
func TestVersionsOfAnotherEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			lists: []reply{
				list("9", stamped("a", 1, "7"), stamped("b", 1, "8"), stamped("c", 1, "9")),
				list("8", stamped("a", 2, "7"), stamped("b", 1, "8")),
			},
			watches: []stream{expired(), forever()},
		}
		inf := lw.NewInformer(src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		var told []string
		inf.AddHandler(lw.Handler[*Widget]{
			Update: func(old, w *Widget) { told = append(told, "update "+w.Name) },
			Delete: func(w *Widget) { told = append(told, "delete "+w.Name) },
		})
		start(t, inf)
		time.Sleep(time.Hour)
		synctest.Wait()
		if d := cmp.Diff([]string{"delete c", "update a"}, told); d != "" || inf.Status().Epoch != 1 {
			t.Errorf("epoch %d, told (-want +got):\n%s", inf.Status().Epoch, d)
		}
		if w, _ := inf.Store().Get(key("a")); w == nil || w.Size != 2 {
			t.Errorf("the store has %+v, want a of size 2", w)
		}
	})
}
