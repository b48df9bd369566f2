// Command build builds the API servers of the tests, from Go modules only, into the user's cache
// directory. It does not build again what is there already.
//
//	go run ./cmd/build             both servers
//	go run ./cmd/build generic     the k8s.io/apiserver generic server, with etcd in the same binary
//	go run ./cmd/build kube        kube-apiserver and etcd
//
// With -built it builds nothing: it prints the directory of each server that is built, and fails if
// one is not.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/go-lw/lw/e2e/internal/servers"
	"github.com/go-lw/lw/internal/progress"
)

func main() {
	log.SetFlags(0)
	parallel := flag.Int("p", 0, "compilations at once; 0: as many as CPUs")
	built := flag.Bool("built", false, "build nothing, print where the servers are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, name := range flag.Args() {
		if !slices.ContainsFunc(servers.Kinds, func(k servers.Kind) bool { return k.Name == name }) {
			log.Fatalf("build: no server is named %q", name)
		}
	}
	for _, kind := range servers.Kinds {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), kind.Name) {
			continue
		}
		if *built {
			dir, err := kind.Binaries()
			if err != nil {
				log.Fatalf("build: %v", err)
			}
			fmt.Println(dir)
			continue
		}
		start := time.Now()
		done := progress.Start(os.Stderr, "build "+kind.Name)
		dir, err := kind.Build(ctx, *parallel, os.Stderr)
		done()
		if err != nil {
			log.Fatalf("build: %v", err)
		}
		fmt.Printf("%s: %s (%v)\n", kind.Name, dir, time.Since(start).Round(time.Second))
	}
}
