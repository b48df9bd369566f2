package clientgo_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/rig"
)

// What lw cannot decode is answered by the client.
func TestDecoderLeavesToClientGo(t *testing.T) {
	answered := []string{"list answered", "watch answered"}
	for _, tt := range []struct {
		name   string
		lister func(*testing.T, *rest.Config, *http.Client) cache.ListerWatcher
		byLW   bool     // lw decodes
		calls  []string // of the ListerWatcher
		wire   []string // what reaches the server
	}{
		{
			"a client that is not captured",
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				return typedPods(t, config, client, noTweak)
			},
			false, answered, []string{"list default", "watch default"},
		},
		{
			"functions without a context",
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				l := typedPods(t, config, clientgo.Capture(client), noTweak)
				l.ListWithContextFunc, l.WatchFuncWithContext = nil, nil
				return l
			},
			false, answered, []string{"list default", "watch default"},
		},
		{
			"an encoding that lw does not have",
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				client.Transport = withHeader(client.Transport, "Accept", "application/json")
				config.AcceptContentTypes = "application/yaml"
				return typedPods(t, config, clientgo.Capture(client), noTweak)
			},
			false, answered, []string{"list default", "watch default"},
		},
		{
			"a list of two requests",
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				l := typedPods(t, config, clientgo.Capture(client), noTweak)
				one, other := l.ListWithContextFunc, typedPods(t, config, clientgo.Capture(client), func(opts *metav1.ListOptions) {
					opts.LabelSelector = "app=none"
				})
				l.ListWithContextFunc = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
					_, err := other.ListWithContext(ctx, opts)
					list, err2 := one(ctx, opts)
					return list, errors.Join(err, err2)
				}
				return l
			},
			false, []string{"list without content", "list answered", "watch answered"},
			// The first request was sent before the second one was seen.
			[]string{"list default app=none", "list default app=none", "list default", "watch default"},
		},
		{
			"a request before the list",
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				client = clientgo.Capture(client)
				l := typedPods(t, config, client, noTweak)
				list := l.ListWithContextFunc
				l.ListWithContextFunc = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
					r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://apiserver/api/v1", nil)
					if err != nil {
						return nil, err
					}
					resp, err := client.Do(r)
					if err != nil {
						return nil, err
					}
					resp.Body.Close()
					return list(ctx, opts)
				}
				return l
			},
			true, []string{"list answered", "watch answered"},
			[]string{"list of /api/v1", "list default", "watch default"},
		},
	} {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			s := newCaptureServer(t)
			config := &rest.Config{}
			lister := witnessOf(tt.lister(t, config, s.client(t, config)))
			opts := strict(t)
			opts.List = lw.ListPages
			inf := synced(t, clientgo.Decoder{Drop: onlyByLW}.Source(lister, &corev1.Pod{}), opts)
			s.create(t, "new", nil)
			synctest.Wait()
			if got := inf.Store().Len(); got != 4 {
				t.Errorf("%d pods, want 4", got)
			}
			for obj := range inf.Store().All() {
				if byLW := obj.GetGeneration() == 0; byLW != tt.byLW {
					t.Errorf("%s is decoded by lw: %t", obj.GetName(), byLW)
				}
			}
			rig.Same(t, "calls", tt.calls, lister.calls)
			rig.Same(t, "requests", tt.wire, s.took())
		})
	}
}

// lw.Wanted reads beside the watch, and a board asks at any time. The race detector looks on.
func TestDecoderInSeveralGoroutines(t *testing.T) {
	for name, capture := range map[string]func(*http.Client) *http.Client{
		"lw decodes": clientgo.Capture, "client-go decodes": func(c *http.Client) *http.Client { return c },
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			s, config := newCaptureServer(t), &rest.Config{}
			src := clientgo.Decoder{Trust: true}.Source(typedPods(t, config, capture(s.client(t, config)), noTweak), &corev1.Pod{})
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					n := 0
					_, err := src.List(t.Context(), metav1.ListOptions{}, func(_ metav1.Object, err error) error { n++; return err })
					if err != nil || n != 3 {
						t.Errorf("%d objects, %v", n, err)
					}
				})
				all.Go(func() { lw.HintsOf(src) })
			}
			all.Wait()
		})
	}
}

// withHeader returns a transport that sets a header.
func withHeader(next http.RoundTripper, name, value string) http.RoundTripper {
	return rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set(name, value)
		return next.RoundTrip(r)
	})
}

// A fake client is asked as it is without a Decoder, and known to be one.
func TestDecoderOfAFakeClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientset(pod("default", "a"))
		api := c.CoreV1().Pods("default")
		lister := cache.ToListWatcherWithWatchListSemantics(listWatchOf(api), c)
		src := clientgo.Decoder{}.Source(lister, &corev1.Pod{})
		want := lw.HintsOf(clientgo.Source(lister, &corev1.Pod{}))
		want.Decoder = "" // nobody knows before the first answer
		rig.Same(t, "hints", want, lw.HintsOf(src), cmpopts.IgnoreFields(lw.SourceHints{}, "StillHas", "unnamed", "polled"))
		inf := syncedAtOnce(t, src, strict(t))
		rig.Must[*corev1.Pod](t)(api.Create(t.Context(), pod("default", "b"), metav1.CreateOptions{}))
		synctest.Wait()
		if got := inf.Store().Len(); got != 2 {
			t.Errorf("%d pods, want 2", got)
		}
	})
}

// The server's refusal arrives as an API status, once, and a list waits for the client's rate
// limit. client-go's metrics and its handler of warnings see the answer's head.
func TestDecoderErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCaptureServer(t)
		busy := apierrors.NewTooManyRequests("too many", 3)
		s.Inject(apiserver.Fault{Times: 1, Do: apiserver.All(apiserver.Header("Warning", `299 - "old"`), apiserver.Fail(busy))})
		var codes []string
		defer func(m metrics.ResultMetric) { metrics.RequestResult = m }(metrics.RequestResult)
		metrics.RequestResult = resultMetric(func(code string) { codes = append(codes, code) })
		var warnings []string
		limiter := flowcontrol.NewTokenBucketRateLimiter(0.001, 1)
		config := &rest.Config{RateLimiter: limiter, WarningHandler: warningHandler(func(text string) { warnings = append(warnings, text) })}
		src := clientgo.Decoder{}.Source(typedPods(t, config, clientgo.Capture(s.client(t, config)), noTweak), &corev1.Pod{})
		list := func(ctx context.Context) error {
			_, err := src.List(ctx, metav1.ListOptions{}, func(metav1.Object, error) error { return nil })
			return err
		}
		began := time.Now()
		err := list(t.Context())
		if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || seconds != 3 || !ok || !strings.Contains(err.Error(), "/api/v1/namespaces/default/pods") {
			t.Errorf("error %v, want 429 and the URL", err)
		}
		if time.Since(began) > 0 {
			t.Errorf("client-go has waited for %v", time.Since(began))
		}
		rig.Same(t, "metrics", []string{"429"}, codes)
		rig.Same(t, "warnings", []string{"old"}, warnings)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := list(ctx); err == nil || !strings.Contains(err.Error(), "rate") {
			t.Errorf("error %v, want that of the rate limiter", err)
		}
		if got := s.took(); len(got) != 1 {
			t.Errorf("requests %v", got)
		}
	})
}

// The client decides which redirects are followed. A request that fails is not made again by
// client-go, and its error arrives, with the URL once.
func TestDecoderRedirects(t *testing.T) {
	elsewhere := apiserver.All(apiserver.Header("Location", "/elsewhere"), apiserver.Reply(http.StatusFound, "text/plain", "there"))
	for name, tt := range map[string]struct {
		fault apiserver.Effect
		check func(*http.Request, []*http.Request) error
		want  string
		wire  int
	}{
		"followed":     {elsewhere, nil, "404", 2},
		"refused":      {elsewhere, func(*http.Request, []*http.Request) error { return errors.New("no redirect") }, "no redirect", 1},
		"not followed": {elsewhere, func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, "302", 1},
		"a broken one": {apiserver.Reset, nil, "/api/v1/namespaces/default/pods", 1},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			s := newCaptureServer(t)
			s.Inject(apiserver.Fault{Times: 1, Do: tt.fault})
			config := &rest.Config{}
			client := s.client(t, config)
			client.CheckRedirect = tt.check
			src := clientgo.Decoder{}.Source(typedPods(t, config, clientgo.Capture(client), noTweak), &corev1.Pod{})
			_, err := src.List(t.Context(), metav1.ListOptions{}, func(metav1.Object, error) error { return nil })
			if err == nil || strings.Contains(err.Error(), "itself") || strings.Count(err.Error(), tt.want) != 1 {
				t.Errorf("error %v, want %s once", err, tt.want)
			}
			if got := s.took(); len(got) != tt.wire {
				t.Errorf("requests %v, want %d", got, tt.wire)
			}
		})
	}
}

type resultMetric func(code string)

func (f resultMetric) Increment(_ context.Context, code, _, _ string) { f(code) }

type warningHandler func(text string)

func (f warningHandler) HandleWarningHeader(_ int, _, text string) { f(text) }

// Capture leaves its argument alone, and captures a client once.
func TestCapture(t *testing.T) {
	base := &http.Client{Timeout: time.Second}
	client := clientgo.Capture(base)
	if base.Transport != nil || client.Timeout != time.Second || client.Transport == nil {
		t.Errorf("client %+v of %+v", client, base)
	}
	if again := clientgo.Capture(client); again != client {
		t.Error("captured twice")
	}
	if http.DefaultClient.Transport != nil || clientgo.Capture(nil).Transport == nil {
		t.Error("nil is not the default client")
	}
	if http.DefaultTransport != utilnet(client) {
		t.Error("the transport below is not found")
	}
}

func utilnet(client *http.Client) http.RoundTripper {
	return client.Transport.(interface{ WrappedRoundTripper() http.RoundTripper }).WrappedRoundTripper()
}
