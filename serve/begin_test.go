package serve_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
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
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// A scripted source lists what it is told to, and watches what comes.
type scripted struct {
	version string
	objects []*Widget
	events  chan lw.WatchEvent[*Widget] // an event without a type ends the watch: its version is gone
}

func (s *scripted) List(_ context.Context, _ metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta,
	error) {
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
				noErr(t, b.h.WaitForSync(b.ctx))
			})
		})
	}
}

// A collection that nobody serves any more is empty, and has no version. What a client has of it is
// gone, so the versions of before are too old, unless it was seen to go.
func TestUnservedCollection(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		s := &scripted{"", nil, make(chan lw.WatchEvent[*Widget])}
		relists := func(version string, objects ...*Widget) {
			s.version, s.objects = version, objects
			s.tell("", "", "", 0)
			time.Sleep(time.Minute)
		}
		b.scripted(s, widgets)
		b.lists(t, "1")
		w := b.watch("resourceVersion=1")
		relists("5", at("a", "3", 1), at("b", "4", 1))
		w.want(t, "ERROR 410", "END")
		b.lists(t, "5", "a 3", "b 4")
		w = b.watch("resourceVersion=5")
		relists("")
		w.want(t, "ERROR 410", "END")
		b.lists(t, "6")
		b.watch("resourceVersion=5").want(t, "ERROR 410", "END")
		relists("9", at("a", "8", 1))
		w = b.watch("resourceVersion=9")
		s.tell(watch.Deleted, "a", "10", 1)
		relists("")
		w.want(t, "DELETED a 10")
		b.lists(t, "10")
		relists("12")
		s.tell(watch.Added, "c", "13", 1)
		w.want(t, "ADDED c 13")
	})
}

// lists checks the version of a list and the names and versions of its objects.
func (b *bubble) lists(t *testing.T, version string, want ...string) {
	t.Helper()
	list := b.list("")
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
			ev := lw.WatchEvent[*Widget]{Type: typ, ResourceVersion: fmt.Sprint(version),
				Object: at(n, fmt.Sprint(version), version)}
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
			s.tell(watch.Modified, "c", fmt.Sprint(v), v)
		}
		rig.Same(t, "left of what was before a new beginning", nil, left())
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
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(rig.Canceled(t), "GET",
			path+"?watch=1&resourceVersion=1", nil))
	}
	rig.Met(t, patience, "the names of the clients are free", func() bool { runtime.GC(); return freed.Load() == 5 })
}

// overtaken restores m from a backup while nobody reaches it, and writes until it is past the
// version that it had. It has an object then whose UID and version are those of before, and which
// has other content.
func overtaken(t *testing.T, m *lw.Memory[*Widget]) (before string) {
	t.Helper()
	w, _ := m.Get(t.Context(), name("a"))
	backup := m.ResourceVersion()
	put(t, m.Update, "a", 10)
	put(t, m.Create, "newest", 10)
	synctest.Wait()
	before = m.ResourceVersion()
	m.Fail(syscall.ECONNREFUSED)
	time.Sleep(time.Minute)
	noErr(t, m.Rewind(backup))
	put(t, m.Update, "a", 20)
	resize(t, m, newWidget(name("other"), 0), 10)
	m.Fail(nil)
	if now, _ := m.Get(t.Context(), name("a")); now.UID != w.UID || now.Size != 20 {
		t.Fatalf("%+v", now)
	}
	time.Sleep(time.Minute)
	return before
}

// A server that was restored, and is past its old version when its relay finds it again, is told of
// to clients as a 410 with a cause: on open watches, for versions of before, and for lists that
// began before.
func TestReplaced(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := b.relayed(lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 1)))
		token := tokenOf(b.answers(http.StatusOK, "", "GET", path+"?limit=1", ""))
		open := b.watch("resourceVersion=" + m.ResourceVersion())
		before := overtaken(b.t, m)
		open.want(b.t, "MODIFIED a 4", "ADDED newest 5", "ERROR 410", "END")
		for _, query := range []string{
			"?resourceVersion=" + before + "&resourceVersionMatch=Exact",
			"?limit=1&continue=" + token,
			"?watch=1&resourceVersion=" + before,
		} {
			_, body := b.do("GET", path+query, "")
			if !strings.Contains(body, `"HistoryReplaced"`) || !strings.Contains(body, `"Expired"`) ||
				strings.Contains(body, `"continue"`) {
				b.t.Errorf("%s: %s", query, body)
			}
		}
		// Of what is too old nobody knows of which history it was; what is new is not replaced.
		now := m.ResourceVersion()
		b.answers(http.StatusOK, "", "GET", path+"?resourceVersion="+now+"&resourceVersionMatch=Exact", "")
	})
}

// A server that is behind: a version of before is not one that is still to come.
func TestReplacedAndBehind(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m, _, before := b.behindBefore()
		for _, query := range fromVersion {
			b.replaced(query + before)
			if body := b.answers(http.StatusOK, "", "GET", path+query+"3", ""); strings.Contains(body, "HistoryReplaced") {
				b.t.Errorf("%s3: %s", query, body)
			}
		}
		// It comes to that version in its own time.
		resize(t, m, newWidget(name("c"), 0), 8)
		synctest.Wait()
		b.answers(http.StatusOK, "", "GET", path+"?resourceVersionMatch=Exact&resourceVersion="+before, "")
	})
}

// A late source brings the events of its watches when its valve is open. While it is silent it
// answers no list; its next older lists of one object say that the server is at version 3.
type late struct {
	*valve[*Widget]
	silent atomic.Bool
	older  atomic.Int32
}

func (l *late) List(ctx context.Context, opts metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta,
	error) {
	if l.silent.Load() {
		<-ctx.Done()
		return metav1.ListMeta{}, context.Cause(ctx)
	}
	if opts.Limit == 1 && l.older.Add(-1) >= 0 {
		return metav1.ListMeta{ResourceVersion: "3"}, nil
	}
	return l.valve.List(ctx, opts, yield)
}

// fromVersion are requests for a version that stands behind them.
var fromVersion = []string{"?resourceVersionMatch=Exact&resourceVersion=", "?watch=1&timeoutSeconds=1&resourceVersion="}

// behindBefore serves an informer of a Memory that has gone back to version 3, from before.
func (b *bubble) behindBefore() (m *lw.Memory[*Widget], src *late, before string) {
	b.t.Helper()
	m = lw.NewMemory(newWidget(name("a"), 1))
	resize(b.t, m, newWidget(name("b"), 0), 8)
	src = &late{valve: newValve(m)}
	b.relay(src, widgets)
	before = m.ResourceVersion()
	noErr(b.t, m.Rewind("3"))
	time.Sleep(time.Minute)
	return m, src, before
}

// A restored server comes to versions that it had before. A client that has one of these from
// another relay is not told here that its history was replaced, though this relay has not heard of
// it yet: an informer would believe an older list then.
func TestReplacedAndReached(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m, src, _ := b.behindBefore()
		src.shut()
		put(b.t, m.Create, "new", 1)
		for _, query := range fromVersion {
			src.older.Store(2) // a replica that lags is not believed at once
			b.answers(http.StatusGatewayTimeout, "ResourceVersionTooLarge", "GET", path+query+"4", "")
			src.older.Store(3)
			b.replaced(query + "4")
		}
		time.AfterFunc(time.Second, src.goOn)
		open := b.watch("resourceVersion=4")
		put(b.t, m.Create, "newer", 1)
		open.want(b.t, "ADDED newer 5")
		for _, query := range fromVersion {
			b.replaced(query + "6")
		}
	})
}

// replaced checks that what is asked for is of another history.
func (b *bubble) replaced(query string) {
	b.t.Helper()
	if _, body := b.do("GET", path+query, ""); !strings.Contains(body, `"HistoryReplaced"`) {
		b.t.Errorf("%s: %s", query, body)
	}
}

// An informer behind relays is told of the other history, and believes no object of it.
func TestReplacedBehindRelays(t *testing.T) {
	for _, accept := range []string{"application/json", "application/cbor"} {
		for _, mode := range []lw.ListMode{lw.ListStream, lw.ListPages} {
			t.Run(accept+"/"+string(mode), func(t *testing.T) {
				inBubble(t, serve.Options{}, func(b *bubble) {
					m := b.relayed(lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 1)))
					b.beside(func(second *bubble) { // of which the first relay is the server
						collected(second, informer[*serve.Object](second, serve.Raw("http://server"+path, b.client)), rawWidgets)
						rewound := 0
						inf := lw.NewInformer[*Widget](&lw.HTTP[*Widget]{URL: "http://server" + path, Client: second.client,
							Accept: accept}, &lw.Options{
							List: mode, OnError: func(err error) {
								if errors.Is(err, lw.ErrRewound) {
									rewound++
								}
							},
						})
						go func() { _ = inf.Run(second.ctx) }()
						time.Sleep(time.Minute)
						overtaken(b.t, m)
						time.Sleep(time.Minute)
						got, want := map[string]int{}, map[string]int{}
						for w := range m.All() {
							want[w.Name] = w.Size
						}
						for w := range inf.Store().All() {
							got[w.Name] = w.Size
						}
						rig.Same(t, "the store", want, got)
						if s := inf.Status(); s.Epoch != 1 || rewound != 1 {
							t.Errorf("epoch %d, told %d times", s.Epoch, rewound)
						}
					})
				})
			})
		}
	}
}
