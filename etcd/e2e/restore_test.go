package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/internal/rig"
)

// A restoration is a history with a backup that is put back.
type restoration struct {
	name string
	// before is written after the backup and before the server is lost, and after when the server
	// is back and not yet reached.
	before, after func(w *writer)
	rewound       bool // the server has another history than the followers, as is to be noticed
}

// A writer writes things directly to the server.
type writer struct {
	t  testing.TB
	to *etcd.Collection[*thing]
}

// put creates or replaces n things, with that number in each.
func (w *writer) put(name string, n, number int) {
	w.t.Helper()
	ctx := within(w.t, time.Minute)
	for i := range n {
		obj := newThing("ns", fmt.Sprintf("%s%d", name, i), number)
		_, err := w.to.Update(ctx, obj)
		if err != nil {
			_, err = w.to.Create(ctx, obj)
		}
		noErr(w.t, err)
	}
}

func (w *writer) remove(name string) {
	w.t.Helper()
	noErr(w.t, second(w.to.Delete(within(w.t, time.Minute), lw.Key{Namespace: "ns", Name: name}, "")))
}

var restorations = []restoration{
	{"behind", func(w *writer) { w.put("n", 60, 1) }, func(w *writer) {}, true},
	{"behind, a little", func(w *writer) { w.put("n", 1, 1) }, func(w *writer) {}, true},
	{"past, with other names", func(w *writer) { w.put("n", 60, 1) }, func(w *writer) { w.put("x", 100, 2) }, true},
	{"past, with the same keys at the same revisions", func(w *writer) { w.put("n", 60, 1) }, func(w *writer) { w.put("n", 60, 2) }, true},
	{"past, with the same keys and values at the same revisions", func(w *writer) { w.put("n", 60, 1) }, func(w *writer) { w.put("n", 60, 1) }, false},
	{"past, a deletion was the last", func(w *writer) { w.put("n", 60, 1); w.remove("n59") }, func(w *writer) { w.put("x", 100, 2) }, true},
	{"past, and nothing was written after the backup", func(w *writer) {}, func(w *writer) { w.put("x", 50, 2) }, false},
}

// underway is a home with 30 things in its backup, what writes to it, and the things as its
// followers reach them.
type underway struct {
	*home
	w      *writer
	prefix string
	things *etcd.Collection[*thing]
}

func getUnderway(t testing.TB, save func(*home)) *underway {
	h, prefix := newHome(t), newPrefix()
	w := &writer{t, collect(t, h.direct, prefix, nil)}
	w.put("common", 30, 0)
	save(h)
	return &underway{h, w, prefix, collect(t, dial(t, h.proxy.addr()), prefix, nil)}
}

// TestRestore puts back a backup while two informers of one collection, and one of a part of it,
// follow it: none shows what the server does not have, and a history that is another one is
// reported.
func TestRestore(t *testing.T) {
	for _, r := range restorations {
		t.Run(r.name, func(t *testing.T) {
			h := getUnderway(t, (*home).save)
			w, prefix, things := h.w, h.prefix, h.things
			followers := []*follower{follow(t, things, prefix), follow(t, things, prefix)}
			part := follow(t, lw.WithListOptions[*thing](things, func(o *metav1.ListOptions) { o.FieldSelector = "metadata.namespace=ns" }), prefix)
			followers = append(followers, part)
			r.before(w)
			for _, f := range followers {
				f.caughtUp(t, h.direct)
			}
			h.restore()
			r.after(w)
			h.reach()
			for i, f := range followers {
				rig.Met(t, time.Minute, fmt.Sprintf("follower %d of %q reports %v", i, r.name, f.errors()), func() bool { return !r.rewound || f.Status().Epoch > 0 })
				f.caughtUp(t, h.direct)
				if got := f.rewound() > 0; got != r.rewound {
					t.Errorf("follower %d: rewound: %v, want %v: %v", i, got, r.rewound, f.errors())
				}
			}
			w.put("later", 5, 3)
			for _, f := range followers {
				f.caughtUp(t, h.direct)
			}
		})
	}
}

// TestRestoreWatch is TestRestore without an informer: the watch itself fails, before an event of
// the other history.
func TestRestoreWatch(t *testing.T) {
	for _, r := range restorations {
		t.Run(r.name, func(t *testing.T) {
			h := getUnderway(t, (*home).save)
			w, things := h.w, h.things
			position, _ := watchFor(t, things, listVersion(t, things), 0)
			r.before(w)
			now := listVersion(t, w.to) // by another collection: things sees it in the watch alone
			position, _ = watchUntil(t, things, position, now)
			h.restore()
			r.after(w)
			w.put("later", 1, 3)
			h.reach()
			var events int
			rig.Met(t, time.Minute, "the server cannot be reached", func() bool {
				var err error
				events = 0
				err = things.Watch(within(t, 10*time.Second), metav1.ListOptions{ResourceVersion: position}, func(lw.WatchEvent[*thing]) error {
					events++
					return errEnough
				})
				var network interface{ Timeout() bool }
				if errors.As(err, &network) {
					return false
				}
				if r.rewound != errors.Is(err, lw.ErrRewound) {
					t.Fatalf("Watch: %v, after %d events", err, events)
				}
				return true
			})
			if r.rewound != (events == 0) {
				t.Errorf("%d events, rewound: %v", events, r.rewound)
			}
		})
	}
}

// TestRestoreMarked restores with what etcd has for it: all revisions before are marked as
// compacted, and every watch lists again.
func TestRestoreMarked(t *testing.T) {
	h := getUnderway(t, (*home).saveSnapshot)
	w := h.w
	f := follow(t, h.things, h.prefix)
	w.put("n", 60, 1)
	f.caughtUp(t, h.direct)
	h.restoreSnapshot(1000)
	w.put("x", 10, 2)
	h.reach()
	f.caughtUp(t, h.direct)
	if s := f.Status(); s.ListCauses["expired"] != 1 || s.Epoch != 0 {
		t.Errorf("the lists: %v, epoch %d; want one that follows 410", s.ListCauses, s.Epoch)
	}
}
