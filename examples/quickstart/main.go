// Command quickstart shows an informer at work. It starts an API server on the loopback interface
// and follows the server's pods over HTTP while a writer changes them. Meanwhile it breaks the
// watch and compacts the history. At the end it checks that the informer's store equals the server.
//
//	go run ./examples/quickstart
//
// With -url it follows a collection of a real cluster instead, until Ctrl-C:
//
//	kubectl proxy &
//	go run ./examples/quickstart -url http://127.0.0.1:8001/api/v1/pods
//
// It exits with 0 if the store equals the server. Otherwise it prints the difference and exits with
// 1.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	url := flag.String("url", "", "follow this collection instead of the embedded server's")
	objects := flag.Int("objects", 2000, "pods that the embedded server starts with")
	changes := flag.Int("changes", 4000, "changes that are made to them")
	limit := flag.Duration("for", 0, "with -url: stop after so long; 0: at Ctrl-C")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *url != "" {
		if *limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, *limit)
			defer cancel()
		}
		err = followCluster(ctx, *url)
	} else {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		err = demo(ctx, *objects, *changes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
