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
	"github.com/go-lw/lw/internal/verify/rig"
)

// What lw cannot decode is answered by the client.
func TestDecoderLeavesToClientGo(t *testing.T) {
	answered, listAndWatch := []string{"list answered", "watch answered"}, []string{"list default", "watch default"}
	none := func(*http.Client, *cache.ListWatch) {}
	for _, tt := range []struct {
		name    string
		capture func(*rest.Config, *http.Client) *http.Client // nil: it is captured
		change  func(*http.Client, *cache.ListWatch)
		byLW    bool     // lw decodes
		calls   []string // of the ListerWatcher
		wire    []string // what reaches the server
	}{
		{
			"a client that is not captured",
			func(_ *rest.Config, client *http.Client) *http.Client { return client },
			none, false, answered, listAndWatch,
		},
		{
			"functions without a context", nil,
			func(_ *http.Client, l *cache.ListWatch) { l.ListWithContextFunc, l.WatchFuncWithContext = nil, nil },
			false, answered, listAndWatch,
		},
		{
			"an encoding that lw does not have",
			func(config *rest.Config, client *http.Client) *http.Client {
				client.Transport = withHeader(client.Transport, "Accept", "application/json")
				config.AcceptContentTypes = "application/yaml"
				return clientgo.Capture(client)
			},
			none, false, answered, listAndWatch,
		},
		{
			"a list of two requests", nil,
			func(_ *http.Client, l *cache.ListWatch) { listingTwo(l) },
			false, []string{"list without content", "list answered", "watch answered"},
			// The first request was sent before the second one was seen.
			[]string{"list default app=none", "list default app=none", "list default", "watch default"},
		},
		{
			"a request before the list", nil,
			func(client *http.Client, l *cache.ListWatch) {
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
			},
			true, answered, []string{"list of /api/v1", "list default", "watch default"},
		},
	} {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			s, config := newCaptureServer(t), &rest.Config{}
			client := s.client(t, config)
			if tt.capture == nil {
				client = clientgo.Capture(client)
			} else {
				client = tt.capture(config, client)
			}
			l := typedPods(t, config, client, noTweak)
			tt.change(client, l)
			lister := &witness{ListWatch: l}
			opts := strict(t)
			opts.List = lw.ListPages
			inf := synced(t, clientgo.Decoder{Drop: onlyByLW}.Source(lister, &corev1.Pod{}), opts)
			s.create(t, "new", nil)
			synctest.Wait()
			rig.Same(t, "pods", 4, inf.Store().Len())
			for obj := range inf.Store().All() {
				rig.Same(t, obj.GetName()+" is decoded by lw", tt.byLW, obj.GetGeneration() == 0)
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
			src := clientgo.Decoder{Trust: true}.Source(typedPods(t, config, capture(s.client(t, config)), noTweak),
				&corev1.Pod{})
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
		rig.Same(t, "pods", 2, inf.Store().Len())
	})
}

// The server's refusal arrives as an API status, once, and a list waits for the client's rate
// limit. client-go's metrics and its handler of warnings see the answer's head.
func TestDecoderErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCaptureServer(t)
		busy := apierrors.NewTooManyRequests("too many", 3)
		s.Inject(apiserver.Fault{Times: 1, Do: apiserver.All(apiserver.Header("Warning", `299 - "old"`),
			apiserver.Fail(busy))})
		var codes []string
		note := resultMetric(func(code string) { codes = append(codes, code) })
		rig.Swap[metrics.ResultMetric](t, &metrics.RequestResult, note)
		var warnings []string
		limiter := flowcontrol.NewTokenBucketRateLimiter(0.001, 1)
		config := &rest.Config{RateLimiter: limiter,
			WarningHandler: warningHandler(func(text string) { warnings = append(warnings, text) })}
		src := clientgo.Decoder{}.Source(typedPods(t, config, clientgo.Capture(s.client(t, config)), noTweak), &corev1.Pod{})
		list := func(ctx context.Context) error {
			_, err := src.List(ctx, metav1.ListOptions{}, func(metav1.Object, error) error { return nil })
			return err
		}
		began := time.Now()
		err := list(t.Context())
		if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || seconds != 3 || !ok ||
			!strings.Contains(err.Error(), "/api/v1/namespaces/default/pods") {
			t.Errorf("error %v, want 429 and the URL", err)
		}
		rig.Same(t, "client-go has waited for", 0, time.Since(began))
		rig.Same(t, "metrics", []string{"429"}, codes)
		rig.Same(t, "warnings", []string{"old"}, warnings)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		fails(t, list(ctx), "rate") // that of the limiter
		rig.Same(t, "requests", 1, len(s.took()))
	})
}

// The client decides which redirects are followed. A request that fails is not made again by
// client-go, and its error arrives, with the URL once.
func TestDecoderRedirects(t *testing.T) {
	elsewhere := apiserver.All(apiserver.Header("Location", "/elsewhere"), apiserver.Reply(http.StatusFound,
		"text/plain", "there"))
	for name, tt := range map[string]struct {
		fault apiserver.Effect
		check func(*http.Request, []*http.Request) error
		want  string
		wire  int
	}{
		"followed": {elsewhere, nil, "404", 2},
		"refused": {elsewhere, func(*http.Request, []*http.Request) error { return errors.New("no redirect") },
			"no redirect", 1},
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
			rig.Same(t, "requests", tt.wire, len(s.took()))
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
	rig.Same(t, "captured twice", false, clientgo.Capture(client) != client)
	if http.DefaultClient.Transport != nil || clientgo.Capture(nil).Transport == nil {
		t.Error("nil is not the default client")
	}
	wrapped := client.Transport.(interface{ WrappedRoundTripper() http.RoundTripper }).WrappedRoundTripper()
	rig.Same(t, "the transport below is found", true, wrapped == http.DefaultTransport)
}
