package lw_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// Sources say of each event whether another one is at hand.
func TestSourcesSayMore(t *testing.T) {
	events := make(chan watch.Event, 10)
	for i := range 3 {
		events <- watch.Event{Type: watch.Added, Object: newAppliance(fmt.Sprint("a", i), strconv.Itoa(i+1), 1)}
	}
	events <- watch.Event{Type: watch.Bookmark, Object: newAppliance("", "9", 1)}
	src := lw.Transform(lw.WithListOptions[*appliance](&lw.ListWatch[*appliance, *applianceList]{
		WatchFunc: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewProxyWatcher(events), nil
		},
	}), func(a *appliance) (*appliance, error) { return a, nil })
	var got []bool
	err := src.Watch(t.Context(), metav1.ListOptions{}, func(ev lw.WatchEvent[*appliance]) error {
		if got = append(got, ev.More); !ev.More {
			close(events)
		}
		return nil
	})
	if d := cmp.Diff([]bool{true, true, true, false}, got); d != "" || err != nil {
		t.Errorf("More (-want +got):\n%s%v", d, err)
	}
}
