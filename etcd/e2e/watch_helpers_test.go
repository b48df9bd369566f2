package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/go-lw/lw"
)

var errEnough = errors.New("enough")

// listVersion lists, and returns the version.
func listVersion(t testing.TB, src lw.Source[*thing]) string {
	t.Helper()
	meta, err := src.List(within(t, time.Minute), metav1.ListOptions{}, func(*thing, error) error { return nil })
	noErr(t, err)
	return meta.ResourceVersion
}

// watchFor watches from position until n events have come, and returns the position after them and
// the events. Bookmarks are none.
func watchFor(t testing.TB, src lw.Source[*thing], position string, n int) (string, []lw.WatchEvent[*thing]) {
	t.Helper()
	var events []lw.WatchEvent[*thing]
	if n == 0 {
		return position, nil
	}
	err := src.Watch(within(t, time.Minute), metav1.ListOptions{ResourceVersion: position}, func(ev lw.WatchEvent[*thing]) error {
		events = append(events, ev)
		if position = ev.ResourceVersion; len(events) == n && !ev.Open {
			return errEnough
		}
		return nil
	})
	if err != errEnough {
		t.Fatalf("Watch: %v, after %d of %d events", err, len(events), n)
	}
	return position, events
}

// watchUntil watches from position until that version is passed.
func watchUntil(t testing.TB, src lw.Source[*thing], position, until string) (string, int) {
	t.Helper()
	n := 0
	ctx, cancel := context.WithCancel(within(t, time.Minute))
	defer cancel()
	reached := func() bool {
		c, err := resourceversion.CompareResourceVersion(position, until)
		return err == nil && c >= 0
	}
	if reached() {
		return position, 0
	}
	if err := src.Watch(ctx, metav1.ListOptions{ResourceVersion: position}, func(ev lw.WatchEvent[*thing]) error {
		n++
		if position = ev.ResourceVersion; reached() {
			cancel()
		}
		return nil
	}); ctx.Err() == nil {
		t.Fatalf("Watch: %v, at %s", err, position)
	}
	return position, n
}
