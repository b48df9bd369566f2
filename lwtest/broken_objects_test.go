package lwtest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// Whatever shows an object shows it as it was stored, with its version, its UID and its content.
func TestBrokenObjects(t *testing.T) {
	listed := func(pages bool) func(other func(w *Widget) *Widget) broken {
		return func(other func(w *Widget) *Widget) broken {
			return broken{list: func(
				src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject,
			) (metav1.ListMeta, error) {
				return src.List(ctx, opts, func(w *Widget, err error) error {
					if (opts.Limit > 0) == pages {
						w = other(w)
					}
					return yield(w, err)
				})
			}}
		}
	}
	watched := func(stream, transaction bool) func(other func(w *Widget) *Widget) broken {
		return func(other func(w *Widget) *Widget) broken {
			return broken{watch: func(
				src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent,
			) error {
				open := false
				return src.Watch(ctx, opts, func(ev lw.WatchEvent[*Widget]) error {
					within := open || ev.Open
					open = ev.Open
					if streams(opts) == stream && within == transaction && (ev.Type == watch.Added || ev.Type == watch.Modified) {
						ev.Object = other(ev.Object)
					}
					return yield(ev)
				})
			}}
		}
	}
	for _, in := range []struct {
		name, says string
		broken     func(other func(w *Widget) *Widget) broken
	}{
		{"a list", `list.* at \d+: .*`, listed(false)},
		{"pages", `the pages at \d+: .*`, listed(true)},
		{"initial events", `the initial events at \d+: .*`, watched(true, false)},
		{"an event", `(ADDED|MODIFIED) event of .* at "\d+": .*`, watched(false, false)},
		{"an event of a transaction", `(ADDED|MODIFIED) event at \d+: .*`, watched(false, true)},
	} {
		for _, of := range []struct {
			name, says string
			change     func(w *Widget)
		}{
			{"another version", `is there at "1", and should be at \d+`, func(w *Widget) { w.ResourceVersion = "1" }},
			{"another UID", `is there with UID "another", and should be with \S+`, func(w *Widget) { w.UID = "another" }},
			{"another content", `at \d+ is not what was written: .*"Size":-1.*, want .*"Size":\d`,
				func(w *Widget) { w.Size = -1 }},
		} {
			t.Run(in.name+" of "+of.name, func(t *testing.T) {
				t.Parallel()
				finds(t, in.says+of.says, func(s lwtest.Subject[*Widget]) lwtest.Subject[*Widget] {
					b := in.broken(func(w *Widget) *Widget {
						other := *w
						of.change(&other)
						return &other
					})
					b.Source = s.Source()
					s.Source = func() lw.Source[*Widget] { return b }
					return s
				})
			})
		}
	}
}

// A list has each object that is there and selected, once, and no other.
func TestBrokenLists(t *testing.T) {
	for name, tc := range map[string]struct {
		opts func(opts *metav1.ListOptions)
		list func(objs []*Widget) []*Widget // of two or more
		says string
	}{
		"an object twice": {nil, func(objs []*Widget) []*Widget { return append(objs, objs[1]) }, `\w+/\w+ is there twice`},
		"an object more": {nil, func(objs []*Widget) []*Widget {
			return append(objs, newWidget(lw.Key{Namespace: "more", Name: "one"}, 0))
		}, `more/one is there, and should not be`},
		"an object less": {nil, func(objs []*Widget) []*Widget { return objs[1:] },
			`\w+/\w+ is not there, and should be at \d+`},
		"what is not selected": {func(opts *metav1.ListOptions) { opts.LabelSelector, opts.FieldSelector = "", "" }, nil,
			`\w+/\w+ is there, and is not selected`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			says := `(list|pages).* at \d+: (.*; )?(lwtest-)?` + tc.says
			finds(t, says, func(s lwtest.Subject[*Widget]) lwtest.Subject[*Widget] {
				b := broken{Source: s.Source(), list: func(
					src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject,
				) (metav1.ListMeta, error) {
					if tc.opts != nil {
						tc.opts(&opts)
					}
					var objs []*Widget
					meta, err := src.List(ctx, opts, func(w *Widget, err error) error {
						objs = append(objs, w)
						return err
					})
					if err == nil && len(objs) > 1 && tc.list != nil {
						objs = tc.list(objs)
					}
					for _, w := range objs {
						if err = yield(w, nil); err != nil {
							return meta, err
						}
					}
					return meta, err
				}}
				s.Source = func() lw.Source[*Widget] { return b }
				return s
			})
		})
	}
}

// A transaction is shown by one event for each of its changes, at its version, in any order; a
// bookmark may end them.
func TestBrokenTransactions(t *testing.T) {
	type group = []lw.WatchEvent[*Widget]
	// shown makes a source whose transactions of three events and more are shown as f says.
	shown := func(f func(g group) []group) broken {
		return broken{watch: func(
			src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent,
		) error {
			initial, open := streams(opts), group(nil)
			return src.Watch(ctx, opts, func(ev lw.WatchEvent[*Widget]) error {
				if initial {
					initial = !ev.InitialEventsEnd
					return yield(ev)
				}
				if open = append(open, ev); ev.Open {
					return nil
				}
				groups := []group{open}
				if len(open) > 2 && ev.Type != watch.Bookmark {
					groups = f(open)
				}
				open = nil
				for _, g := range groups {
					for i, ev := range g {
						ev.Open = i < len(g)-1
						if err := yield(ev); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}}
	}
	each := func(f func(i int, ev *lw.WatchEvent[*Widget])) func(g group) []group {
		return func(g group) []group {
			for i := range g {
				f(i, &g[i])
			}
			return []group{g}
		}
	}
	for name, f := range map[string]func(g group) []group{
		"as they were": func(g group) []group { return []group{g} },
		"the other way round": func(g group) []group {
			slices.Reverse(g)
			return []group{g}
		},
		"with a bookmark": func(g group) []group {
			return []group{append(g, lw.WatchEvent[*Widget]{Type: watch.Bookmark, ResourceVersion: g[0].ResourceVersion})}
		},
	} {
		t.Run(name, func(t *testing.T) {
			passes(t, func(tb testing.TB) {
				lwtest.Source(tb, func() lwtest.Subject[*Widget] {
					return subject(func(src lw.Source[*Widget]) lw.Source[*Widget] {
						b := shown(f)
						b.Source = src
						return b
					})
				})
			})
		})
	}
	for name, tc := range map[string]struct {
		shown func(g group) []group
		says  string
	}{
		"an event less": {func(g group) []group { return []group{g[1:]} },
			`[23] events of version \d+, want [34], as of the .* at \d+`},
		"an event twice": {func(g group) []group { return []group{append(g, g[0])} },
			`[45] events of version \d+, want [34], as of the .* at \d+`},
		"another version": {each(func(_ int, ev *lw.WatchEvent[*Widget]) {
			ev.ResourceVersion = plus(ev.ResourceVersion, 1000)
		}), `(3 events of version \d+, want 3|4 events of version \d+, want 4), as of the .* at \d+`},
		"two versions": {each(func(i int, ev *lw.WatchEvent[*Widget]) { ev.ResourceVersion = plus(ev.ResourceVersion, i) }),
			`event of .*, amid the events of \d+: all but the last of a version are Open, and no other`},
		"another object": {each(func(i int, ev *lw.WatchEvent[*Widget]) {
			if i == 0 && ev.Type != watch.Deleted {
				ev.Object = newWidget(lw.Key{Namespace: "other", Name: "one"}, 0)
			}
		}), `the events of version \d+ have no (ADDED|MODIFIED) of the .* at \d+`},
		"another type": {each(func(_ int, ev *lw.WatchEvent[*Widget]) {
			if ev.Type == watch.Modified {
				ev.Type = watch.Added
			}
		}), `the events of version \d+ have no MODIFIED of the update of .* at \d+`},
		"a second time": {func(g group) []group { return []group{g, g} },
			`[34] events of version \d+, of which nothing was written`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finds(t, tc.says, func(s lwtest.Subject[*Widget]) lwtest.Subject[*Widget] {
				b := shown(tc.shown)
				b.Source = s.Source()
				s.Source = func() lw.Source[*Widget] { return b }
				return s
			})
		})
	}
}

// A deletion has one version, which the event that tells of it has: it is later than that of the
// write before, and not later than a list without the object.
func TestVersionsOfDeletions(t *testing.T) {
	// Each deletion is followed by writes that the source leaves out, so that its version is not known.
	sparse := func(s lwtest.Subject[*Widget], later func(watches int) int) lwtest.Subject[*Widget] {
		hidden := newWidget(lw.Key{Namespace: "hidden", Name: "one"}, 0)
		var watches atomic.Int64
		src := broken{Source: s.Source(), list: func(
			src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject,
		) (metav1.ListMeta, error) {
			return src.List(ctx, opts, func(w *Widget, err error) error {
				if w.Namespace == hidden.Namespace {
					return nil
				}
				return yield(w, err)
			})
		}, watch: func(
			src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent,
		) error {
			later := later(int(watches.Add(1)))
			return src.Watch(ctx, opts, func(ev lw.WatchEvent[*Widget]) error {
				if ev.Key().Namespace == hidden.Namespace {
					return nil
				}
				if ev.Type == watch.Deleted {
					ev.ResourceVersion = plus(ev.ResourceVersion, later)
				}
				return yield(ev)
			})
		}}
		s.Source, s.Transact = func() lw.Source[*Widget] { return src }, nil
		create, remove := s.Create, s.Delete
		s.Delete = func(key lw.Key) error {
			err := remove(key)
			if err == nil {
				_, err = create(hidden)
			}
			return errors.Join(err, remove(lw.KeyOf(hidden)))
		}
		return s
	}
	passes(t, func(tb testing.TB) {
		lwtest.Source(tb, func() lwtest.Subject[*Widget] {
			return sparse(subject(itself), func(int) int { return 0 })
		})
	})
	for name, tc := range map[string]struct {
		later func(watches int) int
		says  string
	}{
		"another one in each watch": {func(watches int) int { return watches % 2 },
			`DELETED event of .* at "\d+", want it of the deletion of \S+ at \d+`},
		"one after the list without it": {func(int) int { return 3 },
			`DELETED event of .* at "\d+", want it of the deletion of \S+ after \d+ and not after \d+`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finds(t, tc.says, func(s lwtest.Subject[*Widget]) lwtest.Subject[*Widget] { return sparse(s, tc.later) })
		})
	}
}

// A watch may start from each version that the source has shown, also from one that only a bookmark
// of another watch has: before each bookmark somebody has written what the source does not show.
func TestBookmarksOfOtherWrites(t *testing.T) {
	other := func(s lwtest.Subject[*Widget], expires bool) lwtest.Subject[*Widget] {
		hidden := newWidget(lw.Key{Namespace: "hidden", Name: "one"}, 0)
		bookmark, create, remove := s.Bookmark, s.Create, s.Delete
		s.Bookmark = func() {
			_, err := create(hidden)
			if err = errors.Join(err, remove(lw.KeyOf(hidden))); err != nil {
				panic(err)
			}
			bookmark()
		}
		var bookmarks, resumes, listed sync.Map // versions; of resumes with the selection that has had them
		src := broken{Source: s.Source(), list: func(
			src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject,
		) (metav1.ListMeta, error) {
			meta, err := src.List(ctx, opts, yield)
			listed.Store(meta.ResourceVersion, true)
			return meta, err
		}, watch: func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent) error {
			selection := opts.LabelSelector + opts.FieldSelector
			_, is := bookmarks.Load(opts.ResourceVersion)
			_, resumed := resumes.Load(opts.ResourceVersion + selection)
			if _, known := listed.Load(opts.ResourceVersion); expires && is && !resumed && !known {
				return apierrors.NewResourceExpired("too old")
			}
			return src.Watch(ctx, opts, func(ev lw.WatchEvent[*Widget]) error {
				switch {
				case ev.Key().Namespace == hidden.Namespace:
					return nil
				case ev.Type == watch.Bookmark && !ev.InitialEventsEnd:
					bookmarks.Store(ev.ResourceVersion, true)
					resumes.Store(ev.ResourceVersion+selection, true)
				default:
					listed.Store(ev.ResourceVersion, true)
				}
				return yield(ev)
			})
		}}
		s.Source, s.Transact = func() lw.Source[*Widget] { return src }, nil
		return s
	}
	passes(t, func(tb testing.TB) {
		lwtest.Source(tb, func() lwtest.Subject[*Widget] { return other(subject(itself), false) })
	})
	finds(t, `410 for a version that was not compacted`, func(s lwtest.Subject[*Widget]) lwtest.Subject[*Widget] {
		return other(s, true)
	})
}
