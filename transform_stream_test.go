package lw_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// Names are forgotten at the end of a whole list only: not at a bookmark in the middle of a stream that breaks later.
func TestTransformRemembersThroughABrokenStream(t *testing.T) {
	inner := &script{
		lists:   []reply{list("10", stamped("a", 1, "9"), stamped("b", 1, "8"))},
		watches: []stream{{events: []lw.WatchEvent[*Widget]{deleted(stamped("a", 1, "11"))}}},
		stream: func() stream {
			return stream{events: []lw.WatchEvent[*Widget]{added("b", "8"), bookmark("10")}}
		},
	}
	src := lw.Transform[*Widget](inner, func(w *Widget) (*Widget, error) { w.Name = "new-" + w.Name; return w, nil })
	if _, err := src.List(t.Context(), metav1.ListOptions{}, func(*Widget, error) error { return nil }); err != nil {
		t.Fatal(err)
	}
	initial := metav1.ListOptions{SendInitialEvents: new(bool)}
	*initial.SendInitialEvents = true
	if err := src.Watch(t.Context(), initial, func(lw.WatchEvent[*Widget]) error { return nil }); err != nil {
		t.Fatal(err)
	}
	gone := ""
	err := src.Watch(t.Context(), metav1.ListOptions{AllowWatchBookmarks: true}, func(ev lw.WatchEvent[*Widget]) error {
		if ev.Type == watch.Deleted {
			gone = ev.Key().Name
		}
		return nil
	})
	if err != nil || gone != "new-a" {
		t.Errorf("deleted is %q, want new-a; error %v", gone, err)
	}
}
