package lwtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// another returns w with another UID.
func another(w *Widget) *Widget {
	other := *w
	other.UID = "another"
	return &other
}

// Each source breaks a promise about one answer, or one event: no other check need find it.
func TestBrokenAnswers(t *testing.T) {
	lists := func(
		opts func(*metav1.ListOptions), meta func(metav1.ListOptions, *metav1.ListMeta),
		obj func(*Widget, error) (*Widget, error),
	) broken {
		return broken{list: func(
			src lw.Source[*Widget], ctx context.Context, o metav1.ListOptions, yield yieldObject,
		) (metav1.ListMeta, error) {
			asked := o
			if opts != nil {
				opts(&o)
			}
			m, err := src.List(ctx, o, func(w *Widget, err error) error {
				if obj != nil {
					w, err = obj(w, err)
				}
				return yield(w, err)
			})
			if meta != nil {
				meta(asked, &m)
			}
			return m, err
		}}
	}
	each := func(f func(ev *lw.WatchEvent[*Widget])) broken {
		return events(func(_ int, ev lw.WatchEvent[*Widget], yield yieldEvent) error {
			f(&ev)
			return yield(ev)
		})
	}
	for name, tc := range map[string]struct {
		broken broken
		says   string
	}{
		"a list with an error for an object": {lists(nil, nil, func(*Widget, error) (*Widget, error) {
			return nil, errors.New("no widget")
		}), `List has yielded an error: no widget`},
		"a list of two goroutines": {broken{list: func(
			src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject,
		) (metav1.ListMeta, error) {
			return src.List(ctx, opts, func(w *Widget, err error) error {
				first := make(chan error)
				go func() { first <- yield(w, err) }()
				second := yield(w, err)
				return errors.Join(<-first, second)
			})
		}}, `List has yielded while yield was running|twice|returned`},
		"a list that says that there is more": {lists(nil, func(asked metav1.ListOptions, m *metav1.ListMeta) {
			if asked.Limit == 0 {
				m.Continue = "more"
			}
		}, nil), `is not whole, and no limit was asked for`},
		"a list of another version than was asked for": {lists(func(o *metav1.ListOptions) {
			if o.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
				o.ResourceVersion, o.ResourceVersionMatch = "", ""
			}
		}, nil, nil), `Exact is at \d+`},
		"objects with other UIDs": {lists(nil, nil, func(w *Widget, err error) (*Widget, error) {
			return another(w), err
		}), `is there with UID "another"`},
		"pages of several versions": {lists(nil, func(asked metav1.ListOptions, m *metav1.ListMeta) {
			if asked.Continue != "" {
				m.ResourceVersion = plus(m.ResourceVersion, 1)
			}
		}, nil), `page \d+ is at \d+, the ones before it at`},
		"pages that are too long": {lists(func(o *metav1.ListOptions) {
			if o.Limit > 0 {
				o.Limit++
			}
		}, nil, nil), `page \d+ has \d+ objects, of \d+ at most`},
		"pages without an end": {lists(func(o *metav1.ListOptions) {
			o.Continue = ""
		}, func(asked metav1.ListOptions, m *metav1.ListMeta) {
			if asked.Limit > 0 {
				m.Continue = "again"
			}
		}, nil), `the pages do not end|page \d+ is at`},
		"an event with an error": {each(func(ev *lw.WatchEvent[*Widget]) {
			ev.Err = errors.New("no widget")
		}), `event with an error: no widget`},
		"an event without a version": {each(func(ev *lw.WatchEvent[*Widget]) {
			ev.ResourceVersion = ""
		}), `event of .* at "": resource version ""`},
		"an event of an unknown type": {each(func(ev *lw.WatchEvent[*Widget]) {
			if ev.Type == watch.Added {
				ev.Type = "RENAMED"
			}
		}), `an event of type "RENAMED"`},
		"a deletion of another UID": {each(func(ev *lw.WatchEvent[*Widget]) {
			if ev.Type == watch.Deleted && ev.Object != nil {
				ev.Object = another(ev.Object)
			}
		}), `DELETED event of .* has UID "another", want`},
		"an event of another UID": {each(func(ev *lw.WatchEvent[*Widget]) {
			if ev.Type != watch.Deleted && ev.Object != nil {
				ev.Object = another(ev.Object)
			}
		}), `event of .*is there with UID "another"`},
		"bookmarks that were not asked for": {broken{watch: func(
			src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent,
		) error {
			opts.AllowWatchBookmarks = true
			return src.Watch(ctx, opts, yield)
		}}, `a bookmark at \d+ that was not asked for`},
		"initial events that were not asked for": {each(func(ev *lw.WatchEvent[*Widget]) {
			ev.InitialEventsEnd = ev.InitialEventsEnd || ev.Type == watch.Bookmark
		}), `ends initial events that were not asked for`},
		"initial events that come twice": {broken{watch: func(
			src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent,
		) error {
			return src.Watch(ctx, opts, func(ev lw.WatchEvent[*Widget]) error {
				if err := yield(ev); err != nil || !streams(opts) || ev.Type != watch.Added {
					return err
				}
				return yield(ev)
			})
		}}, `the initial events have .* twice`},
		"initial events of an older version": {broken{watch: func(
			src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent,
		) error {
			return src.Watch(ctx, opts, func(ev lw.WatchEvent[*Widget]) error {
				if ev.InitialEventsEnd && opts.ResourceVersion != "" {
					ev.ResourceVersion = plus(opts.ResourceVersion, -1)
				}
				return yield(ev)
			})
		}}, `the initial events are of version \d+, which is older`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finds(t, tc.says, func(s lwtest.Subject[*Widget]) lwtest.Subject[*Widget] {
				b := tc.broken // they keep nothing
				b.Source = s.Source()
				s.Source = func() lw.Source[*Widget] { return b }
				return s
			})
		})
	}
}

// Each Subject's writes say something else than they did.
func TestBrokenWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		stored func(*Widget) *Widget
		says   string
	}{
		"no UID": {func(w *Widget) *Widget {
			w = another(w)
			w.UID = ""
			return w
		}, `(Create|Update) .*: it returned no UID`},
		"no version": {func(w *Widget) *Widget {
			w = another(w)
			w.ResourceVersion = ""
			return w
		}, `(Create|Update) .*: resource version ""`},
		"version zero": {func(w *Widget) *Widget {
			w = another(w)
			w.ResourceVersion = "1"
			return w
		}, `(Create|Update) .*: it returned resource version 1 after \d+`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finds(t, tc.says, func(s lwtest.Subject[*Widget]) lwtest.Subject[*Widget] {
				create, update := s.Create, s.Update
				s.Create = func(w *Widget) (*Widget, error) { w, err := create(w); return tc.stored(w), err }
				s.Update = func(w *Widget) (*Widget, error) { w, err := update(w); return tc.stored(w), err }
				return s
			})
		})
	}
	lost := []struct {
		name  string
		spoil func(stored []*Widget, version string) ([]*Widget, string)
		says  string
	}{
		{"an object less", func(stored []*Widget, version string) ([]*Widget, string) {
			return stored[:max(0, len(stored)-1)], version
		}, `Transact of .*: it returned \d of \d objects`},
		{"another version", func(stored []*Widget, version string) ([]*Widget, string) {
			return stored, plus(version, 1)
		}, `Transact of .*: it returned an object at \d+, and version \d+`},
		{"no version", func(stored []*Widget, _ string) ([]*Widget, string) {
			return stored, ""
		}, `Transact of .*: resource version ""`},
	}
	for _, tc := range lost {
		t.Run("a transaction with "+tc.name, func(t *testing.T) {
			t.Parallel()
			finds(t, tc.says, func(s lwtest.Subject[*Widget]) lwtest.Subject[*Widget] {
				transact := s.Transact
				s.Transact = func(puts []*Widget, gone []lw.Key) ([]*Widget, string, error) {
					stored, version, err := transact(puts, gone)
					stored, version = tc.spoil(stored, version)
					return stored, version, err
				}
				return s
			})
		})
	}
}
