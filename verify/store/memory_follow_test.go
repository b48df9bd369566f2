package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A follower copies a Memory in the way of a reflector: pages, then watches, and the list again
// after 410.
type follower struct {
	m    *lw.Memory[*rig.Widget]
	opts metav1.ListOptions
	seen map[lw.Key]rig.Widget
	at   string
}

func (f *follower) run(ctx context.Context) error {
	for {
		if f.at == "" {
			if err := f.list(ctx); apierrors.IsResourceExpired(err) {
				continue
			} else if err != nil {
				return err
			}
		}
		opts := f.opts
		opts.ResourceVersion = f.at
		opts.AllowWatchBookmarks = true
		err := f.m.Watch(ctx, opts, f.take)
		switch {
		case apierrors.IsResourceExpired(err):
			f.at = ""
		case err != nil:
			return err
		}
	}
}

func (f *follower) list(ctx context.Context) error {
	f.seen = map[lw.Key]rig.Widget{}
	opts := f.opts
	opts.Limit = 2
	version := ""
	for {
		page, err := f.m.List(ctx, opts, func(w *rig.Widget, err error) error {
			f.seen[lw.KeyOf(w)] = *w
			return err
		})
		if err != nil {
			return err
		}
		if version != "" && page.ResourceVersion != version {
			return fmt.Errorf("a page of %s in a list of %s", page.ResourceVersion, version)
		}
		if version = page.ResourceVersion; page.Continue == "" {
			f.at = version
			return nil
		}
		opts.Continue = page.Continue
	}
}

func (f *follower) take(ev lw.WatchEvent[*rig.Widget]) error {
	f.at = ev.ResourceVersion
	if ev.Type == watch.Bookmark {
		return nil
	}
	key := lw.KeyOf(ev.Object)
	if _, known := f.seen[key]; known == (ev.Type == watch.Added) {
		return fmt.Errorf("%s of %s, known: %v", ev.Type, key, known)
	}
	if ev.Type == watch.Deleted {
		delete(f.seen, key)
	} else {
		f.seen[key] = *ev.Object
	}
	return nil
}

// TestMemoryFollowers: whatever is written, compacted and cut meanwhile, a follower ends with what
// the Memory holds.
func TestMemoryFollowers(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { followMemory(t, seed) })
		})
	}
}

func followMemory(t *testing.T, seed uint64) {
	m := lw.NewMemory[*rig.Widget]()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	followers := []*follower{{m: m}, {m: m}, {m: m, opts: metav1.ListOptions{FieldSelector: "metadata.name!=w0"}}}
	ended := make(chan error, len(followers))
	for _, f := range followers {
		go func() { ended <- f.run(ctx) }()
	}
	var writers sync.WaitGroup
	for n := range uint64(2) {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(seed, n))
			for range 200 {
				w := rig.NewWidget(fmt.Sprintf("w%d", r.IntN(6)), r.IntN(10))
				// The errors of the three are those of a write that came too late or too early.
				switch r.IntN(12) {
				case 0:
					m.Compact()
				case 1:
					m.Disconnect()
				case 2:
					m.Bookmark()
				case 3, 4, 5:
					m.Delete(t.Context(), lw.KeyOf(w), "")
				case 6, 7, 8:
					m.Create(t.Context(), w)
				default:
					m.Update(t.Context(), w)
				}
				time.Sleep(time.Duration(r.IntN(3))) // of the bubble: lets the followers run, or not
			}
		})
	}
	writers.Wait()
	synctest.Wait()
	cancel()
	for range followers {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	want := map[lw.Key]rig.Widget{}
	for w := range m.All() {
		want[lw.KeyOf(w)] = *w
	}
	for i, f := range followers {
		if i == 2 {
			maps.DeleteFunc(want, func(k lw.Key, _ rig.Widget) bool { return k.Name == "w0" })
		}
		rig.Same(t, fmt.Sprintf("follower %d", i), want, f.seen)
	}
}
