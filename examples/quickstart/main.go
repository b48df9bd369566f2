// Command quickstart shows an informer at work. It starts an API server on the loopback interface
// and follows the server's pods over HTTP while a writer changes them. Meanwhile it breaks the
// watch and compacts the history. At the end it checks that the store, and what the handlers were
// called with, equal the server. Otherwise it prints the difference and exits with 1.
//
//	go run ./examples/quickstart
//
// With -url it follows a collection of a real cluster instead, until Ctrl-C:
//
//	kubectl proxy &
//	go run ./examples/quickstart -url http://127.0.0.1:8001/api/v1/pods
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

func main() {
	url := flag.String("url", "", "follow this collection instead of the embedded server's")
	limit := flag.Duration("for", 2*time.Minute, "stop after so long")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	run := demo
	if *url != "" {
		run = func(ctx context.Context) error { return follow(ctx, *url) }
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// follow prints the changes of the collection at url. It asks the server only for the metadata of
// the objects, so it works for a collection of any type.
func follow(ctx context.Context, url string) error {
	objects := lw.NewInformer(&lw.HTTP[*metav1.PartialObjectMetadata]{URL: url}, nil)
	objects.AddHandler(lw.Handler[*metav1.PartialObjectMetadata]{
		Add:    func(obj *metav1.PartialObjectMetadata) { fmt.Println("added", lw.KeyOf(obj)) },
		Update: func(_, obj *metav1.PartialObjectMetadata) { fmt.Println("updated", lw.KeyOf(obj)) },
		Delete: func(obj *metav1.PartialObjectMetadata) { fmt.Println("deleted", lw.KeyOf(obj)) },
	})
	go func() {
		if objects.WaitForSync(ctx) == nil {
			fmt.Printf("synced: %d objects; Ctrl-C ends it\n", objects.Store().Len())
		}
	}()
	objects.Run(ctx)
	return nil
}
