package lw_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
)

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
