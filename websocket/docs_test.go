package websocket_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/websocket"
)

// wrapped is what a rest.Config of client-go does with a function for Wrap.
type wrapped struct{ http.RoundTripper }

func (w *wrapped) Wrap(f func(http.RoundTripper) http.RoundTripper) {
	w.RoundTripper = f(w.RoundTripper)
}

// What docs/sources.md shows.
func TestWebSocketPage(t *testing.T) {
	server := lwtest.NewServer(t, lwtest.Resource{Plural: "pods", Kind: "Pod"})
	upgrades := make(chan bool, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			upgrades <- true
		}
		websocket.Handler(server).ServeHTTP(w, r)
	}))
	defer web.Close()
	url, client := web.URL+"/api/v1/pods", web.Client()
	pods := lw.NewInformer(&lw.HTTP[*metav1.PartialObjectMetadata]{
		URL:    url,
		Client: websocket.Client(client), // client is of rest.HTTPClientFor(config), or any
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- pods.Run(ctx) }()
	<-upgrades
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}

	config := &wrapped{http.DefaultTransport}
	config.Wrap(func(base http.RoundTripper) http.RoundTripper { return &websocket.Transport{Base: base} })
	if _, ok := config.RoundTripper.(*websocket.Transport); !ok {
		t.Errorf("the transport is a %T", config.RoundTripper)
	}
}
