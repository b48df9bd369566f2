package source_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// Paging that leads nowhere ends, and is no hot loop.
func TestEndlessPages(t *testing.T) {
	page := func(token string, names ...string) rig.Reply {
		r := rig.Reply{Meta: metav1.ListMeta{ResourceVersion: "10", Continue: token}}
		for _, name := range names {
			r.Obj = append(r.Obj, rig.Stamped(name, 1, "9"))
		}
		return r
	}
	for name, tc := range map[string]struct {
		page func(n int) rig.Reply
		err  string
		most int // requests in an hour
	}{
		"tokens that alternate": {func(n int) rig.Reply { return page([]string{"x", "y"}[n%2]) }, "protocol error: a page continues where an earlier one did", 450},
		"the same, with items": {func(n int) rig.Reply { return page([]string{"x", "y"}[n%2], fmt.Sprint("w", n)) },
			"protocol error: a page continues where an earlier one did", 450},
		"empty pages":    {func(n int) rig.Reply { return page(fmt.Sprint(n)) }, "the server made no progress", 3600},
		"the same items": {func(n int) rig.Reply { return page(fmt.Sprint(n), "a", "b") }, "protocol error: two pages begin with default/a", 450},
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
			if len(at) > tc.most || len(at) < 60 {
				t.Errorf("%d requests in an hour, want at most %d", len(at), tc.most)
			}
			if tc.page(0).Obj == nil {
				rig.MustBeBounded(t, at)
			}
			errs.MustHave(t, tc.err)
			if s := inf.Status(); s.Synced || s.Err == nil || s.Failures < 10 {
				t.Errorf("status: %+v", s)
			}
		})
	}
}

// Pages may begin with objects of one name where a Transform makes it so, and with what is no
// object.
func TestPagesThatBeginAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := rig.Stamped("a", 2, "9")
		other.UID = "another"
		page := func(token string, objs ...*rig.Widget) rig.Reply {
			return rig.Reply{Obj: objs, Meta: metav1.ListMeta{ResourceVersion: "10", Continue: token}}
		}
		src := &rig.Script{Lists: []rig.Reply{page("x", nil, rig.Stamped("b", 1, "8")), page("y", nil, rig.Stamped("c", 1, "8")), page("z", rig.Stamped("a", 1, "8")), page("w", other), page("")}}
		var errs rig.Errors
		inf := rig.Run(t, src, &lw.Options{List: lw.ListPages, OnError: errs.Add})
		rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 2, "b": 1, "c": 1})
		if n := len(errs.All()); n != 2 { // the objects that are none, and the name that comes twice
			t.Errorf("errors: %v", errs.All())
		}
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
					return rig.List("10", rig.Stamped("all", 1, "9"))
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
		if n := inf.Store().Len(); n != 100 {
			t.Errorf("%d objects", n)
		}
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
		if took := src.Requests()[n-1].Sub(src.Requests()[0]); n != 21 || took > 20*time.Second {
			t.Errorf("%d requests in %v", n, took)
		}
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
		if took := time.Since(begin); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}
