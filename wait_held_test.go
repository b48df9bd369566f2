package lw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
)

// A bookmark is as good as an event to those who wait for its version.
func TestBookmarkEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fed{events: make(chan lw.WatchEvent[*Widget]), version: "10", objs: []*Widget{stamped("a", 1, "9")}}
		inf := run(t, src, &lw.Options{List: lw.ListWhole})
		ended := make(chan error, 2)
		for _, version := range []string{"15", "20"} {
			go func() { ended <- inf.WaitForResourceVersion(t.Context(), version) }()
		}
		synctest.Wait()
		src.send(bookmark("14"))
		src.send(bookmark("")) // it says nothing, and moves nothing
		if len(ended) != 0 || inf.Store().ResourceVersion() != "14" {
			t.Fatalf("%d waits have ended at %s", len(ended), inf.Store().ResourceVersion())
		}
		src.send(bookmark("15"))
		if len(ended) != 1 {
			t.Fatalf("%d waits have ended at %s, want one", len(ended), inf.Store().ResourceVersion())
		}
		src.send(bookmark("100"))
		if len(ended) != 2 {
			t.Fatalf("%d waits have ended at %s, want both", len(ended), inf.Store().ResourceVersion())
		}
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// While an object is set aside a bookmark moves neither the version nor those who wait, but tells them why.
func TestBookmarkPastWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fed{events: make(chan lw.WatchEvent[*Widget]), version: "10", objs: []*Widget{stamped("a", 1, "9")}}
		inf := run(t, src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		src.send(badEvent("b", "11"))
		ended := make(chan error, 1)
		go func() { ended <- inf.WaitForResourceVersion(t.Context(), "20") }()
		synctest.Wait()
		if len(ended) != 0 {
			t.Fatalf("a wait for what has not come has ended: %v", <-ended)
		}
		src.send(bookmark("20"))
		mustHold(t, inf.Store(), "10", map[string]int{"a": 1})
		var e *lw.Error
		if err := <-ended; !errors.As(err, &e) || e.Key != key("b") {
			t.Errorf("the wait ended with %v", err)
		}
	})
}

// A wait that has ended leaves nothing behind.
func TestWaitsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := run(t, lw.NewMemory(widget("a", 1)), nil)
		for i := range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			version := "1"
			if i%2 == 0 {
				version = "1000"
			}
			if err := inf.WaitForResourceVersion(ctx, version); (err == nil) != (version == "1") {
				t.Errorf("a wait for %s: %v", version, err)
			}
			cancel()
			if n, noted := lw.Waits(inf); n != 0 || noted != 0 {
				t.Fatalf("%d waits are left, %d of them noted", n, noted)
			}
		}
	})
}
