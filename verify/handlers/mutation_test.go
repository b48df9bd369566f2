package handlers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// Whoever changes a cached object is found, at the latest when it leaves the cache or the informer
// stops, and told once, whatever has brought the object.
func TestDetectMutation(t *testing.T) {
	for brought, bring := range map[string]func(t *testing.T, m memory) (name string){
		"by the list":       func(*testing.T, memory) string { return "a" },
		"by an addition":    func(t *testing.T, m memory) string { return rig.Create(t, m, "c", 2).Name },
		"by a modification": func(t *testing.T, m memory) string { return rig.Update(t, m, "a", 2).Name },
	} {
		for found, after := range map[string]func(t *testing.T, m memory, name string){
			// The write before the next look tells the race detector that the look comes after the mutation.
			"while it is cached":      func(t *testing.T, m memory, _ string) { rig.Create(t, m, "d", 1); rig.Sleep(time.Minute) },
			"when it is replaced":     func(t *testing.T, m memory, name string) { rig.Update(t, m, name, 7) },
			"when it is deleted":      func(t *testing.T, m memory, name string) { rig.Remove(t, m, name) },
			"when a list replaces it": func(t *testing.T, m memory, name string) { rig.Relist(m, func() { rig.Update(t, m, name, 7) }) },
			"when a list lacks it":    func(t *testing.T, m memory, name string) { rig.Relist(m, func() { rig.Remove(t, m, name) }) },
			"when the informer stops": func(*testing.T, memory, string) {},
		} {
			t.Run(brought+", "+found, func(t *testing.T) {
				errs := &rig.Errors{}
				size, key := 0, lw.Key{}
				synctest.Test(t, func(t *testing.T) {
					m, inf := runMemory(t, "a1 b1", &lw.Options{
						Name: "widgets", DetectMutation: true, OnError: errs.Add,
						// The list comes before the next look at the cache, which the race detector could not tell
						// from a race.
						Backoff: func(int) time.Duration { return time.Millisecond },
					})
					name := bring(t, m)
					synctest.Wait()
					key = rig.Key(name)
					w, _ := inf.Store().Get(key)
					size, w.Size = w.Size, 66
					after(t, m, name)
				})
				all := errs.Mutations()
				if len(all) != 1 {
					t.Fatalf("found %v, want one", all)
				}
				want := fmt.Sprintf("a cached object was changed: Size: %d is now 66", size)
				if e := all[0]; e.Informer != "widgets" || e.Key != key || !strings.Contains(e.Error(), want) {
					t.Errorf("found %v, want %s", e, want)
				}
			})
		}
	}
}

// There is a copy of each object in the cache, and of none that is not, whatever brought it in or
// took it out.
func TestCopiesOfWhatIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, inf := ofMemory("a1 b1 c5", &lw.Options{
			DetectMutation: true, OnError: func(error) {}, OnPanic: func(*lw.Panic) {}, Backoff: func(int) time.Duration { return time.Millisecond },
		})
		lw.NewIndex(inf, func(w *rig.Widget) int { return 10 / (w.Size - 5) })
		mustBe := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if copies, n := inside.Copies(inf), inf.Store().Len(); copies != want || n != want {
				t.Errorf("%s: %d copies of %d objects, want %d", when, copies, n, want)
			}
		}
		rig.Start(t, inf)
		mustBe("a list with one at which an index panics", 2)
		rig.Update(t, m, "a", 2)
		mustBe("an update", 2)
		rig.Update(t, m, "a", 5)
		mustBe("an update at which an index panics", 2)
		rig.Create(t, m, "d", 5)
		mustBe("an object at which an index panics", 2)
		rig.Create(t, m, "e", 1)
		mustBe("an object", 3)
		rig.Remove(t, m, "e")
		mustBe("a deletion", 2)
		rig.Relist(m, func() {
			rig.Create(t, m, "e", 1)
			rig.Create(t, m, "f", 1)
			rig.Update(t, m, "b", 2)
			rig.Update(t, m, "c", 1)
		})
		mustBe("a list that brings some", 5)
		rig.Relist(m, func() { rig.Remove(t, m, "e"); rig.Remove(t, m, "f"); rig.Update(t, m, "b", 5) })
		mustBe("a list that lacks some", 3)
	})
}

// Nothing is found where nobody changed anything, whatever came in; what a transform changes is no
// mutation.
func TestDetectMutationFindsNothing(t *testing.T) {
	errs := &rig.Errors{}
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 1))
		src := lw.Transform(m, func(w *rig.Widget) (*rig.Widget, error) { w.Size++; return w, nil })
		inf := rig.Run(t, src, &lw.Options{DetectMutation: true, OnError: errs.Add})
		inf.AddHandler(lw.Handler[*rig.Widget]{Resync: time.Second, Update: func(_, _ *rig.Widget) {}})
		for i := range 20 {
			rig.Update(t, m, "a", i)
			if i == 10 {
				rig.Relist(m, func() { rig.Create(t, m, "c", 1) })
			}
			rig.Sleep(time.Second)
		}
	})
	if found := errs.Mutations(); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}

// An object that a relist brought again without news is not the one in the store, and nothing is
// kept of it.
func TestDetectMutationForgets(t *testing.T) {
	errs := &rig.Errors{}
	var brought []*rig.Widget
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		src := lw.Transform(m, func(w *rig.Widget) (*rig.Widget, error) { brought = append(brought, w); return w, nil })
		inf := rig.Run(t, src, &lw.Options{DetectMutation: true, OnError: errs.Add})
		rig.Relist(m, func() { rig.Create(t, m, "b", 1) })
		stored, _ := inf.Store().Get(rig.Key("a"))
		for _, w := range brought {
			if w.Name == "a" && w != stored {
				w.Size = 66 // garbage: of no interest to anybody
			}
		}
		if slices.Index(brought, stored) != 0 || len(brought) < 3 {
			t.Fatalf("the relist brought %d objects in all", len(brought))
		}
		rig.Sleep(time.Minute)
	})
	if found := errs.Mutations(); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}

// An object that can copy itself is compared field by field.
func TestDetectMutationOfAPITypes(t *testing.T) {
	errs := &rig.Errors{}
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "web"}}})
		inf := lw.NewInformer(m, &lw.Options{DetectMutation: true, OnError: errs.Add})
		stop := rig.Begin(t, inf)
		obj, _ := inf.Store().Get(lw.Key{Name: "a"})
		obj.Labels["app"] = "changed"
		stop()
	})
	if found := errs.Mutations(); len(found) != 1 || !strings.Contains(found[0].Error(), `Labels["app"]: "web" is now "changed"`) {
		t.Errorf("found %v", found)
	}
}
