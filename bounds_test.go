package lw_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
)

// mustBeBounded checks that requests came no faster than ten in a second and sixty in a minute.
func mustBeBounded(t *testing.T, at []time.Time) {
	t.Helper()
	for i := range at {
		if i >= 10 && at[i].Sub(at[i-10]) < time.Second {
			t.Fatalf("more than 10 requests in a second at %d of %d", i, len(at))
		}
		if i >= 60 && at[i].Sub(at[i-60]) < time.Minute {
			t.Fatalf("more than 60 requests in a minute at %d of %d", i, len(at))
		}
	}
}

// A client that may watch but not list gets its list by a stream. A quiet watch of it that is closed early leads to one question
// for the server's version, which is refused, and not to one after each ten seconds of quiet.
func TestWatchWithoutTheRightToList(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "", errors.New("no role"))
	for name, tc := range map[string]struct {
		err            error
		lists, watches int // in an hour, at most
	}{
		"forbidden":         {forbidden, 2, 14},
		"no such method":    {apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "widgets"}, "list"), 2, 14},
		"an internal error": {apierrors.NewInternalError(errors.New("no webhook")), 14, 14}, // once for each watch that is quiet
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				src := &script{
					list: func() reply { return reply{err: tc.err} },
					stream: func() stream {
						return stream{events: []lw.WatchEvent[*Widget]{added("a", "9"), end("10")}, after: 20 * time.Second}
					},
					watch: func() stream {
						if n++; n == 1 {
							return stream{after: 15 * time.Second} // early, and it was quiet
						}
						return stream{after: 7 * time.Minute}
					},
				}
				var errs errorLog
				inf := run(t, src, &lw.Options{OnError: errs.add, WatchTimeout: 7 * time.Minute})
				sleep(time.Hour)
				s := inf.Status()
				if s.Lists != 0 || s.Probes < 1 || s.Probes > uint64(tc.lists) || s.Watches > uint64(tc.watches) {
					t.Errorf("in an hour: %d lists, %d probes, %d watches", s.Lists, s.Probes, s.Watches)
				}
				if n := len(errs.all()); n != int(s.Probes) {
					t.Errorf("%d errors of %d probes", n, s.Probes)
				}
				if !s.Synced || s.Err != nil || s.Phase != lw.Watching {
					t.Errorf("status: %+v", s)
				}
			})
		})
	}
	// Who was allowed to list meanwhile is asked again after an hour, and then whenever there is a reason.
	t.Run("for a while", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := &script{
				list: func() reply { return reply{err: forbidden} },
				stream: func() stream {
					return stream{events: []lw.WatchEvent[*Widget]{added("a", "9"), end("10")}, after: 20 * time.Second}
				},
				watch: func() stream { return stream{after: 7 * time.Minute} },
			}
			inf := run(t, src, &lw.Options{OnError: func(error) {}, WatchTimeout: 7 * time.Minute})
			sleep(30 * time.Minute)
			src.mu.Lock()
			src.list = func() reply { return list("10") }
			src.mu.Unlock()
			sleep(4 * time.Hour)
			if s := inf.Status(); s.Probes < 15 {
				t.Errorf("%d probes in four hours with a watch each seven minutes", s.Probes)
			}
		})
	})
}

// sprinkler is a source whose stream sends what event returns, one each gap, and whose lists are empty.
type sprinkler struct {
	script
	gap   time.Duration
	event func(n int) lw.WatchEvent[*Widget]
}

func (s *sprinkler) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*Widget]) error) error {
	if opts.SendInitialEvents == nil {
		return s.script.Watch(ctx, opts, yield)
	}
	s.mu.Lock()
	s.at, s.options = append(s.at, time.Now()), append(s.options, opts)
	s.mu.Unlock()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(s.gap):
		}
		if err := yield(s.event(n)); err != nil {
			return err
		}
	}
}

// A server that does not know of streamed lists sends what is there and then changes, for as long as the collection is in use.
// These are no progress of the list.
func TestBusyStreamWithoutAnEnd(t *testing.T) {
	version := func(n int) string { return strconv.Itoa(100 + n) }
	there := func(n int) lw.WatchEvent[*Widget] { return added(fmt.Sprint("w", n), strconv.Itoa(50-n)) }
	for name, tc := range map[string]struct {
		event func(n int) lw.WatchEvent[*Widget]
		most  time.Duration // until the list is asked for in pages
	}{
		"an object is changed": {func(n int) lw.WatchEvent[*Widget] {
			if n < 10 {
				return there(n)
			}
			return modified(stamped("w1", n, version(n)))
		}, 22 * time.Second},
		"an object comes and goes": {func(n int) lw.WatchEvent[*Widget] {
			switch {
			case n < 10:
				return there(n)
			case n%2 == 0:
				return added("x", version(n))
			default:
				return deleted(stamped("x", 1, version(n)))
			}
		}, 22 * time.Second},
		"objects are made after a change": {func(n int) lw.WatchEvent[*Widget] {
			switch {
			case n < 10:
				return there(n)
			case n == 10:
				return modified(stamped("w1", n, version(n)))
			default:
				return added(fmt.Sprint("x", n), version(n))
			}
		}, 22 * time.Second},
		"objects are made after a bookmark": {func(n int) lw.WatchEvent[*Widget] {
			switch {
			case n < 10:
				return there(n)
			case n == 10:
				return bookmark(version(n))
			default:
				return added(fmt.Sprint("x", n), version(n))
			}
		}, 22 * time.Second},
		"bookmarks come": {func(n int) lw.WatchEvent[*Widget] {
			if n < 10 {
				return there(n)
			}
			return bookmark(version(n))
		}, 22 * time.Second},
		"one object is added again and again": {func(n int) lw.WatchEvent[*Widget] {
			if n == 1 {
				return modified(stamped("w0", 1, version(n)))
			}
			return added("w"+strconv.Itoa(n%1), version(n))
		}, 22 * time.Second},
		// These may be the list's, for all that can be told.
		"objects are made": {func(n int) lw.WatchEvent[*Widget] { return added(fmt.Sprint("x", n), version(n)) }, 82 * time.Second},
		// These are the list's, but no server sends a list for longer than a watch.
		"the list has no end": {func(n int) lw.WatchEvent[*Widget] {
			if n == 0 {
				return added("first", "999999999")
			}
			return added(fmt.Sprint("x", n), version(n))
		}, 11 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &sprinkler{script: script{lists: []reply{list("1000000000")}}, gap: 100 * time.Millisecond, event: tc.event}
				var errs errorLog
				inf := lw.NewInformer[*Widget](src, &lw.Options{OnError: errs.add})
				start(t, inf)
				sleep(time.Hour)
				if len(src.requests()) < 2 {
					t.Fatal("it has no list after an hour")
				}
				if took := src.requests()[1].Sub(src.requests()[0]); took > tc.most {
					t.Errorf("it was asked for in pages after %v, want at most %v", took, tc.most)
				}
				if diff := cmp.Diff([]string{"stream", "list limit 500", "watch 1000000000"}, src.log()[:3]); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				if s := inf.Status(); !s.Synced || s.Mode != lw.ListPages || s.Lists != 1 {
					t.Errorf("status: %+v", s)
				}
				if got := errs.all()[0].Error(); got != "lw: Widget: stream: the server did not end the initial events of the streamed list" {
					t.Errorf("error %q", got)
				}
			})
		})
	}
}

// A list that is streamed for longer than any budget is waited for, though changes come in between, or though there is no other
// way to get it.
func TestLongStream(t *testing.T) {
	const objects = 3000 // five minutes
	last := added("last", "999999")
	for name, tc := range map[string]struct {
		mode  lw.ListMode
		event func(n int) lw.WatchEvent[*Widget]
	}{
		"in no order": {lw.ListAuto, func(n int) lw.WatchEvent[*Widget] { return added(fmt.Sprint("w", n), strconv.Itoa(5000-n)) }},
		"with changes": {lw.ListAuto, func(n int) lw.WatchEvent[*Widget] {
			if n%100 == 99 {
				return modified(stamped("w0", n, strconv.Itoa(5000+n)))
			}
			return added(fmt.Sprint("w", n), strconv.Itoa(5000-n))
		}},
		"in the order of versions": {lw.ListStream, func(n int) lw.WatchEvent[*Widget] { return added(fmt.Sprint("w", n), strconv.Itoa(1000+n)) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &sprinkler{gap: 100 * time.Millisecond, event: func(n int) lw.WatchEvent[*Widget] {
					switch {
					case n == objects:
						return last
					case n > objects:
						return end("1000000")
					}
					return tc.event(n)
				}}
				inf := lw.NewInformer[*Widget](src, &lw.Options{List: tc.mode, OnError: func(err error) { t.Error(err) }})
				start(t, inf)
				sleep(objects*100*time.Millisecond + 200*time.Millisecond)
				if s := inf.Status(); !s.Synced || s.Objects < objects*98/100 {
					t.Errorf("status: %+v", s)
				}
			})
		})
	}
}

// What a stream keeps before its end does not grow with the changes that come.
func TestBusyStreamKeepsLittle(t *testing.T) {
	for name, event := range map[string]func(n int) lw.WatchEvent[*Widget]{
		"changes": func(n int) lw.WatchEvent[*Widget] { return modified(stamped("w0", n, strconv.Itoa(100+n))) },
		"comes and goes": func(n int) lw.WatchEvent[*Widget] {
			if n%2 == 0 {
				return deleted(stamped("w0", n, strconv.Itoa(100+n)))
			}
			return added("w0", strconv.Itoa(100+n))
		},
	} {
		t.Run(name, func(t *testing.T) {
			heap := func() uint64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			const changes = 300_000
			var before, after uint64
			src := &sprinkler{event: func(n int) lw.WatchEvent[*Widget] {
				switch n {
				case 0, 1, 2, 3:
					return added(fmt.Sprint("w", n), strconv.Itoa(10-n))
				case 1000:
					before = heap()
				case changes:
					after = heap()
				case changes + 1:
					return end(strconv.Itoa(100 + changes))
				}
				return event(n)
			}}
			inf := lw.NewInformer[*Widget](src, nil)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- inf.Run(ctx) }()
			if err := inf.WaitForSync(ctx); err != nil {
				t.Error(err)
			}
			cancel()
			<-done
			// A slot for each change would be 2.4 MB.
			if after > before+1<<20 {
				t.Errorf("the heap grew from %d to %d bytes", before, after)
			}
			if n := inf.Store().Len(); n != 3+changes%2 && n != 4 {
				t.Errorf("%d objects", n)
			}
		})
	}
}

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
				src := &script{list: func() reply { n++; return tc.page(n) }}
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

func (s *trickle) List(ctx context.Context, opts metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta, error) {
	s.mu.Lock()
	s.at, s.options = append(s.at, time.Now()), append(s.options, opts)
	s.mu.Unlock()
	for i := range s.items {
		gap := s.gap
		if i == 0 {
			gap = s.first
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
