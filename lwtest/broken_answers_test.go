package lwtest_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		"a page with an error": {broken{list: func(
			src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject,
		) (metav1.ListMeta, error) {
			if opts.Continue != "" {
				return metav1.ListMeta{}, errors.New("no page")
			}
			return src.List(ctx, opts, yield)
		}}, `page \d+: no page`},
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

// unkept is a Writable that keeps all promises but what its functions do.
type unkept struct {
	*lw.Memory[*Widget]
	create, update func(ctx context.Context, w *Widget) (*Widget, error)
	get            func(w *Widget) *Widget
	deleted        func(version string) string
	lists          func(n int) bool
	unread         error // of each object of a list
	watches        func(ev lw.WatchEvent[*Widget]) bool
}

func (u *unkept) Create(ctx context.Context, w *Widget) (*Widget, error) {
	if u.create != nil {
		return u.create(ctx, w)
	}
	return u.Memory.Create(ctx, w)
}

func (u *unkept) Update(ctx context.Context, w *Widget) (*Widget, error) {
	if u.update != nil {
		return u.update(ctx, w)
	}
	return u.Memory.Update(ctx, w)
}

func (u *unkept) Get(ctx context.Context, key lw.Key) (*Widget, error) {
	w, err := u.Memory.Get(ctx, key)
	if err == nil && u.get != nil {
		w = u.get(w)
	}
	return w, err
}

func (u *unkept) Delete(ctx context.Context, key lw.Key, at string) (string, error) {
	version, err := u.Memory.Delete(ctx, key, at)
	if err == nil && u.deleted != nil {
		version = u.deleted(version)
	}
	return version, err
}

func (u *unkept) List(ctx context.Context, opts metav1.ListOptions, yield yieldObject) (metav1.ListMeta, error) {
	n := 0
	return u.Memory.List(ctx, opts, func(w *Widget, err error) error {
		if n++; u.lists != nil && !u.lists(n) {
			return nil
		}
		return yield(w, cmp.Or(err, u.unread))
	})
}

func (u *unkept) Watch(ctx context.Context, opts metav1.ListOptions, yield yieldEvent) error {
	return u.Memory.Watch(ctx, opts, func(ev lw.WatchEvent[*Widget]) error {
		if u.watches != nil && !u.watches(ev) {
			return nil
		}
		return yield(ev)
	})
}

// Each Writable breaks one promise.
func TestBrokenWritables(t *testing.T) {
	changed := func(w *Widget, f func(w *Widget)) *Widget {
		other := *w
		f(&other)
		return &other
	}
	created := func(f func(w *Widget)) func(u *unkept) {
		return func(u *unkept) {
			u.create = func(ctx context.Context, w *Widget) (*Widget, error) {
				w, err := u.Memory.Create(ctx, w)
				if err == nil {
					w = changed(w, f)
				}
				return w, err
			}
		}
	}
	for name, tc := range map[string]struct {
		spoil func(u *unkept)
		says  string
	}{
		"a create over what is there": {func(u *unkept) {
			u.create = func(ctx context.Context, w *Widget) (*Widget, error) {
				w, err := u.Memory.Create(ctx, w)
				if apierrors.IsAlreadyExists(err) {
					return u.Memory.Update(ctx, w)
				}
				return w, err
			}
		}, `create .*: the error is .*, want .*\(AlreadyExists\)`},
		"another content": {created(func(w *Widget) { w.Size = 9 }),
			`create .*: it returned .*"Size":9.*, want .*"Size":[012]`},
		"another UID": {created(func(w *Widget) { w.UID = "another" }),
			`create .*: after a wait for \d+ the informer shows .*, want .*another`},
		"no UID": {created(func(w *Widget) { w.UID = "" }), `create .*: it returned UID ""`},
		"an update of any version": {func(u *unkept) {
			u.update = func(ctx context.Context, w *Widget) (*Widget, error) {
				return u.Memory.Update(ctx, changed(w, func(w *Widget) { w.ResourceVersion = "" }))
			}
		}, `update .* of version \d+.*: the error is .*, want .*\(Conflict\)`},
		"a write when the context is done": {func(u *unkept) {
			u.create = func(ctx context.Context, w *Widget) (*Widget, error) {
				return u.Memory.Create(context.WithoutCancel(ctx), w)
			}
		}, `create of .* when the context is done: the error is .*, want .*\(Canceled\)`},
		"a deletion without a version": {func(u *unkept) {
			u.deleted = func(string) string { return "" }
		}, `delete .*: resource version ""`},
		"a deletion of an older version": {func(u *unkept) {
			u.deleted = func(string) string { return "1" }
		}, `delete .*: it returned version 1 after \d+`},
		"a deletion of the version of the write before": {func(u *unkept) {
			u.deleted = func(version string) string { return plus(version, -1) }
		}, `delete .*: it returned version \d+ after \d+`},
		"a create of the version of the write before": {func(u *unkept) {
			first := true // whose version is after nothing
			u.create = func(ctx context.Context, w *Widget) (*Widget, error) {
				w, err := u.Memory.Create(ctx, w)
				if err == nil && !first {
					w = changed(w, func(w *Widget) { w.ResourceVersion = plus(w.ResourceVersion, -1) })
				}
				first = first && err != nil
				return w, err
			}
		}, `create .*: it returned version \d+ after \d+`},
		"a version without a change": {func(u *unkept) {
			u.update = func(ctx context.Context, w *Widget) (*Widget, error) {
				was, _ := u.Memory.Get(ctx, lw.KeyOf(w))
				w, err := u.Memory.Update(ctx, w)
				if err == nil && w.ResourceVersion == was.ResourceVersion {
					_, _ = u.Memory.Update(ctx, changed(w, func(w *Widget) { w.Size = 9 }))
					return u.Memory.Update(ctx, changed(w, func(w *Widget) { w.ResourceVersion = "" }))
				}
				return w, err
			}
		}, `update .* of version \d+.*: the error is .*\(Conflict\), want .*\(none\)`},
		"Get of another content": {func(u *unkept) {
			u.get = func(w *Widget) *Widget { return changed(w, func(w *Widget) { w.Size = 9 }) }
		}, `get .*: .*"Size":9.*, want .*"Size":[012]`},
		"a list without the first object": {func(u *unkept) {
			u.lists = func(n int) bool { return n > 1 }
		}, `a list has .*: false, want true`},
		"a list of objects that cannot be read": {func(u *unkept) { u.unread = errors.New("unreadable") },
			`list: the error is unreadable .*, want .*\(none\)`},
		"a watch without news": {func(u *unkept) {
			u.watches = func(lw.WatchEvent[*Widget]) bool { return false }
		}, `(create|update|delete) .*: .*waiting for resource version \d+ .*deadline exceeded`},
		"a watch without deletions": {func(u *unkept) {
			u.watches = func(ev lw.WatchEvent[*Widget]) bool { return ev.Type != watch.Deleted }
		}, `delete .*: .*deadline exceeded|the informer shows it: true`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			findsIn(t, tc.says, "The writes:", func(tb testing.TB) {
				lwtest.Writable(tb, func() (lw.Writable[*Widget], func()) {
					u := &unkept{Memory: lw.NewMemory[*Widget]()}
					tc.spoil(u)
					return u, nil
				}, newWidget, func(w *Widget, n int) { w.Size = n })
			})
		})
	}
}

// What can only be followed shows what was not written.
func TestBrokenFollows(t *testing.T) {
	for name, tc := range map[string]struct {
		list func(objs []*Widget) []*Widget // of two or more
		says string
	}{
		"nothing": {func(objs []*Widget) []*Widget {
			return objs[:0]
		}, `shows a state that the collection never had.*: .* is not there`},
		"no news": {func(objs []*Widget) []*Widget {
			return slices.DeleteFunc(objs, func(w *Widget) bool { return w.Namespace != "old" })
		}, `after 50ms the informer does not show what was written: .* is not there`},
		"one more": {func(objs []*Widget) []*Widget {
			return append(objs, newWidget(lw.Key{Name: "more"}, 0))
		}, `shows a state that the collection never had.*: /?more is there, and should not be`},
		"another content": {func(objs []*Widget) []*Widget {
			for _, w := range objs {
				w.Size = -1
			}
			return objs
		}, `shows a state that the collection never had.*: .* is .*"Size":-1.*, want`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finds(t, tc.says, func(lwtest.Subject[*Widget]) lwtest.Subject[*Widget] {
				first := newWidget(lw.Key{Namespace: "old", Name: "one"}, 0)
				w := &world{objs: map[lw.Key]*Widget{lw.KeyOf(first): first}}
				return followed(w, lw.Poll(func(ctx context.Context) ([]*Widget, error) {
					objs, err := w.list(ctx)
					if len(objs) > 1 {
						objs = tc.list(objs)
					}
					return objs, err
				}, 200*time.Microsecond))
			})
		})
	}
}

// An error of what is followed is one of the source, unless a call of Disconnect or Compact may be
// its cause; a protocol error always is.
func TestErrorsOfFollows(t *testing.T) {
	type tested = lwtest.Subject[*Widget]
	const (
		disconnect, compact           = "Disconnect", "Compact"
		afterIt, instead, unversioned = "after an event", "in place of an event", "without a version"
	)
	// From a call of after on, or always, each watch ends with an error after an event, or in place of
	// it, or has an event without a version.
	follows := func(s tested, after, how string) tested {
		var broke atomic.Bool
		broke.Store(after == "")
		src := broken{Source: s.Source(), watch: func(
			src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent,
		) error {
			initial := streams(opts)
			return src.Watch(ctx, opts, func(ev lw.WatchEvent[*Widget]) error {
				breaks := broke.Load() && ev.Type != watch.Bookmark && !ev.Open && !initial
				initial = initial && !ev.InitialEventsEnd
				if breaks && how == unversioned {
					ev.ResourceVersion = ""
				}
				if !breaks || how != instead {
					if err := yield(ev); err != nil || !breaks {
						return err
					}
				}
				return errors.New("no more widgets")
			})
		}}
		s.Follows, s.Source = true, func() lw.Source[*Widget] { return src }
		breaking := func(name string, do func()) func() {
			if after != name {
				return nil
			}
			return func() { broke.Store(true); do() }
		}
		s.Disconnect, s.Compact = breaking(disconnect, s.Disconnect), breaking(compact, s.Compact)
		return s
	}
	for name, tc := range map[string]struct {
		after, how string
		says       string // "": nothing
	}{
		"an error":                          {"", afterIt, "no more widgets"},
		"an error in place of an event":     {"", instead, "no more widgets"},
		"an error after Disconnect":         {disconnect, afterIt, ""},
		"an error after Compact":            {compact, afterIt, ""},
		"a protocol error":                  {"", unversioned, "protocol error"},
		"a protocol error after Disconnect": {disconnect, unversioned, "protocol error"},
		"a protocol error after Compact":    {compact, unversioned, "protocol error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.says != "" {
				finds(t, "the informer reports: .*"+tc.says, func(s tested) tested { return follows(s, tc.after, tc.how) })
				return
			}
			passes(t, func(tb testing.TB) {
				lwtest.Source(tb, func() tested {
					s := follows(subject(itself), tc.after, tc.how)
					s.Patience = time.Hour // after many errors an informer pauses for long
					return s
				})
			})
		})
	}
}
