package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/etcd/internal/fakeetcd"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/rig"
)

// A follower lists and watches by itself, with or without what a reflector has in its context.
type follower struct {
	*fake
	c   *etcd.Collection[*item]
	ctx context.Context
}

// sees lists all, and returns the version.
func (w *follower) sees(opts metav1.ListOptions) metav1.ListMeta {
	w.t.Helper()
	meta, err := w.c.List(w.ctx, opts, func(*item, error) error { return nil })
	if err != nil {
		w.t.Fatal(err)
	}
	return meta
}

// follows watches from a version for a second, and returns what it was told.
func (w *follower) follows(version string, opts metav1.ListOptions, yield func(n int) error) (got []string, err error) {
	one := int64(1)
	opts.ResourceVersion, opts.TimeoutSeconds = version, &one
	err = w.c.Watch(w.ctx, opts, func(ev lw.WatchEvent[*item]) error {
		got = append(got, told(ev))
		if yield != nil {
			return yield(len(got))
		}
		return nil
	})
	return got, err
}

// TestHistory: whether a watch from a position is told that the server has another history.
func TestHistory(t *testing.T) {
	all := metav1.ListOptions{}
	marks := metav1.ListOptions{AllowWatchBookmarks: true}
	// one is a state with something in it, at revision 2; restored is that state again.
	type server struct {
		*follower
		one fakeetcd.Backup
	}
	for _, tt := range []struct {
		name string
		do   func(s *server) (position string)
		want bool
	}{
		{"nothing has happened", func(s *server) string { return s.sees(all).ResourceVersion }, false},
		{"it is behind", func(s *server) string {
			s.write("ns/a", "1")
			at := s.sees(all).ResourceVersion
			s.Restore(s.one)
			return at
		}, true},
		{"a list, and another value", func(s *server) string {
			s.write("ns/a", "1")
			at := s.sees(all).ResourceVersion
			s.Restore(s.one)
			s.write("ns/a", "2")
			return at
		}, true},
		{"a list, and the same value", func(s *server) string {
			s.write("ns/a", "1")
			at := s.sees(all).ResourceVersion
			s.Restore(s.one)
			s.write("ns/a", "1")
			return at
		}, false},
		{"a list, and the key at another revision", func(s *server) string {
			s.write("ns/a", "1")
			s.write("ns/b", "1")
			at := s.sees(all).ResourceVersion
			s.Restore(s.one)
			s.write("ns/b", "1")
			s.write("ns/a", "1")
			return at
		}, true},
		{"a list without objects", func(s *server) string {
			s.write("ns/z", "")
			at := s.sees(all).ResourceVersion
			s.Restore(s.one)
			s.write("ns/z", "2")
			return at
		}, false},
		{"an event, and the key is not there", func(s *server) string {
			from := s.sees(all).ResourceVersion
			at := s.write("ns/b", "1")
			_, _ = s.follows(from, all, nil)
			s.Restore(s.one)
			s.write("ns/c", "1")
			return at
		}, true},
		{"an event of a watch with a selector", func(s *server) string {
			from := s.sees(all).ResourceVersion
			at := s.write("ns/b", "1")
			_, _ = s.follows(from, metav1.ListOptions{FieldSelector: "metadata.name=z"}, nil)
			s.Restore(s.one)
			s.write("ns/c", "1")
			return at
		}, true},
		{"a bookmark behind it", func(s *server) string {
			from := s.sees(all).ResourceVersion
			s.write("ns/b", "1")
			s.write2("/elsewhere", "x")
			time.AfterFunc(time.Millisecond, func() { s.c.Hints().Progress() })
			got, _ := s.follows(from, marks, nil)
			s.Restore(s.one)
			s.write("ns/c", "1")
			s.write2("/elsewhere", "x")
			if len(got) != 2 {
				s.t.Errorf("want an event and a bookmark: %v", got)
			}
			return "4"
		}, true},
		{"a watch from the beginning", func(s *server) string {
			at := s.write("ns/a", "1")
			_, _ = s.follows("", all, nil)
			s.Restore(s.one)
			s.write("ns/a", "2")
			return at
		}, true},
		{"a watch in which nothing happened", func(s *server) string {
			at := s.write("ns/a", "1")
			_, _ = s.follows(s.sees(all).ResourceVersion, all, nil)
			s.Restore(s.one)
			s.write("ns/a", "2")
			return at
		}, true},
		{"a page before, the newest key in it", func(s *server) string {
			s.write("ns/b", "1")
			s.write("ns/a", "1")
			page := s.sees(metav1.ListOptions{Limit: 1})
			s.sees(metav1.ListOptions{Limit: 1, Continue: page.Continue})
			s.Restore(s.one)
			s.write("ns/b", "1")
			s.write("ns/c", "1")
			return page.ResourceVersion
		}, true},
		{"the last page, the newest key in it", func(s *server) string {
			s.write("ns/a", "1")
			s.write("ns/b", "1")
			page := s.sees(metav1.ListOptions{Limit: 1})
			s.sees(metav1.ListOptions{Continue: page.Continue})
			s.Restore(s.one)
			s.write("ns/a", "1")
			s.write("ns/c", "1")
			return page.ResourceVersion
		}, true},
		{"a list at the same revision in the new history", func(s *server) string {
			at := s.write("ns/a", "1")
			s.sees(all)
			s.Restore(s.one)
			s.write("ns/a", "2")
			s.sees(all)
			return at
		}, false},
		{"a question in the new history is no list", func(s *server) string {
			at := s.write("ns/a", "1")
			s.sees(all)
			s.Restore(s.one)
			s.write("ns/a", "2")
			if _, err := s.c.List(request.AsProbe(s.ctx), metav1.ListOptions{Limit: 1}, func(*item, error) error { return nil }); err != nil {
				s.t.Error(err)
			}
			return at
		}, true},
		{"the newest key was deleted", func(s *server) string {
			s.write("ns/a", "1")
			from := s.sees(all).ResourceVersion
			at := s.write("ns/a", "")
			_, _ = s.follows(from, all, nil)
			return at
		}, false},
		{"the newest key was deleted, and another was not made", func(s *server) string {
			s.write("ns/b", "1")
			s.write("ns/a", "1")
			from := s.sees(all).ResourceVersion
			at := s.write("ns/a", "")
			_, _ = s.follows(from, all, nil)
			s.Restore(s.one)
			s.write("ns/c", "1")
			s.write("ns/d", "1")
			s.write("ns/e", "1")
			return at
		}, true},
		{"all keys were deleted, and one was not", func(s *server) string {
			from := s.sees(all).ResourceVersion
			at := s.write("ns/z", "")
			_, _ = s.follows(from, all, nil)
			s.Restore(s.one)
			s.write("ns/a", "1")
			return at
		}, true},
		{"all keys were deleted", func(s *server) string {
			from := s.sees(all).ResourceVersion
			at := s.write("ns/z", "")
			_, _ = s.follows(from, all, nil)
			return at
		}, false},
		{"the last page was read twice, and the newest key deleted", func(s *server) string {
			s.write("ns/a", "1")
			s.write("ns/b", "1")
			page := s.sees(metav1.ListOptions{Limit: 1})
			s.sees(metav1.ListOptions{Continue: page.Continue})
			s.sees(metav1.ListOptions{Continue: page.Continue})
			at := s.write("ns/b", "")
			_, _ = s.follows(page.ResourceVersion, all, nil)
			return at
		}, false},
		{"another watch has seen more since", func(s *server) string {
			s.write("ns/a", "1", "ns/b", "1", "ns/c", "1", "ns/d", "1")
			from := s.sees(all).ResourceVersion
			s.write("ns/e", "1", "ns/f", "1", "ns/g", "1", "ns/h", "1")
			_, _ = s.follows(from, all, nil)
			return from
		}, false},
		{"yield has failed before the last event", func(s *server) string {
			from := s.sees(all).ResourceVersion
			s.write("ns/a", "1")
			s.write("ns/b", "1")
			if _, err := s.follows(from, all, func(int) error { return errEnough }); err != errEnough {
				s.t.Errorf("%v", err)
			}
			return from
		}, false},
		{"yield has failed at the second event", func(s *server) string {
			from := s.sees(all).ResourceVersion
			at := s.write("ns/a", "1")
			s.write("ns/a", "2")
			s.write("ns/a", "3")
			if _, err := s.follows(from, all, func(n int) error { return []error{nil, nil, errEnough}[n] }); err != errEnough {
				s.t.Errorf("%v", err)
			}
			return at
		}, false},
		{"the one key that is selected is another", func(s *server) string {
			s.write("ns/a", "1")
			s.write("ns/b", "1")
			at := s.sees(all).ResourceVersion
			s.Restore(s.one)
			s.write("ns/a", "2")
			s.write("ns/b", "1")
			return at + " of ns/a"
		}, true},
		{"a selected key is as it was", func(s *server) string {
			s.write("ns/a", "1")
			s.write("other/a", "1")
			at := s.sees(all).ResourceVersion
			s.Restore(s.one)
			s.write("ns/a", "1")
			s.write("other/b", "1")
			return at + " of ns"
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, reflector := range []bool{false, true} {
				bubble(t, func(t *testing.T, f *fake) {
					s := &server{follower: &follower{f, f.collection(0), t.Context()}}
					if reflector {
						s.ctx = request.WithMemo(s.ctx)
					}
					f.write("ns/z", "0")
					s.one = f.Save()
					position, opts := tt.do(s), all
					if at, namespace, ok := strings.Cut(position, " of "); ok {
						namespace, name, one := strings.Cut(namespace, "/")
						position, opts.FieldSelector = at, "metadata.namespace="+namespace
						if one {
							opts.FieldSelector += ",metadata.name=" + name
						}
					}
					f.write("later/x", "1")
					got, err := s.follows(position, opts, nil)
					if rewound(err) != tt.want || !tt.want && err != nil || tt.want && len(got) > 0 {
						t.Errorf("with a reflector %v, from %s: %v, %v", reflector, position, got, err)
					}
				})
			}
		})
	}
}

// TestReflectors: each reflector has a position and a fingerprint of its own.
func TestReflectors(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.collection(0)
		var all []*follower
		for i := range 2 {
			begun := f.Save()
			w := &follower{f, c, request.WithMemo(t.Context())}
			f.write("ns/a", fmt.Sprint(i))
			w.sees(metav1.ListOptions{})
			if all = append(all, w); i == 0 {
				f.Restore(begun)
			}
		}
		for i, w := range all {
			if _, err := w.follows("2", metav1.ListOptions{}, nil); rewound(err) != (i == 0) {
				t.Errorf("reflector %d: %v", i, err)
			}
		}
	})
}

// TestNotes: what is kept of those who are no reflectors is bounded, and what is newest is kept.
func TestNotes(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		w := &follower{f, f.collection(0), t.Context()}
		for i := range 257 {
			f.write("ns/a", fmt.Sprint(i))
			w.sees(metav1.ListOptions{})
		}
		w.sees(metav1.ListOptions{}) // at a version that is there
		f.asked()
		for version, want := range map[string]string{"2": "/w/ at 2 count", "3": "/w/ns/a at 3", "258": "/w/ns/a at 258"} {
			_, err := w.follows(version, metav1.ListOptions{}, func(int) error { return errEnough })
			if got := f.asked(); len(got) != 1 || got[0] != want {
				t.Errorf("from %s: %v, %v; want %s", version, got, err, want)
			}
		}
	})
}

// TestTransaction: an informer tells of each object of a large transaction once, and of none of
// those that another one has.
func TestTransaction(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		inf := lw.NewInformer(f.collection(time.Second), nil)
		calls := map[string]int{}
		inf.AddHandler(lw.Handler[*item]{
			Add:    func(i *item) { calls[fmt.Sprint("add ", i.N)]++ },
			Update: func(old, i *item) { calls[fmt.Sprint("update ", old.N, i.N)]++ },
			Delete: func(i *item) { calls[fmt.Sprint("delete ", i.N)]++ },
		})
		go inf.Run(t.Context())
		want := map[string]int{}
		for n, what := range []string{"add 0", "update 0 1", "delete 1"} {
			var pairs []string
			for i := range 40 {
				text := fmt.Sprintf(`{"n":%d}`, n)
				if what == "delete 1" {
					text = ""
				}
				pairs = append(pairs, fmt.Sprintf("ns/a%02d", i), text)
			}
			version := f.write(pairs...)
			if err := inf.WaitForResourceVersion(within(t), version); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait() // after this the race detector knows that the handler's calls came before
			want[what] = 40
			if diff := cmp.Diff(want, calls); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		if s := inf.Status(); rig.Relists(s) > 0 || s.Failed > 0 {
			t.Errorf("%d relists, %d failed requests", rig.Relists(s), s.Failed)
		}
	})
}

// TestInformerRestore: an informer over a server that was restored reports it, and has what is there.
func TestInformerRestore(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		var errs []error
		inf := lw.NewInformer(f.collection(time.Second), &lw.Options{OnError: func(err error) { errs = append(errs, err) }})
		f.write("ns/a", `{}`)
		backup := f.Save()
		go inf.Run(t.Context())
		if err := inf.WaitForResourceVersion(within(t), f.write("ns/b", `{}`)); err != nil {
			t.Fatal(err)
		}
		f.Restore(backup)
		f.write("ns/c", `{}`)
		time.Sleep(time.Minute)
		_, b := inf.Store().Get(lw.Key{Namespace: "ns", Name: "b"})
		_, c := inf.Store().Get(lw.Key{Namespace: "ns", Name: "c"})
		told := false
		for _, err := range errs {
			told = told || errors.Is(err, lw.ErrRewound)
		}
		if s := inf.Status(); b || !c || s.Epoch != 1 || !told {
			t.Errorf("b %v, c %v, epoch %d, %v", b, c, s.Epoch, errs)
		}
	})
}
