package lw_test

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw"
)

// A server that has shown that it is the same is not doubted any more.
func TestDoubtIsLifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			lists: []reply{list("10", stamped("a", 1, "9"))},
			watches: []stream{
				{err: apierrors.NewInternalError(errors.New("etcd"))},
				{events: []lw.WatchEvent[*Widget]{bookmark("20")}, after: 2 * time.Minute}, // to its end
				forever(),
			},
		}
		inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, WatchTimeout: time.Minute, OnError: func(error) {}})
		start(t, inf)
		sleep(150 * time.Second)
		mustLog(t, src, "list limit 500", "watch 10", "watch 10", "watch 20")
	})
}

// A question that the server is too busy for is asked again soon; one on which it hangs is given up.
func TestQuestionsThatFail(t *testing.T) {
	for name, tc := range map[string]struct {
		answer reply
		most   time.Duration
	}{
		"too many requests": {reply{err: apierrors.NewTooManyRequests("later", 1)}, 20 * time.Second},
		"a broken network":  {reply{err: syscall.ECONNRESET}, 20 * time.Second},
		"no answer":         {reply{hang: true}, 4 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &script{
					lists:   []reply{list("100", stamped("a", 1, "99")), tc.answer, list("10", stamped("a", 2, "9"))},
					watches: []stream{{after: 15 * time.Second}, forever()},
				}
				inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: func(int) time.Duration { return time.Second }})
				start(t, inf)
				sleep(15*time.Second + tc.most)
				if s := inf.Status(); s.Epoch != 1 || s.Probes < 2 {
					t.Errorf("status: %+v, requests %v", s, src.log())
				}
			})
		})
	}
}

// After a watch that ended early the next one is on trial: one that says something is left alone from then on, and so is the one
// after it.
func TestDoubtIsLiftedByLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			lists: []reply{list("10", stamped("a", 1, "9"))},
			watches: []stream{
				{after: time.Minute, err: errors.New("reset")}, // in doubt from here on
				{events: []lw.WatchEvent[*Widget]{modified(stamped("a", 2, "20"))}, after: 20 * time.Minute},
				{after: 20 * time.Minute}, forever(),
			},
		}
		inf, _ := paged(t, src, 5*time.Minute)
		mustHold(t, inf.Store(), "20", map[string]int{"a": 2})
		before := src.log()
		if got := before[len(before)-1]; got != "watch 10" {
			t.Errorf("the last request is %q, want the watch that said something: %q", got, before)
		}
	})
}
