// Package relay is a relay of a whole API server, as a program: it serves each collection that
// somebody asks for with package serve, and forwards everything else.
package relay

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
	"github.com/go-lw/lw/websocket"
)

// Main is the program. It writes its URL to out when it listens, and ends with ctx or an error.
func Main(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("relay", flag.ContinueOnError)
	upstream := &rest.Config{QPS: -1}
	flags.StringVar(&upstream.Host, "upstream", "", "the server, or another relay")
	flags.StringVar(&upstream.CAFile, "ca", "", "its authority")
	flags.StringVar(&upstream.BearerToken, "token", "", "of the relay; its clients' are not looked at")
	flags.StringVar(&upstream.CertFile, "client-cert", "", "likewise")
	flags.StringVar(&upstream.KeyFile, "client-key", "", "")
	listen := flags.String("listen", "127.0.0.1:0", "a loopback address: the relay lets everybody read what it may read")
	cert, key := flags.String("cert", "", "of the relay; without it it speaks plain HTTP"), flags.String("key", "", "")
	protobuf := flags.Bool("protobuf", false, "ask for protobuf, which all clients must then accept")
	events := flags.Int("events", 0, "that are kept of each collection; 0: the default of serve")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := newRelay(ctx, upstream, *protobuf, serve.HistoryLimits{Events: *events})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler: websocket.Handler(r), ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ErrorLog: slog.NewLogLogger(slog.Default().Handler(),
			slog.LevelDebug),
	}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	scheme := "http"
	if *cert != "" {
		scheme = "https"
	}
	if _, err := fmt.Fprintf(out, "%s://%s\n", scheme, l.Addr()); err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		_ = r.served.Close()
		_ = srv.Close()
	}()
	if l = serve.Listener(l); *cert != "" {
		err = srv.ServeTLS(l, *cert, *key)
	} else {
		err = srv.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// A relay begins to follow a collection when somebody first asks for it.
type relay struct {
	ctx      context.Context
	url      string
	client   *http.Client
	protobuf bool
	limits   serve.HistoryLimits
	served   *serve.Handler
	forward  http.Handler

	mu  sync.Mutex
	all map[string]*followed // guarded by mu; by the path of the collection
}

// followed is a collection. If it is not relayed, inf is nil.
type followed struct {
	ready chan struct{} // closed when inf is set
	inf   *lw.Informer[*serve.Object]
}

func newRelay(ctx context.Context, upstream *rest.Config, protobuf bool, limits serve.HistoryLimits) (*relay, error) {
	client, err := rest.HTTPClientFor(upstream)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(upstream.Host)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Transport: client.Transport, FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.Header.Del("Authorization") // the relay has its own
			p.SetURL(target)
		},
	}
	return &relay{
		ctx: ctx, url: strings.TrimSuffix(upstream.Host, "/"), client: client, protobuf: protobuf, limits: limits,
		// AllowAll: the address is a loopback one.
		served: serve.New(&serve.Options{Authorize: serve.AllowAll, Forward: proxy, BookmarkEvery: 10 * time.Second,
			Limits: serve.Limits{WatchesPerClient: 20_000, ListsPerClient: 1000}}),
		forward: proxy, all: map[string]*followed{},
	}, nil
}

func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	base, plural, ok := collection(req.URL.Path)
	if !ok || req.Method != http.MethodGet || !r.selects(req) {
		r.forward.ServeHTTP(w, req)
		return
	}
	f := r.follow(base, plural)
	select {
	case <-f.ready:
	case <-req.Context().Done():
		return
	}
	if f.inf == nil {
		r.forward.ServeHTTP(w, req)
		return
	}
	// A client that comes first waits; one that would wait for long is told to come again.
	wait, cancel := context.WithTimeout(req.Context(), 5*time.Second)
	_ = f.inf.WaitForSync(wait)
	for wait.Err() == nil && !r.synced(base, plural) {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	r.served.ServeHTTP(w, req)
}

// synced reports whether Serve has begun to answer for the collection.
func (r *relay) synced(base, plural string) bool {
	for _, s := range r.served.Status() {
		if s.Synced && basePath(s.Group, s.Version) == base && s.Resource == plural {
			return true
		}
	}
	return false
}

func basePath(group, version string) string {
	if group == "" {
		return "/api/" + version
	}
	return "/apis/" + group + "/" + version
}

// collection splits the path of a collection or of an object into /api/<version> or
// /apis/<group>/<version>, and the plural. ok is false for everything else, such as a subresource.
func collection(path string) (base, plural string, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	n := 3
	if parts[0] == "api" {
		n = 2
	} else if parts[0] != "apis" {
		return "", "", false
	}
	if len(parts) <= n {
		return "", "", false
	}
	base, parts = "/"+strings.Join(parts[:n], "/"), parts[n:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	return base, parts[0], len(parts) <= 2
}

// selectable are the fields of selectors that are answered here. A request with another one is
// forwarded: each resource has others.
var selectable = []string{"spec.nodeName", "status.phase"}

// selects reports whether the fields that the request selects by are known here. Nothing is read of
// protobuf but metadata.
func (r *relay) selects(req *http.Request) bool {
	s, err := fields.ParseSelector(req.URL.Query().Get("fieldSelector"))
	if err != nil {
		return false
	}
	for _, by := range s.Requirements() {
		switch {
		case by.Field == "metadata.name", by.Field == "metadata.namespace":
		case !r.protobuf && strings.HasSuffix(req.URL.Path, "/pods") && slices.Contains(selectable, by.Field):
		default:
			return false
		}
	}
	return true
}

// follow returns the collection, which it begins to follow if that can be done.
func (r *relay) follow(base, plural string) *followed {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := base + "/" + plural
	if f := r.all[path]; f != nil {
		return f
	}
	f := &followed{ready: make(chan struct{})}
	r.all[path] = f
	go func() {
		defer close(f.ready)
		resource, err := r.discover(base, plural)
		if err != nil {
			slog.Info("relay: forwarded", "path", path, "reason", err)
			r.mu.Lock()
			delete(r.all, path) // it may be there when somebody asks again
			r.mu.Unlock()
			return
		}
		src := serve.Raw(r.url+path, r.client)
		if r.protobuf && !strings.Contains(resource.Group, ".") { // custom resources have none
			src.Accept = "application/vnd.kubernetes.protobuf,application/json"
		}
		f.inf = lw.NewInformer(src, &lw.Options{Name: path})
		go func() { _ = f.inf.Run(r.ctx) }()
		go func() {
			if err := serve.Serve(r.ctx, r.served, f.inf, *resource); err != nil && r.ctx.Err() == nil {
				slog.Error("relay: a collection is served no longer", "path", path, "error", err)
				os.Exit(1) // a relay without it would answer 404
			}
		}()
	}()
	return f
}

// discover asks the server what the collection is. The error says why it is not relayed.
func (r *relay) discover(base, plural string) (*serve.Resource[*serve.Object], error) {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.url+base, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var list struct {
		GroupVersion string
		Resources    []struct {
			Name, SingularName, Kind string
			Namespaced               bool
			Verbs, ShortNames        []string
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", base, resp.Status, err)
	}
	for _, found := range list.Resources {
		if found.Name != plural {
			continue
		}
		if verbs := strings.Join(found.Verbs, " ") + " "; !strings.Contains(verbs, "list ") ||
			!strings.Contains(verbs, "watch ") {
			return nil, fmt.Errorf("%s/%s cannot be watched", base, plural)
		}
		group, version, grouped := strings.Cut(list.GroupVersion, "/")
		if !grouped {
			group, version = "", list.GroupVersion
		}
		return &serve.Resource[*serve.Object]{
			Group: group, Version: version, Name: plural, Kind: found.Kind, Singular: found.SingularName,
			ShortNames: found.ShortNames,
			Cluster:    !found.Namespaced, History: r.limits,
			Fields: map[string]func(*serve.Object) string{selectable[0]: serve.Field(selectable[0]),
				selectable[1]: serve.Field(selectable[1])},
		}, nil
	}
	return nil, fmt.Errorf("%s has no %s: %s", base, plural, resp.Status)
}
