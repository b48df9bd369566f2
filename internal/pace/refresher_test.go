package pace

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A wait ends the watch that is there, or the next one is brief, whenever it asks.
func TestRefresher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Refresher
		hastened := errors.New("hastened")
		var ended []string
		lacks := func(at string) func(string) bool { return func(version string) bool { return version > at } }
		watch := func(name string) context.CancelCauseFunc {
			return func(cause error) { ended = append(ended, fmt.Sprint(name, ": ", cause)) }
		}
		hasten := func(want time.Duration) {
			t.Helper()
			if again := h.Hasten("20", hastened); again != want {
				t.Errorf("hasten returned %v, want %v", again, want)
			}
		}
		open := func(at, name string, want bool) {
			t.Helper()
			if brief := h.Open(lacks(at), watch(name)); brief != want {
				t.Errorf("watch %s: brief is %v, want %v", name, brief, want)
			}
		}
		open("10", "first", false)
		hasten(0)
		time.Sleep(time.Second) // the pause before a watch
		hasten(2 * time.Second)
		open("10", "second", true)
		hasten(3 * time.Second)
		time.Sleep(3 * time.Second) // the second has ended, and the third begins
		open("10", "third", false)
		hasten(0)
		open("10", "fourth", true)
		time.Sleep(3 * time.Second)
		hasten(0)
		h.Listed(lacks("20"), watch("a list that has it"), hastened)
		time.Sleep(3 * time.Second)
		hasten(0)
		h.Listed(lacks("19"), watch("a list that does not"), hastened)
		open("19", "fifth", true)
		open("19", "sixth", false)
		want := []string{"first", "third", "fourth", "a list that has it", "a list that does not"}
		for i := range want {
			want[i] += ": " + hastened.Error()
		}
		if diff := cmp.Diff(want, ended); diff != "" {
			t.Error(diff)
		}
	})
}
