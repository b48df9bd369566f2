package source_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// evenOnly keeps what is there when the size is odd.
func evenOnly(w *rig.Widget) (*rig.Widget, error) {
	if w.Size%2 == 1 {
		return nil, fmt.Errorf("%s is odd: %w", w.Name, lw.ErrKeep)
	}
	return w, nil
}

// Whatever happens, an informer behind a Transform that keeps shows of each object its last version
// that was not kept, if that is the same object. Nothing is reported, and no version held back.
func TestKeepModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			m := lw.NewMemory[*rig.Widget]()
			errs := new(rig.Errors)
			mode := rapid.SampledFrom([]lw.ListMode{lw.ListAuto, lw.ListPages}).Draw(rt, "mode")
			src := lw.Transform(m, evenOnly)
			if rapid.Bool().Draw(rt, "twice") {
				src = lw.Transform(src, func(w *rig.Widget) (*rig.Widget, error) { return w, nil })
			}
			inf := lw.NewInformer(src, &lw.Options{List: mode, OnError: errs.Add})
			story := rig.NewStory(t)
			inf.AddHandler(story.Handler())
			want, uids := map[lw.Key]int{}, map[lw.Key]types.UID{}
			down, exact := false, true
			put := func(name string, size int) {
				old, err := m.Get(t.Context(), rig.Key(name))
				w := rig.NewWidget(name, size)
				if err == nil {
					w, _ = m.Update(t.Context(), w)
				} else {
					w = rig.Create(t, m, name, size)
				}
				if err == nil && old.Size == size {
					return
				}
				if uids[rig.Key(name)] != w.UID {
					delete(want, rig.Key(name))
				}
				if uids[rig.Key(name)] = w.UID; size%2 == 0 {
					want[rig.Key(name)] = size
				}
			}
			put("a", 1)
			put("b", 2)
			rig.Start(t, inf)
			rig.OK(t, inf.WaitForSync(t.Context()))
			for range rapid.IntRange(1, 20).Draw(rt, "steps") {
				name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name")
				size := rapid.IntRange(0, 4).Draw(rt, "size")
				switch what := rapid.IntRange(0, 7).Draw(rt, "what"); {
				case what == 0:
					if down = !down; down {
						m.Fail(errors.New("down"))
					} else {
						m.Fail(nil)
					}
				case what == 1:
					m.Compact()
				case what == 2:
					if _, err := m.Delete(t.Context(), rig.Key(name), ""); err == nil {
						delete(want, rig.Key(name))
						uids[rig.Key(name)] = ""
					}
				default:
					put(name, size)
				}
				if exact = exact && !down; !down {
					rig.Sleep(time.Minute)
				}
			}
			m.Fail(nil)
			rig.Sleep(5 * time.Minute)
			got := rig.Sizes(inf.Store())
			for w := range m.All() {
				k := lw.KeyOf(w)
				is, there := got[k]
				switch {
				case w.Size%2 == 0 && is != w.Size:
					t.Errorf("%s shows %d, want %d", w.Name, is, w.Size)
				case w.Size%2 == 1 && there && is%2 == 1:
					t.Errorf("%s shows %d, which was to be kept out", w.Name, is)
				}
				if obj, ok := inf.Store().Get(k); ok && obj.UID != w.UID {
					t.Errorf("%s is of %s, want %s", w.Name, obj.UID, w.UID)
				}
			}
			for k := range got {
				if _, err := m.Get(t.Context(), k); err != nil {
					t.Errorf("%s is there", k)
				}
			}
			rig.OK(t, inf.WaitForResourceVersion(t.Context(), m.ResourceVersion()))
			s := inf.Status()
			if len(s.SetAside) > 0 || s.Undecoded > 0 || s.Epoch > 0 {
				t.Errorf("set aside: %v; %d could not be decoded; epoch %d", s.SetAside, s.Undecoded, s.Epoch)
			}
			for _, err := range errs.All() {
				if errors.Is(err, lw.ErrKeep) {
					t.Errorf("reported: %v", err)
				}
			}
			rig.MustAddUp(t, story, got)
			if diff := cmp.Diff(want, got); diff != "" && exact {
				t.Errorf("the copy saw everything (-want +got):\n%s", diff)
			}
		})
	})
}

// What is kept, by watch and by list, call by call.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("odd", 1), rig.NewWidget("a", 2))
		errs := new(rig.Errors)
		inf := rig.Run(t, lw.Transform(m, evenOnly), &lw.Options{OnError: errs.Add})
		got := new(rig.Calls)
		inf.AddHandler(got.Handler())
		got.Sorted(t, "add a2", "synced")
		rig.Update(t, m, "a", 3)
		got.MustBe(t)
		rig.MustHold(t, inf.Store(), m.ResourceVersion(), map[string]int{"a": 2})
		rig.Update(t, m, "odd", 4)
		rig.Update(t, m, "a", 6)
		got.MustBe(t, "add odd4", "update a2 a6")
		rig.Update(t, m, "a", 7)
		rig.Update(t, m, "odd", 5)
		rig.Relist(m, func() { rig.Create(t, m, "late", 9) })
		got.MustBe(t)
		rig.MustHold(t, inf.Store(), m.ResourceVersion(), map[string]int{"a": 6, "odd": 4})
		// Another object of that name is not what is there.
		rig.Relist(m, func() {
			rig.Remove(t, m, "a")
			rig.Create(t, m, "a", 11)
			rig.Remove(t, m, "odd")
		})
		got.Sorted(t, "delete a6", "delete odd4")
		rig.MustHold(t, inf.Store(), m.ResourceVersion(), map[string]int{})
		mustSay(t, inf, func(s lw.Status) bool { return s.Epoch == 0 && len(s.SetAside) == 0 && rig.Relists(s) >= 2 })
	})
}

// A version that is kept ends what a bad one has begun: nothing is set aside, no version held back.
func TestKeepAfterABadVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 2))
		inf := rig.Run(t, lw.Transform(m, func(w *rig.Widget) (*rig.Widget, error) {
			if w.Size == 100 {
				return nil, errors.New("bad")
			}
			return evenOnly(w)
		}), &lw.Options{OnError: func(error) {}})
		rig.Update(t, m, "a", 100)
		synctest.Wait()
		rig.MustHold(t, inf.Store(), "2", map[string]int{"a": 2})
		rig.Update(t, m, "a", 3)
		synctest.Wait()
		rig.MustHold(t, inf.Store(), m.ResourceVersion(), map[string]int{"a": 2})
		rig.Same(t, "set aside", nil, inf.Status().SetAside)
	})
}

// A list of which everything is kept is a whole list.
func TestKeepAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, opts := range []lw.Options{{}, {List: lw.ListPages}} {
			inf := rig.Run(t, lw.Transform(lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 3)), evenOnly), &opts)
			rig.Same(t, "objects", 0, inf.Store().Len())
		}
	})
}

// mustWitness checks whether the server of src can be asked about obj: want is nil if it has it.
func mustWitness(t *testing.T, src lw.Source[*rig.Widget], obj *rig.Widget, version string, want error) {
	t.Helper()
	had, err := lw.HintsOf(src).StillHas(t.Context(), lw.MetaOf(obj), version)
	if !errors.Is(err, want) || had != (want == nil) {
		t.Errorf("asked about %v: %v, %v, want %v", obj, had, err, want)
	}
}

// read lists src.
func read[T lw.Object](t *testing.T, src lw.Source[T]) {
	t.Helper()
	_, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{})
	rig.OK(t, err)
}

// What a Transform keeps is no witness of the server's history.
func TestKeptIsNoWitness(t *testing.T) {
	m := lw.NewMemory(rig.NewWidget("a", 2), rig.NewWidget("b", 2))
	src := lw.Transform(m, evenOnly)
	read(t, src)
	a, _ := m.Get(t.Context(), rig.Key("a"))
	mustWitness(t, src, a, m.ResourceVersion(), nil)
	rig.Update(t, m, "a", 3)
	read(t, src)
	mustWitness(t, src, a, m.ResourceVersion(), errors.ErrUnsupported)
	a = rig.Update(t, m, "a", 4)
	read(t, src)
	mustWitness(t, src, a, m.ResourceVersion(), nil)
}

// What a list that broke off had kept is not kept any more once a whole list has not.
func TestKeptOfABrokenListIsForgotten(t *testing.T) {
	m := lw.NewMemory(rig.NewWidget("a", 3), rig.NewWidget("b", 2))
	src := lw.Transform(m, evenOnly)
	broken := errors.New("broken")
	_, err := src.List(t.Context(), metav1.ListOptions{}, func(w *rig.Widget, err error) error {
		if errors.Is(err, lw.ErrKeep) {
			return nil
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	rig.Remove(t, m, "a")
	a := rig.NewWidget("a", 3)
	read(t, src)
	if _, err := lw.HintsOf(src).StillHas(t.Context(), lw.MetaOf(a), m.ResourceVersion()); errors.Is(err,
		errors.ErrUnsupported) {
		t.Errorf("asked about a: %v", err)
	}
}

// An object that is kept stays at a relist, also if the Transform makes UIDs of its own. Once it
// has another version, what is shown is the server's again: then a restored server is noticed by
// it.
func TestKeptAtARelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 2), rig.NewWidget("b", 2))
		src := lw.Transform(m, func(w *rig.Widget) (*rig.Widget, error) {
			if w.Size%2 == 1 {
				return nil, lw.ErrKeep
			}
			w.UID = "own-" + w.UID
			return w, nil
		})
		inf := rig.Run(t, src, &lw.Options{List: lw.ListPages, PageSize: 1, OnError: func(error) {}})
		got := new(rig.Calls)
		inf.AddHandler(got.Handler())
		got.Sorted(t, "add a2", "add b2", "synced")
		rig.Update(t, m, "a", 3)
		rig.Sleep(time.Second)
		m.Fail(errors.New("down"))
		rig.Update(t, m, "b", 4)
		m.Compact()
		rig.Sleep(time.Minute)
		m.Fail(nil)
		rig.Sleep(10 * time.Minute)
		got.MustBe(t, "update b2 b4")
		mustBeWitness := func(name string, want error) {
			t.Helper()
			w, _ := inf.Store().Get(rig.Key(name))
			mustWitness(t, src, w, inf.Store().ResourceVersion(), want)
		}
		mustBeWitness("b", nil)
		mustBeWitness("a", errors.ErrUnsupported)
		rig.Update(t, m, "a", 6)
		rig.Sleep(time.Second)
		mustBeWitness("a", nil) // what was kept before is one
	})
}
