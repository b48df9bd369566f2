package serve_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// A relay: one watch of its server serves all of its clients. With Raw it needs no types, and
// passes the bytes on as they came.
func ExampleServe() {
	quiet := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())

	// The server that everybody would watch without the relay.
	upstream := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: quiet})
	memory := lw.NewMemory(newWidget(lw.Key{Namespace: "shop", Name: "cart"}, 3))
	go serve.ServeMemory(ctx, upstream, memory, widgets)
	server := httptest.NewServer(upstream)
	defer server.Close()
	defer upstream.Close()

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
	defer cancel() // ends the watches first, at once

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
	defer cancel()

	inf := lw.NewInformer(&lw.HTTP[*Widget]{URL: server.URL + path}, &lw.Options{Logger: quiet})
	go inf.Run(ctx)
	if err := inf.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(inf.Store().Len(), "widget")
	// Output: 1 widget
}

// A kind with a status, defaults and rules of its own, in two versions. Any Writable will do as the
// store, such as a collection of module etcd.
func ExampleServeStore() {
	quiet := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: quiet})
	store := lw.NewMemory[*part]()
	go serve.ServeStore(ctx, h, store, serve.Resource[*part]{
		Group: "example.io", Name: "parts", Kind: "Part", Status: true,
		Default: func(p *part) error {
			p.Spec.Color = cmp.Or(p.Spec.Color, "white")
			return nil
		},
		Validate: func(_ context.Context, p, old *part) error {
			if p != nil && p.Spec.Replicas > 9 {
				return field.Invalid(field.NewPath("spec", "replicas"), p.Spec.Replicas, "must be at most 9")
			}
			return nil
		},
	})
	go serve.ServeStore(ctx, h, serve.Converted(store, newer, older), serve.Resource[*newerPart]{
		Group: "example.io", Version: "v2", Name: "parts", Kind: "Part",
	})
	go h.Collect(ctx) // dependents of what is deleted
	for len(h.Status()) < 2 {
		time.Sleep(time.Millisecond) // a program starts its server meanwhile
	}
	if err := h.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	server := httptest.NewServer(h)
	defer server.Close()
	defer h.Close()

	send := func(method, path, contentType, body string) {
		req, err := http.NewRequest(method, server.URL+"/apis/example.io/"+path, strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		req.Header.Set("Content-Type", contentType)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer resp.Body.Close()
		var answer struct {
			Message string
			Spec    json.RawMessage
		}
		err = json.NewDecoder(resp.Body).Decode(&answer)
		fmt.Println(resp.StatusCode, answer.Message, string(answer.Spec), err)
	}
	const path = "v1/namespaces/shop/parts"
	send("POST", path, "application/json", `{"metadata":{"name":"nut"}}`)
	send("PATCH", path+"/nut", "application/merge-patch+json", `{"spec":{"replicas":10}}`)
	send("PATCH", path+"/nut?fieldManager=me", "application/apply-patch+yaml", "apiVersion: example.io/v1\nkind: Part\nspec: {replicas: 3}")
	send("GET", "v2/namespaces/shop/parts/nut", "", "")
	// Output:
	// 201  {"color":"white"} <nil>
	// 422 Part.example.io "nut" is invalid: spec.replicas: Invalid value: 10: must be at most 9  <nil>
	// 200  {"color":"white","replicas":3} <nil>
	// 200  {"paint":"white","count":3} <nil>
}
