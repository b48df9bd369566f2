package main

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
)

// followers start informers for Pods and ConfigMaps. Handlers call observe with each object that is
// added or updated. A follower returns when both informers have synced and observe has been called
// for every object.
var followers = map[string]func(ctx context.Context, c *connection, observe func(metav1.Object)) error{
	"lw":            followLW,
	"lw-FromClient": followFromClient,
	"client-go":     followClientGo,
}

func followLW(ctx context.Context, c *connection, observe func(metav1.Object)) error {
	accept := ""
	if c.config.ContentType == "application/json" {
		accept = c.config.ContentType
	}
	return errorOfBoth(
		startLW(ctx, &lw.HTTP[*corev1.Pod]{URL: c.config.Host + "/api/v1/pods", Client: c.http, Accept: accept}, observe),
		startLW(ctx, &lw.HTTP[*corev1.ConfigMap]{URL: c.config.Host + "/api/v1/configmaps", Client: c.http, Accept: accept}, observe))
}

func followFromClient(ctx context.Context, c *connection, observe func(metav1.Object)) error {
	set, err := kubernetes.NewForConfigAndClient(c.config, c.http)
	if err != nil {
		return err
	}
	return errorOfBoth(
		startLW(ctx, lw.FromClient(set.CoreV1().Pods("")), observe),
		startLW(ctx, lw.FromClient(set.CoreV1().ConfigMaps("")), observe))
}

// startLW starts an informer and returns a function that waits for its sync.
func startLW[T interface {
	lw.Object
	metav1.Object
}](ctx context.Context, src lw.Source[T], observe func(metav1.Object)) func() error {
	informer := lw.NewInformer(src, nil)
	handler := informer.AddHandler(lw.Handler[T]{
		Add:    func(obj T) { observe(obj) },
		Update: func(_, obj T) { observe(obj) },
	})
	go informer.Run(ctx)
	return func() error { return handler.WaitForSync(ctx) }
}

func errorOfBoth(a, b func() error) error {
	if err := a(); err != nil {
		return err
	}
	return b()
}

func followClientGo(ctx context.Context, c *connection, observe func(metav1.Object)) error {
	set, err := kubernetes.NewForConfigAndClient(c.config, c.http)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(set, 0)
	var synced []cache.InformerSynced
	for _, informer := range []cache.SharedIndexInformer{factory.Core().V1().Pods().Informer(), factory.Core().V1().ConfigMaps().Informer()} {
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { observe(obj.(metav1.Object)) },
			UpdateFunc: func(_, obj any) { observe(obj.(metav1.Object)) },
		})
		if err != nil {
			return err
		}
		synced = append(synced, handler.HasSynced)
	}
	factory.Start(ctx.Done())
	for !synced[0]() || !synced[1]() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// A connection is a follower's client of the server. It counts the requests.
type connection struct {
	config         *rest.Config
	http           *http.Client
	watches, lists atomic.Int64
}

func newConnection(a assignment) (*connection, error) {
	c := &connection{config: &rest.Config{Host: a.URL, BearerToken: a.Token, TLSClientConfig: rest.TLSClientConfig{CAData: a.CA}, QPS: -1}}
	c.config.ContentType = "application/json"
	if a.Encoding == "protobuf" {
		c.config.ContentType = "application/vnd.kubernetes.protobuf"
	}
	c.config.AcceptContentTypes = c.config.ContentType
	c.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Query().Has("watch") {
				c.watches.Add(1)
			} else {
				c.lists.Add(1)
			}
			return next.RoundTrip(req)
		})
	})
	var err error
	c.http, err = rest.HTTPClientFor(c.config)
	return c, err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
