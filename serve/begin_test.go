package serve_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// A scripted source lists what it is told to, and watches what comes.
type scripted struct {
	version string
	objects []*Widget
	events  chan lw.WatchEvent[*Widget] // an event without a type ends the watch: its version is gone
}

func (s *scripted) List(_ context.Context, _ metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta, error) {
	for _, w := range s.objects {
		if err := yield(w, nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: s.version}, nil
}

func (s *scripted) Watch(ctx context.Context, _ metav1.ListOptions, yield func(lw.WatchEvent[*Widget]) error) error {
	for {
		select {
		case ev := <-s.events:
			if ev.Type == "" {
				return apierrors.NewResourceExpired("gone")
			}
			if err := yield(ev); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// at returns a Widget at a version.
func at(n, version string, size int) *Widget {
	w := newWidget(name(n), size)
	w.UID, w.ResourceVersion = types.UID("uid of "+n), version
	return w
}

func (s *scripted) tell(typ watch.EventType, n, version string, size int) {
	ev := lw.WatchEvent[*Widget]{Type: typ, ResourceVersion: version}
	if n != "" {
		ev.Object = at(n, version, size)
	}
	s.events <- ev
	synctest.Wait()
}

// scripted serves an informer of s.
func (b *bubble) scripted(s *scripted, r serve.Resource[*Widget]) {
	r.Fresh = serve.FreshHere
	inf := lw.NewInformer[*Widget](s, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
	go func() { _ = inf.Run(b.ctx) }()
	b.serve(func(ctx context.Context) error { return serve.Serve(ctx, b.h, inf, r) })
}

// A list may have objects that are newer than it is. What is served begins when everything up to
// the newest of them has come, and not before: a state between would be that of no version.
func TestBeginsLate(t *testing.T) {
	for what, script := range map[string]func(t *testing.T, b *bubble, s *scripted, refused func()){
		"a bookmark": func(t *testing.T, b *bubble, s *scripted, refused func()) {
			s.tell(watch.Bookmark, "", "8", 0)
			refused()
			s.tell(watch.Bookmark, "", "9", 0)
			b.lists(t, "9", "a 9", "b 3")
		},
		"changes": func(t *testing.T, b *bubble, s *scripted, refused func()) {
			s.tell(watch.Added, "c", "6", 1)
			refused()
			s.tell(watch.Modified, "b", "7", 1)
			refused()
			s.tell(watch.Deleted, "c", "8", 1)
			refused()
			s.tell(watch.Modified, "b", "10", 2)
			b.lists(t, "10", "a 9", "b 10")
			// There is nothing before.
			b.watch("resourceVersion=9").want(t, "ERROR 410", "END")
			w := b.watch("resourceVersion=10")
			s.tell(watch.Modified, "a", "11", 2)
			w.want(t, "MODIFIED a 11")
		},
		"another list": func(t *testing.T, b *bubble, s *scripted, refused func()) {
			s.version, s.objects = "9", []*Widget{at("a", "9", 1)}
			s.tell("", "", "", 0)
			time.Sleep(time.Minute)
			b.lists(t, "9", "a 9")
		},
		"an older list than what is kept": func(t *testing.T, b *bubble, s *scripted, refused func()) {
			s.tell(watch.Bookmark, "", "9", 0)
			s.tell(watch.Modified, "b", "12", 2)
			b.lists(t, "12", "a 9", "b 12")
			w := b.watch("resourceVersion=12")
			s.version, s.objects = "10", []*Widget{at("b", "12", 2), at("c", "4", 1)} // a replica that lags
			s.tell("", "", "", 0)
			time.Sleep(time.Minute)
			refused()
			w.want(t, "ERROR 410", "END")
			s.tell(watch.Bookmark, "", "11", 0)
			refused()
			s.tell(watch.Added, "d", "13", 1)
			b.lists(t, "13", "b 12", "c 4", "d 13")
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, serve.Options{}, func(b *bubble) {
				b.t = t
				s := &scripted{"5", []*Widget{at("a", "9", 1), at("b", "3", 1)}, make(chan lw.WatchEvent[*Widget])}
				b.scripted(s, widgets)
				refused := func() {
					t.Helper()
					if s := b.h.Status()[0]; s.Synced {
						t.Errorf("it is synced at %d", s.ResourceVersion)
					}
					for _, query := range []string{"", "?resourceVersion=0", "?watch=1", "?watch=1&resourceVersion=5"} {
						b.answers(http.StatusTooManyRequests, `"retryAfterSeconds":1`, "GET", path+query, "")
					}
					ctx, cancel := context.WithTimeout(b.ctx, time.Second)
					defer cancel()
					if err := b.h.WaitForSync(ctx); err == nil || !strings.Contains(err.Error(), "widgets") {
						t.Errorf("WaitForSync before the beginning: %v", err)
					}
				}
				refused()
				script(t, b, s, refused)
				if err := b.h.WaitForSync(b.ctx); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// lists checks the version of a list and the names and versions of its objects.
func (b *bubble) lists(t *testing.T, version string, want ...string) {
	t.Helper()
	_, list := b.get(forms[0], forms[0].accept, path)
	got := []string{list.Metadata.ResourceVersion}
	for _, item := range list.Items {
		got = append(got, item.Metadata.Name+" "+item.Metadata.ResourceVersion)
	}
	if diff := cmp.Diff(append([]string{version}, want...), got); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
}
