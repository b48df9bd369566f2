package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// The interval of a Poll is from the beginning of a call to that of the next one, however long a
// call takes.
func TestPollInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []time.Duration
		began := time.Now()
		inf := rig.Run(t, lw.Poll(func(context.Context) ([]*rig.Widget, error) {
			calls = append(calls, time.Since(began))
			time.Sleep(3 * time.Second)
			return []*rig.Widget{rig.NewWidget("a", 1)}, nil
		}, 10*time.Second), nil)
		rig.Sleep(35 * time.Second)
		rig.Same(t, "calls", []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second}, calls)
		rig.Same(t, "objects", 1, inf.Store().Len())
	})
}

// A feed that is connected anew goes on after its last change: of the next snapshot, what differs
// is told, without a relist.
func TestFeedGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		size := 1
		inf := lw.NewInformer(lw.Feed(func(ctx context.Context, to *lw.Feeder[*rig.Widget]) error {
			if err := to.Snapshot([]*rig.Widget{rig.NewWidget("a", size)}); err != nil {
				return err
			}
			if size > 6 {
				<-ctx.Done()
				return ctx.Err()
			}
			size++
			if err := to.Change([]*rig.Widget{rig.NewWidget("a", size)}); err != nil {
				return err
			}
			size++
			return errors.New("cut")
		}), &lw.Options{OnError: func(error) {}})
		var told []string
		inf.AddHandler(lw.Handler[*rig.Widget]{
			Add:    func(w *rig.Widget) { told = append(told, fmt.Sprint("add ", w.Size)) },
			Update: func(old, w *rig.Widget) { told = append(told, fmt.Sprint(old.Size, " to ", w.Size)) },
		})
		rig.Start(t, inf)
		rig.Sleep(10 * time.Minute)
		want := []string{"add 1", "1 to 2", "2 to 3", "3 to 4", "4 to 5", "5 to 6", "6 to 7"}
		rig.Same(t, "told", want, told)
		mustBeWell(t, inf)
	})
}

// What nobody has taken from a watch is told again by the next one. A deletion says which object it
// is of; a key that comes twice has an error in the place of an object. What differs between two
// polls comes as one version, all of it Open but the last.
func TestPollTellsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := false
		src := lw.Poll(func(context.Context) (all []*rig.Widget, _ error) {
			sizes := map[string]int{"a": 1, "b": 1, "c": 1}
			if second {
				sizes = map[string]int{"a": 1, "b": 2}
				all = append(all, rig.NewWidget("d", 4), rig.NewWidget("d", 5))
			}
			for _, name := range slices.Sorted(maps.Keys(sizes)) {
				w := rig.NewWidget(name, sizes[name])
				w.UID = types.UID("uid of " + name)
				all = append(all, w)
			}
			return all, nil
		}, time.Second)
		version := versionOf(t, src)
		second = true
		full := errors.New("full")
		for round := range 4 {
			var told []string
			err := src.Watch(t.Context(), metav1.ListOptions{ResourceVersion: version},
				func(ev lw.WatchEvent[*rig.Widget]) error {
					text := fmt.Sprint(ev.Type, " ", ev.Key().Name, " ", ev.Object != nil, " ", ev.Err != nil, " ", ev.Open)
					if ev.Identity != nil {
						text += " " + string(ev.Identity.UID)
					}
					if told = append(told, text); len(told) > round%3 {
						return full
					}
					return nil
				})
			want := []string{"ADDED d false true true", "MODIFIED b true false true", "DELETED c false false false uid of c"}
			if diff := cmp.Diff(want[:round%3+1], told); diff != "" || err != full {
				t.Errorf("round %d: %v, told (-want +got):\n%s", round, err, diff)
			}
		}
	})
}

// A sign of life puts off the end of a watch that wants no bookmarks as well. The end of its
// context is no end that the source has made.
func TestFeedIsAliveWithoutBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, ctx := idle(true, new(int)), within(t, 10*time.Minute)
		streamed, seconds := true, int64(90)
		var told []string
		began := time.Now()
		err := src.Watch(ctx, metav1.ListOptions{SendInitialEvents: &streamed, TimeoutSeconds: &seconds},
			func(ev lw.WatchEvent[*rig.Widget]) error {
				told = append(told, string(ev.Type))
				return nil
			})
		if took := time.Since(began); took != 10*time.Minute || !errors.Is(err, context.DeadlineExceeded) ||
			!slices.Equal(told, []string{"ADDED", "BOOKMARK"}) {
			t.Errorf("the watch has ended after %v with %v, and told %v", took, err, told)
		}
	})
}

// However often a poll is wanted while one runs, one more follows.
func TestPollIsWantedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		src := lw.Poll(func(context.Context) ([]*rig.Widget, error) {
			calls++
			time.Sleep(3 * time.Second)
			return []*rig.Widget{rig.NewWidget("a", calls)}, nil
		}, time.Hour)
		version := versionOf(t, src)
		ask := src.(interface{ Hints() lw.SourceHints }).Hints().Progress
		time.AfterFunc(10*time.Second, ask)
		for range 5 {
			time.AfterFunc(11*time.Second, ask)
		}
		told, ctx := 0, within(t, time.Minute)
		_ = src.Watch(ctx, metav1.ListOptions{ResourceVersion: version}, func(lw.WatchEvent[*rig.Widget]) error {
			told++
			return nil
		})
		if calls != 3 || told != 2 {
			t.Errorf("%d calls and %d changes, want 3 and 2", calls, told)
		}
	})
}

// What a connection of before tells late, from a goroutine of its own, is refused: when its
// function has returned after a list, after an error and at the end of the informer. Until then it
// counts.
func TestFeederHasEnded(t *testing.T) {
	for _, mode := range []lw.ListMode{lw.ListPages, lw.ListStream} {
		synctest.Test(t, func(t *testing.T) {
			var all []*lw.Feeder[*rig.Widget]
			var runs []chan struct{} // the next run ends when it is closed
			inf := lw.NewInformer(lw.Feed(func(ctx context.Context, to *lw.Feeder[*rig.Widget]) error {
				over := make(chan struct{})
				all, runs = append(all, to), append(runs, over)
				if err := to.Snapshot([]*rig.Widget{rig.NewWidget("a", 1)}); err != nil {
					return err
				}
				select {
				case <-over:
					return errors.New("cut")
				case <-ctx.Done():
					return ctx.Err()
				}
			}), &lw.Options{List: mode, OnError: func(error) {}})
			stop := sync.OnceFunc(rig.Begin(t, inf))
			defer stop()
			tell := func(to *lw.Feeder[*rig.Widget], size int) error {
				return to.Change([]*rig.Widget{rig.NewWidget("a", size)})
			}
			rig.OK(t, tell(all[len(all)-1], 2))
			close(runs[len(runs)-1])
			rig.Sleep(time.Minute)
			now := all[len(all)-1]
			rig.OK(t, tell(now, 3))
			for i, old := range all[:len(all)-1] {
				if tell(old, 4) == nil || old.Snapshot([]*rig.Widget{}) == nil {
					t.Errorf("%v: feeder %d of %d takes what it is told", mode, i+1, len(all))
				}
			}
			synctest.Wait()
			rig.Same(t, fmt.Sprintf("%v: shown", mode), map[lw.Key]int{rig.Key("a"): 3}, rig.Sizes(inf.Store()))
			stop()
			<-inf.Stopped()
			if tell(now, 5) == nil {
				t.Errorf("%v: the last feeder takes what it is told after the end", mode)
			}
		})
	}
}

// The function of a Poll may return objects of a cache of its own, or change copies of what is
// shown: each change is told once, with a newer version, and the cache is never written.
func TestPollOfACache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := rig.NewWidget("a", 1), rig.NewWidget("a", 2)
		cache := map[string]*rig.Widget{"a": one, "b": rig.NewWidget("b", 1)}
		var mu sync.Mutex // guards cache
		put := func(w *rig.Widget) {
			mu.Lock()
			defer mu.Unlock()
			cache["a"] = w
		}
		mark := func(w *rig.Widget) (*rig.Widget, error) { w.UID = "seen"; return w, nil }
		inf := lw.NewInformer(lw.Transform(lw.Poll(func(context.Context) ([]*rig.Widget, error) {
			mu.Lock()
			defer mu.Unlock()
			return slices.Collect(maps.Values(cache)), nil
		}, time.Second), mark), nil)
		got, story := new(rig.Calls), rig.NewStory(t)
		inf.AddHandler(got.Handler())
		inf.AddHandler(story.Handler())
		rig.Start(t, inf)
		rig.Sleep(5 * time.Second)
		got.Sorted(t, "add a1", "add b1", "synced")
		for _, w := range []*rig.Widget{two, one} { // what was there before is there again
			put(w)
			rig.Sleep(5 * time.Second)
			got.MustBe(t, fmt.Sprintf("update a%d a%d", 3-w.Size, w.Size))
		}
		shown, _ := inf.Store().Get(rig.Key("a"))
		same, other := *shown, *shown
		same.UID, other.UID = "", ""
		put(&same)
		rig.Sleep(5 * time.Second)
		got.MustBe(t)
		other.Size = 9
		put(&other)
		rig.Sleep(5 * time.Second)
		got.MustBe(t, "update a1 a9")
		if now, _ := inf.Store().Get(rig.Key("a")); now.ResourceVersion <= shown.ResourceVersion {
			t.Errorf("the version is %s, after %s", now.ResourceVersion, shown.ResourceVersion)
		}
		for _, w := range []*rig.Widget{one, two} {
			if w.ResourceVersion != "" || w.UID != "" {
				t.Errorf("the cache has %+v", w)
			}
		}
		mustBeWell(t, inf)
	})
}
