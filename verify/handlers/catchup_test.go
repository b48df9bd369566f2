package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// but is m without the object of that name: writes of it move the version on, and are not shown.
func but(m lw.Source[*rig.Widget], name string) lw.Source[*rig.Widget] {
	return lw.WithListOptions(m, func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name!=" + name })
}

func number(version string) int {
	n, err := strconv.Atoi(version)
	if err != nil {
		panic(err)
	}
	return n
}

// mustCatchUp returns how long it took until inf had caught up with that version.
func mustCatchUp[T lw.Object](t *testing.T, inf *lw.Informer[T], want string) time.Duration {
	t.Helper()
	before := time.Now()
	version, err := inf.CatchUp(t.Context())
	if err != nil || version != want || number(inf.Store().ResourceVersion()) < number(want) {
		t.Errorf("CatchUp returned %q and %v, and the store is at %s; want %s", version, err, inf.Store().ResourceVersion(), want)
	}
	return time.Since(before)
}

func TestCatchUp(t *testing.T) {
	errs := new(rig.Errors)
	hidingOther(t, "a1", &lw.Options{OnError: errs.Add}, func(t *testing.T, m memory, inf informer) {
		if took := mustCatchUp(t, inf, "2"); took != 0 || rig.Watches(inf.Status()) != 1 {
			t.Errorf("it took %v and %d watches, although there is nothing to catch up with", took, rig.Watches(inf.Status()))
		}
		rig.Create(t, m, "other", 1)
		if took := mustCatchUp(t, inf, "3"); took < 900*time.Millisecond || took > 1100*time.Millisecond {
			t.Errorf("it took %v, want the second after which a bookmark comes", took)
		}
		rig.Update(t, m, "other", 2)
		if took := mustCatchUp(t, inf, "4"); took < time.Second || took > 3*time.Second {
			t.Errorf("the next time it took %v", took)
		}
		// A change that is under way is waited for, without another watch.
		watches := rig.Watches(inf.Status())
		rig.Update(t, m, "a", 2)
		mustCatchUp(t, inf, "5")
		rig.Sleep(time.Minute)
		s := inf.Status()
		if rig.Watches(s) > watches+1 || s.Failed != 0 || s.Failures != 0 || s.Requests["stream"].Started != 1 || s.Requests["probe"].Started != 4 || len(errs.All()) != 0 {
			t.Errorf("%d watches, then %d; %d probes, want 4; %d failed: %v", watches, rig.Watches(s), s.Requests["probe"].Started, s.Failed, errs.All())
		}
		rig.MustHold(t, inf.Store(), "5", map[string]int{"a": 2})
	})
}

// TestCatchUpOverHTTP: the modelled API server answers as Memory does.
func TestCatchUpOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Group: "lw.test", Plural: "gadgets", Kind: "Gadget"})
		inf := lw.NewInformer(lwtest.Objects[*rig.Gadget](server, "gadgets").Source(), nil)
		rig.Start(t, inf)
		rig.OK(t, inf.WaitForSync(t.Context()))
		for range 3 {
			server.Advance(10)
			want := fmt.Sprint(number(inf.Store().ResourceVersion()) + 10)
			if took := mustCatchUp(t, inf, want); took > 5*time.Second || inf.Store().ResourceVersion() != want {
				t.Errorf("it took %v, and the store is at %s, want %s", took, inf.Store().ResourceVersion(), want)
			}
		}
		if s := inf.Status(); s.Failed != 0 || s.Requests["probe"].Started != 3 {
			t.Errorf("%d requests failed, and there were %d probes, want 3", s.Failed, s.Requests["probe"].Started)
		}
	})
}

// A lateSource is a Source whose lists of one object take a second, after the server has answered.
// If it stalls the server does not answer.
type lateSource struct {
	lw.Source[*rig.Widget]
	stalls bool
	fail   error
	mu     sync.Mutex
	lists  int
}

func (s *lateSource) Hints() lw.SourceHints { return lw.HintsOf(s.Source) }

func (s *lateSource) List(ctx context.Context, opts metav1.ListOptions, yield func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	if opts.Limit == 1 && s.stalls {
		<-ctx.Done()
		return metav1.ListMeta{}, context.Cause(ctx)
	}
	meta, err := s.Source.List(ctx, opts, yield)
	if opts.Limit != 1 {
		return meta, err
	}
	s.mu.Lock()
	s.lists++
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
		return meta, errors.Join(err, s.fail)
	case <-ctx.Done():
		return meta, ctx.Err()
	}
}

// TestCatchUpStalls: a server that takes the question and does not answer is given up after as long
// as a list may take.
func TestCatchUpStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := rig.Run(t, &lateSource{Source: lw.NewMemory(rig.NewWidget("a", 1)), stalls: true}, rig.Quiet())
		began := time.Now()
		version, err := inf.CatchUp(t.Context())
		if err == nil || !strings.Contains(err.Error(), "the server made no progress") {
			t.Errorf("CatchUp returned %q and %v", version, err)
		}
		rig.Same(t, "how long it has waited", 90*time.Second, time.Since(began))
	})
}

// TestCatchUpTogether: calls share a request, but not one that had begun before them.
func TestCatchUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		src := &lateSource{Source: m}
		inf := rig.Run(t, src, nil)
		var calls sync.WaitGroup
		call := func(want string) { calls.Go(func() { mustCatchUp(t, inf, want) }) }
		call("2")
		rig.Sleep(500 * time.Millisecond)
		rig.Update(t, m, "a", 2)
		for range 100 {
			call("3")
		}
		calls.Wait()
		rig.Same(t, "requests", 2, src.lists)
		// The next one shares nothing with those that are over.
		rig.Update(t, m, "a", 3)
		call("4")
		calls.Wait()
		rig.Same(t, "requests", 3, src.lists)
	})
}

// TestCatchUpOften: there is a bound for requests, however often it is called.
func TestCatchUpOften(t *testing.T) {
	hidingOther(t, "a1 other1", strict(t), func(t *testing.T, m memory, inf informer) {
		var calls sync.WaitGroup
		end := time.Now().Add(time.Minute)
		for range 10 {
			calls.Go(func() {
				for time.Now().Before(end) {
					time.Sleep(rand.N(time.Second))
					before := number(m.ResourceVersion())
					version, err := inf.CatchUp(t.Context())
					if err != nil || number(version) < before || number(inf.Store().ResourceVersion()) < before {
						t.Errorf("CatchUp returned %s and %v, the store is at %s; the server was at %d", version, err, inf.Store().ResourceVersion(), before)
					}
				}
			})
		}
		for i := 0; time.Now().Before(end); i++ {
			time.Sleep(100 * time.Millisecond)
			rig.Update(t, m, "other", 2+i)
		}
		calls.Wait()
		if s := inf.Status(); rig.Watches(s) > 50 || s.Requests["probe"].Started > 600 {
			t.Errorf("%d watches and %d probes in a minute", rig.Watches(s), s.Requests["probe"].Started)
		}
	})
}

// TestCatchUpAgain: a caller that asks again at once waits a little, so that there are ten requests
// in a second at most.
func TestCatchUpAgain(t *testing.T) {
	inMemory(t, "a1", nil, func(t *testing.T, _ memory, inf informer) {
		for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if took := mustCatchUp(t, inf, "2"); took > 100*time.Millisecond {
				t.Errorf("it took %v", took)
			}
		}
		if s := inf.Status(); s.Requests["probe"].Started < 8 || s.Requests["probe"].Started > 11 || rig.Watches(s) != 1 {
			t.Errorf("%d requests in a second, want ten; %d watches", s.Requests["probe"].Started, rig.Watches(s))
		}
	})
}

func TestCatchUpFails(t *testing.T) {
	because, boom := errors.New("because"), errors.New("boom")
	type source = lw.Source[*rig.Widget]
	late := func(fail error) func(memory) source {
		return func(m memory) source { return &lateSource{Source: m, fail: fail} }
	}
	createB := func(size int) func(*testing.T, memory, func()) {
		return func(t *testing.T, m memory, _ func()) { rig.Create(t, m, "b", size) }
	}
	const catching = "lw: Widget: catching up with the server: "
	const waiting = "lw: Widget: waiting for resource version 3 at 2, until an object of this collection or a bookmark has it (watching): "
	for name, tc := range map[string]struct {
		src  func(m memory) source // nil: m itself
		ctx  time.Duration         // until it is done, with the cause because
		do   func(t *testing.T, m memory, stop func())
		is   error
		want string
	}{
		"the server refuses":  {src: late(boom), is: boom, want: catching + "list: boom"},
		"the context is done": {src: late(nil), ctx: time.Second / 2, is: because, want: catching + "because"},
		"and no bookmark has come": {src: func(m memory) source { return but(m, "b") }, ctx: time.Second / 2, do: createB(1),
			is: because, want: waiting + "because"},
		"the context was done": {do: func(*testing.T, memory, func()) { time.Sleep(time.Hour) }, ctx: time.Minute,
			is: because, want: catching + "because"},
		"the informer stops": {src: late(nil), do: func(_ *testing.T, _ memory, stop func()) { time.AfterFunc(time.Second/2, stop) },
			is: lw.ErrStopped, want: catching + "list: stopped"},
		"the informer has stopped": {do: func(_ *testing.T, _ memory, stop func()) { stop() }, is: lw.ErrStopped, want: catching + "stopped"},
		"the source has no versions": {src: func(m memory) source { return &hintedSource{m, lw.SourceHints{Unversioned: true}} },
			is: errors.ErrUnsupported, want: catching + "the versions of the source mean nothing: unsupported operation"},
		"an object is set aside": {src: func(m memory) source { return choosy(m) }, do: createB(-1),
			want: waiting + "it has come, but an object that it covers is set aside\nlw: transform default/b: a negative size"},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			m := lw.NewMemory(rig.NewWidget("a", 1))
			var errs rig.Errors
			src := source(m)
			if tc.src != nil {
				src = tc.src(m)
			}
			inf := lw.NewInformer(src, &lw.Options{OnError: errs.Add})
			stop := sync.OnceFunc(rig.Begin(t, inf))
			ctx := t.Context()
			if tc.ctx > 0 {
				var cancel func()
				ctx, cancel = context.WithTimeoutCause(ctx, tc.ctx, because)
				defer cancel()
			}
			if tc.do != nil {
				tc.do(t, m, stop)
			}
			version, err := inf.CatchUp(ctx)
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("the error is not %v", tc.is)
			}
			if got := fmt.Sprint(err); strings.Replace(got, "lw: Widget: transform", "lw: transform", 1) != tc.want {
				t.Errorf("CatchUp returned %q and\n%s\nwant\n%s", version, got, tc.want)
			}
			if errs.Count(boom) > 0 {
				t.Error("OnError is told of an error that was returned")
			}
			stop()
		})
	}
}

// A hintedSource is a Source with other hints.
type hintedSource struct {
	lw.Source[*rig.Widget]
	hints lw.SourceHints
}

func (s *hintedSource) Hints() lw.SourceHints { return s.hints }

// TestCatchUpWithAnOlderServer: an informer that asks finds out that the server went back in time.
func TestCatchUpWithAnOlderServer(t *testing.T) {
	errs := new(rig.Errors)
	inMemory(t, "a1", &lw.Options{OnError: errs.Add}, func(t *testing.T, m memory, inf informer) {
		rig.Create(t, m, "b", 1)
		synctest.Wait()
		rig.OK(t, m.Rewind("2"))
		synctest.Wait()
		version, err := inf.CatchUp(t.Context())
		if err == nil || !strings.Contains(err.Error(), "lw: Widget: catching up with the server: list: the server answered with resource version 2, which is older than 3") {
			t.Errorf("CatchUp returned %q and %v", version, err)
		}
		rig.Sleep(time.Minute)
		errs.MustBe(t, lw.ErrRewound)
		mustCatchUp(t, inf, "2")
		rig.MustHold(t, inf.Store(), "2", map[string]int{"a": 1})
	})
}

// TestCatchUpLooksInto: an older server is looked into at once, although its watch is as silent as
// that of a good one.
func TestCatchUpLooksInto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), rig.List("8", rig.Stamped("a", 1, "7"))}, Watches: []rig.Stream{rig.Forever()}}
		inf := rig.Run(t, src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		if version, err := inf.CatchUp(t.Context()); err == nil {
			t.Errorf("CatchUp returned %s", version)
		}
		synctest.Wait()
		if s := inf.Status(); s.Requests["probe"].Started != 2 || rig.Watches(s) != 1 {
			t.Errorf("%d probes and %d watches, want 2 and 1", s.Requests["probe"].Started, rig.Watches(s))
		}
		rig.Sleep(time.Minute)
		if s := inf.Status(); s.Epoch != 1 || s.ResourceVersion != "8" {
			t.Errorf("epoch %d at %s, want the first one at 8", s.Epoch, s.ResourceVersion)
		}
	})
}

// TestWaitForForeignVersion: a version that the collection does not show takes seconds, and few
// requests however many wait.
func TestWaitForForeignVersion(t *testing.T) {
	hidingOther(t, "a1", strict(t), func(t *testing.T, m memory, inf informer) {
		other := rig.Create(t, m, "other", 1)
		var waits sync.WaitGroup
		for range 100 {
			waits.Go(func() {
				time.Sleep(rand.N(time.Second))
				before := time.Now()
				if err := inf.WaitForResourceVersion(t.Context(), other.ResourceVersion); err != nil {
					t.Error(err)
				}
				if took := time.Since(before); took > 1300*time.Millisecond {
					t.Errorf("it took %v", took)
				}
			})
		}
		waits.Wait()
		if s := inf.Status(); rig.Watches(s) != 2 || s.Requests["probe"].Started != 0 {
			t.Errorf("%d watches and %d probes, want 2 and 0", rig.Watches(s), s.Requests["probe"].Started)
		}
		// A version that never comes costs little.
		before := inf.Status()
		if err := inf.WaitForResourceVersion(within(t, time.Hour), "1000"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		after := inf.Status()
		if watches := rig.Watches(after) - rig.Watches(before); watches > 140 || after.Failed != 0 || after.Requests["probe"].Started > 2 {
			t.Errorf("%d watches in an hour, %d failed requests and %d probes", watches, after.Failed, after.Requests["probe"].Started)
		}
	})
}

// TestHastenedIsNoOutage: a watch that is ended because a wait is in a hurry says nothing against
// the server, also if no bookmark comes on the next one. The server then is asked for its version,
// but not as after an outage.
func TestHastenedIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		hints, questions := lw.HintsOf[*rig.Widget](m), 0
		had := hints.StillHas
		hints.StillHas = func(ctx context.Context, obj lw.Meta, version string) (bool, error) {
			questions++
			return had(ctx, obj, version)
		}
		src := lw.WithListOptions[*rig.Widget](&hintedSource{m, hints}, func(o *metav1.ListOptions) {
			o.FieldSelector, o.AllowWatchBookmarks = "metadata.name!=other", o.SendInitialEvents != nil
		})
		inf := rig.Run(t, src, strict(t))
		rig.Update(t, m, "a", 2)
		other := rig.Create(t, m, "other", 1)
		synctest.Wait()
		err := inf.WaitForResourceVersion(within(t, time.Minute), other.ResourceVersion)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if s := inf.Status(); questions != 0 || s.Failed != 0 || rig.Watches(s) < 4 {
			t.Errorf("%d questions whether the server is the same, %d failed requests, %d watches", questions, s.Failed, rig.Watches(s))
		}
		rig.Update(t, m, "a", 3)
		rig.Sleep(time.Minute)
		rig.MustHold(t, inf.Store(), "5", map[string]int{"a": 3})
	})
}
