package source_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// holder is a Sink that can be asked what it holds. It records what it is told.
type holder struct {
	recorder
	version string
	held    map[lw.Key]*rig.Widget
}

func (h *holder) Get(k lw.Key) (*rig.Widget, bool) { w, ok := h.held[k]; return w, ok }

func (h *holder) Replace(objs []*rig.Widget, version string) {
	h.recorder.Replace(objs, version)
	h.version = version
	clear(h.held)
	for _, w := range objs {
		h.held[lw.KeyOf(w)] = w
	}
}

func (h *holder) Apply(ev lw.WatchEvent[*rig.Widget]) {
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

// Behind a user's Sink a bad object stays as it was too, also through a list, where the Sink can be
// asked for it; the version waits for it, and the Sink is never handed an error.
func TestSinkKeepsWhatIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{badList("10", "c", rig.Stamped("a", 1, "9"), rig.Stamped("b", 1, "8")), badList("20", "b", rig.Stamped("a", 2, "15"))},
			Watches: []rig.Stream{
				{Events: []lw.WatchEvent[*rig.Widget]{rig.BadEvent("b", "11"), rig.Modified(rig.Stamped("a", 2, "15"))}, After: time.Minute, Err: rig.Expired().Err},
				{Events: []lw.WatchEvent[*rig.Widget]{rig.Modified(rig.Stamped("b", 3, "21")), rig.Bookmark("22")}, Open: true},
			},
		}
		sink := &holder{held: map[lw.Key]*rig.Widget{}}
		r := rig.ReflectInto(t, src, sink, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
		rig.Sleep(time.Second)
		if s := r.Status(); s.ResourceVersion != "10" || len(s.SetAside) != 2 {
			t.Errorf("after a bad event: %+v", s)
		}
		rig.Sleep(90 * time.Second)
		want := []string{"replace a1 b1", "MODIFIED a2", "replace a2 b1", "MODIFIED b3", "BOOKMARK"}
		rig.Same(t, "calls of the sink", want, sink.got)
		if s := r.Status(); s.ResourceVersion != "22" || len(s.SetAside) != 0 || !s.Synced {
			t.Errorf("in the end: %+v", s)
		}
		if sink.version != "10" {
			t.Errorf("the list was handed over as one of version %s, want 10: b is no newer", sink.version)
		}
	})
}

// A Sink that cannot be asked gets the list as it is, and is not told of what could not be read.
func TestSinkWithoutGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists:   []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9"), rig.Stamped("b", 1, "8")), badList("20", "b", rig.Stamped("a", 2, "15"))},
			Watches: []rig.Stream{{Events: []lw.WatchEvent[*rig.Widget]{rig.BadEvent("c", "11"), rig.Added("a", "12"), rig.Deleted(rig.Stamped("z", 1, "13"))}, After: time.Minute, Err: rig.Expired().Err}, rig.Forever()},
		}
		sink := &recorder{}
		r := rig.ReflectInto(t, src, sink, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
		rig.Sleep(2 * time.Minute)
		// Nobody can tell that a was there, and z was not.
		rig.Same(t, "calls of the sink", []string{"replace a1 b1", "ADDED a1", "DELETED z1", "replace a2"}, sink.got)
		if s := r.Status(); s.ResourceVersion != "20" || r.Status().SetAside[rig.Key("b")] == nil {
			t.Errorf("status: %+v", s)
		}
	})
}

// What a Sink that can be asked knows better is a protocol error: an ADDED of what is there, a
// change of what is not. Both are applied, since they are true, and a list finds out what else was
// missed.
func TestChangesThatWereNotToCome(t *testing.T) {
	for _, tc := range map[string]struct {
		ev   lw.WatchEvent[*rig.Widget]
		want map[string]int
		text string
	}{
		"added":    {lw.WatchEvent[*rig.Widget]{Type: watch.Added, Object: rig.Stamped("a", 2, "11"), ResourceVersion: "11"}, map[string]int{"a": 2}, "ADDED event of default/a, which was there already"},
		"modified": {rig.Modified(rig.Stamped("b", 2, "11")), map[string]int{"a": 1, "b": 2}, "MODIFIED event of default/b, which was not there"},
		"deleted":  {rig.Deleted(rig.Stamped("b", 2, "11")), map[string]int{"a": 1}, "DELETED event of default/b, which was not there"},
	} {
		for _, alone := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				src := &rig.Script{
					Lists:   []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), {Err: context.DeadlineExceeded}},
					Watches: []rig.Stream{rig.Events(tc.ev), rig.Forever()},
				}
				errs := &rig.Errors{}
				opts := &lw.Options{List: lw.ListPages, OnError: errs.Add}
				var got lw.Reader[*rig.Widget]
				if alone {
					x := lw.NewIndexer[*rig.Widget]()
					rig.ReflectInto(t, src, x, opts)
					got = x
				} else {
					inf := lw.NewInformer[*rig.Widget](src, opts)
					rig.Start(t, inf)
					got = inf.Store()
				}
				rig.Sleep(100 * time.Millisecond)
				errs.MustHave(t, tc.text)
				rig.MustHold(t, got, "11", tc.want)
				rig.MustLog(t, src, "list limit 500", "watch 10", "list limit 500")
			})
		}
	}
}

// A Sink that can be asked what it holds is checked against as an informer's store is.
func TestSinkThatCanBeAsked(t *testing.T) {
	for name, tc := range map[string]struct {
		events []lw.WatchEvent[*rig.Widget]
		log    []string
	}{
		"an object that is added twice":        {[]lw.WatchEvent[*rig.Widget]{rig.Added("a", "11")}, []string{"list", "watch 10", "list", "watch 30"}},
		"a change of what was never there":     {[]lw.WatchEvent[*rig.Widget]{rig.Modified(rig.Stamped("x", 1, "11"))}, []string{"list", "watch 10", "list", "watch 30"}},
		"one version of two objects":           {[]lw.WatchEvent[*rig.Widget]{rig.Modified(rig.Stamped("a", 2, "11")), rig.Modified(rig.Stamped("b", 2, "11"))}, []string{"list", "watch 10"}},
		"one version of one object":            {[]lw.WatchEvent[*rig.Widget]{rig.Modified(rig.Stamped("a", 2, "11")), rig.Modified(rig.Stamped("a", 3, "11"))}, []string{"list", "watch 10", "list", "watch 30"}},
		"a bookmark, and then a change by one": {[]lw.WatchEvent[*rig.Widget]{rig.Bookmark("20"), rig.Modified(rig.Stamped("a", 2, "21"))}, []string{"list", "watch 10"}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{
				Lists:   []rig.Reply{rig.List("10", rig.Stamped("a", 1, "8"), rig.Stamped("b", 1, "9")), rig.List("30", rig.Stamped("a", 3, "20"))},
				Watches: []rig.Stream{rig.Events(tc.events...), rig.Forever()},
			}
			store := lw.NewIndexer[*rig.Widget]()
			r := lw.NewReflector[*rig.Widget](src, store, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
			rig.Start(t, r)
			rig.Sleep(5 * time.Second)
			rig.MustLog(t, src, tc.log...)
			if want := store.ResourceVersion(); r.Status().ResourceVersion != want {
				t.Errorf("the reflector reports %s, the store %s", r.Status().ResourceVersion, want)
			}
		})
	}
}

// An Indexer of the user's own keeps what it had of what could not be read, over a relist too, and
// events after that do not move the version.
func TestAsideBehindAnIndexer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "8"), rig.Stamped("b", 1, "9")), badList("30", "b", rig.Stamped("a", 3, "20"))},
			Watches: []rig.Stream{
				{Events: []lw.WatchEvent[*rig.Widget]{rig.BadEvent("b", "11"), rig.Modified(rig.Stamped("a", 2, "12")), rig.Bookmark("13")}, After: time.Second, Err: rig.Expired().Err},
				rig.Events(rig.Modified(rig.Stamped("a", 4, "31"))),
			},
		}
		store := lw.NewIndexer[*rig.Widget]()
		r := rig.ReflectInto(t, src, store, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		rig.Sleep(time.Minute)
		rig.MustHold(t, store, "10", map[string]int{"a": 4, "b": 1})
		if s := r.Status(); s.ResourceVersion != "10" || len(s.SetAside) != 1 {
			t.Errorf("status: %+v", s)
		}
	})
}
