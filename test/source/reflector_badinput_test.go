package source_test

import (
	"errors"
	"fmt"
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

// What no server and no source should send: each case says what is reported, what is set aside, and which requests follow. In
// all of them the informer ends with what the last list holds, and pauses between its attempts.
func TestBadInput(t *testing.T) {
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	refused := errors.New("dial tcp: connection refused")
	good := rig.List("20", rig.Stamped("a", 2, "19"))
	event := func(typ watch.EventType, w *rig.Widget, rv string) rig.Stream {
		return rig.Stream{Events: []lw.WatchEvent[*rig.Widget]{{Type: typ, Object: w, ResourceVersion: rv}}, Open: true}
	}
	broken := func(key lw.Key, rv string) lw.WatchEvent[*rig.Widget] {
		err := &lw.Error{Op: "decode", Key: key, Err: errors.New("not a widget")}
		return lw.WatchEvent[*rig.Widget]{Type: watch.Modified, ResourceVersion: rv, Err: err}
	}
	nameless := rig.Stamped("", 9, "15")
	relisted := []string{"list limit 500", "watch 10", "list limit 500", "watch 20"}
	a1, a2 := map[lw.Key]int{rig.Key("a"): 1}, map[lw.Key]int{rig.Key("a"): 2}

	for name, tc := range map[string]struct {
		lists   []rig.Reply
		watches []rig.Stream
		errs    []string // "op key: text" of each
		aside   []lw.Key
		log     []string
		want    map[lw.Key]int
	}{
		"a list is forbidden": {
			lists: []rig.Reply{{Err: apierrors.NewForbidden(widgets, "", errors.New("no role"))}, good},
			errs:  []string{`list: widgets.example.com is forbidden: no role`},
			log:   []string{"list limit 500", "list limit 500", "watch 20"}, want: a2,
		},
		"the collection is not found": {
			lists: []rig.Reply{{Err: apierrors.NewNotFound(widgets, "")}, good},
			errs:  []string{`list: widgets.example.com "" not found`},
			log:   []string{"list limit 500", "list limit 500", "watch 20"}, want: a2,
		},
		"the server is unreachable": {
			lists: []rig.Reply{{Err: refused}, good},
			errs:  []string{"list: dial tcp: connection refused"},
			log:   []string{"list limit 500", "list limit 500", "watch 20"}, want: a2,
		},
		"a watch is forbidden": {
			lists: []rig.Reply{good}, watches: []rig.Stream{{Err: apierrors.NewForbidden(widgets, "", errors.New("no role"))}, rig.Forever()},
			errs: []string{`watch: the list is answered, but the watch is refused, so that only lists show changes: widgets.example.com is forbidden: no role`},
			log:  []string{"list limit 500", "watch 20", "watch 20", "list limit 1", "watch 20"}, want: a2,
		},
		"an object without a name in a list": {
			lists: []rig.Reply{rig.List("20", rig.Stamped("a", 2, "19"), nameless)}, errs: []string{"decode default/: the object has no name"},
			aside: []lw.Key{{Namespace: "default"}}, log: []string{"list limit 500", "watch 20"}, want: a2,
		},
		"a nil object in a list": {
			lists: []rig.Reply{rig.List("20", nil, rig.Stamped("a", 2, "19"), nil)}, errs: []string{"decode: the object is nil (and 1 more without a key)"},
			aside: []lw.Key{{}}, log: []string{"list limit 500", "watch 20"}, want: a2,
		},
		"objects of a list that nobody can name": {
			lists: []rig.Reply{{Obj: good.Obj, Meta: good.Meta, Bad: []error{errors.New("bad one"), errors.New("bad two")}}},
			errs:  []string{"decode: bad one; bad two"},
			aside: []lw.Key{{}}, log: []string{"list limit 500", "watch 20"}, want: a2,
		},
		"an object of a list that cannot be decoded": {
			lists: []rig.Reply{{Obj: good.Obj, Meta: good.Meta, Bad: []error{broken(rig.Key("b"), "").Err}}},
			errs:  []string{"decode default/b: not a widget"},
			aside: []lw.Key{rig.Key("b")}, log: []string{"list limit 500", "watch 20"}, want: a2,
		},
		"two items of a list with one key": {
			lists: []rig.Reply{rig.List("20", rig.Stamped("a", 2, "19"), rig.Stamped("a", 1, "18"))},
			errs:  []string{"list default/a: protocol error: the list holds this key twice"},
			log:   []string{"list limit 500", "watch 20"}, want: a2,
		},
		"a page that continues with itself": {
			lists: []rig.Reply{{Obj: good.Obj, Meta: metav1.ListMeta{ResourceVersion: "20", Continue: "x"}}, {Meta: metav1.ListMeta{ResourceVersion: "20", Continue: "x"}}, good},
			errs:  []string{"list: protocol error: a page continues with itself"},
			log:   []string{"list limit 500", "list limit 500 continue x", "list limit 500", "watch 20"}, want: a2,
		},
		"an event of an unknown type": {
			lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), good}, watches: []rig.Stream{event("WEIRD", rig.Stamped("a", 9, "15"), "15"), rig.Forever()},
			errs: []string{`watch: protocol error: event of unknown type "WEIRD"`}, log: relisted, want: a2,
		},
		"an event that names its object, and has none": {
			lists:   []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), good},
			watches: []rig.Stream{{Events: []lw.WatchEvent[*rig.Widget]{{Type: watch.Modified, Identity: &lw.Meta{Namespace: "default", Name: "a"}, ResourceVersion: "15"}}, Open: true}, rig.Forever()},
			errs:    []string{"watch: protocol error: MODIFIED event of default/a without an object"}, log: relisted, want: a2,
		},
		"an event of an object without a name": {
			lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), good}, watches: []rig.Stream{event(watch.Added, nameless, "15"), rig.Forever()},
			errs: []string{"watch: protocol error: ADDED event of an object without a name"}, log: relisted, want: a2,
		},
		"an event without an object": {
			lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), good}, watches: []rig.Stream{event(watch.Modified, nil, "15"), rig.Forever()},
			errs: []string{"watch: protocol error: MODIFIED event of an object without a name"}, log: relisted, want: a2,
		},
		"a deletion of nobody knows what": {
			lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), good}, watches: []rig.Stream{event(watch.Deleted, nil, "15"), rig.Forever()},
			errs: []string{"watch: protocol error: DELETED event of an object without a name"}, log: relisted, want: a2,
		},
		"an event without a version": {
			lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), good}, watches: []rig.Stream{event(watch.Modified, rig.Stamped("a", 9, ""), ""), rig.Forever()},
			errs: []string{"watch: protocol error: MODIFIED event of default/a without a resource version"}, log: relisted, want: a2,
		},
		"an event of an older version": {
			lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), good}, watches: []rig.Stream{event(watch.Modified, rig.Stamped("a", 9, "8"), "8"), rig.Forever()},
			errs: []string{"watch: protocol error: MODIFIED event of default/a at resource version 8 came after 10"}, log: relisted, want: a2,
		},
		"an update of what was never there": {
			lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), good}, watches: []rig.Stream{event(watch.Modified, rig.Stamped("x", 9, "15"), "15"), rig.Forever()},
			errs: []string{"watch: protocol error: MODIFIED event of default/x, which was not there"}, log: relisted, want: a2,
		},
		"an object that is added twice": {
			lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), good}, watches: []rig.Stream{event(watch.Added, rig.Stamped("a", 9, "15"), "15"), rig.Forever()},
			errs: []string{"watch: protocol error: ADDED event of default/a, which was there already"}, log: relisted, want: a2,
		},
		"a change of the version that the object has": {
			lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "10")), good}, watches: []rig.Stream{event(watch.Modified, rig.Stamped("a", 9, "10"), "10"), rig.Forever()},
			errs: []string{"watch: protocol error: MODIFIED event of default/a at resource version 10 came after 10"}, log: relisted, want: a2,
		},
		"a change of the list's version, of an object that is not there": {
			lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), good}, watches: []rig.Stream{event(watch.Modified, rig.Stamped("x", 9, "10"), "10"), rig.Forever()},
			errs: []string{"watch: protocol error: MODIFIED event of default/x at resource version 10 came after 10"}, log: relisted, want: a2,
		},
		"an event of an older version that cannot be decoded": {
			lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), good}, watches: []rig.Stream{{Events: []lw.WatchEvent[*rig.Widget]{broken(rig.Key("a"), "8")}, Open: true}, rig.Forever()},
			errs: []string{"watch: protocol error: MODIFIED event of default/a at resource version 8 came after 10"}, log: relisted, want: a2,
		},
		"a deletion of what was never there": {
			lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), good}, watches: []rig.Stream{event(watch.Deleted, rig.Stamped("x", 9, "15"), "15"), rig.Forever()},
			errs: []string{"watch: protocol error: DELETED event of default/x, which was not there"}, log: relisted, want: a2,
		},
		"an event of an object that cannot be decoded": {
			lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9"))}, watches: []rig.Stream{{Events: []lw.WatchEvent[*rig.Widget]{broken(rig.Key("b"), "15")}, Open: true}},
			errs: []string{"decode default/b: not a widget"}, aside: []lw.Key{rig.Key("b")},
			log: []string{"list limit 500", "watch 10"}, want: a1,
		},
		// Only a list can say what it was about.
		"an event of an object that nobody can name": {
			lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), good}, watches: []rig.Stream{{Events: []lw.WatchEvent[*rig.Widget]{broken(lw.Key{}, "15")}, Open: true}, rig.Forever()},
			errs: []string{"watch: protocol error: MODIFIED event of an object without a name: lw: decode: not a widget"}, log: relisted, want: a2,
		},
	} {
		rig.Bubble(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: tc.lists, Watches: tc.watches}
			errs := &rig.Errors{}
			inf := lw.NewInformer[*rig.Widget](src, &lw.Options{Name: "widgets", List: lw.ListPages, OnError: errs.Add})
			s := rig.NewStory(t)
			inf.AddHandler(s.Handler())
			rig.Start(t, inf)
			rig.Sleep(time.Minute)
			var got []string
			for _, err := range errs.All() {
				var e *lw.Error
				if !errors.As(err, &e) || e.Informer != "widgets" {
					t.Fatalf("%v is not an *Error of this informer", err)
				}
				got = append(got, e.Error()[len("lw: widgets: "):])
			}
			if diff := cmp.Diff(tc.errs, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.log, src.Log()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			status := inf.Status()
			for _, key := range tc.aside {
				if status.SetAside[key] == nil {
					t.Errorf("%q is not set aside", key)
				}
			}
			if len(status.SetAside) != len(tc.aside) || !status.Synced || status.Phase != "watching" || status.Err != nil {
				t.Errorf("status: %+v", status)
			}
			if diff := cmp.Diff(tc.want, rig.Sizes(inf.Store())); diff != "" {
				t.Errorf("store (-want +got):\n%s", diff)
			}
			rig.MustAddUp(t, s, tc.want)
		})
	}
}

// The same among the initial events of a streamed list.
func TestBadInitialEvents(t *testing.T) {
	end := lw.WatchEvent[*rig.Widget]{Type: watch.Bookmark, ResourceVersion: "20", InitialEventsEnd: true}
	initial := func(events ...lw.WatchEvent[*rig.Widget]) rig.Stream {
		return rig.Stream{Events: append(events, end), Open: true}
	}
	bad := &lw.Error{Op: "decode", Key: rig.Key("b"), Err: errors.New("not a widget")}
	for name, tc := range map[string]struct {
		stream rig.Stream
		errs   []string
		aside  int
		want   map[lw.Key]int
	}{
		"an object without a name": {
			initial(rig.Added("a", "19"), rig.Added("", "15")), []string{"decode default/: the object has no name"}, 1, map[lw.Key]int{rig.Key("a"): 1},
		},
		"an event without an object": {
			initial(lw.WatchEvent[*rig.Widget]{Type: watch.Added, ResourceVersion: "15"}, rig.Added("a", "19")),
			[]string{"decode: the object is nil"}, 1, map[lw.Key]int{rig.Key("a"): 1},
		},
		"an object that cannot be decoded": {
			initial(lw.WatchEvent[*rig.Widget]{Type: watch.Added, ResourceVersion: "15", Err: bad}, rig.Added("a", "19")),
			[]string{"decode default/b: not a widget"}, 1, map[lw.Key]int{rig.Key("a"): 1},
		},
		"one that was bad and is good": {
			initial(lw.WatchEvent[*rig.Widget]{Type: watch.Added, ResourceVersion: "15", Err: bad}, lw.WatchEvent[*rig.Widget]{Type: watch.Modified, Object: rig.Stamped("b", 3, "19"), ResourceVersion: "19"}),
			nil, 0, map[lw.Key]int{rig.Key("b"): 3},
		},
		"one that was good and is bad": {
			initial(rig.Added("a", "14"), rig.Added("b", "15"), lw.WatchEvent[*rig.Widget]{Type: watch.Modified, ResourceVersion: "19", Err: bad}),
			[]string{"decode default/b: not a widget"}, 1, map[lw.Key]int{rig.Key("a"): 1},
		},
		"two of one key": {
			initial(rig.Added("a", "15"), rig.Added("a", "19")),
			[]string{"stream default/a: protocol error: the list holds this key twice"}, 0, map[lw.Key]int{rig.Key("a"): 1},
		},
		// It may be of the object that nobody can name.
		"a change of what may have come": {
			initial(rig.Added("a", "14"), lw.WatchEvent[*rig.Widget]{Type: watch.Added, ResourceVersion: "15", Err: errors.New("what is it")},
				lw.WatchEvent[*rig.Widget]{Type: watch.Modified, Object: rig.Stamped("x", 3, "19"), ResourceVersion: "19"}),
			[]string{"decode: what is it"}, 1, map[lw.Key]int{rig.Key("a"): 1, rig.Key("x"): 3},
		},
		"changes among them": {
			initial(rig.Added("a", "15"), rig.Added("b", "16"), lw.WatchEvent[*rig.Widget]{Type: watch.Modified, Object: rig.Stamped("a", 5, "17"), ResourceVersion: "17"}, lw.WatchEvent[*rig.Widget]{Type: watch.Deleted, Object: rig.Stamped("b", 1, "18"), ResourceVersion: "18"}),
			nil, 0, map[lw.Key]int{rig.Key("a"): 5},
		},
	} {
		rig.Bubble(t, name, func(t *testing.T) {
			errs := &rig.Errors{}
			src := &rig.Script{OnStream: func() rig.Stream { return tc.stream }}
			inf := rig.Run(t, src, &lw.Options{Name: "widgets", OnError: errs.Add})
			var got []string
			for _, err := range errs.All() {
				got = append(got, fmt.Sprint(err)[len("lw: widgets: "):])
			}
			if diff := cmp.Diff(tc.errs, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, rig.Sizes(inf.Store())); diff != "" {
				t.Errorf("store (-want +got):\n%s", diff)
			}
			if s := inf.Status(); len(s.SetAside) != tc.aside || s.ResourceVersion != "20" || s.Phase != "watching" {
				t.Errorf("status: %+v", s)
			}
		})
	}
	rig.Bubble(t, "an event of an unknown type", func(t *testing.T) {
		errs := &rig.Errors{}
		weird := rig.Stream{Events: []lw.WatchEvent[*rig.Widget]{{Type: "WEIRD", Object: rig.Stamped("a", 1, "9"), ResourceVersion: "9"}}}
		src := &rig.Script{Lists: []rig.Reply{rig.List("20", rig.Stamped("a", 2, "19"))}, OnStream: func() rig.Stream { return weird }}
		inf := rig.RunFor(t, src, &lw.Options{OnError: errs.Add}, 10*time.Minute)
		if diff := cmp.Diff(map[lw.Key]int{rig.Key("a"): 2}, rig.Sizes(inf.Store())); diff != "" {
			t.Errorf("store (-want +got):\n%s", diff)
		}
		errs.MustHave(t, `unknown type "WEIRD"`)
		if n := len(src.Requests()); n > 10 {
			t.Errorf("%d requests: %v", n, src.Log())
		}
	})
}

// A change of before among the initial events ends the stream. It used to be taken for the object that it shows, and where a
// Transform leaves objects out the server may have changed an object that nobody behind it knows.
func TestOldInitialEvents(t *testing.T) {
	modified := func(name string, size int, rv string) lw.WatchEvent[*rig.Widget] {
		return lw.WatchEvent[*rig.Widget]{Type: watch.Modified, Object: rig.Stamped(name, size, rv), ResourceVersion: rv}
	}
	deleted := func(name, rv string) lw.WatchEvent[*rig.Widget] {
		return lw.WatchEvent[*rig.Widget]{Type: watch.Deleted, Object: rig.Stamped(name, 1, rv), ResourceVersion: rv}
	}
	end := lw.WatchEvent[*rig.Widget]{Type: watch.Bookmark, ResourceVersion: "20", InitialEventsEnd: true}
	for name, tc := range map[string]struct {
		events []lw.WatchEvent[*rig.Widget]
		plain  string         // the error; "": nothing is wrong
		behind string         // the same behind a transform that leaves out what has size 0
		want   map[lw.Key]int // where nothing is wrong
	}{
		"before anything has come": {
			[]lw.WatchEvent[*rig.Widget]{modified("x", 9, "1"), rig.Added("a", "15")},
			"MODIFIED event of default/x, which was not there",
			"MODIFIED event of default/x, which was not there", nil,
		},
		"of an object that has come": {
			[]lw.WatchEvent[*rig.Widget]{rig.Added("a", "15"), modified("a", 9, "14")},
			"MODIFIED event of default/a at resource version 14 came after 15",
			"MODIFIED event of default/a at resource version 14 came after 15", nil,
		},
		"of the version that has come": {
			[]lw.WatchEvent[*rig.Widget]{rig.Added("a", "15"), modified("a", 9, "15")},
			"MODIFIED event of default/a at resource version 15 came after 15",
			"MODIFIED event of default/a at resource version 15 came after 15", nil,
		},
		"of an object that is no more": {
			[]lw.WatchEvent[*rig.Widget]{rig.Added("a", "15"), modified("x", 9, "14")},
			"MODIFIED event of default/x at resource version 14 came after 15",
			"MODIFIED event of default/x at resource version 14 came after 15", nil,
		},
		"a deletion": {
			[]lw.WatchEvent[*rig.Widget]{rig.Added("a", "15"), rig.Added("b", "11"), deleted("b", "12")},
			"DELETED event of default/b at resource version 12 came after 15",
			"DELETED event of default/b at resource version 12 came after 15", nil,
		},
		"the object itself, after its change": {
			[]lw.WatchEvent[*rig.Widget]{rig.Added("a", "15"), modified("a", 9, "16"), rig.Added("a", "15")},
			"ADDED event of default/a at resource version 15 came after 16",
			"ADDED event of default/a at resource version 15 came after 16", nil,
		},
		"of an object that is left out": {
			[]lw.WatchEvent[*rig.Widget]{
				{Type: watch.Added, Object: rig.Stamped("b", 0, "17"), ResourceVersion: "17"}, rig.Added("a", "15"), modified("b", 9, "18"),
			},
			"", "", map[lw.Key]int{rig.Key("a"): 1, rig.Key("b"): 9},
		},
		"of an object that has not come": {
			[]lw.WatchEvent[*rig.Widget]{rig.Added("a", "15"), modified("x", 9, "16")},
			"MODIFIED event of default/x, which was not there", "", map[lw.Key]int{rig.Key("a"): 1, rig.Key("x"): 9},
		},
		"of two objects at once": {
			[]lw.WatchEvent[*rig.Widget]{rig.Added("a", "15"), rig.Added("b", "14"), modified("a", 3, "16"), modified("b", 4, "16")},
			"", "", map[lw.Key]int{rig.Key("a"): 3, rig.Key("b"): 4},
		},
	} {
		check := func(t *testing.T, err string, wrap func(lw.Source[*rig.Widget]) lw.Source[*rig.Widget]) {
			synctest.Test(t, func(t *testing.T) {
				var wantErrs []string
				want := tc.want
				streams := []rig.Stream{{Events: append(tc.events, end), Open: true}}
				if err != "" {
					wantErrs = []string{"lw: widgets: stream: protocol error: " + err}
					want = map[lw.Key]int{rig.Key("a"): 2}
					again := lw.WatchEvent[*rig.Widget]{Type: watch.Added, Object: rig.Stamped("a", 2, "19"), ResourceVersion: "19"}
					streams = append(streams, rig.Stream{Events: []lw.WatchEvent[*rig.Widget]{again, end}, Open: true})
				}
				src := &rig.Script{OnStream: func() rig.Stream {
					next := streams[0]
					streams = streams[1:]
					return next
				}}
				errs := &rig.Errors{}
				inf := rig.Run(t, wrap(src), &lw.Options{Name: "widgets", OnError: errs.Add})
				var got []string
				for _, err := range errs.All() {
					got = append(got, err.Error())
				}
				if diff := cmp.Diff(wantErrs, got); diff != "" {
					t.Errorf("errors (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(want, rig.Sizes(inf.Store())); diff != "" {
					t.Errorf("store (-want +got):\n%s", diff)
				}
			})
		}
		t.Run(name, func(t *testing.T) {
			check(t, tc.plain, func(src lw.Source[*rig.Widget]) lw.Source[*rig.Widget] { return src })
		})
		t.Run(name+", behind a transform", func(t *testing.T) {
			check(t, tc.behind, func(src lw.Source[*rig.Widget]) lw.Source[*rig.Widget] {
				return lw.Transform(src, func(w *rig.Widget) (*rig.Widget, error) {
					if w.Size == 0 {
						return nil, nil
					}
					return w, nil
				})
			})
		})
	}
}

// What is gone need not be read, if it is told what it is and when; otherwise it is a bad object as any, or a reason to list.
func TestDeletionThatCannotBeDecoded(t *testing.T) {
	gone := func(name, rv string) lw.WatchEvent[*rig.Widget] {
		return lw.WatchEvent[*rig.Widget]{Type: "DELETED", ResourceVersion: rv, Err: &lw.Error{Op: "decode", Key: lw.Key{Namespace: "default", Name: name}, Err: errors.New("not a widget")}}
	}
	first, second := rig.List("10", rig.Stamped("a", 1, "8"), rig.Stamped("b", 1, "9")), rig.List("30", rig.Stamped("b", 2, "20"))
	for name, tc := range map[string]struct {
		event lw.WatchEvent[*rig.Widget]
		log   []string
		want  map[string]int
		rv    string
		aside int
	}{
		"with key and version": {gone("a", "11"), []string{"list limit 500", "watch 10"}, map[string]int{"b": 1}, "11", 0},
		"without a version":    {gone("a", ""), []string{"list limit 500", "watch 10"}, map[string]int{"a": 1, "b": 1}, "10", 1},
		"which ends the watch": {gone("a", ""), []string{"list limit 500", "watch 10", "watch 10"}, map[string]int{"a": 1, "b": 1}, "10", 1},
		"without a name":       {gone("", "11"), []string{"list limit 500", "watch 10", "list limit 500", "watch 30"}, map[string]int{"b": 2}, "30", 0},
	} {
		rig.Bubble(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: []rig.Reply{first, second}, Watches: []rig.Stream{rig.Events(tc.event), rig.Forever()}}
			src.Watches[0].Open = name != "which ends the watch"
			inf, errs := rig.Paged(t, src, 5*time.Second)
			rig.MustLog(t, src, tc.log...)
			rig.MustHold(t, inf.Store(), tc.rv, tc.want)
			if name != "with key and version" {
				errs.MustHave(t, "not a widget")
			}
			if n := len(inf.Status().SetAside); n != tc.aside {
				t.Errorf("%d are set aside", n)
			}
		})
	}
}
