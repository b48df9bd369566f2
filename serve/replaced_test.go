package serve_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// overtaken restores m from a backup while nobody reaches it, and writes until it is past the
// version that it had. It has an object then whose UID and version are those of before, and which
// has other content.
func overtaken(t *testing.T, m *lw.Memory[*Widget]) (before string) {
	t.Helper()
	w, _ := m.Get(t.Context(), name("a"))
	backup := m.ResourceVersion()
	write := func(n string, size int) {
		t.Helper()
		if _, err := m.Update(t.Context(), newWidget(name(n), size)); apierrors.IsNotFound(err) {
			put(t, m.Create, n, size)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	write("a", 10)
	write("newest", 10)
	synctest.Wait()
	before = m.ResourceVersion()
	m.Fail(syscall.ECONNREFUSED)
	time.Sleep(time.Minute)
	noErr(t, m.Rewind(backup))
	write("a", 20)
	for n := range 10 {
		write("other", n)
	}
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
		m := lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 1))
		b.relay(m, widgets)
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
			if !strings.Contains(body, `"HistoryReplaced"`) || !strings.Contains(body, `"Expired"`) || strings.Contains(body, `"continue"`) {
				b.t.Errorf("%s: %s", query, body)
			}
		}
		// What is too old in the new history as well was of the old one, as far as anybody knows; what is
		// new is not.
		now := m.ResourceVersion()
		b.answers(http.StatusOK, "", "GET", path+"?resourceVersion="+now+"&resourceVersionMatch=Exact", "")
	})
}

// A server that is behind the version that it had: a version of before is not one that is still to
// come.
func TestReplacedAndBehind(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory(newWidget(name("a"), 1))
		for n := range 8 {
			put(b.t, m.Create, strings.Repeat("b", n+1), n)
		}
		b.relay(m, widgets)
		before := m.ResourceVersion()
		noErr(b.t, m.Rewind("3"))
		time.Sleep(time.Minute)
		for _, query := range []string{"?resourceVersionMatch=Exact&resourceVersion=", "?watch=1&timeoutSeconds=1&resourceVersion="} {
			if _, body := b.do("GET", path+query+before, ""); !strings.Contains(body, `"HistoryReplaced"`) {
				b.t.Errorf("%s: %s", query+before, body)
			}
			if code, body := b.do("GET", path+query+"3", ""); code != http.StatusOK || strings.Contains(body, "HistoryReplaced") {
				b.t.Errorf("%s3: %s", query, body)
			}
		}
		// It comes to that version in its own time.
		for n := range 8 {
			put(b.t, m.Create, strings.Repeat("c", n+1), n)
		}
		synctest.Wait()
		b.answers(http.StatusOK, "", "GET", path+"?resourceVersionMatch=Exact&resourceVersion="+before, "")
	})
}

// A late source brings the events of its watches when the channel is closed. Its next older lists
// of one object say that the server is at version 3.
type late struct {
	lw.Source[*Widget]
	until atomic.Pointer[chan struct{}]
	older atomic.Int32
}

func (l *late) Hints() lw.SourceHints { return lw.HintsOf(l.Source) }

func (l *late) List(ctx context.Context, opts metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta, error) {
	if opts.Limit == 1 && l.older.Add(-1) >= 0 {
		return metav1.ListMeta{ResourceVersion: "3"}, nil
	}
	return l.Source.List(ctx, opts, yield)
}

func (l *late) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*Widget]) error) error {
	return l.Source.Watch(ctx, opts, func(ev lw.WatchEvent[*Widget]) error {
		if until := l.until.Load(); until != nil {
			select {
			case <-*until:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return yield(ev)
	})
}

// A restored server comes to versions that it had before. A client that has one of these from
// another relay is not told here that its history was replaced, though this relay has not heard of
// it yet: an informer would believe an older list then.
func TestReplacedAndReached(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory(newWidget(name("a"), 1))
		for n := range 8 {
			put(b.t, m.Create, strings.Repeat("b", n+1), n)
		}
		src := &late{Source: m}
		b.relay(src, widgets)
		noErr(b.t, m.Rewind("3"))
		time.Sleep(time.Minute)
		hold := make(chan struct{})
		src.until.Store(&hold)
		put(b.t, m.Create, "new", 1)
		queries := []string{"?resourceVersionMatch=Exact&resourceVersion=", "?watch=1&timeoutSeconds=1&resourceVersion="}
		for _, query := range queries {
			src.older.Store(2) // a replica that lags is not believed at once
			b.answers(http.StatusGatewayTimeout, "ResourceVersionTooLarge", "GET", path+query+"4", "")
			src.older.Store(3)
			if _, body := b.do("GET", path+query+"4", ""); !strings.Contains(body, `"HistoryReplaced"`) {
				b.t.Errorf("%s4, of a server that is older: %s", query, body)
			}
		}
		time.AfterFunc(time.Second, func() { close(hold) })
		open := b.watch("resourceVersion=4")
		put(b.t, m.Create, "newer", 1)
		open.want(b.t, "ADDED newer 5")
		for _, query := range queries {
			if _, body := b.do("GET", path+query+"6", ""); !strings.Contains(body, `"HistoryReplaced"`) {
				b.t.Errorf("%s6: %s", query, body)
			}
		}
	})
}

// An informer behind relays, in each encoding, is told of the other history, and takes no object of
// it for one that it has.
func TestReplacedBehindRelays(t *testing.T) {
	for _, accept := range []string{"application/json", "application/cbor"} {
		for _, mode := range []lw.ListMode{lw.ListStream, lw.ListPages} {
			t.Run(accept+"/"+string(mode), func(t *testing.T) {
				inBubble(t, serve.Options{}, func(b *bubble) {
					m := lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 1))
					b.relay(m, widgets)
					b.beside(func(second *bubble) { // of which the first relay is the server
						collected(second, informer[*serve.Object](second, serve.Raw("http://server"+path, b.client)), rawWidgets)
						rewound := 0
						inf := lw.NewInformer[*Widget](&lw.HTTP[*Widget]{URL: "http://server" + path, Client: second.client, Accept: accept}, &lw.Options{
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
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("the store (-want +got):\n%s", diff)
						}
						if s := inf.Status(); s.Epoch != 1 || rewound != 1 {
							t.Errorf("epoch %d, told %d times", s.Epoch, rewound)
						}
					})
				})
			})
		}
	}
}
