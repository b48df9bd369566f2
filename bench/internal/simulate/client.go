package simulate

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw"
)

// A Client makes the requests of one program: it follows the collection over tr until ctx is done.
type Client func(ctx context.Context, tr http.RoundTripper)

// LW is an informer of lw with its options.
func LW(opts lw.Options) Client {
	if opts.OnError == nil {
		opts.OnError = func(error) {}
	}
	return func(ctx context.Context, tr http.RoundTripper) {
		src := &lw.HTTP[*object]{URL: collectionURL, Client: &http.Client{Transport: tr}}
		lw.NewInformer(src, &opts).Run(ctx)
	}
}

// An object is what an informer of lw keeps here.
type object struct {
	lw.Meta `json:"metadata"`
}

const collectionURL = "http://server/api/v1/configmaps"

// ClientGo is client-go's reflector over a REST client without a rate limit.
func ClientGo() Client {
	return func(ctx context.Context, tr http.RoundTripper) {
		config := &rest.Config{Host: "http://server", APIPath: "/api", QPS: -1}
		config.GroupVersion = &corev1.SchemeGroupVersion
		config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
		config.ContentType = "application/json"
		client, err := rest.RESTClientForConfigAndClient(config, &http.Client{Transport: tr})
		if err != nil {
			panic(err)
		}
		source := cache.NewListWatchFromClient(client, "configmaps", "", fields.Everything())
		cache.NewReflector(source, &corev1.ConfigMap{}, cache.NewStore(cache.MetaNamespaceKeyFunc), 0).RunWithContext(ctx)
	}
}

// Silence keeps client-go from logging what it retries. It is for the whole process.
func Silence() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

// clients are those of one server that run.
type clients struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// start starts n clients, evenly within a time. The server then expects them all to watch.
func (s *Server) start(c Client, n int, within time.Duration) *clients {
	ctx, cancel := context.WithCancel(context.Background())
	all := &clients{cancel: cancel}
	s.expect(n)
	all.wg.Go(s.deliver)
	for i := range n {
		delay := within * time.Duration(i) / time.Duration(n)
		all.wg.Go(func() {
			if pause(delay, ctx.Done()) == nil {
				c(ctx, &transport{s: s})
			}
		})
	}
	return all
}

// stop stops the clients and waits for them.
func (c *clients) stop(s *Server) {
	close(s.quit)
	c.cancel()
	c.wg.Wait()
}
