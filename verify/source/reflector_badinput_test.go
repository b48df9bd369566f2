package source_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// What no server and no source should send: each case says what is reported, what is set aside, and
// which requests follow. In all of them the informer ends with what the last list holds, and pauses
// between its attempts.
func TestBadInput(t *testing.T) {
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	refused := errors.New("dial tcp: connection refused")
	good := listed("20", "a2@19")
	event := func(typ watch.EventType, w *rig.Widget, rv string) rig.Stream {
		return rig.Events(widgetEvent{Type: typ, Object: w, ResourceVersion: rv})
	}
	broken := func(key lw.Key, rv string) widgetEvent {
		err := &lw.Error{Op: "decode", Key: key, Err: errors.New("not a widget")}
		return widgetEvent{Type: watch.Modified, ResourceVersion: rv, Err: err}
	}
	nameless := rig.Stamped("", 9, "15")
	a1, a2 := sizes("a1"), sizes("a2")

	before := listed("10", "a1@9")
	type badInput struct {
		lists   []rig.Reply
		watches []rig.Stream
		errs    []string // "op key: text" of each
		aside   []lw.Key
		log     []string
		want    map[lw.Key]int
	}
	// A watch that breaks the protocol after the first list is followed by another list.
	relist := func(first rig.Reply, watch rig.Stream, err string) badInput {
		return badInput{
			lists: []rig.Reply{first, good}, watches: []rig.Stream{watch, rig.Forever()},
			errs: []string{"watch: protocol error: " + err},
			log:  []string{"list limit 500", "watch 10", "list limit 500", "watch 20"}, want: a2,
		}
	}
	// A list that is as good as can be is believed.
	believed := func(list rig.Reply, err string, aside ...lw.Key) badInput {
		return badInput{lists: []rig.Reply{list}, errs: []string{err}, aside: aside, log: []string{"list limit 500",
			"watch 20"}, want: a2}
	}
	with := func(bad ...error) rig.Reply { return rig.Reply{Obj: good.Obj, Meta: good.Meta, Bad: bad} }
	// A request that fails is made again.
	failed := func(err error, text string) badInput {
		return badInput{
			lists: []rig.Reply{{Err: err}, good}, errs: []string{"list: " + text}, log: []string{"list limit 500",
				"list limit 500", "watch 20"}, want: a2,
		}
	}
	for name, tc := range map[string]badInput{
		"a list is forbidden": failed(apierrors.NewForbidden(widgets, "", errors.New("no role")),
			`widgets.example.com is forbidden: no role`),
		"the collection is not found": failed(apierrors.NewNotFound(widgets, ""), `widgets.example.com "" not found`),
		"the server is unreachable":   failed(refused, `dial tcp: connection refused`),
		"a watch is forbidden": {
			lists: []rig.Reply{good}, watches: []rig.Stream{{Err: apierrors.NewForbidden(widgets, "", errors.New("no role"))},
				rig.Forever()},
			errs: []string{`watch: the list is answered, but the watch is refused, so that only lists show changes: widgets.example.com is forbidden: no role`},
			log:  []string{"list limit 500", "watch 20", "watch 20", "list limit 1", "watch 20"}, want: a2,
		},
		"an object without a name in a list": believed(rig.List("20", rig.Stamped("a", 2, "19"), nameless),
			"decode default/: the object has no name", lw.Key{Namespace: "default"}),
		"a nil object in a list": believed(rig.List("20", nil, rig.Stamped("a", 2, "19"), nil),
			"decode: the object is nil (and 1 more without a key)", lw.Key{}),
		"objects of a list that nobody can name": believed(with(errors.New("bad one"), errors.New("bad two")),
			"decode: bad one; bad two", lw.Key{}),
		"an object of a list that cannot be decoded": believed(with(broken(rig.Key("b"), "").Err),
			"decode default/b: not a widget", rig.Key("b")),
		"two items of a list with one key": believed(listed("20", "a2@19 a1@18"),
			"list default/a: protocol error: the list holds this key twice"),
		"a page that continues with itself": {
			lists: []rig.Reply{{Obj: good.Obj, Meta: metav1.ListMeta{ResourceVersion: "20", Continue: "x"}},
				{Meta: metav1.ListMeta{ResourceVersion: "20", Continue: "x"}}, good},
			errs: []string{"list: protocol error: a page continues with itself"},
			log:  []string{"list limit 500", "list limit 500 continue x", "list limit 500", "watch 20"}, want: a2,
		},
		"an event of an unknown type": relist(before, event("WEIRD", rig.Stamped("a", 9, "15"), "15"),
			`event of unknown type "WEIRD"`),
		"an event that names its object, and has none": relist(before,
			rig.Events(widgetEvent{Type: watch.Modified, Identity: &lw.Meta{Namespace: "default", Name: "a"},
				ResourceVersion: "15"}),
			"MODIFIED event of default/a without an object"),
		"an event of an object without a name": relist(before, event(watch.Added, nameless, "15"),
			"ADDED event of an object without a name"),
		"an event without an object": relist(before, event(watch.Modified, nil, "15"),
			"MODIFIED event of an object without a name"),
		"a deletion of nobody knows what": relist(before, event(watch.Deleted, nil, "15"),
			"DELETED event of an object without a name"),
		"an event without a version": relist(before, event(watch.Modified, rig.Stamped("a", 9, ""), ""),
			"MODIFIED event of default/a without a resource version"),
		"an event of an older version": relist(before, event(watch.Modified, rig.Stamped("a", 9, "8"), "8"),
			"MODIFIED event of default/a at resource version 8 came after 10"),
		"an update of what was never there": relist(before, event(watch.Modified, rig.Stamped("x", 9, "15"), "15"),
			"MODIFIED event of default/x, which was not there"),
		"an object that is added twice": relist(before, event(watch.Added, rig.Stamped("a", 9, "15"), "15"),
			"ADDED event of default/a, which was there already"),
		"a change of the version that the object has": relist(listed("10", "a1@10"),
			event(watch.Modified, rig.Stamped("a", 9, "10"), "10"),
			"MODIFIED event of default/a at resource version 10 came after 10"),
		"a change of the list's version, of an object that is not there": relist(before,
			event(watch.Modified, rig.Stamped("x", 9, "10"), "10"),
			"MODIFIED event of default/x at resource version 10 came after 10"),
		"an event of an older version that cannot be decoded": relist(before, rig.Events(broken(rig.Key("a"), "8")),
			"MODIFIED event of default/a at resource version 8 came after 10"),
		"a deletion of what was never there": relist(before, event(watch.Deleted, rig.Stamped("x", 9, "15"), "15"),
			"DELETED event of default/x, which was not there"),
		"an event of an object that cannot be decoded": {
			lists: []rig.Reply{before}, watches: []rig.Stream{rig.Events(broken(rig.Key("b"), "15"))},
			errs: []string{"decode default/b: not a widget"}, aside: []lw.Key{rig.Key("b")},
			log: []string{"list limit 500", "watch 10"}, want: a1,
		},
		// Only a list can say what it was about.
		"an event of an object that nobody can name": relist(before, rig.Events(broken(lw.Key{}, "15")),
			"MODIFIED event of an object without a name: lw: decode: not a widget"),
	} {
		rig.Subtest(t, name, func(t *testing.T) {
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
			rig.Same(t, "errors", tc.errs, got)
			rig.MustLog(t, src, tc.log...)
			status := inf.Status()
			for _, key := range tc.aside {
				if status.SetAside[key] == nil {
					t.Errorf("%q is not set aside", key)
				}
			}
			rig.Same(t, "objects set aside", len(tc.aside), len(status.SetAside))
			mustSay(t, inf, func(s lw.Status) bool { return s.Synced && s.Phase == "watching" && s.Err == nil })
			rig.Same(t, "store", tc.want, rig.Sizes(inf.Store()))
			rig.MustAddUp(t, s, tc.want)
		})
	}
}

// The same among the initial events of a streamed list.
func TestBadInitialEvents(t *testing.T) {
	initial := func(events ...widgetEvent) rig.Stream {
		return rig.Events(append(events, rig.End("20"))...)
	}
	bad := &lw.Error{Op: "decode", Key: rig.Key("b"), Err: errors.New("not a widget")}
	for name, tc := range map[string]struct {
		stream rig.Stream
		errs   []string
		aside  int
		want   map[lw.Key]int
	}{
		"an object without a name": {
			initial(rig.Added("a", "19"), rig.Added("", "15")), []string{"decode default/: the object has no name"}, 1,
			sizes("a1"),
		},
		"an event without an object": {initial(widgetEvent{Type: watch.Added, ResourceVersion: "15"}, rig.Added("a", "19")),
			[]string{"decode: the object is nil"}, 1, sizes("a1")},
		"an object that cannot be decoded": {
			initial(widgetEvent{Type: watch.Added, ResourceVersion: "15", Err: bad}, rig.Added("a", "19")),
			[]string{"decode default/b: not a widget"}, 1, sizes("a1"),
		},
		"one that was bad and is good": {
			initial(widgetEvent{Type: watch.Added, ResourceVersion: "15", Err: bad}, modified("b3@19")),
			nil, 0, sizes("b3"),
		},
		"one that was good and is bad": {
			initial(rig.Added("a", "14"), rig.Added("b", "15"), widgetEvent{Type: watch.Modified, ResourceVersion: "19",
				Err: bad}),
			[]string{"decode default/b: not a widget"}, 1, sizes("a1"),
		},
		"two of one key": {initial(rig.Added("a", "15"), rig.Added("a", "19")),
			[]string{"stream default/a: protocol error: the list holds this key twice"}, 0, sizes("a1")},
		// It may be of the object that nobody can name.
		"a change of what may have come": {
			initial(rig.Added("a", "14"), widgetEvent{Type: watch.Added, ResourceVersion: "15", Err: errors.New("what is it")},
				modified("x3@19")),
			[]string{"decode: what is it"}, 1, sizes("a1 x3"),
		},
		// What changes while the list is being sent is in it, or is not, as the server says.
		"changes among them": {
			initial(rig.Added("gone", "3"), rig.Added("a", "5"), rig.Added("back", "4"), deleted("gone1@7"), modified("a5@8"),
				deleted("back1@9"), added("back3@10"), rig.Added("late", "2")),
			nil, 0, sizes("a5 back3 late1"),
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			errs := &rig.Errors{}
			src := &rig.Script{OnStream: func() rig.Stream { return tc.stream }}
			inf := rig.Run(t, src, &lw.Options{Name: "widgets", OnError: errs.Add})
			var got []string
			for _, err := range errs.All() {
				got = append(got, fmt.Sprint(err)[len("lw: widgets: "):])
			}
			rig.Same(t, "errors", tc.errs, got)
			rig.Same(t, "store", tc.want, rig.Sizes(inf.Store()))
			rig.Same(t, "objects set aside", tc.aside, len(inf.Status().SetAside))
			mustSay(t, inf, func(s lw.Status) bool { return s.ResourceVersion == "20" && s.Phase == "watching" })
		})
	}
	rig.Subtest(t, "an event of an unknown type", func(t *testing.T) {
		errs := &rig.Errors{}
		weird := rig.Stream{Events: []widgetEvent{{Type: "WEIRD", Object: rig.Stamped("a", 1, "9"), ResourceVersion: "9"}}}
		src := &rig.Script{Lists: []rig.Reply{listed("20", "a2@19")}, OnStream: func() rig.Stream { return weird }}
		inf := rig.RunFor(t, src, &lw.Options{OnError: errs.Add}, 10*time.Minute)
		rig.MustHold(t, inf.Store(), "20", map[string]int{"a": 2})
		errs.MustHave(t, `unknown type "WEIRD"`)
		within(t, "requests", 0, len(src.Requests()), 10)
	})
}

// A change of before among the initial events ends the stream. It used to be taken for the object
// that it shows, and where a Transform leaves objects out the server may have changed an object
// that nobody behind it knows.
func TestOldInitialEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		events []widgetEvent
		err    string         // "": nothing is wrong
		want   map[lw.Key]int // where nothing is wrong: with an error, behind a transform that leaves out what has size 0
	}{
		"before anything has come": {[]widgetEvent{modified("x9@1"), rig.Added("a", "15")},
			"MODIFIED event of default/x, which was not there", nil},
		"of an object that has come": {[]widgetEvent{rig.Added("a", "15"), modified("a9@14")},
			"MODIFIED event of default/a at resource version 14 came after 15", nil},
		"of the version that has come": {[]widgetEvent{rig.Added("a", "15"), modified("a9@15")},
			"MODIFIED event of default/a at resource version 15 came after 15", nil},
		"of an object that is no more": {[]widgetEvent{rig.Added("a", "15"), modified("x9@14")},
			"MODIFIED event of default/x at resource version 14 came after 15", nil},
		"a deletion": {[]widgetEvent{rig.Added("a", "15"), rig.Added("b", "11"), deleted("b1@12")},
			"DELETED event of default/b at resource version 12 came after 15", nil},
		"the object itself, after its change": {[]widgetEvent{rig.Added("a", "15"), modified("a9@16"), rig.Added("a", "15")},
			"ADDED event of default/a at resource version 15 came after 16", nil},
		"of an object that is left out": {[]widgetEvent{added("b0@17"), rig.Added("a", "15"), modified("b9@18")},
			"", sizes("a1 b9")},
		"of an object that has not come": {[]widgetEvent{rig.Added("a", "15"), modified("x9@16")},
			"MODIFIED event of default/x, which was not there", sizes("a1 x9")},
		"of two objects at once": {[]widgetEvent{rig.Added("a", "15"), rig.Added("b", "14"), modified("a3@16"),
			modified("b4@16")},
			"", sizes("a3 b4")},
	} {
		for _, behind := range []bool{false, true} {
			rig.Subtest(t, fmt.Sprint(name, ", behind a transform ", behind), func(t *testing.T) {
				var wantErrs []string
				want := tc.want
				streams := []rig.Stream{rig.Events(append(tc.events, rig.End("20"))...)}
				if tc.err != "" && !(behind && tc.want != nil) {
					wantErrs = []string{"lw: widgets: stream: protocol error: " + tc.err}
					want = sizes("a2")
					streams = append(streams, rig.Events(added("a2@19"), rig.End("20")))
				}
				var src lw.Source[*rig.Widget] = &rig.Script{OnStream: oneByOne(streams...)}
				if behind {
					src = lw.Transform(src, func(w *rig.Widget) (*rig.Widget, error) {
						if w.Size == 0 {
							return nil, nil
						}
						return w, nil
					})
				}
				errs := &rig.Errors{}
				inf := rig.Run(t, src, &lw.Options{Name: "widgets", OnError: errs.Add})
				rig.Same(t, "errors", wantErrs, errs.Texts())
				rig.Same(t, "store", want, rig.Sizes(inf.Store()))
			})
		}
	}
}

// What is gone need not be read if its key and version are told; else it is bad, or a list follows.
func TestDeletionThatCannotBeDecoded(t *testing.T) {
	gone := func(name, rv string) widgetEvent {
		return widgetEvent{Type: "DELETED", ResourceVersion: rv,
			Err: &lw.Error{Op: "decode", Key: lw.Key{Namespace: "default", Name: name}, Err: errors.New("not a widget")}}
	}
	first, second := listed("10", "a1@8 b1@9"), listed("30", "b2@20")
	for name, tc := range map[string]struct {
		event widgetEvent
		log   []string
		want  map[string]int
		rv    string
		aside int
	}{
		"with key and version": {gone("a", "11"), []string{"list limit 500", "watch 10"}, map[string]int{"b": 1}, "11", 0},
		"without a version": {gone("a", ""), []string{"list limit 500", "watch 10"},
			map[string]int{"a": 1, "b": 1}, "10", 1},
		"which ends the watch": {gone("a", ""), []string{"list limit 500", "watch 10", "watch 10"},
			map[string]int{"a": 1, "b": 1}, "10", 1},
		"without a name": {gone("", "11"), []string{"list limit 500", "watch 10", "list limit 500", "watch 30"},
			map[string]int{"b": 2}, "30", 0},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: []rig.Reply{first, second}, Watches: []rig.Stream{rig.Events(tc.event), rig.Forever()}}
			src.Watches[0].Open = name != "which ends the watch"
			inf, errs := rig.Paged(t, src, 5*time.Second)
			rig.MustLog(t, src, tc.log...)
			rig.MustHold(t, inf.Store(), tc.rv, tc.want)
			if name != "with key and version" {
				errs.MustHave(t, "not a widget")
			}
			rig.Same(t, "objects set aside", tc.aside, len(inf.Status().SetAside))
		})
	}
}
