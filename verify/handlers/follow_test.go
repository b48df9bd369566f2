package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A heard is a Follower that writes down what it is told: "begin 3 a1 b2", "begin epoch 2", "added
// a1", "progress 3".
type heard struct {
	rig.Calls
	then func(what string) // called with each line
}

func (h *heard) add(what string) {
	h.Note(what)
	if h.then != nil {
		h.then(what)
	}
}

func (h *heard) Begin(snap *lw.Snapshot[*rig.Widget], epoch bool) {
	what := "begin "
	if epoch {
		what = "begin epoch "
	}
	what += snap.ResourceVersion()
	for _, w := range slices.SortedFunc(snap.All(),
		func(a, b *rig.Widget) int { return strings.Compare(a.Name, b.Name) }) {
		what += fmt.Sprintf(" %s%d", w.Name, w.Size)
	}
	h.add(what)
}

func (h *heard) Change(d lw.Delta[*rig.Widget]) {
	h.add(fmt.Sprintf("%v %s%d", d.Type, d.Object().Name, d.Object().Size))
}

func (h *heard) Progress(version string) { h.add("progress " + version) }

// heardSlowly is a heard that is busy for d with that line.
func heardSlowly(line string, d time.Duration) *heard {
	return &heard{then: func(what string) {
		if what == line {
			time.Sleep(d)
		}
	}}
}

// following has f follow c until the test ends.
func following(t *testing.T, c lw.Collection[*rig.Widget], f lw.Follower[*rig.Widget]) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- lw.Follow(ctx, c, f) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) && !errors.Is(err, lw.ErrStopped) {
			t.Errorf("Follow: %v", err)
		}
	})
	synctest.Wait()
}

func TestFollow(t *testing.T) {
	beforeRun(t, "a1", nil, func(t *testing.T, m memory, inf informer) {
		f := new(heard)
		following(t, inf, f)
		f.MustBe(t)
		rig.Start(t, inf)
		f.MustBe(t, "begin 2 a1", "progress 2")

		rig.Create(t, m, "b", 1)
		f.MustBe(t, "added b1", "progress 3")
		rig.Update(t, m, "b", 2)
		f.MustBe(t, "updated b2", "progress 4")
		rig.Update(t, m, "b", 3)
		synctest.Wait()
		rig.Remove(t, m, "b")
		f.MustBe(t, "updated b3", "progress 5", "deleted b3", "progress 6")

		later := new(heard)
		following(t, inf, later)
		later.MustBe(t, "begin 6 a1", "progress 6")
		rig.Create(t, m, "c", 1)
		f.MustBe(t, "added c1", "progress 7")
		later.MustBe(t, "added c1", "progress 7")
	})
}

// A heardUnseen is a heard that is told of relists without differences.
type heardUnseen struct{ heard }

func (h *heardUnseen) Unseen() { h.add("unseen") }

// TestFollowVersions: versions that come without a change are told, too. After a relist with
// differences another history begins, and nothing of the relist is passed on. Without differences,
// whoever wants to know is told of it, since something may have come and gone.
func TestFollowVersions(t *testing.T) {
	hidingOther(t, "a1", nil, func(t *testing.T, m memory, inf informer) {
		f, u := new(heard), new(heardUnseen)
		following(t, inf, f)
		following(t, inf, u)
		told := func(want ...string) {
			t.Helper()
			f.MustBe(t, want...)
			u.MustBe(t, want...)
		}
		told("begin 2 a1", "progress 2")
		rig.Create(t, m, "other", 1)
		told()
		m.Bookmark()
		told("progress 3")
		m.Bookmark() // the same version
		told()
		rig.Relist(m, func() { rig.Create(t, m, "b", 1); rig.Remove(t, m, "b") })
		f.MustBe(t, "progress 5")
		u.MustBe(t, "unseen", "progress 5")
		rig.Create(t, m, "c", 1)
		told("added c1", "progress 6")
		rig.Relist(m, func() { rig.Update(t, m, "a", 2); rig.Remove(t, m, "c"); rig.Create(t, m, "d", 1) })
		told("begin 9 a2 d1", "progress 9")
		rig.Create(t, m, "e", 1)
		told("added e1", "progress 10")
		rig.Update(t, m, "other", 2)
		m.Compact()
		m.Disconnect()
		rig.Sleep(time.Minute)
		rig.Same(t, "lists", 4, inf.Status().Requests["stream"].Started)
		f.MustBe(t, "progress 11")
		u.MustBe(t, "unseen", "progress 11")
	})
}

// TestFollowEpoch: a server that went back in time begins another history, also if no object
// differs.
func TestFollowEpoch(t *testing.T) {
	for _, differ := range []bool{false, true} {
		t.Run(fmt.Sprint(differ), func(t *testing.T) {
			hidingOther(t, "a1", rig.Quiet(), func(t *testing.T, m memory, inf informer) {
				rig.Create(t, m, "other", 1)
				if differ {
					rig.Update(t, m, "a", 2)
				}
				m.Bookmark()
				f := new(heard)
				following(t, inf, f)
				f.Take()
				rig.OK(t, m.Rewind("2"))
				rig.Sleep(10 * time.Minute)
				f.MustBe(t, "begin epoch 2 a1", "progress 2")
				rig.Create(t, m, "b", 1)
				f.MustBe(t, "added b1", "progress 3")
				// What follows is no new epoch.
				rig.Relist(m, func() { rig.Remove(t, m, "b") })
				f.MustBe(t, "begin 4 a1", "progress 4")
			})
		})
	}
}

// TestFollowSlowly: a follower that was busy when the server went back in time gets no change of
// the new epoch before it is told.
func TestFollowSlowly(t *testing.T) {
	hidingOther(t, "a1", rig.Quiet(), func(t *testing.T, m memory, inf informer) {
		rig.Create(t, m, "other", 1)
		m.Bookmark()
		synctest.Wait()
		f := heardSlowly("added b1", time.Hour)
		following(t, inf, f)
		rig.Create(t, m, "b", 1)
		synctest.Wait()
		f.Take()
		rig.Remove(t, m, "b")
		synctest.Wait()
		rig.OK(t, m.Rewind("2"))
		rig.Sleep(10 * time.Minute)
		rig.Create(t, m, "c", 1)
		rig.Update(t, m, "c", 2)
		rig.Sleep(time.Hour)
		f.MustBe(t, "progress 4", "begin epoch 4 a1 c2", "progress 4")
	})
}

// TestFollowBehind: a follower that is far behind is told of every change.
func TestFollowBehind(t *testing.T) {
	inMemory(t, "a0", nil, func(t *testing.T, m memory, inf informer) {
		f := heardSlowly("progress 2", time.Hour)
		following(t, inf, f)
		want := []string{"begin 2 a0", "progress 2"}
		for i := range 3000 {
			rig.Update(t, m, "a", i+1)
			synctest.Wait()
			want = append(want, fmt.Sprint("updated a", i+1))
		}
		rig.Sleep(time.Hour)
		f.MustBe(t, append(want, "progress 3002")...)
	})
}

// TestFollowTransaction: a version is told when all changes of it have been, as far as the source
// knows them.
func TestFollowTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, inf := fed(t)
		// It looks between the two: it is busy when the first one comes, and the second one comes later.
		f := heardSlowly("progress 10", time.Minute)
		following(t, inf, f)
		first := rig.Added("b", "15")
		first.More = true
		src.Send(first)
		rig.Sleep(time.Minute + time.Millisecond)
		f.MustBe(t, "begin 10 a1", "progress 10", "added b1")
		src.Send(rig.Added("c", "15"))
		f.MustBe(t, "added c1", "progress 15")
	})
}

// TestFollowSetAside: while an object is set aside the version stays before it, and later changes
// are told.
func TestFollowSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		inf := rig.Run(t, choosy(m), rig.Quiet())
		f := new(heard)
		following(t, inf, f)
		f.MustBe(t, "begin 2 a1", "progress 2")
		rig.Update(t, m, "a", -1)
		f.MustBe(t)
		rig.Create(t, m, "b", 1)
		f.MustBe(t, "added b1", "progress 2")
		m.Bookmark()
		f.MustBe(t)
		rig.Update(t, m, "a", 3)
		f.MustBe(t, "updated a3", "progress 5")
	})
}

// choosy is a source that cannot use widgets of a negative size.
func choosy(src lw.Source[*rig.Widget]) lw.Source[*rig.Widget] {
	return lw.Transform(src, func(w *rig.Widget) (*rig.Widget, error) {
		if w.Size < 0 {
			return nil, errors.New("a negative size")
		}
		return w, nil
	})
}

// TestFollowDerived: the versions are the steps of the graph.
func TestFollowDerived(t *testing.T) {
	inMemory(t, "a1 odd1", nil, func(t *testing.T, m memory, inf informer) {
		g := lw.NewGraph(nil)
		short := lw.Derive(g, inf, func(w *rig.Widget) *rig.Widget {
			if len(w.Name) > 1 {
				return nil
			}
			return &rig.Widget{Meta: lw.Meta{Name: w.Name}, Size: w.Size}
		}, "short")
		lw.Derive(g, inf, func(w *rig.Widget) *rig.Widget { return &rig.Widget{Meta: lw.Meta{Name: w.Name}, Size: w.Size} },
			"all")
		f, u := new(heard), new(heard)
		following(t, short, f)
		following(t, lw.NewUnion[*rig.Widget](g, short), u)
		stop := rig.Begin(t, g)
		want := [][]string{
			{"begin 1 a1", "progress 1"},
			{"added b1", "progress 2"},
			{"progress 3"}, // the other collection has changed
			{"updated b2", "progress 4"},
		}
		for i, do := range []func(){
			func() {},
			func() { rig.Create(t, m, "b", 1) },
			func() { rig.Update(t, m, "odd", 2) },
			func() { rig.Update(t, m, "b", 2) },
		} {
			do()
			f.MustBe(t, want[i]...)
			u.MustBe(t, want[i]...)
		}
		stop()
	})
}

// TestFollowEnds: everything is passed on before ErrStopped, nothing after ctx is done, and a panic
// is the caller's.
func TestFollowEnds(t *testing.T) {
	beforeRun(t, "a1", nil, func(t *testing.T, m memory, inf informer) {
		stop := rig.Begin(t, inf)
		slow := &heard{then: func(string) { time.Sleep(time.Minute) }}
		slowly := make(chan error, 1)
		go func() { slowly <- lw.Follow(t.Context(), inf, slow) }()
		because := errors.New("because")
		left, leave := context.WithCancelCause(t.Context())
		leaver := &heard{then: func(what string) {
			if what == "added b1" {
				leave(because)
			}
		}}
		leaving := make(chan error, 1)
		go func() { leaving <- lw.Follow(left, inf, leaver) }()
		panics := make(chan any, 1)
		go func() {
			defer func() { panics <- recover() }()
			lw.Follow(t.Context(), inf, &heard{then: func(what string) {
				if what == "added c1" {
					panic(what)
				}
			}})
		}()
		synctest.Wait()
		rig.Create(t, m, "b", 1)
		rig.Create(t, m, "c", 1)
		synctest.Wait()
		if err := <-leaving; err != because {
			t.Errorf("Follow returned %v, want the cause of its context", err)
		}
		leaver.MustBe(t, "begin 2 a1", "progress 2", "added b1")
		rig.Same(t, "the panic that the caller of Follow got", any("added c1"), <-panics)
		stop()
		if err := <-slowly; err != lw.ErrStopped {
			t.Errorf("Follow returned %v, want ErrStopped", err)
		}
		slow.MustBe(t, "begin 2 a1", "progress 2", "added b1", "added c1", "progress 4")
		late := new(heard)
		if err := lw.Follow(t.Context(), inf, late); err != lw.ErrStopped {
			t.Errorf("Follow of an informer that has stopped returned %v", err)
		}
		late.MustBe(t, "begin 4 a1 b1 c1", "progress 4")
		if err := lw.Follow(left, inf, late); err != because {
			t.Errorf("Follow with a context that is done returned %v", err)
		}
		late.MustBe(t)
	})
}

// TestFollowOfNothing: an informer that stops before it has synced.
func TestFollowOfNothing(t *testing.T) {
	beforeRun(t, "", rig.Quiet(), func(t *testing.T, m memory, inf informer) {
		m.Fail(errors.New("away"))
		stop := rig.Begin(t, inf)
		f, ended := new(heard), make(chan error, 1)
		go func() { ended <- lw.Follow(t.Context(), inf, f) }()
		rig.Sleep(time.Second)
		stop()
		if err := <-ended; err != lw.ErrStopped {
			t.Errorf("Follow returned %v, want ErrStopped", err)
		}
		f.MustBe(t)
	})
}

func TestFollowMisuse(t *testing.T) {
	inf := lw.NewInformer[*rig.Widget](lw.NewMemory[*rig.Widget](), nil)
	rig.MustPanic(t, "lw: Follow", func() { lw.Follow[*rig.Widget](t.Context(), nil, new(heard)) })
	rig.MustPanic(t, "lw: Follow", func() { lw.Follow(t.Context(), lw.Collection[*rig.Widget](inf), nil) })
}
