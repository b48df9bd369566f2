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

// What comes in is applied, and the version reported is that of the last event, bookmark or list.
func TestReflectorAppliesEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		events []widgetEvent
		rv     string
		want   map[string]int
	}{
		"nothing":    {nil, "10", map[string]int{"a": 1, "b": 1}},
		"added":      {[]widgetEvent{rig.Added("c", "11")}, "11", map[string]int{"a": 1, "b": 1, "c": 1}},
		"modified":   {[]widgetEvent{modified("a2@11")}, "11", map[string]int{"a": 2, "b": 1}},
		"deleted":    {[]widgetEvent{deleted("a1@11")}, "11", map[string]int{"b": 1}},
		"a bookmark": {[]widgetEvent{rig.Bookmark("40")}, "40", map[string]int{"a": 1, "b": 1}},
		"an old one": {[]widgetEvent{rig.Bookmark("5")}, "10", map[string]int{"a": 1, "b": 1}},
		"old ones, and then a change": {[]widgetEvent{rig.Bookmark(""), rig.Bookmark("5"), rig.Bookmark("10"), rig.Bookmark(""), modified("a2@11")},
			"11", map[string]int{"a": 2, "b": 1}},
		"one of its version": {[]widgetEvent{rig.Bookmark("10")}, "10", map[string]int{"a": 1, "b": 1}},
		"one of none":        {[]widgetEvent{rig.Bookmark("")}, "10", map[string]int{"a": 1, "b": 1}},
		"all in turn":        {[]widgetEvent{rig.Added("c", "11"), modified("a2@20"), rig.Bookmark("30"), deleted("b1@40")}, "40", map[string]int{"a": 2, "c": 1}},
		// A deletion of several objects in one transaction of the server's store has one version.
		"one version twice": {[]widgetEvent{deleted("a1@11"), deleted("b1@11")}, "11", map[string]int{}},
		"long versions": {[]widgetEvent{modified("a2@99999999999999999999"), modified("a3@100000000000000000000")},
			"100000000000000000000", map[string]int{"a": 3, "b": 1}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: []rig.Reply{listed("10", "a1@8 b1@9")}, Watches: []rig.Stream{rig.Events(tc.events...)}}
			inf, errs := rig.Paged(t, src, time.Second)
			rig.MustHold(t, inf.Store(), tc.rv, tc.want)
			rig.MustLog(t, src, "list limit 500", "watch 10")
			errs.MustBeNone(t)
		})
	}
}

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

// What follows a watch that ended or failed: client-go lists again after most failures, this
// resumes wherever that is safe. A watch that came back to what may be another server, and is
// silent, is interrupted to ask for the server's version ("limit 1").
func TestAfterAWatch(t *testing.T) {
	full := listed("10", "a1@9")
	again := listed("30", "a3@30")
	internal := apierrors.NewInternalError(errors.New("etcd"))
	busy := apierrors.NewTooManyRequests("later", 1)
	unreadable := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Reason: metav1.StatusReasonStoreReadError, Message: "corrupt"}}
	for name, tc := range map[string]struct {
		watches []rig.Stream
		log     []string // after "list limit 500", "watch 10"
		errs    int
	}{
		"it ends after a while":            {[]rig.Stream{{After: time.Minute}, rig.Forever()}, []string{"list limit 1", "watch 10"}, 0},
		"it ends after an event":           {[]rig.Stream{{Events: []widgetEvent{modified("a2@20")}}, rig.Forever()}, []string{"watch 20", "list limit 1", "watch 20"}, 0},
		"it ends after a bookmark":         {[]rig.Stream{{Events: []widgetEvent{rig.Bookmark("20")}}, rig.Forever()}, []string{"watch 20", "list limit 1", "watch 20"}, 0},
		"it ends at once":                  {[]rig.Stream{{}, rig.Forever()}, []string{"watch 10", "list limit 1", "watch 10"}, 1},
		"connection refused":               {[]rig.Stream{{Err: syscall.ECONNREFUSED}, {Err: syscall.ECONNREFUSED}, rig.Forever()}, []string{"watch 10", "watch 10", "list limit 1", "watch 10"}, 2},
		"the stream breaks":                {[]rig.Stream{{Events: []widgetEvent{modified("a2@20")}, Err: errors.New("reset")}, rig.Forever()}, []string{"watch 20", "list limit 1", "watch 20"}, 1},
		"too many requests":                {[]rig.Stream{{Err: busy}, {Err: busy}, {Err: busy}, {Err: busy}, {Err: busy}, {Err: busy}, rig.Forever()}, []string{"watch 10", "watch 10", "watch 10", "watch 10", "watch 10", "watch 10"}, 6},
		"too many requests, in the stream": {[]rig.Stream{{Events: []widgetEvent{modified("a2@20")}, Err: busy}, rig.Forever()}, []string{"watch 20"}, 1},
		"an internal error":                {[]rig.Stream{{Err: internal}, rig.Forever()}, []string{"watch 10", "list limit 1", "watch 10"}, 1},
		"five of them":                     {[]rig.Stream{{Err: internal}, {Err: internal}, {Err: internal}, {Err: internal}, {Err: internal}, rig.Forever()}, []string{"watch 10", "watch 10", "watch 10", "watch 10", "list limit 500", "watch 30"}, 5},
		"expired":                          {[]rig.Stream{rig.Expired(), rig.Forever()}, []string{"list limit 500", "watch 30"}, 1},
		//lint:ignore SA1019 Servers still answer with it.
		"gone":                                  {[]rig.Stream{{Err: apierrors.NewGone("gone")}, rig.Forever()}, []string{"list limit 500", "watch 30"}, 1},
		"expired, in the stream":                {[]rig.Stream{expiring(0, modified("a2@20")), rig.Forever()}, []string{"list limit 500", "watch 30"}, 1},
		"an object that the server cannot read": {[]rig.Stream{{Err: unreadable}, rig.Forever()}, []string{"list limit 500", "watch 30"}, 1},
		"a version from the future":             {[]rig.Stream{{Err: tooLarge()}, rig.Forever()}, []string{"list limit 500", "watch 30"}, 1},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: []rig.Reply{full, again}, Watches: tc.watches}
			_, errs := rig.Paged(t, src, 2*time.Minute)
			rig.MustLog(t, src, append([]string{"list limit 500", "watch 10"}, tc.log...)...)
			mustCount(t, errs, tc.errs)
		})
	}
}

func tooLarge() error {
	err := apierrors.NewTimeoutError("Too large resource version: 10, current: 5", 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return err
}

// Pages share one version. If it expires the list begins again, the second time as a whole.
func TestPages(t *testing.T) {
	gone := rig.Reply{Err: apierrors.NewResourceExpired("continue token")}
	internal := rig.Reply{Err: apierrors.NewInternalError(errors.New("etcd"))}
	abc := map[string]int{"a": 1, "b": 1, "c": 1}
	for name, tc := range map[string]struct {
		lists []rig.Reply
		log   []string
		errs  int
	}{
		"three": {[]rig.Reply{page("10", "x", "a1@9"), page("10", "y", "b1@9"), page("10", "", "c1@9")},
			[]string{"list limit 2", "list limit 2 continue x", "list limit 2 continue y", "watch 10"}, 0},
		"an empty one": {
			[]rig.Reply{page("10", "x", ""), page("10", "", "a1@9 b1@9 c1@9")}, []string{"list limit 2", "list limit 2 continue x", "watch 10"}, 0,
		},
		"the token expires": {
			[]rig.Reply{page("10", "x", "old1@9"), gone, page("20", "y", "a1@9 b1@9"), page("20", "", "c1@9")},
			[]string{"list limit 2", "list limit 2 continue x", "list limit 2", "list limit 2 continue y", "watch 20"}, 1,
		},
		"the token expires twice": {
			[]rig.Reply{page("10", "x", "old1@9"), gone, page("20", "y", "old1@9"), gone, page("30", "", "a1@9 b1@9 c1@9")},
			[]string{"list limit 2", "list limit 2 continue x", "list limit 2", "list limit 2 continue y", "list", "watch 30"}, 2,
		},
		"the first page expires": {[]rig.Reply{gone, page("20", "y", "a1@9 b1@9"), page("20", "", "c1@9")},
			[]string{"list limit 2", "list limit 2", "list limit 2 continue y", "watch 20"}, 1},
		"pages of two versions": {
			[]rig.Reply{page("10", "x", "old1@9"), page("11", "", "b1@9"), page("20", "", "a1@9 b1@9 c1@9")},
			[]string{"list limit 2", "list limit 2 continue x", "list limit 2", "watch 20"}, 1,
		},
		"the second page fails": {[]rig.Reply{page("10", "x", "old1@9"), internal, page("20", "", "a1@9 b1@9 c1@9")},
			[]string{"list limit 2", "list limit 2 continue x", "list limit 2", "watch 20"}, 1},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: tc.lists}
			errs := &rig.Errors{}
			inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, PageSize: 2, OnError: errs.Add})
			s := rig.NewStory(t)
			inf.AddHandler(s.Handler())
			rig.Start(t, inf)
			rig.Sleep(time.Minute)
			rig.MustLog(t, src, tc.log...)
			rig.MustHold(t, inf.Store(), tc.lists[len(tc.lists)-1].Meta.ResourceVersion, abc)
			mustCount(t, errs, tc.errs)
			if at := src.Requests(); tc.lists[0].Err != nil && at[1].Sub(at[0]) < 400*time.Millisecond {
				t.Errorf("it was tried again after %v", at[1].Sub(at[0]))
			}
			rig.Same(t, "lists that Status counts", uint64(len(tc.lists)), inf.Status().Requests["list"].Started)
		})
	}
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

// The pauses of an outage grow as Backoff says, across kinds of requests, and start anew once the
// server makes progress.
func TestBackoffIsOneForAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("connection refused")
		failing := rig.Stream{Err: down}
		src := &rig.Script{
			Lists:   []rig.Reply{{Err: down}, {Err: down}, listed("10", "a1@9"), {Err: down}, listed("20", "a1@9")},
			Watches: []rig.Stream{failing, failing, rig.Expired(), failing, rig.Events(modified("a2@21")), failing},
		}
		var asked rig.Pacer
		inf := rig.RunFor(t, src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: asked.Grow(10 * time.Second)}, 5*time.Minute)
		// Two lists, two watches, the list after the expiry (the fifth failure, which need not wait), one
		// more watch.
		asked.MustBe(t, 1, 2, 3, 4, 6, 7)
		rig.MustHold(t, inf.Store(), "21", map[string]int{"a": 2})
		rig.Same(t, "failures after progress", 0, inf.Status().Failures)
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
