package serve_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/serve"
)

func TestDocsServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	widgets := lw.NewInformer(lw.NewMemory(newWidget(lw.Key{Namespace: "n", Name: "a"}, 1)), &lw.Options{Logger: quiet})
	ran := make(chan error, 1)
	go func() { ran <- widgets.Run(ctx) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	authorize := serve.AllowAll
	// What docs/serve.md shows.
	run := func() error {
		h := serve.New(&serve.Options{Authorize: authorize})
		go serve.Serve(ctx, h, widgets, serve.Resource[*Widget]{
			Group: "example.io", Name: "widgets",
			Fields: map[string]func(*Widget) string{"size": func(w *Widget) string { return strconv.Itoa(w.Size) }},
		})
		srv := &http.Server{Handler: h, Protocols: new(http.Protocols)}
		srv.Protocols.SetHTTP1(true) // see "What it costs"
		if err := widgets.WaitForSync(ctx); err != nil {
			return err
		}
		return srv.Serve(serve.Listener(l))
	}
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	rig.Met(t, patience, "nothing is served", func() bool {
		resp, err := http.Get("http://" + l.Addr().String() + path + "?fieldSelector=size=1")
		noErr(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		noErr(t, err)
		if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusNotFound {
			return false // Serve has not begun yet
		}
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"name":"a"`) {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		return true
	})
	cancel()
	<-ran
	l.Close()
	<-ended
	http.DefaultClient.CloseIdleConnections()
}
