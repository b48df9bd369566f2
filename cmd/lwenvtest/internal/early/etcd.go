package early

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// etcd answers envtest's question whether etcd is well. The server does not use it.
func etcd(ctx context.Context, args []string, stdout io.Writer) error {
	flags := Parse(args)
	if flags.Help {
		return help(stdout, Etcd, "it answers /health, and keeps nothing", []string{"listen-client-urls", "unsafe-no-fsync"})
	}
	at, err := url.Parse(flags.Last("listen-client-urls"))
	if err != nil {
		return fmt.Errorf("etcd: --listen-client-urls: %w", err)
	}
	if err := Loopback(at.Hostname()); err != nil {
		return fmt.Errorf("etcd: --listen-client-urls: %w", err)
	}
	l, err := net.Listen("tcp", at.Host)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	return Serve(WithParent(ctx), l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			http.Error(w, "lwenvtest has no etcd", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"health":"true","reason":""}`)
	}))
}

// help says which flags there are. envtest passes some of them only if the help has them.
func help(w io.Writer, name, what string, flags []string) error {
	_, err := fmt.Fprintf(w, "lwenvtest in the place of %s: %s.\n\n  --%s\n", name, what, strings.Join(flags, "\n  --"))
	return err
}
