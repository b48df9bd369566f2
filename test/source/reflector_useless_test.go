package source_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// A list that has objects, but none that can be used, is no sync and no reason to forget what there
// was: it is of something else, or of a version of it that nobody here can read.
func TestUselessList(t *testing.T) {
	broken := func(name string) error {
		return &lw.Error{Op: "decode", Key: rig.Key(name), Err: errors.New("the size of " + name + " is a text")}
	}
	useless := func(n int) (r rig.Reply, s rig.Stream) {
		r.Meta.ResourceVersion = "20"
		for i := range n {
			err := broken(fmt.Sprint("w", i))
			r.Bad = append(r.Bad, err)
			s.Events = append(s.Events, lw.WatchEvent[*rig.Widget]{Type: watch.Added, ResourceVersion: "15", Err: err})
		}
		s.Events, s.Open = append(s.Events, rig.End("20")), true
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
		for mode, src := range map[string]*rig.Script{
			"pages":  {OnList: func() rig.Reply { return pages }},
			"stream": {OnList: func() rig.Reply { return pages }, OnStream: func() rig.Stream { return streams }},
		} {
			rig.Subtest(t, name+" in a "+mode, func(t *testing.T) {
				var errs rig.Errors
				opts := &lw.Options{Name: "widgets", OnError: errs.Add}
				if mode == "pages" {
					opts.List = lw.ListPages
				}
				inf := lw.NewInformer[*rig.Widget](src, opts)
				rig.Start(t, inf)
				rig.Sleep(time.Minute)
				s := inf.Status()
				if s.Synced || len(s.SetAside) != 0 || s.Failures < 3 {
					t.Errorf("status: %+v", s)
				}
				if s.Err == nil || !strings.HasSuffix(s.Err.Error(), ": "+tc.want) {
					t.Errorf("error %v, want %q", s.Err, tc.want)
				}
				var e *lw.Error
				if !errors.As(errors.Unwrap(s.Err), &e) || e.Key != rig.Key("w0") {
					t.Errorf("the error does not unwrap to the object's: %v", e)
				}
				if n := len(errs.All()); n < s.Failures || n > s.Failures+2 { // with the streams that pages followed at once
					t.Errorf("%d errors for %d failures", n, s.Failures)
				}
			})
		}
	}
}

// What there was stays, with its version, until there is a list that can be used.
func TestUselessRelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := rig.Reply{Bad: []error{&lw.Error{Op: "decode", Key: rig.Key("a"), Err: errors.New("not a widget")}}, Meta: metav1.ListMeta{ResourceVersion: "20"}}
		src := &rig.Script{
			Lists:   []rig.Reply{rig.List("10", rig.Stamped("a", 1, "8"), rig.Stamped("b", 1, "9")), bad, bad, rig.List("30", rig.Stamped("a", 2, "25"))},
			Watches: []rig.Stream{rig.ExpiredAfter(time.Minute), rig.Forever()},
		}
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: func(int) time.Duration { return time.Minute }})
		got := &rig.Calls{}
		inf.AddHandler(got.Handler())
		rig.Start(t, inf)
		rig.Sleep(90 * time.Second)
		rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 1, "b": 1})
		if s := inf.Status(); !s.Synced || s.Failures == 0 {
			t.Errorf("status: %+v", s)
		}
		rig.Sleep(2 * time.Minute)
		rig.MustHold(t, inf.Store(), "30", map[string]int{"a": 2})
		got.Sorted(t, "add a1", "add b1", "delete b1", "synced", "update a1 a2")
	})
}

// What a Transform leaves out could be used; so could what a list has beside a bad object.
func TestUsableLists(t *testing.T) {
	drop := func(src lw.Source[*rig.Widget]) lw.Source[*rig.Widget] {
		return lw.Transform(src, func(w *rig.Widget) (*rig.Widget, error) {
			switch w.Size {
			case 0:
				return nil, nil
			case 9:
				return nil, errors.New("nine")
			}
			return w, nil
		})
	}
	sized := func(name string, size int) lw.WatchEvent[*rig.Widget] {
		return lw.WatchEvent[*rig.Widget]{Type: watch.Added, Object: rig.Stamped(name, size, "9"), ResourceVersion: "9"}
	}
	for name, src := range map[string]*rig.Script{
		"left out of pages":    {Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 0, "8"), rig.Stamped("b", 9, "9"))}},
		"left out of a stream": {OnStream: func() rig.Stream { return rig.Events(sized("a", 0), sized("b", 9), rig.End("10")) }},
		"good in pages":        {Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "8"), rig.Stamped("b", 9, "9"))}},
		"good in a stream":     {OnStream: func() rig.Stream { return rig.Events(sized("a", 1), sized("b", 9), rig.End("10")) }},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			mode := lw.ListPages
			if src.OnStream != nil {
				mode = lw.ListStream
			}
			inf := rig.Run(t, drop(drop(src)), &lw.Options{List: mode, OnError: func(error) {}})
			want := map[lw.Key]int{}
			if strings.HasPrefix(name, "good") {
				want[rig.Key("a")] = 1
			}
			rig.Same(t, "store", want, rig.Sizes(inf.Store()))
			if s := inf.Status(); len(s.SetAside) != 1 || s.Failures != 0 {
				t.Errorf("status: %+v", s)
			}
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
		rig.Subtest(t, want[:3], func(t *testing.T) {
			src := &rig.Script{Lists: []rig.Reply{{Obj: []*rig.Widget{rig.Stamped("a", 1, "9")}, Bad: errs, Meta: metav1.ListMeta{ResourceVersion: "10"}}}}
			inf, log := rig.Paged(t, src, time.Second)
			if len(errs) == 1 {
				want = "lw: Widget: decode: one"
			} else {
				want = "lw: Widget: decode: " + want
			}
			if len(log.All()) != 1 || log.All()[0].Error() != want {
				t.Errorf("errors %v, want %q", log.All(), want)
			}
			if strings.Contains(want, ";") {
				for _, err := range errs[:2] {
					if !errors.Is(inf.Status().SetAside[lw.Key{}], err) {
						t.Errorf("%.20v is not in %v", err, inf.Status().SetAside)
					}
				}
			}
		})
	}
}
