// Command apiserver is an API server without etcd: it serves widgets that are in its memory, and
// the number of them in each namespace, which is derived. kubectl reads and writes the widgets:
//
//	go run ./examples/apiserver -listen 127.0.0.1:8080 &
//	kubectl -s http://127.0.0.1:8080 get widgets -A -w
//	kubectl -s http://127.0.0.1:8080 apply --server-side -f widget.yaml
//	kubectl -s http://127.0.0.1:8080 get counts -A
//
// Without -listen it is its own client: it creates widgets over HTTP, applies one, sets its status,
// deletes it, and takes its finalizer away. An informer follows. Then it exits with 0.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// A Widget is an object of one's own. A struct that embeds lw.Meta is enough, too, but keeps
// neither labels nor finalizers.
type Widget struct {
	metav1.ObjectMeta `json:"metadata"`
	Color             string `json:"color"`
	Status            struct {
		Lit bool `json:"lit,omitempty"`
	} `json:"status"`
}

// A Count is how many widgets a namespace has.
type Count struct {
	lw.Meta `json:"metadata"`
	Widgets int `json:"widgets"`
}

func main() {
	address := flag.String("listen", "", "serve on this address until Ctrl-C")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *address); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Whoever reaches this server may do everything. It listens on the loopback interface only.
	h := serve.New(&serve.Options{Authorize: serve.AllowAll})
	start := func(serve func() error) {
		go func() {
			if err := serve(); err != nil {
				cancel(err)
			}
		}()
	}

	widgets := lw.NewMemory(&Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}, Color: "red"})
	start(func() error { return serve.ServeStore(ctx, h, widgets, widgetResource) })

	inf := lw.NewInformer(widgets, &lw.Options{Name: "widgets"})
	start(func() error { return inf.Run(ctx) })
	g := lw.NewGraph(nil)
	counts := lw.GroupAll(g, inf, func(w *Widget) lw.Key { return lw.Key{Namespace: w.Namespace, Name: "widgets"} },
		func(key lw.Key, all []*Widget) *Count {
			return &Count{Meta: lw.Meta{Namespace: key.Namespace, Name: key.Name}, Widgets: len(all)}
		})
	start(func() error { return g.Run(ctx) })
	start(func() error { return serve.Serve(ctx, h, counts, countResource) })
	if err := counts.WaitForSync(ctx); err != nil {
		return err
	}

	if address != "" {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		fmt.Printf("kubectl -s http://%s get widgets -A -w\n", l.Addr())
		return serveUntil(ctx, h, l)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go serveUntil(ctx, h, l)
	return demo(ctx, "http://"+l.Addr().String())
}

// serveUntil answers on l until ctx is done.
func serveUntil(ctx context.Context, h *serve.Handler, l net.Listener) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = h.Close() // ends the watches, spread over two seconds
		_ = srv.Close()
	}()
	if err := srv.Serve(serve.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

var widgetResource = serve.Resource[*Widget]{
	Group: "example.io", Name: "widgets", ShortNames: []string{"wi"}, Status: true,
	Columns: []serve.Column[*Widget]{{Name: "Color", Value: func(w *Widget) serve.Cell { return serve.Text(w.Color) }}},
	Validate: func(_ context.Context, w, _ *Widget) error {
		if w != nil && w.Color == "" {
			return errors.New("a widget needs a color")
		}
		return nil
	},
}

var countResource = serve.Resource[*Count]{
	Group: "example.io", Name: "counts",
	Columns: []serve.Column[*Count]{{Name: "Widgets", Type: "integer", Value: func(c *Count) serve.Cell { return serve.Int(c.Widgets) }}},
}

// demo writes widgets over HTTP, and waits until clients that follow both collections have them.
func demo(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	counts := lw.NewInformer(&lw.HTTP[*Count]{URL: url + "/apis/example.io/v1/counts"}, nil)
	go counts.Run(ctx)
	const asJSON, asMerge, asApply = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"
	for _, w := range []struct{ method, path, format, body string }{
		{"POST", "", asJSON, `{"metadata":{"name":"table"},"color":"green"}`},
		{"POST", "", asJSON, `{"metadata":{"name":"chair"},"color":"green"}`},
		{"POST", "", asJSON, `{"metadata":{"name":"glass"}}`}, // is refused: it has no color
		{"PATCH", "/lamp?fieldManager=demo", asApply, "{apiVersion: example.io/v1, kind: Widget, metadata: {name: lamp, finalizers: [example.io/off]}, color: white}"},
		{"PATCH", "/lamp/status", asMerge, `{"status":{"lit":true}}`},
		{"DELETE", "/lamp", asJSON, ""}, // is marked, and waits for its finalizer
		{"PATCH", "/lamp", asMerge, `{"metadata":{"finalizers":null}}`},
	} {
		status, err := send(ctx, w.method, url+"/apis/example.io/v1/namespaces/shop/widgets"+w.path, w.format, w.body)
		if err != nil {
			return err
		}
		fmt.Printf("%s widgets%s: %s\n", w.method, w.path, status)
	}
	key := lw.Key{Namespace: "shop", Name: "widgets"}
	count, err := lw.WaitFor(ctx, counts, key, func(c *Count) bool { return c != nil && c.Widgets == 3 })
	if err != nil {
		return err
	}
	fmt.Printf("%s has %d widgets, at version %s\n", count.Namespace, count.Widgets, count.ResourceVersion)
	return nil
}

// send sends a write, and returns the status of the answer. A collection that is not served yet is
// not found; one that begins answers with 429 and a Retry-After of a second, as an API server does.
func send(ctx context.Context, method, url, format, body string) (status string, err error) {
	for {
		req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		req.Header.Set("Content-Type", format)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusNotFound {
			return resp.Status, nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
