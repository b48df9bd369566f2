package lwdebug_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
)

type Widget struct {
	lw.Meta
	Size int
}

func widget(name string, size int) *Widget {
	return &Widget{Meta: lw.Meta{Namespace: "default", Name: name}, Size: size}
}

type sum struct {
	lw.Meta
	Sum int
}

func sumOf(w *Widget) *sum {
	return &sum{Meta: lw.Meta{Namespace: w.Namespace, Name: w.Name}, Sum: w.Size}
}

var addedUp = lw.Aggregate[*sum, int]{
	Add:    func(acc int, s *sum) int { return acc + s.Sum },
	Remove: func(acc int, s *sum) int { return acc - s.Sum },
}

func totalOf(key lw.Key, acc int) *sum { return &sum{Meta: lw.Meta{Name: key.Name}, Sum: acc} }

// begin runs r in the bubble until the function that it returns is called.
func begin(t *testing.T, r interface{ Run(context.Context) error }) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- r.Run(ctx) }()
	synctest.Wait()
	return func() {
		t.Helper()
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// start runs r in the bubble until the test ends.
func start(t *testing.T, r interface{ Run(context.Context) error }) { t.Cleanup(begin(t, r)) }

// sleep lets time pass, and all that it brings about happen.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
