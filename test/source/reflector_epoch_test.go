package source_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// A server that was restored and written to again may give a version that was seen to another
// object: in a new epoch versions are not believed, only what an object holds.
func TestVersionsOfAnotherEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{
				rig.List("9", rig.Stamped("a", 1, "7"), rig.Stamped("b", 1, "8"), rig.Stamped("c", 1, "9")),
				rig.List("8", rig.Stamped("a", 2, "7"), rig.Stamped("b", 1, "8")),
			},
			Watches: []rig.Stream{rig.Expired(), rig.Forever()},
		}
		inf := lw.NewInformer(src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		var told []string
		inf.AddHandler(lw.Handler[*rig.Widget]{
			Update: func(old, w *rig.Widget) { told = append(told, "update "+w.Name) },
			Delete: func(w *rig.Widget) { told = append(told, "delete "+w.Name) },
		})
		rig.Start(t, inf)
		time.Sleep(time.Hour)
		synctest.Wait()
		if d := cmp.Diff([]string{"delete c", "update a"}, told); d != "" || inf.Status().Epoch != 1 {
			t.Errorf("epoch %d, told (-want +got):\n%s", inf.Status().Epoch, d)
		}
		if w, _ := inf.Store().Get(rig.Key("a")); w == nil || w.Size != 2 {
			t.Errorf("the store has %+v, want a of size 2", w)
		}
	})
}

// The same for an object that was kept because nobody could read what the new epoch's first list
// had in its place.
func TestVersionsOfAnotherEpochOfWhatWasKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := rig.Reply{
			Obj: []*rig.Widget{rig.Stamped("b", 1, "8")}, Bad: []error{&lw.Error{Op: "decode", Key: rig.Key("a"), Err: errors.New("not a widget")}},
			Meta: metav1.ListMeta{ResourceVersion: "8"},
		}
		src := &rig.Script{
			Lists: []rig.Reply{
				rig.List("9", rig.Stamped("a", 1, "9"), rig.Stamped("b", 1, "8")),
				broken, broken, broken, broken, // believed the fourth time
				rig.List("9", rig.Stamped("a", 2, "9"), rig.Stamped("b", 1, "8")),
			},
			Watches: []rig.Stream{rig.Expired(), rig.ExpiredAfter(time.Minute), rig.Forever()},
		}
		inf := lw.NewInformer(src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		rig.Start(t, inf)
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff(map[lw.Key]int{rig.Key("a"): 2, rig.Key("b"): 1}, rig.Sizes(inf.Store())); diff != "" || inf.Status().Epoch != 1 {
			t.Errorf("epoch %d, store (-want +got):\n%s", inf.Status().Epoch, diff)
		}
	})
}
