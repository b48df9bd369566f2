package source_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/verify/rig"
)

// What the contract says of waits, failures and the end.

// Point 10: a wait for sync that fails says what the informer was doing, and unwraps to the API's
// error and the context's.
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
		rig.Subtest(t, name, func(t *testing.T) {
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
			if !tc.is(err) || !errors.Is(err, cause) || !errors.As(err, &e) || e.Informer != "widgets" || e.Failures == 0 {
				t.Errorf("WaitForSync: %v", err)
			}
			m.Fail(nil)
			rig.OK(t, lw.WaitForSync(t.Context(), inf, reg))
		})
	}
	rig.Subtest(t, "never run", func(t *testing.T) {
		inf := lw.NewInformer(lw.NewMemory[*rig.Widget](), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		mustEnd(t, "WaitForSync", context.DeadlineExceeded, inf.WaitForSync(ctx))
	})
	rig.Subtest(t, "stopped", func(t *testing.T) {
		m := lw.NewMemory[*rig.Widget]()
		m.Fail(errors.New("down"))
		inf := lw.NewInformer(m, &lw.Options{OnError: func(error) {}})
		ctx, cancel := context.WithCancel(t.Context())
		go inf.Run(ctx)
		time.AfterFunc(time.Second, cancel)
		mustEnd(t, "WaitForSync", lw.ErrStopped, inf.WaitForSync(t.Context()))
	})
}

// Point 11: every failure reaches OnError once; one bad object hides no other; the version that is
// reported does not pass it.
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
		rig.MustHold(t, inf.Store(), m.ResourceVersion(), map[string]int{"a": 1})
		rig.Update(t, m, "bad", 2)
		synctest.Wait()
		rig.Same(t, "set aside after a good version", nil, inf.Status().SetAside)
		before := inf.Store().ResourceVersion()
		rig.Update(t, m, "bad", -2)
		rig.Update(t, m, "a", 3)
		synctest.Wait()
		// The version does not pass the event that was not applied.
		rig.MustHold(t, inf.Store(), before, map[string]int{"a": 3, "bad": 2})
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
		rig.MustHold(t, inf.Store(), before, map[string]int{"a": 3, "bad": 2})
		for _, err := range errs.All()[n:] {
			if errors.As(err, &e) && e.Op == "transform" {
				t.Errorf("reported again: %v", err)
			}
		}
		rig.Update(t, m, "bad", 4)
		rig.Sleep(time.Minute)
		rig.OK(t, inf.WaitForResourceVersion(t.Context(), m.ResourceVersion()))
		rig.MustHold(t, inf.Store(), m.ResourceVersion(), map[string]int{"a": 3, "bad": 4})
	})
	rig.Subtest(t, "failed requests", func(t *testing.T) {
		down := errors.New("connection refused")
		src := &rig.Script{
			Lists: []rig.Reply{{Err: down}, listed("10", "a1@9")},
			Watches: []rig.Stream{{Err: down}, {Err: apierrors.NewInternalError(errors.New("etcd"))},
				{Events: []widgetEvent{{Type: "WEIRD"}}}, rig.Forever()},
		}
		errs := &rig.Errors{}
		inf := rig.RunFor(t, src, &lw.Options{List: lw.ListPages, OnError: errs.Add}, 5*time.Minute)
		var ops []string
		for _, err := range errs.All() {
			var e *lw.Error
			if !errors.As(err, &e) {
				t.Fatalf("%v is not an *Error", err)
			}
			ops = append(ops, e.Op)
		}
		rig.Same(t, "reported", []string{"list", "watch", "watch", "watch"}, ops)
		mustSay(t, inf, func(s lw.Status) bool { return s.Failures == 0 && s.Err == nil })
	})
}

// Point 13: Run returns at once when it is cancelled, from any state, with nothing left running.
func TestStopIsPromptAndComplete(t *testing.T) {
	hang := rig.Stream{Open: true}
	for name, src := range map[string]*rig.Script{
		"list hangs": {Lists: []rig.Reply{{Hang: true}}},
		"between pages": {Lists: []rig.Reply{{Obj: listed("10", "a1@9").Obj, Meta: metav1.ListMeta{ResourceVersion: "10",
			Continue: "x"}}, {Hang: true}}},
		"backing off":    {Lists: []rig.Reply{{Err: apierrors.NewTooManyRequests("later", 60)}}},
		"watch is quiet": {Lists: []rig.Reply{listed("10", "a1@9")}, Watches: []rig.Stream{hang}},
		"watch fails":    {Lists: []rig.Reply{listed("10", "a1@9")}, Watches: []rig.Stream{{Err: errors.New("refused")}}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
			calls := 0
			inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { calls++ }, Resync: time.Second,
				Update: func(_, _ *rig.Widget) { calls++ }})
			stop := rig.Begin(t, inf)
			rig.Sleep(1500 * time.Millisecond)
			before := time.Now()
			stop()
			rig.Same(t, "time until Run returned", 0, time.Since(before))
			n := calls
			rig.Sleep(time.Minute)
			rig.Same(t, "calls after Run had returned", n, calls)
			mustEnd(t, "a second Run", lw.ErrStarted, inf.Run(t.Context()))
			reg := inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { t.Error("a call after the stop") }})
			<-reg.Done()
			mustEnd(t, "a handler of a stopped informer", lw.ErrStopped, reg.WaitForSync(t.Context()))
		})
	}
	rig.Subtest(t, "remove", func(t *testing.T) {
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
		rig.Same(t, "calls: an Add, and the Update that removed the handler", 2, calls)
		reg.Remove()

		early := lw.NewInformer(m, nil)
		reg = early.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { t.Error("a call after Remove") }})
		reg.Remove()
		<-reg.Done()
		rig.Start(t, early)
		rig.Sleep(time.Second)
	})
	rig.Subtest(t, "who tells it", func(t *testing.T) {
		ended := false
		stop := rig.Begin(t, lw.NewInformer(lw.Poll(func(ctx context.Context) ([]*rig.Widget, error) {
			request.TellerOf(ctx).AfterRun(func() { ended = true })
			return []*rig.Widget{}, nil
		}, time.Hour), nil))
		rig.Sleep(time.Second)
		if stop(); !ended {
			t.Error("whoever tells it of writes does not learn that it has stopped")
		}
	})
}

// Point 14: whatever the server does, requests are few: at most 10 in any second and 60 in any
// minute, and the pauses grow, for which TestCustomBackoff has the numbers.
func TestBoundedRetries(t *testing.T) {
	full := listed("10", "a1@9")
	always := func(s rig.Stream) func() rig.Stream { return func() rig.Stream { return s } }
	broken := rig.Stream{Err: errors.New("refused")}
	some := []widgetEvent{rig.Added("a", "9")}
	n := 10
	for name, tc := range map[string]struct {
		list          rig.Reply
		watch, stream func() rig.Stream
		most          int  // requests in an hour
		eager         bool // Backoff asks for no pause
	}{
		"lists fail":        {rig.Reply{Err: errors.New("refused")}, nil, nil, 150, false},
		"watches fail":      {full, always(broken), nil, 200, false},
		"watches end empty": {full, always(rig.Stream{}), nil, 200, false},
		"endless 410":       {full, rig.Expired, nil, 400, false},
		"a bookmark and out": {full, func() rig.Stream {
			n++
			return rig.Stream{Events: []widgetEvent{rig.Bookmark(strconv.Itoa(n))}}
		}, nil, 3600, false},
		"no end bookmark":       {full, nil, always(rig.Events(some...)), 100, false},
		"streams are cut":       {full, nil, always(rig.Stream{Events: some}), 100, false},
		"streams break":         {full, nil, always(rig.Stream{Events: some, Err: errors.New("reset")}), 100, false},
		"lists fail, at once":   {rig.Reply{Err: broken.Err}, nil, nil, 3660, true},
		"watches fail, at once": {full, always(broken), nil, 3660, true},
		"endless 410, at once":  {full, rig.Expired, nil, 3660, true},
		"streams fail, at once": {rig.Reply{Err: broken.Err}, nil, always(broken), 3660, true},
		"probes fail, at once":  {full, always(rig.Stream{After: 11 * time.Second, Err: broken.Err}), nil, 3660, true},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: []rig.Reply{tc.list}, OnWatch: tc.watch, OnStream: tc.stream}
			opts, least := &lw.Options{List: lw.ListWhole, OnError: func(error) {}}, 0
			if tc.eager {
				opts.List, opts.Backoff, least = lw.ListPages, every(0), 300
			}
			if src.OnStream != nil {
				opts.List = lw.ListAuto
			}
			inf := rig.RunFor(t, src, opts, time.Hour)
			at := src.Requests()
			within(t, "requests in an hour", least, len(at), tc.most)
			rig.MustBeBounded(t, at)
			if src.OnStream != nil && tc.list.Err == nil && !inf.Status().Synced {
				t.Error("not synced, though the server lists")
			}
		})
	}
	rig.Subtest(t, "Retry-After", func(t *testing.T) {
		src := &rig.Script{OnList: func() rig.Reply { return rig.Reply{Err: apierrors.NewTooManyRequests("later", 45)} }}
		rig.Paged(t, src, 10*time.Minute)
		at := src.Requests()
		if len(at) < 5 {
			t.Fatalf("%d requests in ten minutes", len(at))
		}
		for i := range at[1:] {
			within(t, fmt.Sprint("pause ", i), 45*time.Second, at[i+1].Sub(at[i]), 75*time.Second)
		}
	})
}

// mapped is an object that no JSON object is decoded into.
type mapped map[string]string

func (m *mapped) GetNamespace() string       { return "" }
func (m *mapped) GetName() string            { return (*m)["name"] }
func (m *mapped) GetUID() types.UID          { return "" }
func (m *mapped) GetResourceVersion() string { return "" }

// What can never work ends Run at once, and its error, the waits, Status and OnError say why.
func TestRunEndsWithWhatCanNeverWork(t *testing.T) {
	t.Run("no URL", func(t *testing.T) { rig.EndsAtOnce(t, &lw.HTTP[*rig.Gadget]{}, "stream", "HTTP: no URL") })
	for name, tt := range map[string]struct {
		url  string
		drop string
		want string
	}{
		"no scheme": {"://", "", `HTTP: URL "://": missing protocol scheme`},
		"no host":   {"server/pods", "", `HTTP: URL "server/pods": want http://host/`},
		"another scheme": {"ftp://user:secret@server/?token=secret", "",
			`HTTP: URL "ftp://user:xxxxx@server/": want http://host/`},
		"a space": {"http://user:secret@ser ver/p@ds?token=secret", "",
			`HTTP: URL "http://xxxxx@ds": invalid character " " in host name`},
		"a port that is none": {"http://server:secret/", "", `invalid port ":secret" after host`},
		"a query that is none": {"http://server/?a=%zz", "",
			`HTTP: URL "http://server/": its query: invalid URL escape "%zz"`},
		"a label selector in it": {"http://server/x?labelSelector=a%3D%3D%3D", "",
			`HTTP: http://server/x?labelSelector=a%3D%3D%3D: label selector "a===": `},
		"a field selector in it": {"http://server/x?fieldSelector=a", "",
			`HTTP: http://server/x?fieldSelector=a: field selector "a": `},
		"a field that T has not": {"http://user:secret@server/x", "spec.sise",
			`HTTP: http://user:xxxxx@server/x: Drop: spec: struct { Size int "json:\"size\"" } has no "sise" to drop`},
	} {
		src := &lw.HTTP[*rig.Gadget]{URL: tt.url,
			Client: &http.Client{Transport: rig.RoundTrip(func(*http.Request) (*http.Response, error) {
				t.Errorf("%s: a request is sent", name)
				return nil, errors.New("no")
			})}}
		if tt.drop != "" {
			src.Drop = []string{tt.drop}
		}
		t.Run(name, func(t *testing.T) { rig.EndsAtOnce(t, src, "stream", tt.want) })
		t.Run(name+", transformed", func(t *testing.T) {
			same := func(g *rig.Gadget) (*rig.Gadget, error) { return g, nil }
			rig.EndsAtOnce(t, lw.Transform(lw.WithListOptions(src, func(*metav1.ListOptions) {}), same), "stream", tt.want)
		})
	}
	t.Run("a field to keep that T has not", func(t *testing.T) {
		src := &lw.HTTP[*rig.Gadget]{URL: "http://server/x", Only: lw.Fields{"metadata.labels", "spec.sise"}}
		rig.EndsAtOnce(t, src, "stream",
			`HTTP: http://server/x: Only: spec: struct { Size int "json:\"size\"" } has no "sise" to keep`)
	})
	t.Run("a field below one that decodes itself", func(t *testing.T) {
		src := &lw.HTTP[*rig.Gadget]{URL: "http://server/x", Only: lw.Fields{"metadata.creationTimestamp.seconds"}}
		rig.EndsAtOnce(t, src, "stream", `HTTP: http://server/x: Only: metadata: creationTimestamp: v1.Time decodes itself`)
	})
	t.Run("a projection without a number", func(t *testing.T) {
		src := &lw.HTTP[*rig.Numberless]{URL: "http://server/x", Drop: []string{"spec.size"}}
		rig.EndsAtOnce(t, src, "stream",
			"HTTP: http://server/x: cannot decode protobuf into *rig.Numberless: spec.color: no protobuf tag")
	})
	t.Run("a type that is no struct", func(t *testing.T) {
		rig.EndsAtOnce(t, &lw.HTTP[*mapped]{URL: "http://server/x"}, "stream",
			"HTTP: http://server/x: cannot decode into *source_test.mapped: want a pointer to a struct")
	})
	t.Run("a selector of WithListOptions", func(t *testing.T) {
		rig.EndsAtOnce(t, lw.WithListOptions(lw.NewMemory[*rig.Widget](),
			func(o *metav1.ListOptions) { o.LabelSelector = "a in b" }), "stream",
			`WithListOptions: label selector "a in b": `)
		rig.EndsAtOnce(t, lw.WithListOptions(lw.NewMemory[*rig.Widget](),
			func(o *metav1.ListOptions) { o.FieldSelector = "a" }), "stream",
			`WithListOptions: field selector "a": `)
	})
	t.Run("a selector of FromClient", func(t *testing.T) {
		rig.EndsAtOnce(t, lw.FromClient(&applianceClient{}, func(o *metav1.ListOptions) { o.LabelSelector = "a in b" }),
			"stream",
			`FromClient: label selector "a in b": `)
		src := lw.FromClient(&applianceClient{}, func(o *metav1.ListOptions) { o.FieldSelector = "a" })
		if _, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{}); !rig.Matches(err,
			`lw: FromClient: field selector "a": `) || !errors.Is(err, lw.ErrPermanent) {
			t.Errorf("List: %v", err)
		}
	})
	t.Run("a ListWatch without a function", func(t *testing.T) {
		type lists = lw.ListWatch[*appliance, *listOf[*appliance]]
		w := func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return nil, apierrors.NewBadRequest("no")
		}
		rig.EndsAtOnce(t, &lists{WatchFunc: w}, "list", "ListWatch: nil ListFunc")
		rig.EndsAtOnce(t, &lists{}, "stream", "ListWatch: nil WatchFunc")
	})
	t.Run("a foreign source", func(t *testing.T) {
		failing := rig.Stream{Err: errors.Join(errors.New("no such shard"), lw.ErrPermanent)}
		rig.EndsAtOnce(t, &rig.Script{Watches: []rig.Stream{failing}}, "stream", "no such shard")
	})
}

// A Reflector ends as an Informer does, also long after it has synced, and what is no ErrPermanent
// is tried for as long as it takes.
func TestReflectorEndsWithWhatCanNeverWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lw.NewMemory(rig.NewWidget("a", 1))
		var broken atomic.Bool
		src := lw.WithListOptions(server, func(o *metav1.ListOptions) {
			if broken.Load() {
				o.FieldSelector = "a"
			}
		})
		store := lw.NewIndexer[*rig.Widget]()
		ended := make(chan error, 1)
		r := lw.NewReflector(src, store, &lw.Options{OnError: func(error) {}})
		go func() { ended <- r.Run(t.Context()) }()
		rig.Sleep(time.Minute)
		server.Fail(errors.New("down"))
		rig.Sleep(time.Hour)
		if store.Len() != 1 || len(ended) != 0 {
			t.Fatalf("%d objects", store.Len())
		}
		broken.Store(true)
		server.Fail(nil)
		rig.Sleep(time.Hour)
		select {
		case err := <-ended:
			if !errors.Is(err, lw.ErrPermanent) || !strings.Contains(err.Error(), `lw: Widget: stream (failure `) {
				t.Errorf("Run: %v", err)
			}
		default:
			t.Error("Run goes on")
		}
	})
}
