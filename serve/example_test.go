package serve_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// A relay: one watch of its server serves all of its clients. With Raw it needs no types, and
// passes the bytes on as they came.
func ExampleServe() {
	quiet := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	// The server that everybody would watch without the relay.
	upstream := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: quiet})
	memory := lw.NewMemory(newWidget(lw.Key{Namespace: "shop", Name: "cart"}, 3))
	go serve.ServeMemory(ctx, upstream, memory, widgets)
	server := httptest.NewServer(upstream)
	defer server.Close()
	defer upstream.Close() // ends the watches first

	inf := lw.NewInformer(serve.Raw(server.URL+path, nil), &lw.Options{Name: "widgets", Logger: quiet})
	go inf.Run(ctx)
	h := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: quiet})
	go serve.Serve(ctx, h, inf, serve.Resource[*serve.Object]{
		Group: "example.io", Name: "widgets", Kind: "Widget",
		Fields: map[string]func(*serve.Object) string{"size": serve.Field("size")},
	})
	if err := inf.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	relay := httptest.NewServer(h)
	defer relay.Close()
	defer h.Close()

	// A client changes one URL, and nothing else.
	client := lw.NewInformer(&lw.HTTP[*Widget]{URL: relay.URL + path + "?fieldSelector=size=3"}, &lw.Options{Logger: quiet})
	go client.Run(ctx)
	if err := client.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	for w := range client.Store().All() {
		fmt.Println(lw.KeyOf(w), w.Size)
	}
	// Output: shop/cart 3
}

// An API server without etcd: kubectl and every Kubernetes client read it and write to it.
func ExampleServeMemory() {
	quiet := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	memory := lw.NewMemory(newWidget(lw.Key{Namespace: "shop", Name: "cart"}, 3))
	h := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: quiet})
	go serve.ServeMemory(ctx, h, memory, serve.Resource[*Widget]{
		Group: "example.io", Name: "widgets",
		Columns: []serve.Column[*Widget]{
			{Name: "Size", Type: "integer", Value: func(w *Widget) serve.Cell { return serve.Int(w.Size) }},
		},
		Validate: func(_ context.Context, w, _ *Widget) error {
			if w != nil && w.Size < 0 {
				return fmt.Errorf("the size is %d, and must not be below zero", w.Size)
			}
			return nil
		},
	})
	server := httptest.NewServer(h) // kubectl -s http://… get widgets -A -w
	defer server.Close()
	defer h.Close()

	inf := lw.NewInformer(&lw.HTTP[*Widget]{URL: server.URL + path}, &lw.Options{Logger: quiet})
	go inf.Run(ctx)
	if err := inf.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(inf.Store().Len(), "widget")
	// Output: 1 widget
}
