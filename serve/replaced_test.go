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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/serve"
)

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

func (l *late) List(ctx context.Context, opts metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta, error) {
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

// behindBefore serves an informer of a Memory that has gone back to version 3, from the version
// before.
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

// An informer behind relays, in each encoding, is told of the other history, and takes no object of
// it for one that it has.
func TestReplacedBehindRelays(t *testing.T) {
	for _, accept := range []string{"application/json", "application/cbor"} {
		for _, mode := range []lw.ListMode{lw.ListStream, lw.ListPages} {
			t.Run(accept+"/"+string(mode), func(t *testing.T) {
				inBubble(t, serve.Options{}, func(b *bubble) {
					m := b.relayed(lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 1)))
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
