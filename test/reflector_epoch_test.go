package lw_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// The same for an object that was kept because nobody could read what the new epoch's first list had in its place.
func TestVersionsOfAnotherEpochOfWhatWasKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := reply{
			obj: []*Widget{stamped("b", 1, "8")}, bad: []error{&lw.Error{Op: "decode", Key: key("a"), Err: errors.New("not a widget")}},
			meta: metav1.ListMeta{ResourceVersion: "8"},
		}
		src := &script{
			lists: []reply{
				list("9", stamped("a", 1, "9"), stamped("b", 1, "8")),
				broken, broken, broken, broken, // believed the fourth time
				list("9", stamped("a", 2, "9"), stamped("b", 1, "8")),
			},
			watches: []stream{expired(), expiredAfter(time.Minute), forever()},
		}
		inf := lw.NewInformer(src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		start(t, inf)
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff(map[lw.Key]int{key("a"): 2, key("b"): 1}, sizes(inf.Store())); diff != "" || inf.Status().Epoch != 1 {
			t.Errorf("epoch %d, store (-want +got):\n%s", inf.Status().Epoch, diff)
		}
	})
}
