// Command quickstart shows an informer at work. It starts an API server on loopback, follows its pods over HTTP while a writer
// changes them, cuts the watch, compacts the history, and checks at the end that the informer's copy is what the server has.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -url http://127.0.0.1:8001/api/v1/pods   # a real cluster's, behind kubectl proxy; ends with Ctrl-C
//
// It exits with 0 if the copies are equal, and with 1 and the difference if not.
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
