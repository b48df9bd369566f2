package etcd_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/etcd/internal/fakeetcd"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/verify/rig"
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
	rig.OK(w.t, err)
	return meta
}

// follows watches from a version for a second, and returns what it was told.
func (w *follower) follows(version string, opts metav1.ListOptions, yield func(n int) error) (got []string, err error) {
	opts.ResourceVersion, opts.TimeoutSeconds = version, new(int64(1))
	err = w.c.Watch(w.ctx, opts, func(ev lw.WatchEvent[*item]) error {
		got = append(got, told(ev))
		if yield != nil {
			return yield(len(got))
		}
		return nil
	})
	return got, err
}

// A historian follows a script, and has a position in the end.
type historian struct {
	follower
	one      fakeetcd.Backup // a state with something in it, at revision 2
	position string
	written  string // the version of the last write
	token    string // of the first page
}

// does makes one step of a script:
//
//	a=1        writes a value below ns/, or, with a slash, at that key
//	a=         deletes it; a,b=1 writes both at one revision
//	restore    puts back what was there in the beginning
//	elsewhere  writes past the collection
//	list       lists all, and takes the position
//	page       lists the first page, and takes the position
//	next       lists the page behind it, and rest all that is behind it
//	probe      asks for the version of the server, which is no list
//	watch      watches from the position for a second, and takes that of the last write
//	start      is watch, from the beginning
//	select     is watch, of another key than those that are written
//	peek       is watch, and takes no position
//	marks      is watch, until a bookmark, and takes that
//	fail1      is watch, and fails at the first event
//	fail2      is watch, and fails at the second event, and takes the position of the first
func (h *historian) does(step string) {
	h.t.Helper()
	watch := func(from string, opts metav1.ListOptions) []string {
		got, _ := h.follows(from, opts, nil)
		return got
	}
	fails := func(at int) []string {
		got, err := h.follows(h.position, metav1.ListOptions{}, func(n int) error {
			if n == at {
				return errEnough
			}
			return nil
		})
		if err != errEnough || len(got) != at {
			h.t.Errorf("%s: %v, %v", step, got, err)
		}
		return got
	}
	version := func(told string) string { return strings.Fields(told)[2] }
	switch step {
	case "restore":
		h.Restore(h.one)
	case "elsewhere":
		h.write2("/elsewhere", "x")
	case "list":
		h.position = h.sees(metav1.ListOptions{}).ResourceVersion
	case "page":
		page := h.sees(metav1.ListOptions{Limit: 1})
		h.position, h.token = page.ResourceVersion, page.Continue
	case "next":
		h.sees(metav1.ListOptions{Limit: 1, Continue: h.token})
	case "rest":
		h.sees(metav1.ListOptions{Continue: h.token})
	case "probe":
		(&follower{h.fake, h.c, request.AsProbe(h.ctx)}).sees(metav1.ListOptions{Limit: 1})
	case "watch", "start", "select":
		from, opts := h.position, metav1.ListOptions{}
		if step == "start" {
			from = ""
		} else if step == "select" {
			opts.FieldSelector = "metadata.name=z"
		}
		watch(from, opts)
		h.position = h.written
	case "peek":
		watch(h.position, metav1.ListOptions{})
	case "marks":
		time.AfterFunc(time.Millisecond, func() { h.c.Hints().Progress() })
		got := watch(h.position, metav1.ListOptions{AllowWatchBookmarks: true})
		if len(got) != 2 {
			h.t.Fatalf("want an event and a bookmark: %v", got)
		}
		h.position = version(got[1])
	case "fail1":
		fails(1)
	case "fail2":
		h.position = version(fails(2)[0])
	default:
		keys, value, _ := strings.Cut(step, "=")
		var pairs []string
		for _, key := range strings.Split(keys, ",") {
			if !strings.Contains(key, "/") {
				key = "ns/" + key
			}
			pairs = append(pairs, key, value)
		}
		h.written = h.write(pairs...)
	}
}

// TestHistory: whether a watch from a position is told that the server has another history.
func TestHistory(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		of           string // what the watch selects; "": all
		want         bool
	}{
		{"nothing has happened", "list", "", false},
		{"it is behind", "a=1 list restore", "", true},
		{"a list, and another value", "a=1 list restore a=2", "", true},
		{"a list, and the same value", "a=1 list restore a=1", "", false},
		{"a list, and the key at another revision", "a=1 b=1 list restore b=1 a=1", "", true},
		{"a list without objects", "z= list restore z=2", "", false},
		{"an event, and the key is not there", "list b=1 watch restore c=1", "", true},
		{"an event of a watch with a selector", "list b=1 select restore c=1", "", true},
		{"a bookmark behind it", "list b=1 elsewhere marks restore c=1 elsewhere", "", true},
		{"a watch from the beginning", "a=1 start restore a=2", "", true},
		{"a watch in which nothing happened", "a=1 list watch restore a=2", "", true},
		{"a page before, the newest key in it", "b=1 a=1 page next restore b=1 c=1", "", true},
		{"the last page, the newest key in it", "a=1 b=1 page rest restore a=1 c=1", "", true},
		{"a list at the same revision in the new history", "a=1 list restore a=2 list", "", false},
		{"a question in the new history is no list", "a=1 list restore a=2 probe", "", true},
		{"the newest key was deleted", "a=1 list a= watch", "", false},
		{"the newest key was deleted, and another was not made", "b=1 a=1 list a= watch restore c=1 d=1 e=1", "", true},
		{"all keys were deleted, and one was not", "list z= watch restore a=1", "", true},
		{"all keys were deleted", "list z= watch", "", false},
		{"the last page was read twice, and the newest key deleted", "a=1 b=1 page rest rest b= watch", "", false},
		{"another watch has seen more since", "a,b,c,d=1 list e,f,g,h=1 peek", "", false},
		{"yield has failed before the last event", "list a=1 b=1 fail1", "", false},
		{"yield has failed at the second event", "list a=1 a=2 a=3 fail2", "", false},
		{"the one key that is selected is another", "a=1 b=1 list restore a=2 b=1", "metadata.namespace=ns,metadata.name=a",
			true},
		{"a selected key is as it was", "a=1 other/a=1 list restore a=1 other/b=1", "metadata.namespace=ns", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, reflector := range []bool{false, true} {
				bubble(t, func(t *testing.T, f *fake) {
					h := &historian{follower: follower{f, f.collection(0), t.Context()}}
					if reflector {
						h.ctx = request.WithMemo(h.ctx)
					}
					f.write("ns/z", "0")
					h.one = f.Save()
					for _, step := range strings.Fields(tt.script) {
						h.does(step)
					}
					f.write("later/x", "1")
					got, err := h.follows(h.position, metav1.ListOptions{FieldSelector: tt.of}, nil)
					if rewound(err) != tt.want || !tt.want && err != nil || tt.want && len(got) > 0 {
						t.Errorf("with a reflector %v, from %s: %v, %v", reflector, h.position, got, err)
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
			rig.OK(t, inf.WaitForResourceVersion(within(t), version))
			time.Sleep(time.Millisecond)
			synctest.Wait() // after this the race detector knows that the handler's calls came before
			want[what] = 40
			rig.Same(t, what, want, calls)
		}
		if s := inf.Status(); rig.Relists(s) > 0 || s.Failed > 0 {
			t.Errorf("%d relists, %d failed requests", rig.Relists(s), s.Failed)
		}
	})
}

// TestInformerRestore: an informer over a server that was restored reports it, and has what is
// there.
func TestInformerRestore(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		var errs rig.Errors
		inf := lw.NewInformer(f.collection(time.Second), &lw.Options{OnError: errs.Add})
		f.write("ns/a", `{}`)
		backup := f.Save()
		go inf.Run(t.Context())
		rig.OK(t, inf.WaitForResourceVersion(within(t), f.write("ns/b", `{}`)))
		f.Restore(backup)
		f.write("ns/c", `{}`)
		time.Sleep(time.Minute)
		_, b := inf.Store().Get(lw.Key{Namespace: "ns", Name: "b"})
		_, c := inf.Store().Get(lw.Key{Namespace: "ns", Name: "c"})
		if s := inf.Status(); b || !c || s.Epoch != 1 || errs.Count(lw.ErrRewound) == 0 {
			t.Errorf("b %v, c %v, epoch %d, %v", b, c, s.Epoch, errs.All())
		}
	})
}
