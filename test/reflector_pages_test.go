package lw_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

// Paging that leads nowhere ends, and is no hot loop.
func TestEndlessPages(t *testing.T) {
	page := func(token string, names ...string) reply {
		r := reply{meta: metav1.ListMeta{ResourceVersion: "10", Continue: token}}
		for _, name := range names {
			r.obj = append(r.obj, stamped(name, 1, "9"))
		}
		return r
	}
	for name, tc := range map[string]struct {
		page func(n int) reply
		err  string
		most int // requests in an hour
	}{
		"tokens that alternate": {func(n int) reply { return page([]string{"x", "y"}[n%2]) }, "protocol error: a page continues where an earlier one did", 450},
		"the same, with items": {func(n int) reply { return page([]string{"x", "y"}[n%2], fmt.Sprint("w", n)) },
			"protocol error: a page continues where an earlier one did", 450},
		"empty pages":    {func(n int) reply { return page(fmt.Sprint(n)) }, "the server made no progress", 3600},
		"the same items": {func(n int) reply { return page(fmt.Sprint(n), "a", "b") }, "protocol error: two pages begin with default/a", 450},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				src := &script{list: func() reply {
					if n++; n > 2*tc.most { // no clock moves while pages follow one another at once
						return reply{err: errors.New("the test ends here")}
					}
					return tc.page(n)
				}}
				var errs errorLog
				inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: errs.add})
				start(t, inf)
				sleep(time.Hour)
				at := src.requests()
				if len(at) > tc.most || len(at) < 60 {
					t.Errorf("%d requests in an hour, want at most %d", len(at), tc.most)
				}
				if tc.page(0).obj == nil {
					mustBeBounded(t, at)
				}
				errs.mustHave(t, tc.err)
				if s := inf.Status(); s.Synced || s.Err == nil || s.Failures < 10 {
					t.Errorf("status: %+v", s)
				}
			})
		})
	}
}

// Pages may begin with objects of one name where a Transform makes it so, and with what is no object.
func TestPagesThatBeginAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := stamped("a", 2, "9")
		other.UID = "another"
		page := func(token string, objs ...*Widget) reply {
			return reply{obj: objs, meta: metav1.ListMeta{ResourceVersion: "10", Continue: token}}
		}
		src := &script{lists: []reply{page("x", nil, stamped("b", 1, "8")), page("y", nil, stamped("c", 1, "8")), page("z", stamped("a", 1, "8")), page("w", other), page("")}}
		var errs errorLog
		inf := run(t, src, &lw.Options{List: lw.ListPages, OnError: errs.add})
		mustHold(t, inf.Store(), "10", map[string]int{"a": 2, "b": 1, "c": 1})
		if n := len(errs.all()); n != 2 { // the objects that are none, and the name that comes twice
			t.Errorf("errors: %v", errs.all())
		}
	})
}

// A page may be empty and go on: a server may look at so many objects a page, of which a selector takes none.
func TestEmptyPages(t *testing.T) {
	sparse := func(pages, each int, whole bool) *script {
		src := &script{}
		n := 0
		src.list = func() reply {
			if o := src.options[len(src.options)-1]; o.Continue == "" {
				if n = 0; o.Limit == 0 && whole {
					return list("10", stamped("all", 1, "9"))
				}
			}
			n++
			r := reply{meta: metav1.ListMeta{ResourceVersion: "10", Continue: fmt.Sprint(n)}}
			if n%each == 0 {
				r.obj = []*Widget{stamped(fmt.Sprint("w", n), 1, "9")}
			}
			if n == pages {
				r.meta.Continue = ""
			}
			return r
		}
		return src
	}
	t.Run("a few", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := sparse(16, 16, false)
			inf := run(t, src, &lw.Options{List: lw.ListPages, OnError: func(err error) { t.Error(err) }})
			mustHold(t, inf.Store(), "10", map[string]int{"w16": 1})
			mustBeBounded(t, src.requests())
		})
	})
	t.Run("many, with items in between", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := sparse(1000, 10, false)
			inf := run(t, src, &lw.Options{List: lw.ListPages, OnError: func(err error) { t.Error(err) }})
			if n := inf.Store().Len(); n != 100 {
				t.Errorf("%d objects", n)
			}
		})
	})
	// The server need not stop where it is asked for all at once, and is asked so from then on.
	t.Run("many", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := sparse(100_000, 100_000, true)
			src.watches = []stream{expiredAfter(time.Minute), forever()}
			var errs errorLog
			inf := run(t, src, &lw.Options{List: lw.ListPages, OnError: errs.add})
			mustHold(t, inf.Store(), "10", map[string]int{"all": 1})
			errs.mustHave(t, "lw: Widget: list: 20 pages in a row were empty")
			n := len(src.requests())
			if took := src.requests()[n-1].Sub(src.requests()[0]); n != 21 || took > 20*time.Second {
				t.Errorf("%d requests in %v", n, took)
			}
			sleep(2 * time.Minute)
			if diff := cmp.Diff([]string{"list", "watch 10", "list", "watch 10"}, src.log()[n-1:]); diff != "" {
				t.Errorf("requests after (-want +got):\n%s", diff)
			}
		})
	})
	// Until that does not work either.
	t.Run("many, and all at once fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := sparse(100_000, 100_000, true)
			paged, whole := src.list, 0
			src.list = func() reply {
				if src.options[len(src.options)-1].Limit == 0 {
					if whole++; whole == 1 {
						return reply{err: errors.New("too much")}
					}
				}
				return paged()
			}
			inf := run(t, src, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
			mustHold(t, inf.Store(), "10", map[string]int{"all": 1})
			if log := src.log(); len(log) < 42 || log[20] != "list" || log[21] != "list limit 500" || log[41] != "list" {
				t.Errorf("requests: %v", log)
			}
		})
	})
	// A server that does not give more at once is waited for, as for any list that makes no progress.
	t.Run("many, whatever is asked for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			inf := run(t, sparse(70, 70, false), &lw.Options{List: lw.ListPages, OnError: func(error) {}})
			mustHold(t, inf.Store(), "10", map[string]int{"w70": 1})
		})
	})
	// Pages whose items a Transform leaves out are not empty.
	t.Run("left out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := sparse(200, 1, false)
			some := lw.Transform[*Widget](src, func(w *Widget) (*Widget, error) {
				if w.Name != "w200" {
					return nil, nil
				}
				return w, nil
			})
			begin := time.Now()
			inf := run(t, some, &lw.Options{List: lw.ListPages, OnError: func(err error) { t.Error(err) }})
			mustHold(t, inf.Store(), "10", map[string]int{"w200": 1})
			if took := time.Since(begin); took > 0 {
				t.Errorf("it took %v", took)
			}
		})
	})
}

// trickle is a source whose list yields an item each gap.
type trickle struct {
	script
	first, gap time.Duration
	items      int
}

func (t *trickle) List(ctx context.Context, opts metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta, error) {
	t.mu.Lock()
	t.at, t.options = append(t.at, time.Now()), append(t.options, opts)
	t.mu.Unlock()
	for i := range t.items {
		gap := t.gap
		if i == 0 {
			gap = t.first
		}
		select {
		case <-time.After(gap):
		case <-ctx.Done():
			return metav1.ListMeta{}, ctx.Err()
		}
		if err := yield(stamped(fmt.Sprint("w", i), i%2, "9"), nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: "10"}, nil
}

// A list may take as long as it likes while items come, and a minute and a half without one.
func TestSlowLists(t *testing.T) {
	leaveOut := func(src lw.Source[*Widget]) lw.Source[*Widget] {
		return lw.Transform(src, func(w *Widget) (*Widget, error) { return nil, nil })
	}
	for name, tc := range map[string]struct {
		src   *trickle
		wrap  func(lw.Source[*Widget]) lw.Source[*Widget]
		want  int // objects
		fails bool
	}{
		"items come":                 {&trickle{first: time.Second, gap: time.Minute, items: 10}, nil, 10, false},
		"items come, and are left":   {&trickle{first: time.Second, gap: time.Minute, items: 10}, leaveOut, 0, false},
		"the server works on it":     {&trickle{first: 85 * time.Second, gap: 85 * time.Second, items: 5}, nil, 5, false},
		"nothing comes for too long": {&trickle{first: 4 * time.Minute, gap: 0, items: 3}, nil, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var src lw.Source[*Widget] = tc.src
				if tc.wrap != nil {
					src = tc.wrap(src)
				}
				var errs errorLog
				inf := lw.NewInformer(src, &lw.Options{List: lw.ListWhole, OnError: errs.add})
				start(t, inf)
				sleep(9*time.Minute + 2*time.Second)
				if tc.fails {
					errs.mustHave(t, "the server made no progress")
					if at := tc.src.requests(); len(at) < 5 || at[1].Sub(at[0]) < 90*time.Second || at[1].Sub(at[0]) > 3*time.Minute {
						t.Errorf("requests at %v", at)
					}
					return
				}
				if s := inf.Status(); !s.Synced || s.Objects != tc.want || s.Lists != 1 || len(errs.all()) != 0 {
					t.Errorf("status %+v, errors %v", s, errs.all())
				}
			})
		})
	}
}
