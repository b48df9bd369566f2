package source_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A cutter is a source that ends each watch after so long, as a proxy does with one that is idle.
type cutter struct {
	lw.Source[*rig.Widget]
	after func(opts metav1.ListOptions) time.Duration
}

func (c *cutter) Watch(ctx context.Context, opts metav1.ListOptions, yield func(widgetEvent) error) error {
	cut := errors.New("cut")
	ctx, cancel := context.WithTimeoutCause(ctx, c.after(opts), cut)
	defer cancel()
	err := c.Source.Watch(ctx, opts, yield)
	if context.Cause(ctx) == cut {
		return nil
	}
	return err
}

// Watches that a proxy cuts while they are idle are healthy: a change is seen at once, without a
// list, and the server is asked for its version now and then.
func TestIdleWatchesAreCut(t *testing.T) {
	for _, after := range []time.Duration{1500 * time.Millisecond, 5 * time.Second, 9 * time.Second, 15 * time.Second,
		50 * time.Second} {
		rig.Subtest(t, after.String(), func(t *testing.T) {
			m := lw.NewMemory(rig.NewWidget("a", 1))
			errs := new(rig.Errors)
			inf := rig.Run(t, &cutter{m, func(metav1.ListOptions) time.Duration { return after }},
				&lw.Options{List: lw.ListPages, OnError: errs.Add})
			rig.Sleep(after / 2)
			for size := 2; size < 12; size++ {
				rig.Sleep(7 * time.Minute)
				rig.Update(t, m, "a", size)
				rig.Sleep(50 * time.Millisecond)
				if got, _ := inf.Store().Get(rig.Key("a")); got.Size != size {
					t.Errorf("a change after %v is not shown", 7*time.Minute)
				}
			}
			s := inf.Status()
			if s.Requests["list"].Started != 1 || s.Failures != 0 || s.Healthy() != nil || len(errs.All()) > 0 {
				t.Errorf("%d lists, %d failures, errors: %v", s.Requests["list"].Started, s.Failures, errs.All())
			}
			within(t, "probes in 70 minutes", 10, s.Requests["probe"].Started, 25)
		})
	}
}

// Cuts end the failures of before, once the server has said that it has the position. A server that
// is older is found out by the first cut; one that was restored later by one of those in the next
// minutes, and after a failure by the first again.
func TestCutsAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watches := 0
		src := &rig.Script{
			OnList: func() rig.Reply { return listed("10", "a1@9") },
			OnWatch: func() rig.Stream {
				if watches++; watches < 4 {
					return rig.Stream{Err: apierrors.NewInternalError(errors.New("etcd"))}
				}
				return rig.Stream{After: 6 * time.Second}
			},
		}
		inf, _ := rig.Paged(t, src, time.Minute)
		mustSay(t, inf, func(s lw.Status) bool { return s.Failures == 0 })
	})
	for healthy, found := range map[time.Duration]time.Duration{0: 6 * time.Minute, 20 * time.Minute: 6 * time.Minute,
		17 * time.Minute: 3 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			src := &rig.Script{
				OnList: func() rig.Reply {
					if time.Since(began) <= healthy {
						return listed("100", "a1@99")
					}
					return listed("50", "a2@49")
				},
				OnWatch: func() rig.Stream {
					if since := time.Since(began); found == 3*time.Minute && since >= healthy && since < healthy+7*time.Second {
						return rig.Stream{Err: io.EOF}
					}
					return rig.Stream{After: 6 * time.Second}
				},
			}
			inf, errs := rig.Paged(t, src, healthy+found)
			rig.MustHold(t, inf.Store(), "50", map[string]int{"a": 2})
			errs.MustBe(t, lw.ErrRewound)
		})
	}
}

// A server that closes watches at once is not hammered, whether it says why or not.
func TestWatchesThatEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			OnList:  func() rig.Reply { return listed("10", "a1@9") },
			OnWatch: func() rig.Stream { return rig.Stream{After: 100 * time.Millisecond} },
		}
		inf, errs := rig.Paged(t, src, 10*time.Minute)
		mustSay(t, inf, func(s lw.Status) bool { return rig.Watches(s) <= 60 && s.Failures != 0 && len(errs.All()) != 0 })
	})
}

// Where only lists are allowed a change is seen after 10 to 30 s, and the error says so.
func TestWatchIsRefused(t *testing.T) {
	gr := schema.GroupResource{Resource: "widgets"}
	status := func(code int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: "no"}}
	}
	for name, refusal := range map[string]error{
		"forbidden":      apierrors.NewForbidden(gr, "", errors.New("no")),
		"no such method": apierrors.NewMethodNotSupported(gr, "watch"),
		"no such path":   status(404), "not implemented": status(501),
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			var mu sync.Mutex
			size := 1
			src := &rig.Script{
				OnList: func() rig.Reply {
					mu.Lock()
					defer mu.Unlock()
					return rig.List(fmt.Sprint(10*size), rig.Stamped("a", size, fmt.Sprint(10*size-1)))
				},
				OnWatch: func() rig.Stream { return rig.Stream{Err: refusal} },
			}
			inf, errs := rig.Paged(t, src, 5*time.Minute)
			for range 20 {
				mu.Lock()
				size++
				want := size
				mu.Unlock()
				rig.Sleep(31 * time.Second)
				if got, _ := inf.Store().Get(rig.Key("a")); got.Size != want {
					t.Errorf("a change is not seen after half a minute")
				}
			}
			mustSay(t, inf, func(s lw.Status) bool { return s.Failures != 0 && s.Healthy() == nil })
			within(t, "lists", 30, inf.Status().Requests["list"].Started, 100)
			errs.MustBe(t, refusal)
			errs.MustHave(t, "the list is answered, but the watch is refused")
		})
	}
}

// A role that is taken away from one who watches is a refusal like any other, until a list is
// answered all the same.
func TestRoleIsTakenAway(t *testing.T) {
	for name, watched := range map[string]time.Duration{"soon": 3 * time.Second, "late": 10 * time.Minute} {
		rig.Subtest(t, name, func(t *testing.T) {
			forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "", errors.New("no role"))
			var list, follow atomic.Bool
			list.Store(true)
			follow.Store(true)
			src := &rig.Script{
				OnList: func() rig.Reply {
					if !list.Load() {
						return rig.Reply{Err: forbidden}
					}
					return rig.List("10", rig.Stamped("a", 1, "9"))
				},
				OnWatch: func() rig.Stream {
					if !follow.Load() {
						return rig.Stream{Err: forbidden}
					}
					return rig.Stream{After: watched, Err: io.ErrUnexpectedEOF}
				},
			}
			const words = "the list is answered, but the watch is refused"
			inf, errs := rig.Paged(t, src, time.Second)
			list.Store(false)
			follow.Store(false)
			rig.Sleep(20 * time.Minute)
			for _, err := range errs.All() {
				if strings.Contains(err.Error(), words) {
					t.Errorf("no list is answered: %v", err)
				}
			}
			errs.MustHave(t, "no role")
			list.Store(true)
			rig.Sleep(10 * time.Minute)
			errs.MustHave(t, words)
			if err := inf.Status().Err; err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("status: %v", err)
			}
		})
	}
}

// A server that gives one version to every state is found out by the first change that it tells.
// From then on what it lists is compared whole. A newer version ends that.
func TestOneVersionForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fed := &rig.Fed{Events: make(chan widgetEvent), Version: "5", Objs: listed("5", "a1@5 b1@5").Obj}
		src := &cutter{fed, func(opts metav1.ListOptions) time.Duration {
			return time.Duration(*opts.TimeoutSeconds) * time.Second
		}}
		send := func(ev widgetEvent, listed rig.Reply) {
			fed.Version, fed.Objs = listed.Meta.ResourceVersion, listed.Obj
			fed.Send(ev)
		}
		errs, got := new(rig.Errors), new(rig.Calls)
		inf := rig.Run(t, src, &lw.Options{List: lw.ListPages, OnError: errs.Add})
		inf.AddHandler(got.Handler())
		got.Sorted(t, "add a1", "add b1", "synced")
		send(modified("a2@5"), listed("5", "a2@5 b1@5"))
		rig.Sleep(time.Second)
		got.MustBe(t, "update a1 a2")
		rig.Sleep(time.Minute)
		send(deleted("b1@5"), listed("5", "a2@5"))
		rig.Sleep(time.Minute)
		got.MustBe(t, "delete b1")
		mustSay(t, inf, func(s lw.Status) bool { return s.Healthy() == nil && len(errs.All()) != 0 })
		send(modified("a4@6"), listed("6", "a4@6"))
		rig.Sleep(time.Minute)
		got.MustBe(t, "update a2 a4")
		before := inf.Status().Requests["list"].Started
		rig.Sleep(time.Hour)
		rig.Same(t, "lists after an hour of calm", before, inf.Status().Requests["list"].Started)
	})
}
