package lw_test

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
				m := lw.NewMemory[*Widget]()
				m.Fail(tc.err)
				inf := lw.NewInformer(m, &lw.Options{Name: "widgets", OnError: func(error) {}})
				reg := inf.AddHandler(lw.Handler[*Widget]{Add: func(*Widget) {}})
				start(t, inf)
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
			inf := lw.NewInformer(lw.NewMemory[*Widget](), nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := inf.WaitForSync(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("WaitForSync: %v", err)
			}
		})
	})
	t.Run("stopped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := lw.NewMemory[*Widget]()
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
		m := lw.NewMemory(widget("a", 1), widget("bad", -1))
		src := lw.Transform(m, func(w *Widget) (*Widget, error) {
			if w.Size < 0 {
				return nil, errors.New("negative")
			}
			return w, nil
		})
		errs := &errorLog{}
		inf := run(t, src, &lw.Options{OnError: errs.add})
		status := inf.Status()
		if !status.Synced || status.SetAside[key("bad")] == nil || len(status.SetAside) != 1 {
			t.Fatalf("after a list with a bad object: %+v", status)
		}
		if diff := cmp.Diff(map[lw.Key]int{key("a"): 1}, sizes(inf.Store())); diff != "" {
			t.Errorf("store (-want +got):\n%s", diff)
		}
		update(t, m, "bad", 2)
		synctest.Wait()
		if got := inf.Status().SetAside; len(got) != 0 {
			t.Errorf("after a good version: %v", got)
		}
		before := inf.Store().ResourceVersion()
		update(t, m, "bad", -2)
		update(t, m, "a", 3)
		synctest.Wait()
		if diff := cmp.Diff(map[lw.Key]int{key("a"): 3, key("bad"): 2}, sizes(inf.Store())); diff != "" {
			t.Errorf("store after a bad event (-want +got):\n%s", diff)
		}
		if got := inf.Store().ResourceVersion(); got != before {
			t.Errorf("version %s passed the event that was not applied, want %s", got, before)
		}
		err := inf.WaitForResourceVersion(t.Context(), m.ResourceVersion())
		var e *lw.Error
		if !errors.As(err, &e) || e.Key != key("bad") || e.Op != "transform" {
			t.Errorf("WaitForResourceVersion: %v", err)
		}
		// A relist that brings the same bad version changes nothing, and does not report it again.
		n := len(errs.all())
		m.Disconnect()
		m.Compact()
		sleep(time.Minute)
		if diff := cmp.Diff(map[lw.Key]int{key("a"): 3, key("bad"): 2}, sizes(inf.Store())); diff != "" {
			t.Errorf("store after a relist (-want +got):\n%s", diff)
		}
		for _, err := range errs.all()[n:] {
			if errors.As(err, &e) && e.Op == "transform" {
				t.Errorf("reported again: %v", err)
			}
		}
		update(t, m, "bad", 4)
		sleep(time.Minute)
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
			src := &script{
				lists:   []reply{{err: down}, list("10", stamped("a", 1, "9"))},
				watches: []stream{{err: down}, {err: apierrors.NewInternalError(errors.New("etcd"))}, {events: []lw.WatchEvent[*Widget]{{Type: "WEIRD"}}}, forever()},
			}
			errs := &errorLog{}
			inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: errs.add})
			start(t, inf)
			sleep(5 * time.Minute)
			var ops []string
			for _, err := range errs.all() {
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
	hang := stream{open: true}
	for name, src := range map[string]*script{
		"list hangs":     {lists: []reply{{hang: true}}},
		"between pages":  {lists: []reply{{obj: list("10", stamped("a", 1, "9")).obj, meta: metav1.ListMeta{ResourceVersion: "10", Continue: "x"}}, {hang: true}}},
		"backing off":    {lists: []reply{{err: apierrors.NewTooManyRequests("later", 60)}}},
		"watch is quiet": {lists: []reply{list("10", stamped("a", 1, "9"))}, watches: []stream{hang}},
		"watch fails":    {lists: []reply{list("10", stamped("a", 1, "9"))}, watches: []stream{{err: errors.New("refused")}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
				calls := 0
				inf.AddHandler(lw.Handler[*Widget]{Add: func(*Widget) { calls++ }, Resync: time.Second, Update: func(_, _ *Widget) { calls++ }})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- inf.Run(ctx) }()
				sleep(1500 * time.Millisecond)
				cancel()
				before := time.Now()
				if err := <-done; err != nil {
					t.Errorf("Run: %v", err)
				}
				if took := time.Since(before); took > 0 {
					t.Errorf("Run returned after %v", took)
				}
				n := calls
				sleep(time.Minute)
				if calls != n {
					t.Error("a call came after Run had returned")
				}
				if err := inf.Run(t.Context()); !errors.Is(err, lw.ErrStarted) {
					t.Errorf("a second Run: %v", err)
				}
				reg := inf.AddHandler(lw.Handler[*Widget]{Add: func(*Widget) { t.Error("a call after the stop") }})
				<-reg.Done()
				if err := reg.WaitForSync(t.Context()); !errors.Is(err, lw.ErrStopped) {
					t.Errorf("a handler of a stopped informer: %v", err)
				}
			})
		})
	}
	t.Run("remove", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := lw.NewMemory(widget("a", 1))
			inf := run(t, m, nil)
			calls := 0
			var reg *lw.Registration
			var mu sync.Mutex
			mu.Lock()
			reg = inf.AddHandler(lw.Handler[*Widget]{
				Add:    func(*Widget) { calls++ },
				Update: func(_, _ *Widget) { calls++; mu.Lock(); reg.Remove(); mu.Unlock() },
			})
			mu.Unlock()
			synctest.Wait()
			update(t, m, "a", 2)
			update(t, m, "a", 3)
			<-reg.Done()
			update(t, m, "a", 4)
			synctest.Wait()
			if calls != 2 {
				t.Errorf("%d calls, want an Add and the Update that removed the handler", calls)
			}
			reg.Remove()

			early := lw.NewInformer(m, nil)
			reg = early.AddHandler(lw.Handler[*Widget]{Add: func(*Widget) { t.Error("a call after Remove") }})
			reg.Remove()
			<-reg.Done()
			start(t, early)
			sleep(time.Second)
		})
	})
}

// Point 14: whatever the server does, requests are few: at most 10 in any second and 60 in any minute, and the pauses grow.
func TestBoundedRetries(t *testing.T) {
	full := list("10", stamped("a", 1, "9"))
	bookmark := func(rv string) lw.WatchEvent[*Widget] {
		return lw.WatchEvent[*Widget]{Type: watch.Bookmark, ResourceVersion: rv}
	}
	n := 10
	for name, tc := range map[string]struct {
		src  *script
		most int // requests in an hour
	}{
		"lists fail":         {&script{list: func() reply { return reply{err: errors.New("refused")} }}, 150},
		"watches fail":       {&script{list: func() reply { return full }, watch: func() stream { return stream{err: errors.New("refused")} }}, 200},
		"watches end empty":  {&script{list: func() reply { return full }, watch: func() stream { return stream{} }}, 200},
		"endless 410":        {&script{list: func() reply { return full }, watch: expired}, 400},
		"410 in the stream":  {&script{list: func() reply { return full }, watch: func() stream { return expiredAfter(0) }}, 400},
		"a bookmark and out": {&script{list: func() reply { return full }, watch: func() stream { n++; return stream{events: []lw.WatchEvent[*Widget]{bookmark(strconv.Itoa(n))}} }}, 3600},
		"no end bookmark":    {&script{list: func() reply { return full }, stream: func() stream { return stream{events: []lw.WatchEvent[*Widget]{added("a", "9")}, open: true} }}, 100},
		"streams are cut":    {&script{list: func() reply { return full }, stream: func() stream { return stream{events: []lw.WatchEvent[*Widget]{added("a", "9")}} }}, 100},
		"streams break": {&script{list: func() reply { return full }, stream: func() stream {
			return stream{events: []lw.WatchEvent[*Widget]{added("a", "9")}, err: errors.New("reset")}
		}}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mode := lw.ListWhole
				if tc.src.stream != nil {
					mode = lw.ListAuto
				}
				inf := lw.NewInformer[*Widget](tc.src, &lw.Options{List: mode, OnError: func(error) {}})
				start(t, inf)
				sleep(time.Hour)
				at := tc.src.requests()
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
				if tc.src.stream != nil && !inf.Status().Synced {
					t.Error("not synced, though the server lists")
				}
			})
		})
	}
	t.Run("Retry-After", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := &script{list: func() reply { return reply{err: apierrors.NewTooManyRequests("later", 45)} }}
			start(t, lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}}))
			sleep(10 * time.Minute)
			at := src.requests()
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
			src := &script{list: func() reply { return reply{err: errors.New("refused")} }}
			inf := lw.NewInformer[*Widget](src, &lw.Options{
				List: lw.ListPages, OnError: func(error) {},
				Backoff: func(failures int) time.Duration { return time.Duration(failures) * time.Minute },
			})
			start(t, inf)
			sleep(20 * time.Hour)
			at := src.requests()
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
