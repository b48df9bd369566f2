package lw_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
)

// What changes while a resync is told is told as the change alone: the object of before is not told again.
func TestResyncLeavesOutWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("b", 1), widget("c", 1))
		inf := run(t, m, nil)
		gate := make(chan struct{})
		var got []string
		first := ""
		inf.AddHandler(lw.Handler[*Widget]{
			Resync: time.Minute,
			Update: func(old, w *Widget) {
				got = append(got, fmt.Sprintf("update %s %d %d", w.Name, old.Size, w.Size))
				if first == "" {
					first = w.Name
					<-gate
				}
			},
			Delete: func(w *Widget) { got = append(got, "delete "+w.Name) },
		})
		sleep(61 * time.Second)
		if first == "" {
			t.Fatal("there was no resync")
		}
		others := slices.DeleteFunc([]string{"a", "b", "c"}, func(name string) bool { return name == first })
		update(t, m, others[0], 2)
		remove(t, m, others[1])
		synctest.Wait()
		close(gate)
		synctest.Wait()
		want := []string{"update " + first + " 1 1", "update " + others[0] + " 1 2", "delete " + others[1]}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}
