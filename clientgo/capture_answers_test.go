package clientgo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/rig"
)

// openBodies is a transport that counts the answers whose bodies are open.
type openBodies struct {
	http.RoundTripper
	open atomic.Int64
}

func (o *openBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.RoundTripper.RoundTrip(r)
	if err == nil {
		o.open.Add(1)
		resp.Body = &countedBody{ReadCloser: resp.Body, of: o}
	}
	return resp, err
}

type countedBody struct {
	io.ReadCloser
	of     *openBodies
	closed atomic.Bool
}

func (b *countedBody) Close() error {
	if !b.closed.Swap(true) {
		b.of.open.Add(-1)
	}
	return b.ReadCloser.Close()
}

// Whatever becomes of an answer, its connection is free when the informer has ended, and while it
// runs only that of the watch is taken.
func TestDecoderClosesEveryAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*cache.ListWatch) // nil: there is none
		fault  apiserver.Fault
		trust  bool
	}{
		"as it is": {},
		"trusted":  {trust: true},
		"a refusal": {fault: apiserver.Fault{Times: 3,
			Do: apiserver.Fail(apierrors.NewTooManyRequests("too many", 3))}},
		"no list": {fault: apiserver.Fault{Times: 3, Do: apiserver.Reply(http.StatusOK, "application/json",
			`{"kind":"PodList","it`)}},
		"a broken network":   {fault: apiserver.Fault{Times: 3, Do: apiserver.Reset}},
		"lists are filtered": {change: func(l *cache.ListWatch) { filtered(l, true, false) }},
		"watches are":        {change: func(l *cache.ListWatch) { filtered(l, false, true) }},
		"nothing is returned": {change: func(l *cache.ListWatch) {
			list := l.ListWithContextFunc
			l.ListWithContextFunc = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
				_, err := list(ctx, opts)
				return nil, err
			}
		}},
		"two collections": {change: listingTwo},
	} {
		for _, mode := range []lw.ListMode{lw.ListAuto, lw.ListPages} {
			rig.Subtest(t, name+"/"+string(mode), func(t *testing.T) {
				s := newCaptureServer(t)
				if tc.fault.Do != nil {
					s.Inject(tc.fault)
				}
				config := &rest.Config{}
				client := s.client(t, config)
				bodies := &openBodies{RoundTripper: client.Transport}
				client.Transport = bodies
				lister := typedPods(t, config, clientgo.Capture(client), noTweak)
				if tc.change != nil {
					tc.change(lister)
				}
				inf := lw.NewInformer(clientgo.Decoder{Trust: tc.trust}.Source(lister, &corev1.Pod{}),
					&lw.Options{List: mode, PageSize: 2, OnError: func(error) {}})
				stop := rig.Begin(t, inf)
				rig.Sleep(10 * time.Minute)
				if got := bodies.open.Load(); !inf.Status().Synced || got != 1 {
					t.Errorf("synced %t, %d answers are open", inf.Status().Synced, got)
				}
				stop()
				synctest.Wait()
				rig.Same(t, "answers that are open after the end", 0, bodies.open.Load())
			})
		}
	}
}

// A body that breaks off while it is copied is a failure of the list, and is closed.
func TestDecoderOfABrokenBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, broken := newCaptureServer(t), errors.New("broken")
		config := &rest.Config{}
		client := s.client(t, config)
		bodies := &openBodies{RoundTripper: rig.RoundTrip(func(*http.Request) (*http.Response, error) {
			body := io.MultiReader(strings.NewReader(`{"kind":"PodList","items":[]`), iotest.ErrReader(broken))
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(body)}, nil
		})}
		client.Transport = bodies
		src := clientgo.Decoder{}.Source(typedPods(t, config, clientgo.Capture(client), noTweak), &corev1.Pod{})
		_, err := src.List(t.Context(), metav1.ListOptions{}, func(metav1.Object, error) error { return nil })
		if !errors.Is(err, broken) || bodies.open.Load() != 0 {
			t.Errorf("error %v, %d answers are open", err, bodies.open.Load())
		}
	})
}

// client-go decodes lists as well until one had objects to compare, and none if the ListerWatcher
// is trusted. Lists and their objects are the same.
func TestDecoderComparesOnce(t *testing.T) {
	const content, none = "list answered", "list without content"
	for _, tc := range []struct {
		trust bool
		want  []string
	}{{false, []string{content, content, none}}, {true, []string{none, none, none}}} {
		synctest.Test(t, func(t *testing.T) {
			s := newCaptureServer(t)
			config, app := &rest.Config{}, "none"
			client := clientgo.Capture(s.client(t, config))
			ofApp := func(opts *metav1.ListOptions) { opts.LabelSelector = "app=" + app }
			lister := &witness{ListWatch: typedPods(t, config, client, ofApp)}
			src := clientgo.Decoder{Drop: onlyByLW, Trust: tc.trust}.Source(lister, &corev1.Pod{})
			for i, want := range []int{0, 3, 3} {
				n := 0
				meta, err := src.List(t.Context(), metav1.ListOptions{Limit: 500}, func(obj metav1.Object, err error) error {
					if n++; obj.GetGeneration() != 0 {
						t.Errorf("%s is decoded by client-go", obj.GetName())
					}
					return err
				})
				if n != want || err != nil || meta.ResourceVersion == "" {
					t.Errorf("list %d: %d objects, want %d; version %q, error %v", i, n, want, meta.ResourceVersion, err)
				}
				app = "web"
			}
			rig.Same(t, fmt.Sprintf("trusted %t: calls", tc.trust), tc.want, lister.calls)
			// What the source tells of an object that it had is what the server tells.
			had := lw.HintsOf(src).StillHas
			var first metav1.Object
			meta := rig.Must[metav1.ListMeta](t)(src.List(t.Context(), metav1.ListOptions{},
				func(obj metav1.Object, err error) error { first = obj; return err }))
			is, errIs := had(t.Context(), lw.MetaOf(first), meta.ResourceVersion)
			other := pod("default", "never")
			other.UID, other.ResourceVersion = "1", meta.ResourceVersion
			was, errWas := had(t.Context(), lw.MetaOf[metav1.Object](other), meta.ResourceVersion)
			if !is || errIs != nil || was || errWas != nil {
				t.Errorf("had what it has: %t, %v; what it never had: %t, %v", is, errIs, was, errWas)
			}
		})
	}
}

// Only lists and watches are captured: what else a ListerWatcher sends in its call reaches the
// server as it is, and its answer the ListerWatcher. What it sets of a list's form has no effect.
func TestDecoderCapturesOnlyLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCaptureServer(t)
		config := &rest.Config{ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
		client := clientgo.Capture(s.client(t, config))
		lister := typedPods(t, config, client, func(opts *metav1.ListOptions) {
			opts.Limit, opts.ResourceVersion, opts.ResourceVersionMatch = 1, "1", metav1.ResourceVersionMatchExact
		})
		list := lister.ListWithContextFunc
		lister.ListWithContextFunc = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			const url = "http://apiserver/api/v1/namespaces/default/pods"
			for _, send := range []struct{ method, url, body string }{
				{http.MethodPost, url, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"mine","labels":{"app":"web"}}}`},
				{http.MethodGet, url + "/mine", ""},
				{http.MethodDelete, url + "/mine", ""},
			} {
				body := strings.NewReader(send.body)
				r := rig.Must[*http.Request](t)(http.NewRequestWithContext(ctx, send.method, send.url, body))
				r.Header.Set("Content-Type", "application/json")
				resp, err := client.Do(r)
				if err != nil {
					return nil, err
				}
				answer, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode >= 300 || !bytes.Contains(answer, []byte("mine")) {
					t.Errorf("%s: %d %s, %v", send.method, resp.StatusCode, answer, err)
				}
			}
			return list(ctx, opts)
		}
		src := clientgo.Decoder{Drop: onlyByLW}.Source(lister, &corev1.Pod{})
		var got []string
		_, err := src.List(t.Context(), metav1.ListOptions{Limit: 100}, func(obj metav1.Object, err error) error {
			got = append(got, fmt.Sprint(obj.GetName(), obj.GetGeneration()))
			return err
		})
		rig.OK(t, err)
		rig.Same(t, "objects", []string{"pod-00", "pod-10", "pod-20"}, got)
		if q := s.requests[len(s.requests)-1].URL.Query(); q.Get("limit") != "100" || q.Has("resourceVersion") ||
			q.Has("resourceVersionMatch") {
			t.Errorf("the query of the list is %v", q)
		}
	})
}

// A plainLister is an empty ListerWatcher without contexts. The other two add methods with one.
type (
	plainLister        struct{}
	listerWithContext  struct{}
	watcherWithContext struct{}
)

func (plainLister) List(metav1.ListOptions) (runtime.Object, error) { return &corev1.PodList{}, nil }

func (plainLister) Watch(metav1.ListOptions) (watch.Interface, error) {
	w := watch.NewFake()
	w.Stop()
	return w, nil
}

func (listerWithContext) ListWithContext(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return plainLister{}.List(o)
}

func (watcherWithContext) WatchWithContext(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return plainLister{}.Watch(o)
}

// The reason why client-go decodes is that of the function that was called.
func TestDecoderSaysWhyNot(t *testing.T) {
	noContext := "client-go: the ListerWatcher's functions take no context"
	notCaptured := "client-go: no request that lw can decode came through a client of Capture, with the context of the call"
	list := func(context.Context, metav1.ListOptions) (runtime.Object, error) { return &corev1.PodList{}, nil }
	follow := func(context.Context, metav1.ListOptions) (watch.Interface, error) {
		w := watch.NewFake()
		w.Stop()
		return w, nil
	}
	plainList := func(metav1.ListOptions) (runtime.Object, error) { return &corev1.PodList{}, nil }
	plainFollow := func(opts metav1.ListOptions) (watch.Interface, error) { return follow(context.Background(), opts) }
	for name, tc := range map[string]struct {
		lister                cache.ListerWatcher
		listWhyNot, followWhy string
	}{
		"both with a context": {&cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: follow}, notCaptured,
			notCaptured},
		//lint:ignore SA1019 a ListerWatcher of an older program has them
		"lists with a context": {&cache.ListWatch{ListWithContextFunc: list, WatchFunc: plainFollow}, notCaptured, noContext},
		//lint:ignore SA1019 a ListerWatcher of an older program has them
		"watches with one": {&cache.ListWatch{ListFunc: plainList, WatchFuncWithContext: follow}, noContext, notCaptured},
		//lint:ignore SA1019 a ListerWatcher of an older program has them
		"none": {&cache.ListWatch{ListFunc: plainList, WatchFunc: plainFollow}, noContext, noContext},
		"another type, both": {struct {
			plainLister
			listerWithContext
			watcherWithContext
		}{}, notCaptured, notCaptured},
		"another type, lists": {struct {
			plainLister
			listerWithContext
		}{}, notCaptured, noContext},
		"another type, watches": {struct {
			plainLister
			watcherWithContext
		}{}, noContext, notCaptured},
		"another type, none": {plainLister{}, noContext, noContext},
	} {
		src := clientgo.Decoder{}.Source(tc.lister, &corev1.Pod{})
		rig.Same(t, name+": decoder before the first answer", "", lw.HintsOf(src).Decoder)
		_, err := src.List(t.Context(), metav1.ListOptions{}, func(metav1.Object, error) error { return nil })
		rig.OK(t, err)
		rig.Same(t, name+": after a list", tc.listWhyNot, lw.HintsOf(src).Decoder)
		_ = src.Watch(t.Context(), metav1.ListOptions{}, func(lw.WatchEvent[metav1.Object]) error { return nil })
		rig.Same(t, name+": after a watch", tc.followWhy, lw.HintsOf(src).Decoder)
	}
	src := clientgo.Decoder{}.Source(newPodMemory(), nil)
	rig.Same(t, "without an example", "client-go: lw does not decode objects like a <nil>", lw.HintsOf(src).Decoder)
}
