package source_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/test/internal/inside"
)

// TestWantedHistories: in any history each wanted key that is ready is as the server had it at the
// reported version or later, it never goes back, and in the end it is as the server has it.
func TestWantedHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { rapid.SyncTest(r, wantedHistory) })
}

func wantedHistory(r *rapid.T) {
	const names = "abcdef"
	src, keys, wanted := newDistant("a", "b", "c"), &lw.KeySet{}, map[string]bool{}
	type state struct{ from, size int } // size 0: absent
	history := map[string][]state{}
	version := func() int { return number(r, src) }
	note := func(name string, size int) { history[name] = append(history[name], state{version(), size}) }
	for _, name := range names {
		history[string(name)] = []state{{0, 0}}
	}
	for _, name := range "abc" {
		history[string(name)] = []state{{0, 1}}
	}
	inf := lw.NewInformer(lw.Wanted[*rig.Widget](src, keys), &lw.Options{List: rapid.SampledFrom([]lw.ListMode{lw.ListAuto, lw.ListPages, lw.ListWhole}).Draw(r, "list"), OnError: func(error) {}, DetectMutation: true})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- inf.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ran; err != nil {
			r.Errorf("Run: %v", err)
		}
	}()
	last := map[string]int{} // the place in history that was shown last, while the key is wanted
	check := func() {
		synctest.Wait()
		if copies, n := inside.Copies(inf), inf.Store().Len(); copies != n {
			r.Fatalf("the detector of mutations has %d copies of %d objects", copies, n)
		}
		reported, _ := fmt.Sscan(inf.Store().ResourceVersion(), new(int))
		var at int
		if reported == 1 {
			fmt.Sscan(inf.Store().ResourceVersion(), &at)
		}
		for _, c := range names {
			name := string(c)
			s := inf.KeyState(rig.Key(name))
			w, ok := inf.Store().Get(rig.Key(name))
			if ready := s == lw.KeyThere || s == lw.KeyAbsent; !ready || !wanted[name] {
				if ok || ready {
					r.Fatalf("%s is shown, wanted %v, %v", name, wanted[name], s)
				}
				continue
			}
			size := 0
			if ok {
				size = w.Size
			}
			h, found := history[name], -1
			for i := max(last[name], 0); i < len(h) && found < 0; i++ {
				// It is as the server had it from h[i].from on, until a version that is not reported.
				if h[i].size == size && (i+1 == len(h) || h[i+1].from > at) {
					found = i
				}
			}
			if found < 0 {
				r.Fatalf("%s is shown with %d at %d, where the server had %v; before that the %dth", name, size, at, h, last[name])
			}
			last[name] = found
		}
	}
	sizes := 1
	for range rapid.IntRange(5, 60).Draw(r, "steps") {
		name := string(names[rapid.IntRange(0, len(names)-1).Draw(r, "name")])
		pause := time.Duration(rapid.IntRange(0, 3).Draw(r, "pause")) * 300 * time.Millisecond
		switch rapid.IntRange(0, 11).Draw(r, "step") {
		case 0, 1, 2:
			wanted[name] = true
			last[name] = 0
			keys.Set(name, rig.Key(name))
		case 3, 4:
			wanted[name] = false
			keys.Set(name)
		case 5, 6, 7:
			sizes++
			w, err := src.Get(ctx, rig.Key(name))
			if err == nil {
				w.Size = sizes
				_, err = src.Update(ctx, w)
			} else {
				_, err = src.Create(ctx, rig.NewWidget(name, sizes))
			}
			if err != nil {
				r.Fatal(err)
			}
			note(name, sizes)
			if rapid.Bool().Draw(r, "tell") {
				got, _ := src.Get(ctx, rig.Key(name))
				if err := inf.Tell(got); err != nil {
					r.Fatalf("Tell: %v", err)
				}
			}
		case 8:
			if _, err := src.Delete(ctx, rig.Key(name), ""); err == nil {
				note(name, 0)
			}
		case 9:
			src.set(func() { src.before, src.after = pause, pause/2 })
		case 10:
			src.set(func() { src.lag = pause })
		case 11:
			src.breakWatch(rapid.Bool().Draw(r, "gone"))
			src.set(func() { src.fails = rapid.IntRange(0, 2).Draw(r, "fails") })
		}
		rig.Sleep(pause)
		check()
	}
	src.set(func() { src.before, src.after, src.lag, src.fails = 0, 0, 0, 0 })
	rig.Sleep(10 * time.Minute)
	check()
	for _, c := range names {
		name := string(c)
		h := history[name]
		w, ok := inf.Store().Get(rig.Key(name))
		if want := h[len(h)-1].size; wanted[name] && (ok != (want != 0) || ok && w.Size != want) {
			r.Errorf("in the end %s is %v, want %d", name, w, want)
		}
	}
	if s := inf.Status(); s.Ahead != 0 {
		r.Errorf("%d keys are ahead", s.Ahead)
	}
}

// number is the version of the server.
func number(r *rapid.T, src *distant) (n int) {
	meta, err := src.Memory.List(context.Background(), metav1.ListOptions{Limit: 1}, func(*rig.Widget, error) error { return nil })
	if err != nil {
		r.Fatal(err)
	}
	fmt.Sscan(meta.ResourceVersion, &n)
	return n
}
