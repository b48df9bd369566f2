package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
)

// The demonstration is the test. In a bubble its clock is its own, and whatever is still running at
// the end is a failure.
func TestDemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		if err := demo(t.Context(), &out); err != nil {
			t.Error(err)
		}
		if !strings.Contains(out.String(), "all is as it was:\n   nothing has changed here\n") {
			t.Errorf("a heartbeat has changed something:\n%s", out.String())
		}
	})
}

// A server is followed until the context is done, and what changes is printed.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := newWorld()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var out strings.Builder
		ended := make(chan error, 1)
		go func() { ended <- follow(ctx, &out, w.URL(), w.Client()) }()
		synctest.Wait()
		if err := w.change("till-2", func(p *Pod) { p.Status.Conditions[0].Status = "False" }); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := w.services.Delete(lw.Key{Namespace: "shop", Name: "cart"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		slices.Sort(got) // the two handlers have a goroutine each
		if diff := cmp.Diff([]string{
			"  node node-2: 1 of 2 pods ready",
			"  service shop/till: 10.0.1.2 10.0.3.2 (not ready: 10.0.2.2)",
			"+ node node-1: 2 of 2 pods ready",
			"+ node node-2: 2 of 2 pods ready",
			"+ node node-3: 2 of 2 pods ready",
			"+ service shop/cart: 10.0.1.1 10.0.2.1 10.0.3.1",
			"+ service shop/till: 10.0.1.2 10.0.2.2 10.0.3.2",
			"- service shop/cart: 10.0.1.1 10.0.2.1 10.0.3.1",
		}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
