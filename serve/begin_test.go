package serve_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
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
	rig.Same(t, "the list", append([]string{version}, want...), got)
}

// What a history has dropped is not kept: not by the history, nor by the states of the past that
// were asked for, nor by a watch that has sent it, nor by what is there after a new beginning.
func TestForgets(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		s := &scripted{"5", nil, make(chan lw.WatchEvent[*Widget])}
		var told []weak.Pointer[Widget]
		tell := func(typ watch.EventType, n string, version int) {
			ev := lw.WatchEvent[*Widget]{Type: typ, ResourceVersion: fmt.Sprint(version), Object: at(n, fmt.Sprint(version), version)}
			told = append(told, weak.Make(ev.Object))
			s.events <- ev
			ev.Object = nil
			synctest.Wait()
		}
		left := func() (all []int) {
			runtime.GC()
			runtime.GC()
			for i, p := range told {
				if p.Value() != nil {
					all = append(all, i)
				}
			}
			return all
		}
		r := widgets
		r.History.Events = 4
		b.scripted(s, r)
		watching, selected := b.watch("resourceVersion=5"), b.watch("resourceVersion=5&fieldSelector=size=0")
		tell(watch.Added, "a", 6)
		for v := 7; v < 20; v++ {
			tell(watch.Modified, "a", v)
		}
		tell(watch.Deleted, "a", 20)
		for v := 21; v < 25; v++ { // the history has these
			tell(watch.Added, fmt.Sprint("b", v), v)
		}
		watching.take()
		b.client.CloseIdleConnections()
		rig.Same(t, "what is left of the past", []int{15, 16, 17, 18}, left()) // the objects of now
		// A new beginning, from which on there are only few objects.
		for v := 23; v < 25; v++ {
			b.do("GET", path+fmt.Sprintf("?resourceVersionMatch=Exact&resourceVersion=%d", v), "")
		}
		s.version, s.objects = "30", []*Widget{at("c", "30", 1)}
		s.events <- lw.WatchEvent[*Widget]{}
		time.Sleep(time.Minute)
		b.lists(t, "30", "c 30")
		watching.take()
		selected.take()
		for v := 31; v < 36; v++ { // whatever the informer keeps of before is gone with these
			s.events <- lw.WatchEvent[*Widget]{Type: watch.Modified, ResourceVersion: fmt.Sprint(v), Object: at("c", fmt.Sprint(v), v)}
			synctest.Wait()
		}
		if all := left(); len(all) > 0 {
			t.Errorf("of what was before a new beginning is left %d", all)
		}
	})
}

// Of a client that has gone nothing is kept, not even its name.
func TestForgetsClients(t *testing.T) {
	var freed atomic.Int32
	opts := serve.Options{Client: func(*http.Request) string {
		n := strings.Repeat("x", 1000) // each has its own
		runtime.AddCleanup(unsafe.StringData(n), func(freed *atomic.Int32) { freed.Add(1) }, &freed)
		return n
	}}
	h := handleMemory(t, opts, lw.NewMemory[*Widget](), widgets).h
	for range 5 {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(rig.Canceled(t), "GET", path+"?watch=1&resourceVersion=1", nil))
	}
	rig.Met(t, patience, "the names of the clients are free", func() bool { runtime.GC(); return freed.Load() == 5 })
}
