package lw_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// A list that has objects, but none that can be used, is no sync and no reason to forget what there was: it is of something
// else, or of a version of it that nobody here can read.
func TestUselessList(t *testing.T) {
	broken := func(name string) error {
		return &lw.Error{Op: "decode", Key: key(name), Err: errors.New("the size of " + name + " is a text")}
	}
	useless := func(n int) (r reply, s stream) {
		r.meta.ResourceVersion = "20"
		for i := range n {
			err := broken(fmt.Sprint("w", i))
			r.bad = append(r.bad, err)
			s.events = append(s.events, lw.WatchEvent[*Widget]{Type: watch.Added, ResourceVersion: "15", Err: err})
		}
		s.events, s.open = append(s.events, end("20")), true
		return r, s
	}
	for name, tc := range map[string]struct {
		n    int
		want string
	}{
		"one":  {1, "the list has one object, which cannot be used: decode default/w0: the size of w0 is a text"},
		"two":  {2, "the list has 2 objects, of which none can be used, such as: decode default/w0: the size of w0 is a text; decode default/w1: the size of w1 is a text"},
		"many": {5000, "the list has 5000 objects, of which none can be used, such as: decode default/w0: the size of w0 is a text; decode default/w1: the size of w1 is a text; decode default/w10: the size of w10 is a text"},
	} {
		pages, streams := useless(tc.n)
		for mode, src := range map[string]*script{
			"pages":  {list: func() reply { return pages }},
			"stream": {list: func() reply { return pages }, stream: func() stream { return streams }},
		} {
			t.Run(name+" in a "+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var errs errorLog
					opts := &lw.Options{Name: "widgets", OnError: errs.add}
					if mode == "pages" {
						opts.List = lw.ListPages
					}
					inf := lw.NewInformer[*Widget](src, opts)
					start(t, inf)
					sleep(time.Minute)
					s := inf.Status()
					if s.Synced || len(s.SetAside) != 0 || s.Failures < 3 {
						t.Errorf("status: %+v", s)
					}
					if s.Err == nil || !strings.HasSuffix(s.Err.Error(), ": "+tc.want) {
						t.Errorf("error %v, want %q", s.Err, tc.want)
					}
					var e *lw.Error
					if !errors.As(errors.Unwrap(s.Err), &e) || e.Key != key("w0") {
						t.Errorf("the error does not unwrap to the object's: %v", e)
					}
					if n := len(errs.all()); n < s.Failures || n > s.Failures+2 { // with the streams that pages followed at once
						t.Errorf("%d errors for %d failures", n, s.Failures)
					}
				})
			})
		}
	}
}

// What there was stays, with its version, until there is a list that can be used.
func TestUselessRelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := reply{bad: []error{&lw.Error{Op: "decode", Key: key("a"), Err: errors.New("not a widget")}}, meta: metav1.ListMeta{ResourceVersion: "20"}}
		src := &script{
			lists:   []reply{list("10", stamped("a", 1, "8"), stamped("b", 1, "9")), bad, bad, list("30", stamped("a", 2, "25"))},
			watches: []stream{expiredAfter(time.Minute), forever()},
		}
		inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: func(int) time.Duration { return time.Minute }})
		got := &calls{}
		inf.AddHandler(got.handler())
		start(t, inf)
		sleep(90 * time.Second)
		mustHold(t, inf.Store(), "10", map[string]int{"a": 1, "b": 1})
		if s := inf.Status(); !s.Synced || s.Failures == 0 {
			t.Errorf("status: %+v", s)
		}
		sleep(2 * time.Minute)
		mustHold(t, inf.Store(), "30", map[string]int{"a": 2})
		got.sorted(t, "add a1", "add b1", "delete b1", "synced", "update a1 a2")
	})
}

// What a Transform leaves out could be used; so could what a list has beside a bad object.
func TestUsableLists(t *testing.T) {
	drop := func(src lw.Source[*Widget]) lw.Source[*Widget] {
		return lw.Transform(src, func(w *Widget) (*Widget, error) {
			switch w.Size {
			case 0:
				return nil, nil
			case 9:
				return nil, errors.New("nine")
			}
			return w, nil
		})
	}
	sized := func(name string, size int) lw.WatchEvent[*Widget] {
		return lw.WatchEvent[*Widget]{Type: watch.Added, Object: stamped(name, size, "9"), ResourceVersion: "9"}
	}
	for name, src := range map[string]*script{
		"left out of pages":    {lists: []reply{list("10", stamped("a", 0, "8"), stamped("b", 9, "9"))}},
		"left out of a stream": {stream: func() stream { return events(sized("a", 0), sized("b", 9), end("10")) }},
		"good in pages":        {lists: []reply{list("10", stamped("a", 1, "8"), stamped("b", 9, "9"))}},
		"good in a stream":     {stream: func() stream { return events(sized("a", 1), sized("b", 9), end("10")) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mode := lw.ListPages
				if src.stream != nil {
					mode = lw.ListStream
				}
				inf := run(t, drop(drop(src)), &lw.Options{List: mode, OnError: func(error) {}})
				want := map[lw.Key]int{}
				if strings.HasPrefix(name, "good") {
					want[key("a")] = 1
				}
				if diff := cmp.Diff(want, sizes(inf.Store())); diff != "" {
					t.Errorf("store (-want +got):\n%s", diff)
				}
				if s := inf.Status(); len(s.SetAside) != 1 || s.Failures != 0 {
					t.Errorf("status: %+v", s)
				}
			})
		})
	}
}

// Of objects without a key the first few reasons are told, and how many there are.
func TestObjectsWithoutAKey(t *testing.T) {
	bad := func(texts ...string) (errs []error) {
		for _, text := range texts {
			errs = append(errs, errors.New(text))
		}
		return errs
	}
	for want, errs := range map[string][]error{
		"one":                            bad("one"),
		"one; two":                       bad("one", "two"),
		"one (and 2 more without a key)": bad("one", "one", "one"),
		"one; two; three (and 3 more without a key)": bad("one", "two", "one", "three", "four", "five"),
		strings.Repeat("x", 300) + "...; two":        bad(strings.Repeat("x", 100_000), "two"),
	} {
		t.Run(want[:3], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &script{lists: []reply{{obj: []*Widget{stamped("a", 1, "9")}, bad: errs, meta: metav1.ListMeta{ResourceVersion: "10"}}}}
				inf, log := paged(t, src, time.Second)
				if len(errs) == 1 {
					want = "lw: Widget: decode: one"
				} else {
					want = "lw: Widget: decode: " + want
				}
				if len(log.all()) != 1 || log.all()[0].Error() != want {
					t.Errorf("errors %v, want %q", log.all(), want)
				}
				if strings.Contains(want, ";") {
					for _, err := range errs[:2] {
						if !errors.Is(inf.Status().SetAside[lw.Key{}], err) {
							t.Errorf("%.20v is not in %v", err, inf.Status().SetAside)
						}
					}
				}
			})
		})
	}
}
