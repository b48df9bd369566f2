// Command endpoints shows derived collections at work. It keeps the endpoints of each service and
// the load of each node, of the pods and services of an API server.
//
//	go run ./examples/endpoints
//
// starts a server in memory, changes what it has step by step, and shows after each step what has
// become of the endpoints and loads. It exits with 0 if they are each time what a plain loop over
// the server's objects computes.
//
//	kubectl proxy &
//	go run ./examples/endpoints -url http://127.0.0.1:8001
//
// prints the changes of a cluster until Ctrl-C.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/go-lw/lw"
)

func main() {
	url := flag.String("url", "", "follow the API server at this `URL` instead of one in memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := demo
	if *url != "" {
		run = func(ctx context.Context, out io.Writer) error { return follow(ctx, out, *url, http.DefaultClient) }
	}
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// follow prints the changes of a cluster until ctx is done.
func follow(ctx context.Context, out io.Writer, url string, client *http.Client) error {
	out = &shared{w: out}
	v := NewView(url, client, func(err error) { fmt.Fprintln(os.Stderr, err) })
	v.Endpoints.AddHandler(lw.Handler[*Endpoints]{
		Add:    func(e *Endpoints) { fmt.Fprintln(out, "+", e) },
		Update: func(_, e *Endpoints) { fmt.Fprintln(out, " ", e) },
		Delete: func(e *Endpoints) { fmt.Fprintln(out, "-", e) },
	})
	v.Loads.AddHandler(lw.Handler[*Load]{
		Add:    func(l *Load) { fmt.Fprintln(out, "+", l) },
		Update: func(_, l *Load) { fmt.Fprintln(out, " ", l) },
		Delete: func(l *Load) { fmt.Fprintln(out, "-", l) },
	})
	return v.Run(ctx)
}

// shared is a writer that several goroutines use.
type shared struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
