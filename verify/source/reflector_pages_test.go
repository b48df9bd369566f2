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
	"github.com/go-lw/lw/internal/verify/rig"
)

// Paging that leads nowhere ends, and is no hot loop.
func TestEndlessPages(t *testing.T) {
	for name, tc := range map[string]struct {
		page func(n int) rig.Reply
		err  string
		most int // requests in an hour
	}{
		"tokens that alternate": {func(n int) rig.Reply { return page("10", []string{"x", "y"}[n%2], "") }, "protocol error: a page continues where an earlier one did", 450},
		"the same, with items": {func(n int) rig.Reply { return page("10", []string{"x", "y"}[n%2], fmt.Sprintf("w%c1@9", 'a'+n%26)) },
			"protocol error: a page continues where an earlier one did", 450},
		"empty pages":    {func(n int) rig.Reply { return page("10", fmt.Sprint(n), "") }, "the server made no progress", 3600},
		"the same items": {func(n int) rig.Reply { return page("10", fmt.Sprint(n), "a1@9 b1@9") }, "protocol error: two pages begin with default/a", 450},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			n := 0
			src := &rig.Script{OnList: func() rig.Reply {
				if n++; n > 2*tc.most { // no clock moves while pages follow one another at once
					return rig.Reply{Err: errors.New("the test ends here")}
				}
				return tc.page(n)
			}}
			var errs rig.Errors
			inf := rig.RunFor(t, src, &lw.Options{List: lw.ListPages, OnError: errs.Add}, time.Hour)
			at := src.Requests()
			within(t, "requests in an hour", 60, len(at), tc.most)
			if tc.page(0).Obj == nil {
				rig.MustBeBounded(t, at)
			}
			errs.MustHave(t, tc.err)
			mustSay(t, inf, func(s lw.Status) bool { return !s.Synced && s.Err != nil && s.Failures >= 10 })
		})
	}
}

// Pages may begin with objects of one name, which a Transform may make, and with what is no object.
func TestPagesThatBeginAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{Lists: []rig.Reply{
			page("10", "x", "b1@8"), page("10", "y", "c1@8"), page("10", "z", "a1@8"), page("10", "w", "a2@9"), page("10", "", ""),
		}}
		for i := range 2 {
			src.Lists[i].Obj = append([]*rig.Widget{nil}, src.Lists[i].Obj...)
		}
		src.Lists[3].Obj[0].UID = "another"
		var errs rig.Errors
		inf := rig.Run(t, src, &lw.Options{List: lw.ListPages, OnError: errs.Add})
		rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 2, "b": 1, "c": 1})
		mustCount(t, &errs, 2) // the objects that are none, and the name that comes twice
	})
}

// A page may be empty and go on: a server may look at so many objects a page, of which a selector
// takes none.
func TestEmptyPages(t *testing.T) {
	sparse := func(pages, each int, whole bool) *rig.Script {
		src := &rig.Script{}
		n := 0
		src.OnList = func() rig.Reply {
			if o := src.Options[len(src.Options)-1]; o.Continue == "" {
				if n = 0; o.Limit == 0 && whole {
					return listed("10", "all1@9")
				}
			}
			n++
			r := rig.Reply{Meta: metav1.ListMeta{ResourceVersion: "10", Continue: fmt.Sprint(n)}}
			if n%each == 0 {
				r.Obj = []*rig.Widget{rig.Stamped(fmt.Sprint("w", n), 1, "9")}
			}
			if n == pages {
				r.Meta.Continue = ""
			}
			return r
		}
		return src
	}
	rig.Subtest(t, "a few", func(t *testing.T) {
		src := sparse(16, 16, false)
		inf := rig.Run(t, src, &lw.Options{List: lw.ListPages, OnError: func(err error) { t.Error(err) }})
		rig.MustHold(t, inf.Store(), "10", map[string]int{"w16": 1})
		rig.MustBeBounded(t, src.Requests())
	})
	rig.Subtest(t, "many, with items in between", func(t *testing.T) {
		src := sparse(1000, 10, false)
		inf := rig.Run(t, src, &lw.Options{List: lw.ListPages, OnError: func(err error) { t.Error(err) }})
		rig.Same(t, "objects", 100, inf.Store().Len())
	})
	// The server need not stop where it is asked for all at once, and is asked so from then on.
	rig.Subtest(t, "many", func(t *testing.T) {
		src := sparse(100_000, 100_000, true)
		src.Watches = []rig.Stream{rig.ExpiredAfter(time.Minute), rig.Forever()}
		var errs rig.Errors
		inf := rig.Run(t, src, &lw.Options{List: lw.ListPages, OnError: errs.Add})
		rig.MustHold(t, inf.Store(), "10", map[string]int{"all": 1})
		errs.MustHave(t, "lw: Widget: list: 20 pages in a row were empty")
		n := len(src.Requests())
		rig.Same(t, "requests", 21, n)
		within(t, "time of them", 0, src.Requests()[n-1].Sub(src.Requests()[0]), 20*time.Second)
		rig.Sleep(2 * time.Minute)
		rig.Same(t, "requests after", []string{"list", "watch 10", "list", "watch 10"}, src.Log()[n-1:])
	})
	// Until that does not work either.
	rig.Subtest(t, "many, and all at once fails", func(t *testing.T) {
		src := sparse(100_000, 100_000, true)
		paged, whole := src.OnList, 0
		src.OnList = func() rig.Reply {
			if src.Options[len(src.Options)-1].Limit == 0 {
				if whole++; whole == 1 {
					return rig.Reply{Err: errors.New("too much")}
				}
			}
			return paged()
		}
		inf := rig.Run(t, src, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
		rig.MustHold(t, inf.Store(), "10", map[string]int{"all": 1})
		if log := src.Log(); len(log) < 42 || log[20] != "list" || log[21] != "list limit 500" || log[41] != "list" {
			t.Errorf("requests: %v", log)
		}
	})
	// A server that does not give more at once is waited for, as for any list that makes no progress.
	rig.Subtest(t, "many, whatever is asked for", func(t *testing.T) {
		inf := rig.Run(t, sparse(70, 70, false), &lw.Options{List: lw.ListPages, OnError: func(error) {}})
		rig.MustHold(t, inf.Store(), "10", map[string]int{"w70": 1})
	})
	// Pages whose items a Transform leaves out are not empty.
	rig.Subtest(t, "left out", func(t *testing.T) {
		src := sparse(200, 1, false)
		some := lw.Transform[*rig.Widget](src, func(w *rig.Widget) (*rig.Widget, error) {
			if w.Name != "w200" {
				return nil, nil
			}
			return w, nil
		})
		begin := time.Now()
		inf := rig.Run(t, some, &lw.Options{List: lw.ListPages, OnError: func(err error) { t.Error(err) }})
		rig.MustHold(t, inf.Store(), "10", map[string]int{"w200": 1})
		rig.Same(t, "time that it took", 0, time.Since(begin))
	})
}

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
			s.Events = append(s.Events, widgetEvent{Type: watch.Added, ResourceVersion: "15", Err: err})
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
				inf := rig.RunFor(t, src, opts, time.Minute)
				s := inf.Status()
				mustSay(t, inf, func(s lw.Status) bool { return !s.Synced && len(s.SetAside) == 0 && s.Failures >= 3 })
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
		bad := badList("20", "a", "")
		src := &rig.Script{
			Lists:   []rig.Reply{listed("10", "a1@8 b1@9"), bad, bad, listed("30", "a2@25")},
			Watches: []rig.Stream{rig.ExpiredAfter(time.Minute), rig.Forever()},
		}
		inf, got := told(t, src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: every(time.Minute)})
		rig.Sleep(90 * time.Second)
		rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 1, "b": 1})
		mustSay(t, inf, func(s lw.Status) bool { return s.Synced && s.Failures != 0 })
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
	for name, src := range map[string]*rig.Script{
		"left out of pages":    {Lists: []rig.Reply{listed("10", "a0@8 b9@9")}},
		"left out of a stream": {OnStream: func() rig.Stream { return rig.Events(added("a0@9"), added("b9@9"), rig.End("10")) }},
		"good in pages":        {Lists: []rig.Reply{listed("10", "a1@8 b9@9")}},
		"good in a stream":     {OnStream: func() rig.Stream { return rig.Events(added("a1@9"), added("b9@9"), rig.End("10")) }},
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
			mustSay(t, inf, func(s lw.Status) bool { return len(s.SetAside) == 1 && s.Failures == 0 })
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
			rig.Same(t, "errors", []string{want}, log.Texts())
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
