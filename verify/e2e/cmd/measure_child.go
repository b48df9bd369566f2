package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// child is this program as a server. It ends with its standard input.
func child(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("child", flag.ExitOnError)
	as := flags.String("as", "", "relay or write")
	upstream := flags.String("upstream", "", "the server")
	dir := flags.String("dir", "", "certificates")
	useTLS := flags.Bool("tls", false, "")
	h2 := flags.Bool("h2", false, "HTTP/2")
	slog.SetLogLoggerLevel(slog.LevelWarn)
	if err := flags.Parse(args); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	debug, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go http.Serve(debug, nil)
	ready := func(scheme string) { fmt.Printf("%s://%s http://%s\n", scheme, l.Addr(), debug.Addr()) }
	if *as == "write" {
		ready("http")
		return bareWrites(l)
	}

	ca, err := os.ReadFile(filepath.Join(*dir, "ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	source := serve.Raw(*upstream+"/api/v1/pods", &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true,
	}})
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	pods := lw.NewInformer(source, &lw.Options{Name: "pods"})
	go func() { cancel(pods.Run(ctx)) }()
	// All clients have the same address here.
	h := serve.New(&serve.Options{Authorize: serve.AllowAll, Limits: serve.Limits{
		Watches: 100_000, WatchesPerClient: 100_000,
	}})
	go func() { cancel(serve.Serve(ctx, h, pods, serve.Resource[*serve.Object]{Name: "pods", Kind: "Pod"})) }()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	srv := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(!*h2)
	srv.Protocols.SetHTTP2(*h2)
	go func() {
		if *useTLS {
			cancel(srv.ServeTLS(serve.Listener(l), filepath.Join(*dir, "tls.crt"), filepath.Join(*dir, "tls.key")))
		} else {
			cancel(srv.Serve(serve.Listener(l)))
		}
	}()
	if err := pods.WaitForSync(ctx); err != nil {
		return err
	}
	for start := time.Now(); h.WaitForSync(ctx) != nil || len(h.Status()) == 0 ||
		!h.Status()[0].Synced; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 30*time.Second {
			return fmt.Errorf("the relay has not synced")
		}
	}
	if *useTLS {
		ready("https")
	} else {
		ready("http")
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// bareWrites is what a server cannot do without: for each number that it reads, it writes so many
// bytes to each socket, by one write(2).
func bareWrites(l net.Listener) error {
	var mu sync.Mutex
	var conns []syscall.RawConn
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				c.Close()
				continue
			}
			raw, err := c.(*net.TCPConn).SyscallConn()
			if err != nil {
				panic(err)
			}
			mu.Lock()
			conns = append(conns, raw)
			mu.Unlock()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		size, err := strconv.Atoi(strings.TrimSpace(in.Text()))
		if err != nil {
			return err
		}
		event := append(bytes.Repeat([]byte("e"), size), '\n')
		chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", len(event), event)
		mu.Lock()
		conns = slices.DeleteFunc(conns, func(raw syscall.RawConn) bool {
			var failed error
			err := raw.Write(func(fd uintptr) bool {
				_, failed = syscall.Write(int(fd), chunk)
				return true
			})
			return err != nil || failed != nil // one of an earlier row, which is closed
		})
		mu.Unlock()
	}
	return nil
}
