package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/lwdebug"
)

// lw's decoder is the one that makes the objects: only it shares their parts and drops fields. It
// works through the caller's own client, and asks for the encoding that controller-runtime prefers.
func TestNewCacheDecodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var accepts []string
		client := &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
			accepts = append(accepts, r.Header.Get("Accept"))
			return b.config.Transport.RoundTrip(r)
		})}
		yes := true
		c := b.start(controllerruntime.NewCacheWith(controllerruntime.Options{Share: true,
			Drop: []string{"metadata.managedFields"}}),
			cache.Options{HTTPClient: client, DefaultUnsafeDisableDeepCopy: &yes})
		if !c.WaitForCacheSync(t.Context()) {
			t.Fatal("not synced")
		}
		var pods corev1.PodList
		rig.OK(t, c.List(t.Context(), &pods))
		if len(pods.Items) != 12 {
			t.Fatalf("%d pods", len(pods.Items))
		}
		own := map[*corev1.Toleration]bool{}
		for _, p := range pods.Items {
			own[&p.Spec.Tolerations[0]] = true
			if len(p.ManagedFields) > 0 {
				t.Error("managed fields are not dropped")
			}
		}
		if len(own) > 3 { // the first ones are not known to be equal to later ones
			t.Errorf("%d copies of equal tolerations", len(own))
		}
		synctest.Wait()
		rig.Same(t, "", []string{"application/vnd.kubernetes.protobuf,application/json"}, accepts)
	})
}

// A Decoder that trusts nobody, as in a program of lwbuild, takes the metadata informers of
// controller-runtime for what they are: they cost as many requests as its own, and lw decodes.
func TestMetadataWithoutTrust(t *testing.T) {
	requests := func(own bool) (got []string, decoder string) {
		rig.Subtest(t, fmt.Sprint("lw: ", !own), func(t *testing.T) {
			b := newBench(t)
			b.config.Transport = rig.RoundTrip(func(next http.RoundTripper) func(*http.Request) (*http.Response, error) {
				return func(r *http.Request) (*http.Response, error) {
					got = append(got, fmt.Sprint(r.URL.Path, " ", r.URL.Query().Get("watch")))
					return next.RoundTrip(r)
				}
			}(b.config.Transport))
			var inf toolscache.SharedIndexInformer
			opts := cache.Options{HTTPClient: clientgo.Capture(&http.Client{Transport: b.config.Transport})}
			opts.NewInformer = func(l toolscache.ListerWatcher, example runtime.Object, resync time.Duration,
				indexers toolscache.Indexers) toolscache.SharedIndexInformer {
				inf = clientgo.Decoder{}.NewInformer(l, example, resync, indexers)
				return inf
			}
			if own {
				opts = cache.Options{}
			}
			c := b.start(map[bool]cache.NewCacheFunc{true: newDefault, false: cache.New}[own], opts)
			m := podMetadata()
			rig.OK(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "pod-0"}, m))
			if m.Kind != "Pod" || m.APIVersion != "v1" {
				t.Errorf("kind %s, API version %s", m.Kind, m.APIVersion)
			}
			time.Sleep(time.Second)
			if inf != nil {
				status, _ := clientgo.Status(inf)
				decoder = status.Decoder
			}
		})
		return got, decoder
	}
	want, _ := requests(true)
	got, decoder := requests(false)
	rig.Same(t, "requests", want, got)
	rig.Same(t, "decoder", "lw", decoder)
}

// Where the options have objects read without copies, the next event heals what a program has
// changed against the rules, as in controller-runtime.
func TestUncopiedObjectsHeal(t *testing.T) {
	yes, no := true, false
	metadata := podMetadata()
	for name, opts := range map[string]cache.Options{
		"all":      {DefaultUnsafeDisableDeepCopy: &yes},
		"pods":     {ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {UnsafeDisableDeepCopy: &yes}}},
		"metadata": {ByObject: map[client.Object]cache.ByObject{metadata: {UnsafeDisableDeepCopy: &yes}}},
		"but nodes": {DefaultUnsafeDisableDeepCopy: &yes,
			ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {UnsafeDisableDeepCopy: &no}}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			b := newBench(t)
			pod := newPod("a", 9)
			b.write(b.pods.Create, pod)
			c := b.start(controllerruntime.NewCache, opts)
			read := func() (p corev1.Pod) {
				rig.OK(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod), &p))
				return p
			}
			read().Labels["app"] = "changed"
			pod.Spec.NodeName = "n9"
			b.write(b.pods.Update, pod)
			synctest.Wait()
			if p := read(); p.Spec.NodeName != "n9" || p.Labels["app"] != "db" {
				t.Errorf("node %q, labels %v", p.Spec.NodeName, p.Labels)
			}
		})
	}
}

// Without bookmarks controller-runtime's own cache cannot stream a list. lw asks for them anyway.
func TestNewCacheWithoutBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		c := b.start(controllerruntime.NewCache, cache.Options{DefaultEnableWatchBookmarks: new(bool)})
		began := time.Now()
		if err := c.List(t.Context(), &corev1.PodList{}); err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// The program's config is not changed: others may read it meanwhile.
func TestNewCacheLeavesTheConfig(t *testing.T) {
	config := &rest.Config{Host: "http://h"}
	rig.Must[cache.Cache](t)(controllerruntime.NewCache(config, cache.Options{Mapper: meta.NewDefaultRESTMapper(nil)}))
	rig.Same(t, "the config", rest.Config{Host: "http://h"}, *config)
}

// What controller-runtime's own constructors refuse is no cache and no client, whatever wraps them.
func TestOptionsOfWhatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for name, o := range map[string]controllerruntime.Options{"TellWrites": {TellWrites: true}, "Pack": {Pack: true}} {
			c, err := controllerruntime.NewCacheWith(o)(b.config, cache.Options{Mapper: b.mapper, ByObject: map[client.Object]cache.ByObject{
				&corev1.Node{}: {Namespaces: map[string]cache.Config{"a": {}}},
			}})
			if err == nil || c != nil {
				t.Errorf("%s: a cache of nodes of a namespace: %v, %v", name, c, err)
			}
			if c, err := controllerruntime.NewClient(o)(nil, client.Options{}); err == nil || c != nil {
				t.Errorf("%s: a client without a config: %v, %v", name, c, err)
			}
		}
	})
}

// LW=off in the environment switches lw off: no informer of its is made, and the client is the same.
func TestNewCacheOff(t *testing.T) {
	t.Setenv("LW", "off")
	synctest.Test(t, func(t *testing.T) {
		b, board := newBench(t), new(lw.Board)
		o := controllerruntime.Options{Board: board, TellWrites: true, Drop: []string{"spec"}}
		c := b.start(controllerruntime.NewCacheWith(o), cache.Options{})
		b.want(c, &corev1.Pod{})
		if got := names(board); len(got) > 0 {
			t.Errorf("the board has %v", got)
		}
		_, err := controllerruntime.NewClient(o)(b.config, client.Options{Mapper: b.mapper,
			Cache: &client.CacheOptions{Reader: c}})
		rig.OK(t, err)
		_, err = controllerruntime.NewCacheWith(controllerruntime.Options{OnDemand: []client.Object{&corev1.Secret{}}})(b.config, cache.Options{})
		if !rig.Matches(err, "LW=off") {
			t.Errorf("error %v", err)
		}
	})
}

// Failures reach the handler of errors, with the API's status, and a handler is called again at the
// period of resyncs.
func TestNewCacheErrorsAndResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no role"))
		b.Inject(apiserver.Fault{Times: 3, Do: apiserver.Fail(forbidden)})
		var failures atomic.Int64
		period := time.Minute
		c := b.start(controllerruntime.NewCache, cache.Options{
			SyncPeriod: &period,
			DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
				if !apierrors.IsForbidden(err) {
					t.Errorf("handler of errors: %v", err)
				}
				failures.Add(1)
			},
		})
		inf, err := c.GetInformer(t.Context(), &corev1.Pod{})
		rig.OK(t, err)
		synctest.Wait()
		// The first request, of a streamed list, is followed by one of a page without a pause. The
		// two are one failure.
		if got := failures.Load(); got != 1 {
			t.Errorf("%d failures, want 1", got)
		}
		var updates atomic.Int64
		rig.Must[toolscache.ResourceEventHandlerRegistration](t)(inf.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			UpdateFunc: func(before, obj any) {
				if before != obj {
					t.Error("a resync with another object")
				}
				updates.Add(1)
			},
		}))
		time.Sleep(period + period/2) // controller-runtime changes the period by up to a tenth
		if got := updates.Load(); got != 12 {
			t.Errorf("%d updates, want one of each of 12 pods", got)
		}
	})
}

// An informer that the caller makes is used as it is.
func TestNewCacheWithTheCallersInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		fake := controllertest.NewFakeInformer()
		c := b.start(controllerruntime.NewCache, cache.Options{
			NewInformer: func(toolscache.ListerWatcher, runtime.Object, time.Duration,
				toolscache.Indexers) toolscache.SharedIndexInformer {
				return fake
			},
		})
		inf, err := c.GetInformer(t.Context(), &corev1.Pod{}, cache.BlockUntilSynced(false))
		if err != nil || inf != cache.Informer(fake) {
			t.Errorf("informer %T, %v", inf, err)
		}
	})
}

// A cache runs on each replica, whatever its options.
func TestNewCacheNeedsNoLeaderElection(t *testing.T) {
	for name, options := range map[string]controllerruntime.Options{
		"none": {}, "TellWrites": {TellWrites: true}, "OnDemand": {OnDemand: []client.Object{&corev1.Pod{}}}, "Pack": {Pack: true}, "Limit": {Limit: 1 << 20},
		"Kinds": {Kinds: &kinds.Catalog{}}, "Namespaces": {Namespaces: &lw.NamespaceSet{}}, "Reasons": {Reasons: true},
		"several": {Pack: true, Kinds: &kinds.Catalog{}, TellWrites: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			c := rig.Must[cache.Cache](t)(controllerruntime.NewCacheWith(options)(b.config, cache.Options{Mapper: b.mapper}))
			if r, ok := c.(manager.LeaderElectionRunnable); !ok || r.NeedLeaderElection() {
				t.Errorf("%s: a %T waits until the manager is the leader", name, c)
			}
		})
	}
}

// A config that contradicts itself is an error.
func TestNewCacheOfABadConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.config.CAFile = "none" // with a transport of its own
		b.config.Insecure = true
		_, err := controllerruntime.NewCache(b.config, cache.Options{Mapper: b.mapper})
		if err == nil || !strings.HasPrefix(err.Error(), "controllerruntime: NewCache: ") {
			t.Errorf("error %v", err)
		}
	})
}

// A type whose kind is not its name is known by the scheme of the cache.
func TestNewCacheOfAnotherTypeName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		scheme := runtime.NewScheme()
		scheme.AddKnownTypeWithName(podKind, &lightPod{})
		scheme.AddKnownTypeWithName(podKind.GroupVersion().WithKind("PodList"), &lightPodList{})
		metav1.AddToGroupVersion(scheme, podKind.GroupVersion())
		c := b.start(controllerruntime.NewCache, cache.Options{Scheme: scheme})
		var p lightPod
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "pod-3"}, &p); err != nil ||
			p.Spec.NodeName != "n1" {
			t.Errorf("node %q, %v", p.Spec.NodeName, err)
		}
	})
}

type lightPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

type lightPodList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []lightPod `json:"items"`
}

func (p *lightPod) DeepCopyObject() runtime.Object {
	out := *p
	out.ObjectMeta = *p.ObjectMeta.DeepCopy()
	return &out
}

func (l *lightPodList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for _, p := range l.Items {
		out.Items = append(out.Items, *p.DeepCopyObject().(*lightPod))
	}
	return &out
}

// want asks the cache for the informers of the objects.
func (b *bench) want(c cache.Cache, objs ...client.Object) {
	b.Helper()
	for _, obj := range objs {
		rig.Must[cache.Informer](b)(c.GetInformer(b.Context(), obj))
	}
}

// podMetadata is an example of pods that are cached as metadata.
func podMetadata() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(podKind)
	return m
}

// names returns the names of the informers on board, with the numbers of their objects.
func names(board *lw.Board) map[string]int {
	all := map[string]int{}
	for name, s := range board.Informers() {
		all[name] = s.Objects
	}
	return all
}

// One option puts the informers of a cache on a board, in the words of the kinds.
func TestOptionsBoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var board, other lw.Board
		c := b.start(controllerruntime.NewCacheWith(controllerruntime.Options{
			Board: &board, Name: "tenant",
			ByObject: map[client.Object]lw.Options{&corev1.Node{}: {Name: "machines", Board: &other}},
		}), cache.Options{})
		b.want(c, &corev1.Pod{}, podMetadata(), &corev1.Node{})
		rig.Same(t, "", map[string]int{"tenant/Pod": 12, "tenant/Pod metadata": 12}, names(&board))
		rig.Same(t, "of its own", map[string]int{"tenant/machines": 1}, names(&other))
		w := httptest.NewRecorder()
		lwdebug.Handler(&board).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if !strings.Contains(w.Body.String(), "tenant/Pod metadata") {
			t.Error("the page does not show the informer")
		}
	})
}

// A registry gets the series by one field, and another cache of the same board does not conflict.
func TestOptionsMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		registry := prometheus.NewRegistry()
		objects := func() map[string]float64 {
			t.Helper()
			families, err := registry.Gather()
			rig.OK(t, err)
			all := map[string]float64{}
			for _, f := range families {
				if f.GetName() == "lw_informer_objects" {
					for _, m := range f.Metric {
						all[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
					}
				}
			}
			return all
		}
		for _, name := range []string{"a", "b"} { // without a Board they share that of the process
			c := b.start(controllerruntime.NewCacheWith(controllerruntime.Options{Metrics: registry, Name: name}),
				cache.Options{})
			b.want(c, &corev1.Pod{})
		}
		rig.Same(t, "", map[string]float64{"a/Pod": 12, "b/Pod": 12}, objects())
		_, err := controllerruntime.NewCacheWith(controllerruntime.Options{Metrics: registry, Board: new(lw.Board)})(b.config,
			cache.Options{Mapper: b.mapper})
		if err == nil || !strings.Contains(err.Error(), "one Board") {
			t.Errorf("a second board in one registry: %v", err)
		}
	})
}

// Failures reach OnError and the cache's own handler, and a kind may have an OnError and settings
// of its own.
func TestOptionsByObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no role"))
		b.Inject(apiserver.Fault{Times: 3, Do: apiserver.Fail(forbidden)})
		var all, nodes int
		var theirs atomic.Int32 // each informer has a goroutine that calls the handler
		var log strings.Builder
		c := b.start(controllerruntime.NewCacheWith(controllerruntime.Options{
			OnError: func(err error) {
				if e, ok := errors.AsType[*lw.Error](err); !ok || e.Informer != "Pod" {
					t.Errorf("OnError: %v", err)
				}
				all++
			},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			ByObject: map[client.Object]lw.Options{&corev1.Node{}: {
				List: lw.ListWhole, OnError: func(error) { nodes++ }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			}},
		}), cache.Options{
			DefaultWatchErrorHandler: func(context.Context, *toolscache.Reflector, error) { theirs.Add(1) },
		})
		b.want(c, &corev1.Pod{})
		b.Inject(apiserver.Fault{Times: 1, Do: apiserver.Fail(forbidden)})
		b.want(c, &corev1.Node{})
		synctest.Wait()
		// The cache's own handler hears of those that are followed by a pause: one of each.
		if all != 3 || nodes != 1 || theirs.Load() != 2 {
			t.Errorf("%d calls for pods, %d for nodes, %d of the cache's handler", all, nodes, theirs.Load())
		}
		if !strings.Contains(log.String(), "lw: Pod: synced") || strings.Contains(log.String(), "Node") {
			t.Errorf("the log:\n%s", log.String())
		}
	})
}

// An example that says nothing is an error of NewCache.
func TestOptionsByObjectErrors(t *testing.T) {
	for name, examples := range map[string]map[client.Object]lw.Options{
		"nil":       {(*corev1.Pod)(nil): {}},
		"nothing":   {nil: {}},
		"no kind":   {&metav1.PartialObjectMetadata{}: {}},
		"two alike": {&corev1.Pod{}: {}, &corev1.Pod{}: {}},
	} {
		_, err := controllerruntime.NewCacheWith(controllerruntime.Options{ByObject: examples})(nil,
			cache.Options{HTTPClient: http.DefaultClient})
		if err == nil || !strings.Contains(err.Error(), "ByObject: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
