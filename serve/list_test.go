package serve_test

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/serve"
)

// While the informer's server does not answer, whoever asks for the newest state waits three
// seconds, and then gets 504 or is sent there. Meanwhile he takes no turn from those who ask for
// what is here.
func TestSilentServer(t *testing.T) {
	for want, forward := range map[int]http.Handler{http.StatusGatewayTimeout: nil, http.StatusTeapot: teapot} {
		inBubble(t, serve.Options{Forward: forward, Limits: serve.Limits{Lists: 1}}, func(b *bubble) {
			m := lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 1))
			src := &stuckSource{Source: m}
			b.relay(src, widgets)
			token := tokenOf(b.answers(http.StatusOK, "", "GET", path+"?limit=1", ""))
			inconsistent := url.QueryEscape((listopts.Token{Version: listopts.Inconsistent, Start: "n/a"}).Encode())
			src.now.Store(true)
			queries := []string{path, path + "?limit=1", path + "?continue=" + inconsistent, oneWidget, path + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"}
			codes := make([]int, len(queries))
			took := make([]time.Duration, len(queries))
			for i, query := range queries {
				go func() {
					began := time.Now()
					var body string
					codes[i], body = b.do("GET", query, "")
					if took[i] = time.Since(began); forward == nil && !strings.Contains(body, "has not answered in 3s") {
						t.Errorf("%s: %s", query, body)
					}
				}()
			}
			synctest.Wait()
			for _, query := range []string{path + "?resourceVersion=0", path + "?resourceVersion=3", path + "?resourceVersion=3&resourceVersionMatch=Exact", path + "?continue=" + token} {
				began := time.Now()
				if code, body := b.do("GET", query, ""); code != http.StatusOK || time.Since(began) > 0 {
					t.Errorf("%s: %d after %v: %s", query, code, time.Since(began), body)
				}
			}
			// What is wrong is so at once.
			began := time.Now()
			if code, body := b.do("GET", path+"?labelSelector=!", ""); code != http.StatusBadRequest || time.Since(began) > 0 {
				t.Errorf("%d after %v: %s", code, time.Since(began), body)
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			for i, query := range queries {
				if codes[i] != want || took[i] != 3*time.Second {
					t.Errorf("%s: %d after %v, want %d", query, codes[i], took[i], want)
				}
			}
		})
	}
}

// A lateSource has come to version, which its watches tell when others have ended without.
type lateSource struct {
	lw.Source[*Widget]
	version string
	silent  int
}

func (s *lateSource) List(ctx context.Context, opts metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta, error) {
	meta, err := s.Source.List(ctx, opts, yield)
	if s.version != "" {
		meta.ResourceVersion = s.version
	}
	return meta, err
}

func (s *lateSource) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*Widget]) error) error {
	if s.version == "" {
		return s.Source.Watch(ctx, opts, yield)
	}
	if s.silent--; s.silent < 0 {
		if err := yield(lw.WatchEvent[*Widget]{Type: watch.Bookmark, ResourceVersion: s.version}); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(*opts.TimeoutSeconds) * time.Second):
	}
	return nil
}

// A server that has answered is waited for longer than one that has not: its watch is late.
func TestLateServer(t *testing.T) {
	for silent, want := range map[int]int{0: http.StatusOK, 1: http.StatusOK, 2: http.StatusOK, 9: http.StatusGatewayTimeout} {
		inBubble(t, serve.Options{}, func(b *bubble) {
			src := &lateSource{Source: lw.NewMemory(newWidget(name("a"), 1))}
			b.relay(src, widgets)
			src.version, src.silent = "7", silent
			began := time.Now()
			code, body := b.do("GET", path, "")
			if took := time.Since(began); code != want || took > 9*time.Second || silent > 1 && took <= 3*time.Second {
				t.Errorf("%d silent watches: %d after %v: %s", silent, code, took, body)
			}
			if told := strings.Contains(body, "its watch has not told it in 9s"); told != (code == http.StatusGatewayTimeout) {
				t.Errorf("%d silent watches: %s", silent, body)
			}
		})
	}
}

// A server that is asked whether it has come to a version since it was restored, and does not
// answer, is waited for as long.
func TestSilentServerAfterARestore(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory(newWidget(name("a"), 1))
		for n := range 8 {
			put(t, m.Create, strings.Repeat("b", n+1), n)
		}
		src := &stuckSource{Source: m}
		b.relay(src, widgets)
		before := m.ResourceVersion()
		noErr(t, m.Rewind("3"))
		time.Sleep(time.Minute)
		src.now.Store(true)
		for _, query := range []string{"?resourceVersionMatch=Exact&resourceVersion=", "?watch=1&timeoutSeconds=1&resourceVersion="} {
			began := time.Now()
			code, body := b.do("GET", path+query+before, "")
			if took := time.Since(began); code != http.StatusGatewayTimeout || took != 3*time.Second {
				t.Errorf("%s: %d after %v: %s", query, code, took, body)
			}
		}
	})
}

// Only who goes on with a list whose state is gone is told how to go on.
func TestExpiredLists(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 1))
		b.memory(m, widgets)
		token := tokenOf(b.answers(http.StatusOK, "", "GET", path+"?limit=1", ""))
		before := m.ResourceVersion()
		put(t, m.Create, "c", 1)
		synctest.Wait()
		m.Compact()
		for query, want := range map[string]bool{"resourceVersionMatch=Exact&resourceVersion=" + before: false, "continue=" + token: true} {
			code, body := b.do("GET", path+"?"+query, "")
			if code != http.StatusGone || strings.Contains(body, `"continue":"`) != want {
				t.Errorf("%s: %d %s", query, code, body)
			}
		}
	})
}

// A connection on which a list was answered has no deadline after it.
func TestAfterAList(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		b.memory(lw.NewMemory(newWidget(name("a"), 1)), widgets)
		for _, accept := range []string{"application/json", asTable} {
			b.do("GET", path, "", "Accept", accept)
			time.Sleep(time.Minute) // twice Limits.WriteTimeout
			conns := 0
			ctx := httptrace.WithClientTrace(b.ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { conns++ }})
			resp := b.send(ctx, "GET", oneWidget, "")
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK || conns != 1 {
				t.Errorf("%s: %s on %d connections", accept, resp.Status, conns)
			}
		}
	})
}
