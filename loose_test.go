package lw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// A fake's objects carry versions that mean nothing: its events are believed as they come, and its versions are not the store's.
func TestLooseVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
		size := 1
		src := sourceOf[*appliance](func() *applianceList {
			return &applianceList{ListMeta: version10, Items: []appliance{*newAppliance("a", "7", size)}}
		}, fake)
		inf := lw.NewInformer[*appliance](src, &lw.Options{OnError: func(err error) { t.Error(err) }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- inf.Run(ctx) }()
		if err := inf.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		for _, w := range []*appliance{newAppliance("a", "3", 2), newAppliance("a", "3", 3), newAppliance("a", "99", 4), newAppliance("a", "5", 5)} {
			fake.Modify(w)
			time.Sleep(time.Second)
			if got, _ := inf.Store().Get(key("a")); got.Size != w.Size || inf.Store().ResourceVersion() != "10" {
				t.Errorf("the store has %d at %s, want %d", got.Size, inf.Store().ResourceVersion(), w.Size)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
