package lwtest_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// broken is a source that is right but for what its functions do.
type broken struct {
	lw.Source[*Widget]
	list  listFunc
	watch watchFunc
	had   hadFunc
}

type (
	yieldObject = func(*Widget, error) error
	yieldEvent  = func(lw.WatchEvent[*Widget]) error
	listFunc    = func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject) (metav1.ListMeta, error)
	watchFunc   = func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent) error
	hadFunc     = func(src lw.Source[*Widget], ctx context.Context, obj lw.Meta, version string) (bool, error)
)

func (b broken) List(ctx context.Context, opts metav1.ListOptions, yield yieldObject) (metav1.ListMeta, error) {
	if b.list == nil {
		return b.Source.List(ctx, opts, yield)
	}
	return b.list(b.Source, ctx, opts, yield)
}

func (b broken) Watch(ctx context.Context, opts metav1.ListOptions, yield yieldEvent) error {
	if b.watch == nil {
		return b.Source.Watch(ctx, opts, yield)
	}
	return b.watch(b.Source, ctx, opts, yield)
}

func (b broken) Hints() lw.SourceHints {
	h := lw.HintsOf(b.Source)
	if b.had != nil {
		h.StillHas = func(ctx context.Context, obj lw.Meta, version string) (bool, error) {
			return b.had(b.Source, ctx, obj, version)
		}
	}
	return h
}

// events makes a broken source whose watches do something else with their events, of which n is the
// number.
func events(f func(n int, ev lw.WatchEvent[*Widget], yield yieldEvent) error) broken {
	return broken{watch: func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent) error {
		n := -1
		return src.Watch(ctx, opts, func(ev lw.WatchEvent[*Widget]) error {
			n++
			return f(n, ev, yield)
		})
	}}
}

// ofEvents, ofWatches, ofLists and ofMemory make such sources anew, of functions that keep nothing.
func ofEvents(f func(n int, ev lw.WatchEvent[*Widget], yield yieldEvent) error) func() broken {
	return func() broken { return events(f) }
}
func ofWatches(f watchFunc) func() broken { return func() broken { return broken{watch: f} } }
func ofLists(f listFunc) func() broken    { return func() broken { return broken{list: f} } }
func ofMemory(f hadFunc) func() broken    { return func() broken { return broken{had: f} } }

func plus(version string, n int) string {
	v, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		panic(err)
	}
	return fmt.Sprint(v + int64(n))
}

// newest lists for the present version.
func newest(src lw.Source[*Widget]) string {
	meta, err := src.List(context.Background(), metav1.ListOptions{}, func(*Widget, error) error { return nil })
	if err != nil {
		panic(err)
	}
	return meta.ResourceVersion
}

func streams(opts metav1.ListOptions) bool { return opts.SendInitialEvents != nil }

// Each source breaks one of the promises. The check must find it, and say what it is.
func TestBrokenSources(t *testing.T) {
	for name, tc := range map[string]struct {
		new  func() broken
		says string
	}{
		"drops an event": {ofEvents(func(n int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
			if n == 1 {
				return nil
			}
			return yield(ev)
		}), `want (ADDED|MODIFIED|DELETED) of the|has not come after|should be|no bookmark has ended`},
		"tells an event twice": {ofEvents(func(_ int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
			if err := yield(ev); err != nil || ev.Type == watch.Bookmark {
				return err
			}
			return yield(ev)
		}), `, after \d+|twice`},
		"shows the events of a transaction one by one": {ofEvents(func(_ int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
			ev.Open = false
			return yield(ev)
		}), `is not Open, but`},
		"ends amid a transaction": {ofEvents(func(_ int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
			if err := yield(ev); err != nil || !ev.Open {
				return err
			}
			return fmt.Errorf("the connection broke")
		}), `has ended amid the events of version`},
		"leaves a transaction open": {func() broken {
			var open atomic.Bool
			return events(func(_ int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
				if open.Swap(ev.Open) {
					ev.Open = true
				}
				return yield(ev)
			})
		}, `amid the events of|more at hand|has not come after`},
		"gives an event a version of its own": {ofEvents(func(_ int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
			if ev.Type == watch.Modified {
				ev.ResourceVersion = plus(ev.ResourceVersion, 100)
			}
			return yield(ev)
		}), `want it of the update`},
		"gives a deletion the version of the object": {func() broken {
			var last sync.Map // the version by key
			return events(func(_ int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
				if version, ok := last.Load(ev.Key()); ok && ev.Type == watch.Deleted && version != "" {
					ev.ResourceVersion = version.(string)
				}
				last.Store(ev.Key(), ev.ResourceVersion)
				return yield(ev)
			})
		}, `DELETED event of .*, (after|want it)`},
		"swaps two events": {func() broken {
			var held atomic.Pointer[lw.WatchEvent[*Widget]]
			return events(func(n int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
				if n == 0 && ev.Type != watch.Bookmark {
					held.Store(&ev)
					return nil
				}
				err := yield(ev)
				if err != nil {
					return err
				}
				if first := held.Swap(nil); first != nil {
					err = yield(*first)
				}
				return err
			})
		}, `want|, after|has not come after|nothing tells|the initial events at|has not returned`},
		"makes one update of a deletion and a creation": {func() broken {
			var gone sync.Map // by key
			return events(func(_ int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
				switch _, was := gone.Load(ev.Key()); {
				case ev.Type == watch.Deleted:
					gone.Store(ev.Key(), true)
					return nil
				case ev.Type == watch.Added && was:
					ev.Type = watch.Modified
				}
				return yield(ev)
			})
		}, `want|has not come after|nothing tells|ahead of the deletion`},
		"watches from now": {ofWatches(func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent) error {
			if !streams(opts) {
				opts.ResourceVersion = newest(src)
			}
			return src.Watch(ctx, opts, yield)
		}), `want|has not come after|nothing tells|ahead of|has not returned`},
		"watches from the version before": {ofWatches(func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent) error {
			if !streams(opts) && opts.ResourceVersion != "1" {
				opts.ResourceVersion = plus(opts.ResourceVersion, -1)
			}
			return src.Watch(ctx, opts, yield)
		}), `, after|not compacted`},
		"skips what has expired": {ofWatches(func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent) error {
			err := src.Watch(ctx, opts, yield)
			if apierrors.IsResourceExpired(err) {
				opts.ResourceVersion = newest(src)
				err = src.Watch(ctx, opts, yield)
			}
			return err
		}), `want|has not come after|nothing tells|ahead of|has not returned`},
		"expires without reason": {ofWatches(func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent) error {
			if !streams(opts) && opts.ResourceVersion != newest(src) {
				return apierrors.NewResourceExpired("too old")
			}
			return src.Watch(ctx, opts, yield)
		}), `410 for a version that was not compacted`},
		"mixes pages": {ofLists(func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject) (metav1.ListMeta, error) {
			if opts.Limit == 0 {
				return src.List(ctx, opts, yield)
			}
			// The token is how many were listed, and the version of the first page.
			var from int
			var version string
			fmt.Sscan(opts.Continue, &from, &version)
			limit, n := int(opts.Limit), 0
			opts.Continue, opts.Limit = "", 0
			meta, err := src.List(ctx, opts, func(w *Widget, err error) error {
				n++
				if n <= from || n > from+limit {
					return nil
				}
				return yield(w, err)
			})
			if version == "" {
				version = meta.ResourceVersion
			}
			meta.ResourceVersion = version
			if n > from+limit {
				meta.Continue = fmt.Sprint(from+limit, " ", version)
			}
			return meta, err
		}), `the pages at \d+: (?s:.*list of \d.*: page 1 of \d objects at \d)`},
		"lists at the version of the newest object": {ofLists(func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject) (metav1.ListMeta, error) {
			var most string
			meta, err := src.List(ctx, opts, func(w *Widget, err error) error {
				if len(w.ResourceVersion) > len(most) || len(w.ResourceVersion) == len(most) && w.ResourceVersion > most {
					most = w.ResourceVersion
				}
				return yield(w, err)
			})
			if most != "" {
				meta.ResourceVersion = most
			}
			return meta, err
		}), `at \d+`},
		"lists what it listed before": {func() broken {
			var mu sync.Mutex
			var kept []*Widget
			var keptMeta metav1.ListMeta
			return broken{list: func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject) (metav1.ListMeta, error) {
				if opts.ResourceVersion == "" || opts.LabelSelector+opts.FieldSelector != "" {
					return src.List(ctx, opts, yield)
				}
				mu.Lock()
				if kept == nil {
					keptMeta, _ = src.List(ctx, metav1.ListOptions{}, func(w *Widget, _ error) error {
						kept = append(kept, w)
						return nil
					})
				}
				kept, keptMeta := kept, keptMeta
				mu.Unlock()
				for _, w := range kept {
					if err := yield(w, nil); err != nil {
						return metav1.ListMeta{}, err
					}
				}
				return keptMeta, nil
			}}
		}, `which is older|Exact is at`},
		"does not end the initial events": {ofEvents(func(_ int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
			if ev.InitialEventsEnd {
				return nil
			}
			return yield(ev)
		}), `no bookmark has ended the initial events`},
		"ends the initial events too early": {ofEvents(func(n int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
			if n == 0 && ev.Type == watch.Added {
				end := lw.WatchEvent[*Widget]{Type: watch.Bookmark, ResourceVersion: ev.ResourceVersion, InitialEventsEnd: true}
				if err := yield(end); err != nil {
					return err
				}
			}
			return yield(ev)
		}), `initial events|a bookmark at`},
		"sends bookmarks ahead of events": {ofEvents(func(_ int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
			if ev.Type != watch.Bookmark {
				ahead := lw.WatchEvent[*Widget]{Type: watch.Bookmark, ResourceVersion: ev.ResourceVersion}
				if err := yield(ahead); err != nil {
					return err
				}
			}
			return yield(ev)
		}), `bookmark`},
		"watches more than is selected": {ofWatches(func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent) error {
			opts.LabelSelector, opts.FieldSelector = "", ""
			return src.Watch(ctx, opts, yield)
		}), `want|of which nothing was written|is not selected`},
		"hands out what was not written": {ofEvents(func(_ int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
			if ev.Type == watch.Modified {
				ev.Object.Size = 0
			}
			return yield(ev)
		}), `is not what was written`},
		"does not listen to yield": {ofLists(func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject) (metav1.ListMeta, error) {
			return src.List(ctx, opts, func(w *Widget, err error) error {
				_ = yield(w, err)
				return nil
			})
		}), `List returned <nil>|has yielded`},
		"does not listen to the context": {ofWatches(func(src lw.Source[*Widget], _ context.Context, opts metav1.ListOptions, yield yieldEvent) error {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			return src.Watch(ctx, opts, yield)
		}), `goes on after its context`},
		"deletes within a transaction what is updated": {ofEvents(func(
			_ int, ev lw.WatchEvent[*Widget], yield yieldEvent,
		) error {
			if ev.Open && ev.Type == watch.Modified {
				meta := lw.MetaOf(ev.Object)
				ev.Type, ev.Object, ev.Identity = watch.Deleted, nil, &meta
			}
			return yield(ev)
		}), `the events of version \d+ have no MODIFIED of the`},
		// At the end of a history each watch that selects all has had an event: by then they all listen.
		"does not listen to the context before its first event": {ofWatches(func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent) error {
			if opts.LabelSelector != "" || opts.FieldSelector != "" {
				return src.Watch(ctx, opts, yield)
			}
			deaf, listen := context.WithTimeout(context.Background(), 2*time.Second)
			defer listen()
			return src.Watch(deaf, opts, func(ev lw.WatchEvent[*Widget]) error {
				context.AfterFunc(ctx, listen)
				return yield(ev)
			})
		}), `goes on after its context`},
		"yields no object": {ofLists(func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject) (metav1.ListMeta, error) {
			return src.List(ctx, opts, func(_ *Widget, err error) error { return yield(nil, err) })
		}), `List has yielded no object`},
		"has pages of an old state": {ofLists(func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject) (metav1.ListMeta, error) {
			if opts.Limit > 0 && opts.Continue == "" && opts.ResourceVersion == "" {
				opts.ResourceVersion, opts.ResourceVersionMatch = plus(newest(src), -1), metav1.ResourceVersionMatchExact
			}
			return src.List(ctx, opts, yield)
		}), `the pages at \d+: `},
		"never returns": {ofLists(func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject) (metav1.ListMeta, error) {
			if opts.Limit > 0 {
				<-ctx.Done()
			}
			return src.List(ctx, opts, yield)
		}), `List has not returned after`},
		"tells each event when the next one comes": {ofWatches(func(
			src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent,
		) error {
			var held *lw.WatchEvent[*Widget]
			return src.Watch(ctx, opts, func(ev lw.WatchEvent[*Widget]) error {
				ev.More = false
				last := held
				held = &ev
				if last != nil {
					if err := yield(*last); err != nil {
						return err
					}
				}
				if !ev.InitialEventsEnd {
					return nil
				}
				held = nil
				return yield(ev)
			})
		}), `has not come after`},
		"promises more": {ofEvents(func(_ int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
			ev.More = true
			return yield(ev)
		}), `more at hand, of which none has come`},
		"closes every watch": {ofWatches(func(lw.Source[*Widget], context.Context, metav1.ListOptions, yieldEvent) error { return nil }), `has ended \d+ times in a row|yield has seen enough`},
		"has versions without order": {ofLists(func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject) (metav1.ListMeta, error) {
			meta, err := src.List(ctx, opts, yield)
			meta.ResourceVersion = "v" + meta.ResourceVersion
			return meta, err
		}), `resource version "v`},
		"says that it had what it has": {ofMemory(func(src lw.Source[*Widget], ctx context.Context, obj lw.Meta, _ string) (bool, error) {
			return lw.HintsOf(src).StillHas(ctx, obj, newest(src))
		}), `StillHas of .*, want (true|false)`},
		"had all":     {ofMemory(func(lw.Source[*Widget], context.Context, lw.Meta, string) (bool, error) { return true, nil }), `StillHas of .*: true, want false`},
		"had nothing": {ofMemory(func(lw.Source[*Widget], context.Context, lw.Meta, string) (bool, error) { return false, nil }), `StillHas of .*: false, want true`},
		"had any UID": {ofMemory(func(src lw.Source[*Widget], ctx context.Context, obj lw.Meta, version string) (bool, error) {
			obj.UID = ""
			return lw.HintsOf(src).StillHas(ctx, obj, version)
		}), `StillHas of .* UID "lwtest-another", .*: true, want false`},
		"forgets what it had": {ofMemory(func(lw.Source[*Widget], context.Context, lw.Meta, string) (bool, error) {
			return false, apierrors.NewResourceExpired("too old")
		}), `StillHas at .* 410 for a version that was not compacted`},
		"fails to say what it had": {ofMemory(func(lw.Source[*Widget], context.Context, lw.Meta, string) (bool, error) {
			return false, errors.New("no memory")
		}), `StillHas of .*: no memory`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finds(t, tc.says, func(s lwtest.Subject[*Widget]) lwtest.Subject[*Widget] {
				b := tc.new()
				b.Source = s.Source()
				s.Source = func() lw.Source[*Widget] { return b }
				return s
			})
		})
	}
}

// finds fails t unless the check finds what is broken, and says it: says is a regular expression.
//
// A run draws a hundred histories, with -short twenty: whether one of these meets what is broken,
// and by what that is found, is up to chance. Of some runs one must find what the subject is named
// for. Nine of ten do, and of what is rare one in twenty. The subject's patience is time of the bubble, so no busy machine ends it.
func finds(t *testing.T, says string, spoil func(lwtest.Subject[*Widget]) lwtest.Subject[*Widget]) {
	t.Helper()
	findsIn(t, says, "The history:", func(tb testing.TB) {
		lwtest.Source(tb, func() lwtest.Subject[*Widget] {
			s := spoil(subject(itself))
			s.Patience = 50 * time.Millisecond
			return s
		})
	})
}

// findsIn is finds for any check, whose report has a title.
func findsIn(t *testing.T, says, title string, check func(tb testing.TB)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		// A source that does not listen to its context ends two seconds later, all the same.
		defer time.Sleep(3 * time.Second)
		want := regexp.MustCompile("lwtest: .*(" + says + ")")
		var out string
		found := false
		for run := 0; run < 400 && !found; run++ {
			tb := &fakeTB{TB: t}
			tb.run(func() { check(tb) })
			out = tb.out.String()
			found = tb.failed && want.MatchString(out)
		}
		if !found {
			t.Fatalf("none of the runs found %q; the last one said:\n%s", want, out)
		}
		for _, part := range []string{"reproduce, specify", title} {
			if !strings.Contains(out, part) {
				t.Errorf("the report has no %q:\n%s", part, out)
			}
		}
	})
}

// A watch that hangs after a failure is no second one.
func TestOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(3 * time.Second)
		tb := &fakeTB{TB: t}
		tb.run(func() {
			lwtest.Source(tb, func() lwtest.Subject[*Widget] {
				var watched, failed atomic.Bool
				s := subject(func(src lw.Source[*Widget]) lw.Source[*Widget] {
					return broken{Source: src, watch: func(
						src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent,
					) error {
						watched.Store(true)
						deaf, listen := context.WithTimeout(context.Background(), 2*time.Second)
						defer listen()
						defer context.AfterFunc(ctx, func() {
							if !failed.Load() {
								listen()
							}
						})()
						return src.Watch(deaf, opts, yield)
					}}
				})
				create := s.Create
				s.Create = func(w *Widget) (*Widget, error) {
					if watched.Load() {
						failed.Store(true)
						return nil, errors.New("no room")
					}
					return create(w)
				}
				s.Patience = 50 * time.Millisecond
				return s
			})
		})
		if out := tb.out.String(); !strings.Contains(out, "no room") || strings.Contains(out, "goes on after") {
			t.Errorf("want that a write has failed, and nothing else:\n%s", out)
		}
	})
}

// The report of a failure has the steps of its history, in their order and with their outcomes.
func TestReport(t *testing.T) {
	of := func(s lwtest.Subject[*Widget]) lwtest.Subject[*Widget] { return s }
	for name, tc := range map[string]struct {
		subject func(lwtest.Subject[*Widget]) lwtest.Subject[*Widget]
		steps   []string // regular expressions of lines
	}{
		"a source": {of, []string{
			`start with 1 objects at \d+`, `create lwtest-a/two: it is at \d+`, `update lwtest-\w/\w+: it is at \d+`,
			`delete lwtest-\w/\w+`, `transact \d objects and [1-4] deletions: at \d+`, `compact up to \d+`, `disconnect`,
			`bookmark`, `list: \d objects at \d+`, `list at 0: \d objects at \d+`, `list at \d+ Exact: \d objects at \d+`,
			`list at \d+ NotOlderThan: \d objects at \d+`, `list at [1-9]\d*: \d objects at \d+`,
			`list of even=yes: \d objects at \d+`, `list of metadata.namespace=lwtest-a: \d objects at \d+`,
			`list of 2: page 1 of [0-2] objects at \d+`, `list of 1, continued: page 2 of 1 objects at \d+`,
			`list of 1, continued of even=yes: page \d of 1 objects at \d+`, `page \d at "\d+" has expired`,
			`List at "\d+" has expired`, `open watch 1 \(watch at \d+\)`, `open watch \d+ \(watch at \d+ of even=yes\)`,
			`open watch \d+ \(stream NotOlderThan\)`, `open watch \d+ \(stream at \d+ NotOlderThan.*\)`,
			`cancel watch \d+ \(.*\)`, `watch \d+ \(.*\) has ended: .*`, `watch \d+ \(.*\) at "\d+" has expired`,
			`List until yield has enough: lwtest: yield has seen enough`, `List until yield has enough: context canceled`,
			`Watch until yield has enough: lwtest: yield has seen enough`, `Watch until yield has enough: context canceled`,
			`StillHas of .*, version \d+, UID ".+", at \d+: (true|false)`, `StillHas at "\d+" has expired`, `the end`,
		}},
		"what is followed": {func(s lwtest.Subject[*Widget]) lwtest.Subject[*Widget] {
			s.Follows = true
			return s
		}, []string{
			`start with 1 objects`, `create lwtest-a/two`, `update lwtest-\w/\w+`, `delete lwtest-\w/\w+`,
			`transact [1-4] objects`, `disconnect`, `compact`, `the informer has caught up`,
		}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			missing := tc.steps
			for run := 0; run < 200 && len(missing) > 0; run++ {
				tb, failed := &fakeTB{TB: t}, false
				tb.run(func() {
					lwtest.Source(tb, func() lwtest.Subject[*Widget] {
						s, n := tc.subject(subject(itself)), 0
						write := func(write func(*Widget) (*Widget, error)) func(w *Widget) (*Widget, error) {
							return func(w *Widget) (*Widget, error) {
								if n++; n > run%20+5 && !failed {
									failed = true // once, so that nothing is shrunk
									return nil, errors.New("no room")
								}
								return write(w)
							}
						}
						s.Create, s.Update = write(s.Create), write(s.Update)
						return s
					})
				})
				_, steps, _ := strings.Cut(tb.out.String(), "The history:\n")
				missing = slices.DeleteFunc(slices.Clone(missing), func(step string) bool {
					return regexp.MustCompile(`(?m)^ *\d+\. ` + step + `$`).MatchString(steps)
				})
				for _, cancelled := range regexp.MustCompile(`cancel (watch \d+) `).FindAllStringSubmatch(steps, -1) {
					_, after, _ := strings.Cut(steps, cancelled[0])
					if strings.Contains(after, cancelled[1]+" ") {
						t.Errorf("%s goes on:\n%s", cancelled[1], steps)
					}
				}
				if failed && !strings.Contains(steps, "   1. start with 1 objects") {
					t.Errorf("the steps are not numbered:\n%s", tb.out.String())
				}
			}
			if len(missing) > 0 {
				t.Errorf("no report has %q", missing)
			}
		})
	}
}

// A Subject whose objects have other keys than they are asked for is the test's own mistake, and is
// named as that.
func TestSubjectOfAnotherKey(t *testing.T) {
	tb := &fakeTB{TB: t}
	tb.run(func() {
		lwtest.Source(tb, func() lwtest.Subject[*Widget] {
			s := subject(func(src lw.Source[*Widget]) lw.Source[*Widget] { return src })
			object := s.Object
			s.Object = func(key lw.Key, n int) *Widget {
				w := object(key, n)
				w.Name += "-other"
				return w
			}
			return s
		})
	})
	if out := tb.out.String(); !tb.failed || !regexp.MustCompile(`Subject\.Object\(.*\) returned an object of .*-other`).MatchString(out) {
		t.Errorf("%s", out)
	}
}
