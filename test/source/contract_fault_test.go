package source_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// What the contract says of waits, failures and the end.

// Point 10: a wait for sync that fails says what the informer was doing, and unwraps to the API's error and the context's.
func TestSyncTellsTheTruth(t *testing.T) {
	pods := schema.GroupResource{Resource: "widgets"}
	for name, tc := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"unauthorized": {apierrors.NewUnauthorized("no token"), apierrors.IsUnauthorized},
		"forbidden":    {apierrors.NewForbidden(pods, "", errors.New("no role")), apierrors.IsForbidden},
		"not found":    {apierrors.NewNotFound(pods, ""), apierrors.IsNotFound},
		"expired":      {apierrors.NewResourceExpired("too old"), apierrors.IsResourceExpired},
		"throttled":    {apierrors.NewTooManyRequests("later", 1), apierrors.IsTooManyRequests},
		"internal":     {apierrors.NewInternalError(errors.New("etcd")), apierrors.IsInternalError},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := lw.NewMemory[*rig.Widget]()
				m.Fail(tc.err)
				inf := lw.NewInformer(m, &lw.Options{Name: "widgets", OnError: func(error) {}})
				reg := inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) {}})
				rig.Start(t, inf)
				cause := errors.New("out of patience")
				ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, cause)
				defer cancel()
				err := lw.WaitForSync(ctx, inf, reg)
				var e *lw.Error
				if !tc.is(err) && !as(err, tc.is) || !errors.Is(err, cause) || !errors.As(err, &e) || e.Informer != "widgets" || e.Failures == 0 {
					t.Errorf("WaitForSync: %v", err)
				}
				m.Fail(nil)
				if err := lw.WaitForSync(t.Context(), inf, reg); err != nil {
					t.Errorf("after the recovery: %v", err)
				}
			})
		})
	}
	t.Run("never run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			inf := lw.NewInformer(lw.NewMemory[*rig.Widget](), nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := inf.WaitForSync(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("WaitForSync: %v", err)
			}
		})
	})
	t.Run("stopped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := lw.NewMemory[*rig.Widget]()
			m.Fail(errors.New("down"))
			inf := lw.NewInformer(m, &lw.Options{OnError: func(error) {}})
			ctx, cancel := context.WithCancel(t.Context())
			go inf.Run(ctx)
			time.AfterFunc(time.Second, cancel)
			if err := inf.WaitForSync(t.Context()); !errors.Is(err, lw.ErrStopped) {
				t.Errorf("WaitForSync: %v", err)
			}
		})
	})
}

// Point 11: every failure reaches OnError once; one bad object hides no other; the version that is reported does not pass it.
func TestNothingIsSwallowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("bad", -1))
		src := lw.Transform(m, func(w *rig.Widget) (*rig.Widget, error) {
			if w.Size < 0 {
				return nil, errors.New("negative")
			}
			return w, nil
		})
		errs := &rig.Errors{}
		inf := rig.Run(t, src, &lw.Options{OnError: errs.Add})
		status := inf.Status()
		if !status.Synced || status.SetAside[rig.Key("bad")] == nil || len(status.SetAside) != 1 {
			t.Fatalf("after a list with a bad object: %+v", status)
		}
		if diff := cmp.Diff(map[lw.Key]int{rig.Key("a"): 1}, rig.Sizes(inf.Store())); diff != "" {
			t.Errorf("store (-want +got):\n%s", diff)
		}
		rig.Update(t, m, "bad", 2)
		synctest.Wait()
		if got := inf.Status().SetAside; len(got) != 0 {
			t.Errorf("after a good version: %v", got)
		}
		before := inf.Store().ResourceVersion()
		rig.Update(t, m, "bad", -2)
		rig.Update(t, m, "a", 3)
		synctest.Wait()
		if diff := cmp.Diff(map[lw.Key]int{rig.Key("a"): 3, rig.Key("bad"): 2}, rig.Sizes(inf.Store())); diff != "" {
			t.Errorf("store after a bad event (-want +got):\n%s", diff)
		}
		if got := inf.Store().ResourceVersion(); got != before {
			t.Errorf("version %s passed the event that was not applied, want %s", got, before)
		}
		err := inf.WaitForResourceVersion(t.Context(), m.ResourceVersion())
		var e *lw.Error
		if !errors.As(err, &e) || e.Key != rig.Key("bad") || e.Op != "transform" {
			t.Errorf("WaitForResourceVersion: %v", err)
		}
		// A relist that brings the same bad version changes nothing, and does not report it again.
		n := len(errs.All())
		m.Disconnect()
		m.Compact()
		rig.Sleep(time.Minute)
		if diff := cmp.Diff(map[lw.Key]int{rig.Key("a"): 3, rig.Key("bad"): 2}, rig.Sizes(inf.Store())); diff != "" {
			t.Errorf("store after a relist (-want +got):\n%s", diff)
		}
		for _, err := range errs.All()[n:] {
			if errors.As(err, &e) && e.Op == "transform" {
				t.Errorf("reported again: %v", err)
			}
		}
		rig.Update(t, m, "bad", 4)
		rig.Sleep(time.Minute)
		if err := inf.WaitForResourceVersion(t.Context(), m.ResourceVersion()); err != nil {
			t.Error(err)
		}
		if got := inf.Store().ResourceVersion(); got != m.ResourceVersion() {
			t.Errorf("version %s, want %s", got, m.ResourceVersion())
		}
	})
	t.Run("failed requests", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			down := errors.New("connection refused")
			src := &rig.Script{
				Lists:   []rig.Reply{{Err: down}, rig.List("10", rig.Stamped("a", 1, "9"))},
				Watches: []rig.Stream{{Err: down}, {Err: apierrors.NewInternalError(errors.New("etcd"))}, {Events: []lw.WatchEvent[*rig.Widget]{{Type: "WEIRD"}}}, rig.Forever()},
			}
			errs := &rig.Errors{}
			inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: errs.Add})
			rig.Start(t, inf)
			rig.Sleep(5 * time.Minute)
			var ops []string
			for _, err := range errs.All() {
				var e *lw.Error
				if !errors.As(err, &e) {
					t.Fatalf("%v is not an *Error", err)
				}
				ops = append(ops, e.Op)
			}
			if diff := cmp.Diff([]string{"list", "watch", "watch", "watch"}, ops); diff != "" {
				t.Errorf("reported (-want +got):\n%s", diff)
			}
			if s := inf.Status(); s.Failures != 0 || s.Err != nil {
				t.Errorf("a healthy informer says %d failures, %v", s.Failures, s.Err)
			}
		})
	})
}

// Point 13: Run returns at once when it is cancelled, from any state, with nothing left running.
func TestStopIsPromptAndComplete(t *testing.T) {
	hang := rig.Stream{Open: true}
	for name, src := range map[string]*rig.Script{
		"list hangs":     {Lists: []rig.Reply{{Hang: true}}},
		"between pages":  {Lists: []rig.Reply{{Obj: rig.List("10", rig.Stamped("a", 1, "9")).Obj, Meta: metav1.ListMeta{ResourceVersion: "10", Continue: "x"}}, {Hang: true}}},
		"backing off":    {Lists: []rig.Reply{{Err: apierrors.NewTooManyRequests("later", 60)}}},
		"watch is quiet": {Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9"))}, Watches: []rig.Stream{hang}},
		"watch fails":    {Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9"))}, Watches: []rig.Stream{{Err: errors.New("refused")}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
				calls := 0
				inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { calls++ }, Resync: time.Second, Update: func(_, _ *rig.Widget) { calls++ }})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- inf.Run(ctx) }()
				rig.Sleep(1500 * time.Millisecond)
				cancel()
				before := time.Now()
				if err := <-done; err != nil {
					t.Errorf("Run: %v", err)
				}
				if took := time.Since(before); took > 0 {
					t.Errorf("Run returned after %v", took)
				}
				n := calls
				rig.Sleep(time.Minute)
				if calls != n {
					t.Error("a call came after Run had returned")
				}
				if err := inf.Run(t.Context()); !errors.Is(err, lw.ErrStarted) {
					t.Errorf("a second Run: %v", err)
				}
				reg := inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { t.Error("a call after the stop") }})
				<-reg.Done()
				if err := reg.WaitForSync(t.Context()); !errors.Is(err, lw.ErrStopped) {
					t.Errorf("a handler of a stopped informer: %v", err)
				}
			})
		})
	}
	t.Run("remove", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := lw.NewMemory(rig.NewWidget("a", 1))
			inf := rig.Run(t, m, nil)
			calls := 0
			var reg *lw.Registration
			var mu sync.Mutex
			mu.Lock()
			reg = inf.AddHandler(lw.Handler[*rig.Widget]{
				Add:    func(*rig.Widget) { calls++ },
				Update: func(_, _ *rig.Widget) { calls++; mu.Lock(); reg.Remove(); mu.Unlock() },
			})
			mu.Unlock()
			synctest.Wait()
			rig.Update(t, m, "a", 2)
			rig.Update(t, m, "a", 3)
			<-reg.Done()
			rig.Update(t, m, "a", 4)
			synctest.Wait()
			if calls != 2 {
				t.Errorf("%d calls, want an Add and the Update that removed the handler", calls)
			}
			reg.Remove()

			early := lw.NewInformer(m, nil)
			reg = early.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { t.Error("a call after Remove") }})
			reg.Remove()
			<-reg.Done()
			rig.Start(t, early)
			rig.Sleep(time.Second)
		})
	})
}

// Point 14: whatever the server does, requests are few: at most 10 in any second and 60 in any minute, and the pauses grow.
func TestBoundedRetries(t *testing.T) {
	full := rig.List("10", rig.Stamped("a", 1, "9"))
	bookmark := func(rv string) lw.WatchEvent[*rig.Widget] {
		return lw.WatchEvent[*rig.Widget]{Type: watch.Bookmark, ResourceVersion: rv}
	}
	n := 10
	for name, tc := range map[string]struct {
		src  *rig.Script
		most int // requests in an hour
	}{
		"lists fail":        {&rig.Script{OnList: func() rig.Reply { return rig.Reply{Err: errors.New("refused")} }}, 150},
		"watches fail":      {&rig.Script{OnList: func() rig.Reply { return full }, OnWatch: func() rig.Stream { return rig.Stream{Err: errors.New("refused")} }}, 200},
		"watches end empty": {&rig.Script{OnList: func() rig.Reply { return full }, OnWatch: func() rig.Stream { return rig.Stream{} }}, 200},
		"endless 410":       {&rig.Script{OnList: func() rig.Reply { return full }, OnWatch: rig.Expired}, 400},
		"410 in the stream": {&rig.Script{OnList: func() rig.Reply { return full }, OnWatch: func() rig.Stream { return rig.ExpiredAfter(0) }}, 400},
		"a bookmark and out": {&rig.Script{OnList: func() rig.Reply { return full }, OnWatch: func() rig.Stream {
			n++
			return rig.Stream{Events: []lw.WatchEvent[*rig.Widget]{bookmark(strconv.Itoa(n))}}
		}}, 3600},
		"no end bookmark": {&rig.Script{OnList: func() rig.Reply { return full }, OnStream: func() rig.Stream {
			return rig.Stream{Events: []lw.WatchEvent[*rig.Widget]{rig.Added("a", "9")}, Open: true}
		}}, 100},
		"streams are cut": {&rig.Script{OnList: func() rig.Reply { return full }, OnStream: func() rig.Stream { return rig.Stream{Events: []lw.WatchEvent[*rig.Widget]{rig.Added("a", "9")}} }}, 100},
		"streams break": {&rig.Script{OnList: func() rig.Reply { return full }, OnStream: func() rig.Stream {
			return rig.Stream{Events: []lw.WatchEvent[*rig.Widget]{rig.Added("a", "9")}, Err: errors.New("reset")}
		}}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mode := lw.ListWhole
				if tc.src.OnStream != nil {
					mode = lw.ListAuto
				}
				inf := lw.NewInformer[*rig.Widget](tc.src, &lw.Options{List: mode, OnError: func(error) {}})
				rig.Start(t, inf)
				rig.Sleep(time.Hour)
				at := tc.src.Requests()
				if len(at) > tc.most {
					t.Errorf("%d requests in an hour, want at most %d", len(at), tc.most)
				}
				for i := range at {
					if i >= 10 && at[i].Sub(at[i-10]) < time.Second {
						t.Fatalf("more than 10 requests in a second at %d", i)
					}
					if i >= 60 && at[i].Sub(at[i-60]) < time.Minute {
						t.Fatalf("more than 60 requests in a minute at %d", i)
					}
				}
				if tc.src.OnStream != nil && !inf.Status().Synced {
					t.Error("not synced, though the server lists")
				}
			})
		})
	}
	t.Run("Retry-After", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := &rig.Script{OnList: func() rig.Reply { return rig.Reply{Err: apierrors.NewTooManyRequests("later", 45)} }}
			rig.Start(t, lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}}))
			rig.Sleep(10 * time.Minute)
			at := src.Requests()
			if len(at) < 5 {
				t.Fatalf("%d requests in ten minutes", len(at))
			}
			for i := range at[1:] {
				if pause := at[i+1].Sub(at[i]); pause < 45*time.Second || pause > 75*time.Second {
					t.Errorf("pause %d was %v", i, pause)
				}
			}
		})
	})
	t.Run("grows", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := &rig.Script{OnList: func() rig.Reply { return rig.Reply{Err: errors.New("refused")} }}
			inf := lw.NewInformer[*rig.Widget](src, &lw.Options{
				List: lw.ListPages, OnError: func(error) {},
				Backoff: func(failures int) time.Duration { return time.Duration(failures) * time.Minute },
			})
			rig.Start(t, inf)
			rig.Sleep(20 * time.Hour)
			at := src.Requests()
			for i := range at[1:] {
				if pause := at[i+1].Sub(at[i]); pause != time.Duration(i+1)*time.Minute {
					t.Errorf("pause %d was %v", i+1, pause)
				}
			}
			if got := inf.Status().Failures; got != len(at) {
				t.Errorf("%d failures, want %d", got, len(at))
			}
		})
	})
}
func as(err error, is func(error) bool) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	e, ok := status.(error)
	return ok && is(e)
}
