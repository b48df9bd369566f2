package lw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// holder is a Sink that can be asked what it holds. It records what it is told.
type holder struct {
	recorder
	version string
	held    map[lw.Key]*Widget
}

func (h *holder) Get(k lw.Key) (*Widget, bool) { w, ok := h.held[k]; return w, ok }

func (h *holder) Replace(objs []*Widget, version string) {
	h.recorder.Replace(objs, version)
	h.version = version
	clear(h.held)
	for _, w := range objs {
		h.held[lw.KeyOf(w)] = w
	}
}

func (h *holder) Apply(ev lw.WatchEvent[*Widget]) {
	h.recorder.Apply(ev)
	if ev.Err != nil {
		h.got = append(h.got, "an error")
	}
	switch ev.Type {
	case watch.Added, watch.Modified:
		h.held[ev.Key()] = ev.Object
	case watch.Deleted:
		delete(h.held, ev.Key())
	}
}

// reflectInto runs a reflector of src into sink until the test ends.
func reflectInto(t *testing.T, src lw.Source[*Widget], sink lw.Sink[*Widget], opts *lw.Options) *lw.Reflector[*Widget] {
	r := lw.NewReflector(src, sink, opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// Behind a user's Sink a bad object stays as it was too, also through a list, where the Sink can be asked for it; the version
// waits for it, and the Sink is never handed an error.
func TestSinkKeepsWhatIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			lists: []reply{badList("10", "c", stamped("a", 1, "9"), stamped("b", 1, "8")), badList("20", "b", stamped("a", 2, "15"))},
			watches: []stream{
				{events: []lw.WatchEvent[*Widget]{badEvent("b", "11"), modified(stamped("a", 2, "15"))}, after: time.Minute, err: expired().err},
				{events: []lw.WatchEvent[*Widget]{modified(stamped("b", 3, "21"))}, open: true},
			},
		}
		sink := &holder{held: map[lw.Key]*Widget{}}
		r := reflectInto(t, src, sink, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
		sleep(time.Second)
		if s := r.Status(); s.ResourceVersion != "10" || len(s.SetAside) != 2 {
			t.Errorf("after a bad event: %+v", s)
		}
		sleep(90 * time.Second)
		want := []string{"replace a1 b1", "MODIFIED a2", "replace a2 b1", "MODIFIED b3"}
		if diff := cmp.Diff(want, sink.got); diff != "" {
			t.Errorf("calls of the sink (-want +got):\n%s", diff)
		}
		if s := r.Status(); s.ResourceVersion != "21" || len(s.SetAside) != 0 || !s.Synced {
			t.Errorf("in the end: %+v", s)
		}
		if sink.version != "10" {
			t.Errorf("the list was handed over as one of version %s, want 10: b is no newer", sink.version)
		}
	})
}

// A Sink that cannot be asked gets the list as it is.
func TestSinkWithoutGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			lists:   []reply{list("10", stamped("a", 1, "9"), stamped("b", 1, "8")), badList("20", "b", stamped("a", 2, "15"))},
			watches: []stream{{events: []lw.WatchEvent[*Widget]{added("a", "12"), deleted(stamped("z", 1, "13"))}, after: time.Minute, err: expired().err}, forever()},
		}
		sink := &recorder{}
		r := reflectInto(t, src, sink, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
		sleep(2 * time.Minute)
		// Nobody can tell that a was there, and z was not.
		if diff := cmp.Diff([]string{"replace a1 b1", "ADDED a1", "DELETED z1", "replace a2"}, sink.got); diff != "" {
			t.Errorf("calls of the sink (-want +got):\n%s", diff)
		}
		if s := r.Status(); s.ResourceVersion != "20" || r.Status().SetAside[key("b")] == nil {
			t.Errorf("status: %+v", s)
		}
	})
}

// What a Sink that can be asked knows better is a protocol error: an ADDED of what is there, a change of what is not. Both are
// applied, since they are true, and a list finds out what else was missed.
func TestChangesThatWereNotToCome(t *testing.T) {
	for _, tc := range map[string]struct {
		ev   lw.WatchEvent[*Widget]
		want map[string]int
		text string
	}{
		"added":    {lw.WatchEvent[*Widget]{Type: watch.Added, Object: stamped("a", 2, "11"), ResourceVersion: "11"}, map[string]int{"a": 2}, "ADDED event of default/a, which was there already"},
		"modified": {modified(stamped("b", 2, "11")), map[string]int{"a": 1, "b": 2}, "MODIFIED event of default/b, which was not there"},
		"deleted":  {deleted(stamped("b", 2, "11")), map[string]int{"a": 1}, "DELETED event of default/b, which was not there"},
	} {
		for _, alone := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				src := &script{
					lists:   []reply{list("10", stamped("a", 1, "9")), {err: context.DeadlineExceeded}},
					watches: []stream{events(tc.ev), forever()},
				}
				errs := &errorLog{}
				opts := &lw.Options{List: lw.ListPages, OnError: errs.add}
				var got lw.Reader[*Widget]
				if alone {
					x := lw.NewIndexer[*Widget]()
					reflectInto(t, src, x, opts)
					got = x
				} else {
					inf := lw.NewInformer[*Widget](src, opts)
					start(t, inf)
					got = inf.Store()
				}
				sleep(100 * time.Millisecond)
				errs.mustHave(t, tc.text)
				mustHold(t, got, "11", tc.want)
				mustLog(t, src, "list limit 500", "watch 10", "list limit 500")
			})
		}
	}
}

// A Sink that can be asked what it holds is checked against as an informer's store is.
func TestSinkThatCanBeAsked(t *testing.T) {
	for name, tc := range map[string]struct {
		events []lw.WatchEvent[*Widget]
		log    []string
	}{
		"an object that is added twice":        {[]lw.WatchEvent[*Widget]{added("a", "11")}, []string{"list", "watch 10", "list", "watch 30"}},
		"a change of what was never there":     {[]lw.WatchEvent[*Widget]{modified(stamped("x", 1, "11"))}, []string{"list", "watch 10", "list", "watch 30"}},
		"one version of two objects":           {[]lw.WatchEvent[*Widget]{modified(stamped("a", 2, "11")), modified(stamped("b", 2, "11"))}, []string{"list", "watch 10"}},
		"one version of one object":            {[]lw.WatchEvent[*Widget]{modified(stamped("a", 2, "11")), modified(stamped("a", 3, "11"))}, []string{"list", "watch 10", "list", "watch 30"}},
		"a bookmark, and then a change by one": {[]lw.WatchEvent[*Widget]{bookmark("20"), modified(stamped("a", 2, "21"))}, []string{"list", "watch 10"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &script{
					lists:   []reply{list("10", stamped("a", 1, "8"), stamped("b", 1, "9")), list("30", stamped("a", 3, "20"))},
					watches: []stream{events(tc.events...), forever()},
				}
				store := lw.NewIndexer[*Widget]()
				r := lw.NewReflector[*Widget](src, store, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- r.Run(ctx) }()
				sleep(5 * time.Second)
				mustLog(t, src, tc.log...)
				if want := store.ResourceVersion(); r.Status().ResourceVersion != want {
					t.Errorf("the reflector reports %s, the store %s", r.Status().ResourceVersion, want)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A user's Sink is not told of what could not be read: it keeps what it had, where it can be asked for that, over a relist too.
func TestAsideBehindASink(t *testing.T) {
	bad := &lw.Error{Op: "decode", Key: key("b"), Err: errors.New("not a widget")}
	spoiled := func() *script {
		return &script{
			lists: []reply{
				list("10", stamped("a", 1, "8"), stamped("b", 1, "9")),
				{obj: []*Widget{stamped("a", 3, "20")}, bad: []error{bad}, meta: metav1.ListMeta{ResourceVersion: "30"}},
			},
			watches: []stream{
				{events: []lw.WatchEvent[*Widget]{
					{Type: watch.Modified, ResourceVersion: "11", Err: bad}, modified(stamped("a", 2, "12")), bookmark("13"),
				}, after: time.Second, err: expired().err},
				events(modified(stamped("a", 4, "31"))),
			},
		}
	}
	follow := func(t *testing.T, sink lw.Sink[*Widget], look func(r *lw.Reflector[*Widget])) {
		synctest.Test(t, func(t *testing.T) {
			r := lw.NewReflector[*Widget](spoiled(), sink, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			sleep(time.Minute)
			look(r)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("that can be asked", func(t *testing.T) {
		store := lw.NewIndexer[*Widget]()
		follow(t, store, func(r *lw.Reflector[*Widget]) {
			mustHold(t, store, "10", map[string]int{"a": 4, "b": 1})
			if s := r.Status(); s.ResourceVersion != "10" || len(s.SetAside) != 1 {
				t.Errorf("status: %+v", s)
			}
		})
	})
	t.Run("that cannot", func(t *testing.T) {
		sink := &recorder{}
		follow(t, sink, func(r *lw.Reflector[*Widget]) {
			want := []string{"replace a1 b1", "MODIFIED a2", "replace a3", "MODIFIED a4"}
			if diff := cmp.Diff(want, sink.got); diff != "" {
				t.Errorf("calls of the sink (-want +got):\n%s", diff)
			}
		})
	})
}
