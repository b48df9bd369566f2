package lw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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
