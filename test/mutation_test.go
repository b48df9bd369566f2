package lw_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

// mutations returns what OnError was told of changed objects.
func (l *errorLog) mutations() []*lw.Error {
	var out []*lw.Error
	for _, err := range l.all() {
		if e, ok := err.(*lw.Error); ok && e.Op == "mutation" {
			out = append(out, e)
		}
	}
	return out
}

// Whoever changes a cached object is found, at the latest when it leaves the cache or the informer stops, and told once.
func TestDetectMutation(t *testing.T) {
	for name, after := range map[string]func(t *testing.T, m *lw.Memory[*Widget]){
		"while it is cached":      func(t *testing.T, m *lw.Memory[*Widget]) { create(t, m, "c", 1); sleep(time.Minute) },
		"when it is replaced":     func(t *testing.T, m *lw.Memory[*Widget]) { update(t, m, "a", 7) },
		"when it is deleted":      func(t *testing.T, m *lw.Memory[*Widget]) { remove(t, m, "a") },
		"when a list replaces it": func(t *testing.T, m *lw.Memory[*Widget]) { relist(t, m, func() { update(t, m, "a", 7) }) },
		"when a list lacks it":    func(t *testing.T, m *lw.Memory[*Widget]) { relist(t, m, func() { remove(t, m, "a") }) },
		"when the informer stops": func(t *testing.T, m *lw.Memory[*Widget]) {},
	} {
		t.Run(name, func(t *testing.T) {
			errs := &errorLog{}
			synctest.Test(t, func(t *testing.T) {
				m := lw.NewMemory(widget("a", 1), widget("b", 1))
				inf := run(t, m, &lw.Options{
					Name: "widgets", DetectMutation: true, OnError: errs.add,
					// The list comes before the next look at the cache, which the race detector could not tell from a race.
					Backoff: func(int) time.Duration { return time.Millisecond },
				})
				w, _ := inf.Store().Get(key("a"))
				w.Size = 66
				after(t, m)
			})
			found := errs.mutations()
			if len(found) != 1 {
				t.Fatalf("found %v, want one", found)
			}
			if e := found[0]; e.Informer != "widgets" || e.Key != key("a") || !strings.Contains(e.Error(), "a cached object was changed: Size: 1 is now 66") {
				t.Errorf("found %v", e)
			}
		})
	}
}

// There is a copy of each object in the cache, and of none that is not, whatever brought it in or took it out.
func TestCopiesOfWhatIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("b", 1), widget("c", 5))
		inf := lw.NewInformer(m, &lw.Options{
			DetectMutation: true, OnError: func(error) {}, OnPanic: func(*lw.Panic) {}, Backoff: func(int) time.Duration { return time.Millisecond },
		})
		lw.NewIndex(inf, func(w *Widget) int { return 10 / (w.Size - 5) })
		mustBe := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if copies, n := copies(inf), inf.Store().Len(); copies != want || n != want {
				t.Errorf("%s: %d copies of %d objects, want %d", when, copies, n, want)
			}
		}
		start(t, inf)
		mustBe("a list with one at which an index panics", 2)
		update(t, m, "a", 2)
		mustBe("an update", 2)
		update(t, m, "a", 5)
		mustBe("an update at which an index panics", 2)
		create(t, m, "d", 5)
		mustBe("an object at which an index panics", 2)
		create(t, m, "e", 1)
		mustBe("an object", 3)
		remove(t, m, "e")
		mustBe("a deletion", 2)
		relist(t, m, func() { create(t, m, "e", 1); create(t, m, "f", 1); update(t, m, "b", 2); update(t, m, "c", 1) })
		mustBe("a list that brings some", 5)
		relist(t, m, func() { remove(t, m, "e"); remove(t, m, "f"); update(t, m, "b", 5) })
		mustBe("a list that lacks some", 3)
	})
}

// relist makes the informers of m list again, after change.
func relist(t *testing.T, m *lw.Memory[*Widget], change func()) {
	m.Fail(errors.New("down"))
	change()
	m.Compact()
	m.Fail(nil)
	sleep(time.Minute)
}

// Nothing is found where nobody changed anything, whatever came in; what a transform changes is no mutation.
func TestDetectMutationFindsNothing(t *testing.T) {
	errs := &errorLog{}
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("b", 1))
		src := lw.Transform(m, func(w *Widget) (*Widget, error) { w.Size++; return w, nil })
		inf := run(t, src, &lw.Options{DetectMutation: true, OnError: errs.add})
		inf.AddHandler(lw.Handler[*Widget]{Resync: time.Second, Update: func(_, _ *Widget) {}})
		for i := range 20 {
			update(t, m, "a", i)
			if i == 10 {
				relist(t, m, func() { create(t, m, "c", 1) })
			}
			sleep(time.Second)
		}
	})
	if found := errs.mutations(); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}

// An object that a relist brought again without news is not the one in the store, and nothing is kept of it.
func TestDetectMutationForgets(t *testing.T) {
	errs := &errorLog{}
	var brought []*Widget
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		src := lw.Transform(m, func(w *Widget) (*Widget, error) { brought = append(brought, w); return w, nil })
		inf := run(t, src, &lw.Options{DetectMutation: true, OnError: errs.add})
		relist(t, m, func() { create(t, m, "b", 1) })
		stored, _ := inf.Store().Get(key("a"))
		for _, w := range brought {
			if w.Name == "a" && w != stored {
				w.Size = 66 // garbage: of no interest to anybody
			}
		}
		if slices.Index(brought, stored) != 0 || len(brought) < 3 {
			t.Fatalf("the relist brought %d objects in all", len(brought))
		}
		sleep(time.Minute)
	})
	if found := errs.mutations(); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}

// An object that can copy itself is compared field by field.
func TestDetectMutationOfAPITypes(t *testing.T) {
	errs := &errorLog{}
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "web"}}})
		inf := lw.NewInformer(m, &lw.Options{DetectMutation: true, OnError: errs.add})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- inf.Run(ctx) }()
		synctest.Wait()
		obj, _ := inf.Store().Get(lw.Key{Name: "a"})
		obj.Labels["app"] = "changed"
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	if found := errs.mutations(); len(found) != 1 || !strings.Contains(found[0].Error(), `Labels["app"]: "web" is now "changed"`) {
		t.Errorf("found %v", found)
	}
}

// An object that came by a watch is looked after as one of a list is.
func TestDetectMutationOfWhatTheWatchBrought(t *testing.T) {
	for name, bring := range map[string]func(t *testing.T, m *lw.Memory[*Widget]){
		"added":    func(t *testing.T, m *lw.Memory[*Widget]) { create(t, m, "b", 2) },
		"modified": func(t *testing.T, m *lw.Memory[*Widget]) { update(t, m, "a", 2) },
	} {
		for how, then := range map[string]func(t *testing.T, m *lw.Memory[*Widget], name string){
			// The write before the next look tells the race detector that the look comes after the mutation.
			"while it is cached":  func(t *testing.T, m *lw.Memory[*Widget], _ string) { create(t, m, "c", 1); sleep(time.Minute) },
			"when it is replaced": func(t *testing.T, m *lw.Memory[*Widget], name string) { update(t, m, name, 7) },
			"when it is deleted":  func(t *testing.T, m *lw.Memory[*Widget], name string) { remove(t, m, name) },
		} {
			errs := &errorLog{}
			synctest.Test(t, func(t *testing.T) {
				m := lw.NewMemory(widget("a", 1))
				inf := run(t, m, &lw.Options{DetectMutation: true, OnError: errs.add})
				bring(t, m)
				synctest.Wait()
				for w := range inf.Store().All() {
					if w.Size == 2 {
						w.Size = 66
						then(t, m, w.Name)
						return
					}
				}
				t.Error("the watch has brought nothing")
			})
			if found := errs.mutations(); len(found) != 1 {
				t.Errorf("%s, %s: found %v, want one", name, how, found)
			}
		}
	}
}
