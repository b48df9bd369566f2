package source_test

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A Reflector is usable alone: with an Indexer, and with a Sink that cannot be asked what it holds.
func TestReflectorAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		store := lw.NewIndexer(rig.NewWidget("stale", 1))
		sink := &recorder{}
		first := lw.NewReflector(m, lw.Sink[*rig.Widget](store), nil)
		second := lw.NewReflector(m, lw.Sink[*rig.Widget](sink), &lw.Options{List: lw.ListWhole})
		stopFirst, stopSecond := rig.Begin(t, first), rig.Begin(t, second)
		rig.Update(t, m, "a", 2)
		rig.Create(t, m, "b", 1)
		rig.Remove(t, m, "a")
		synctest.Wait()
		rig.MustHold(t, store, m.ResourceVersion(), map[string]int{"b": 1})
		want := []string{"replace a1", "MODIFIED a2", "ADDED b1", "DELETED a2"}
		rig.Same(t, "calls of the sink", want, sink.got)
		for _, r := range []*lw.Reflector[*rig.Widget]{first, second} {
			mustSay(t, r, func(s lw.Status) bool { return s.Synced && s.Phase == "watching" })
			rig.Same(t, "version", m.ResourceVersion(), r.Status().ResourceVersion)
			mustEnd(t, "a second Run", lw.ErrStarted, r.Run(t.Context()))
		}
		stopFirst()
		stopSecond()
	})
}

type recorder struct{ got []string }

func (r *recorder) Replace(objs []*rig.Widget, _ string) {
	line := "replace"
	for _, w := range objs {
		line += fmt.Sprintf(" %s%d", w.Name, w.Size)
	}
	r.got = append(r.got, line)
}

func (r *recorder) Apply(ev widgetEvent) {
	line := string(ev.Type)
	if ev.Object != nil {
		line += fmt.Sprintf(" %s%d", ev.Object.Name, ev.Object.Size)
	}
	r.got = append(r.got, line)
}

// Nil sources and functions, and numbers that are none of a shard, are mistakes of the program.
func TestConstructorsRefuseNil(t *testing.T) {
	m := lw.NewMemory[*rig.Widget]()
	var none *lw.Memory[*rig.Widget]
	var nobody *applianceClient
	sink := lw.Sink[*rig.Widget](lw.NewIndexer[*rig.Widget]())
	same := func(w *rig.Widget) (*rig.Widget, error) { return w, nil }
	for want, calls := range map[string][]func(){
		"lw: NewReflector: nil source":      {func() { lw.NewReflector(nil, sink, nil) }, func() { lw.NewReflector(none, sink, nil) }},
		"lw: NewReflector: nil sink":        {func() { lw.NewReflector(m, nil, nil) }, func() { lw.NewReflector[*rig.Widget](m, (*recorder)(nil), nil) }},
		"lw: NewInformer: nil source":       {func() { lw.NewInformer[*rig.Widget](nil, nil) }, func() { lw.NewInformer(none, nil) }},
		"lw: WithListOptions: nil source":   {func() { lw.WithListOptions[*rig.Widget](nil) }, func() { lw.WithListOptions(lw.Source[*rig.Widget](none)) }},
		"lw: Transform: nil source":         {func() { lw.Transform(nil, same) }, func() { lw.Transform(none, same) }},
		"lw: Transform: nil function":       {func() { lw.Transform[*rig.Widget, *rig.Widget](m, nil) }},
		"lw: Shard: nil source":             {func() { lw.Shard[*rig.Widget](none, 0, 2) }},
		"lw: Shard: number 0 of 0":          {func() { lw.Shard(m, 0, 0) }},
		"lw: Shard: number 0 of -1":         {func() { lw.Shard(m, 0, -1) }},
		"lw: Shard: number 2 of 2":          {func() { lw.Shard(m, 2, 2) }},
		"lw: Shard: number -1 of 2":         {func() { lw.Shard(m, -1, 2) }},
		"lw: Shard: number -1 of 1":         {func() { lw.Shard(m, -1, 1) }},
		"lw: WithListOptions: nil function": {func() { lw.WithListOptions(m, nil, nil) }},
		"lw: FromClient: nil function":      {func() { lw.FromClient(&applianceClient{}, func(*metav1.ListOptions) {}, nil) }},
		"lw: FromClient: nil client":        {func() { lw.FromClient[*appliance, *applianceList](nil) }, func() { lw.FromClient(nobody) }},
	} {
		for i, f := range calls {
			t.Run(fmt.Sprint(want, " ", i), func(t *testing.T) { rig.PanicsWith(t, want, f) })
		}
	}
}

// A relist after a gap tells what was missed, as changes and not as a first list; while the server
// is away the store stays.
func TestRelistTellsWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("same", 1), rig.NewWidget("changed", 1), rig.NewWidget("gone", 1))
		inf := rig.Run(t, m, &lw.Options{OnError: func(error) {}})
		got := &rig.Calls{}
		resynced := &rig.Calls{}
		h := resynced.Handler()
		h.Resync = time.Hour
		inf.AddHandler(got.Handler())
		inf.AddHandler(h)
		got.Sorted(t, "add changed1", "add gone1", "add same1", "synced")
		m.Fail(errors.New("down"))
		rig.Sleep(20 * time.Second)
		rig.Update(t, m, "changed", 2)
		rig.Remove(t, m, "gone")
		rig.Create(t, m, "new", 1)
		rig.Update(t, m, "new", 2)
		m.Compact()
		rig.Sleep(10 * time.Minute)
		mustSay(t, inf, func(s lw.Status) bool { return s.Synced && s.Objects == 3 && s.Failures != 0 && s.Err != nil })
		m.Fail(nil)
		rig.Sleep(time.Minute)
		told := got.Take()
		if len(told) > 0 {
			slices.Sort(told[1:]) // what is gone comes first
		}
		rig.Same(t, "calls", []string{"delete gone1", "add new2", "update changed1 changed2"}, told)
		mustSay(t, inf, func(s lw.Status) bool { return s.Failures == 0 && s.Err == nil })
		resynced.Take()
		rig.Sleep(50 * time.Minute)
		resynced.Sorted(t, "update changed2 changed2", "update new2 new2", "update same1 same1")
		got.MustBe(t)
	})
}

func tooLarge() error {
	err := apierrors.NewTimeoutError("Too large resource version: 10, current: 5", 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return err
}

// A watch is asked to last from WatchTimeout to twice that, in whole seconds and at least one.
func TestWatchTimeout(t *testing.T) {
	for _, tc := range []struct{ option, least, most time.Duration }{
		{0, 5 * time.Minute, 10 * time.Minute},
		{time.Minute, time.Minute, 2 * time.Minute},
		{time.Millisecond, time.Second, time.Second},
	} {
		rig.Subtest(t, tc.option.String(), func(t *testing.T) {
			src := &rig.Script{Lists: []rig.Reply{rig.List("10")}, OnWatch: func() rig.Stream {
				return rig.Stream{Events: []widgetEvent{rig.Bookmark("10")}, After: 15 * time.Second}
			}}
			rig.RunFor(t, src, &lw.Options{List: lw.ListPages, WatchTimeout: tc.option, OnError: func(error) {}}, 20*time.Minute)
			seen := map[int64]bool{}
			for _, o := range src.Options {
				if o.TimeoutSeconds == nil {
					continue
				}
				within(t, "timeout", tc.least, time.Duration(*o.TimeoutSeconds)*time.Second, tc.most)
				seen[*o.TimeoutSeconds] = true
			}
			if tc.most > time.Second && len(seen) < 5 {
				t.Errorf("always the same timeouts: %v", seen)
			}
		})
	}
}

// A watch that its server forgets to end is ended half a minute after its time, at the latest when
// it was asked for twice; what answers then is asked for its version, and nothing is listed again.
func TestWatchThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{Lists: []rig.Reply{listed("10", "a1@9")}, Watches: []rig.Stream{rig.Forever()}}
		inf, _ := rig.Paged(t, src, 12*time.Minute)
		log := src.Log()
		within(t, "requests in 12 minutes", 4, len(log), 8)
		lists := 0
		for _, entry := range log {
			if entry == "list limit 500" {
				lists++
			}
		}
		rig.Same(t, "lists", 1, lists)
		rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 1})
	})
}

// Retry-After is waited for, on whatever request it comes, and up to 30 s longer, though
// Options.Backoff says less; a server that asks for a day is not believed.
func TestRetryAfter(t *testing.T) {
	busy := func(seconds int) error { return apierrors.NewTooManyRequests("later", seconds) }
	for name, tc := range map[string]struct {
		src         *rig.Script
		next        int // the request that waits
		least, most time.Duration
		backoff     time.Duration // of Options.Backoff, if not 0
	}{
		"list":                 {&rig.Script{Lists: []rig.Reply{{Err: busy(40)}, rig.List("10")}}, 1, 40 * time.Second, 70 * time.Second, 0},
		"watch":                {&rig.Script{Lists: []rig.Reply{rig.List("10")}, Watches: []rig.Stream{{Err: busy(40)}, rig.Forever()}}, 2, 40 * time.Second, 70 * time.Second, 0},
		"stream":               {&rig.Script{OnStream: func() rig.Stream { return rig.Stream{Err: busy(40)} }}, 1, 40 * time.Second, 70 * time.Second, 0},
		"a day":                {&rig.Script{Lists: []rig.Reply{{Err: busy(86400)}, rig.List("10")}}, 1, time.Minute, 330 * time.Second, 0},
		"list, before Backoff": {&rig.Script{Lists: []rig.Reply{{Err: busy(60)}, rig.List("10")}}, 1, time.Minute, 90 * time.Second, time.Second},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			mode := lw.ListPages
			if tc.src.OnStream != nil {
				mode = lw.ListAuto
			}
			opts := &lw.Options{List: mode, OnError: func(error) {}}
			if tc.backoff > 0 {
				opts.Backoff = every(tc.backoff)
			}
			rig.RunFor(t, tc.src, opts, 10*time.Minute)
			at := tc.src.Requests()
			within(t, "pause", tc.least, at[tc.next].Sub(at[tc.next-1]), tc.most)
		})
	}
}

// Options.Backoff is asked with the number of failures, and its answer is kept to.
func TestCustomBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{OnList: func() rig.Reply { return rig.Reply{Err: syscall.ECONNREFUSED} }}
		inf := rig.RunFor(t, src, &lw.Options{
			List: lw.ListWhole, OnError: func(error) {}, Backoff: func(n int) time.Duration { return time.Duration(n) * 2 * time.Second },
		}, 20*time.Hour)
		at := src.Requests()
		for i := range at[1:] {
			rig.Same(t, fmt.Sprint("pause ", i+1), time.Duration(i+1)*2*time.Second, at[i+1].Sub(at[i]))
		}
		rig.Same(t, "failures", len(at), inf.Status().Failures)
		within(t, "requests in 20 hours", 100, len(at), 1000)
	})
}
