package serve_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/serve"
)

// While the informer's server does not answer, whoever asks for the newest state waits three seconds,
// and then gets 504 or is sent there. Meanwhile he takes no turn from those who ask for what is here.
func TestSilentServer(t *testing.T) {
	forwarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for want, forward := range map[int]http.Handler{http.StatusGatewayTimeout: nil, http.StatusTeapot: forwarded} {
		inBubble(t, serve.Options{Forward: forward, Limits: serve.Limits{Lists: 1}}, func(b *bubble) {
			m := lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 1))
			src := &stuckSource{Source: m}
			inf := lw.NewInformer[*Widget](src, &lw.Options{OnError: func(error) {}})
			go func() { _ = inf.Run(b.ctx) }()
			b.serve(func(ctx context.Context) error { return serve.Serve(ctx, b.h, inf, widgets) })
			_, page := b.do("GET", path+"?limit=1", "")
			_, token, _ := strings.Cut(page, `"continue":"`)
			token, _, _ = strings.Cut(token, `"`)
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
			for _, query := range []string{path + "?resourceVersion=0", path + "?resourceVersion=3", path + "?resourceVersion=3&resourceVersionMatch=Exact", path + "?continue=" + url.QueryEscape(token)} {
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
			for i, query := range queries {
				if codes[i] != want || took[i] != 3*time.Second {
					t.Errorf("%s: %d after %v, want %d", query, codes[i], took[i], want)
				}
			}
		})
	}
}
