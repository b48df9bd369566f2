package websocket_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/websocket"
)

type Widget struct {
	metav1.TypeMeta `json:",inline"`
	lw.Meta         `json:"metadata"`
}

// A program watches over WebSockets by another client. Here the server is that of package lwtest;
// it could be kube-apiserver behind a proxy that cuts long responses.
func ExampleClient() {
	server := lwtest.StartServer(lwtest.Resource{Group: "example.com", Plural: "widgets", Kind: "Widget"})
	defer server.Close()
	web := httptest.NewServer(websocket.Handler(server))
	defer web.Close()

	inf := lw.NewInformer(&lw.HTTP[*Widget]{
		URL:    web.URL + "/apis/example.com/v1/widgets",
		Client: websocket.Client(web.Client()),
	}, nil)
	names := make(chan string)
	inf.AddHandler(lw.Handler[*Widget]{Add: func(w *Widget) { names <- w.Name }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- inf.Run(ctx) }()
	if err := inf.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}

	widget := &Widget{}
	widget.Namespace, widget.Name = "default", "first"
	if _, err := lwtest.Objects[*Widget](server, "widgets").Create(widget); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-names)
	cancel()
	fmt.Println(<-done)
	// Output:
	// first
	// <nil>
}

// A Transport is for programs that wrap a transport, as rest.Config.Wrap of client-go does.
func ExampleTransport() {
	client := &http.Client{Transport: &websocket.Transport{Base: http.DefaultTransport}}
	source := &lw.HTTP[*Widget]{URL: "http://127.0.0.1:8001/apis/example.com/v1/widgets", Client: client}
	fmt.Println(source.URL)
	// Output: http://127.0.0.1:8001/apis/example.com/v1/widgets
}

// An API server of one's own, or that of package lwtest, answers watches over WebSockets.
func ExampleHandler() {
	server := lwtest.StartServer(lwtest.Resource{Group: "example.com", Plural: "widgets", Kind: "Widget"})
	defer server.Close()
	web := httptest.NewServer(websocket.Handler(server))
	defer web.Close()

	resp, err := websocket.Client(web.Client()).Get(web.URL + "/apis/example.com/v1/widgets?watch=true&timeoutSeconds=1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, resp.Header.Get("Content-Type"))
	// Output: 200 OK application/json
}

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
	rig.OK(t, <-done)

	config := &wrapped{http.DefaultTransport}
	config.Wrap(func(base http.RoundTripper) http.RoundTripper { return &websocket.Transport{Base: base} })
	if _, ok := config.RoundTripper.(*websocket.Transport); !ok {
		t.Errorf("the transport is a %T", config.RoundTripper)
	}
}
