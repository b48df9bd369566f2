// Command relay is a relay of an API server: it serves with package serve what somebody asks for,
// and forwards the rest. It writes its URL to its standard output, and ends with its standard input.
//
//	go run ./cmd/relay -upstream https://127.0.0.1:6443 -ca ca.crt -token admin-token
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/go-lw/lw/e2e/internal/relay"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := relay.Main(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}
