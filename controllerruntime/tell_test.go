package controllerruntime_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// A toldCache is a cache with TellWrites over watches that are late, and its client.
type toldCache struct {
	cache.Cache
	client client.Client
	// foreign writes what the cache is not told of.
	foreign client.Client
	config  *rest.Config
	// answered, if it is set, is called before the client gets the answer to a write.
	answered func()
}

func (c *toldCache) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := lateWatches{c.config.Transport}.RoundTrip(r)
	if err == nil && r.Method != http.MethodGet && c.answered != nil {
		c.answered()
	}
	return resp, err
}

func newToldCache(t *testing.T) *toldCache {
	t.Helper()
	server := lwtest.NewServer(t, lwtest.Resource{Plural: "pods", Kind: "Pod", Status: true})
	c := &toldCache{config: &rest.Config{Host: server.URL(), Transport: server.Client().Transport, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}}
	config := rest.CopyConfig(c.config)
	config.Transport = c
	httpClient, err := rest.HTTPClientFor(config)
	rig.OK(t, err)
	options := controllerruntime.Options{TellWrites: true}
	c.Cache, err = controllerruntime.NewCacheWith(options)(config, cache.Options{HTTPClient: httpClient})
	rig.OK(t, err)
	rig.OK(t, c.IndexField(t.Context(), &corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }))
	c.client, err = controllerruntime.NewClient(options)(config, client.Options{HTTPClient: httpClient, Cache: &client.CacheOptions{Reader: c.Cache, Unstructured: true}})
	rig.OK(t, err)
	c.foreign, err = client.New(c.config, client.Options{})
	rig.OK(t, err)
	t.Cleanup(func() { time.Sleep(2 * watchDelay) }) // client-go does not wait for its watches
	rig.Start(t, runner(c.Start))
	if !c.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not start")
	}
	return c
}

func applied(name, label string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"namespace": "default", "name": name, "labels": map[string]any{"v": label}},
	}}
}

// Every read of a manager's cache shows the writes of its client when they return, without a wait:
// typed, unstructured and metadata, by key, in lists and by fields. The page of the managers says
// so.
func TestTellWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newToldCache(t)
		ctx := t.Context()
		key := client.ObjectKeyFromObject(namedPod("web", ""))
		var got []string
		read := func(what string) {
			t.Helper()
			began := time.Now()
			var one corev1.Pod
			gone := apierrors.IsNotFound(c.client.Get(ctx, key, &one))
			untyped := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
			goneToo := apierrors.IsNotFound(c.client.Get(ctx, key, untyped))
			partial := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
			var onNode corev1.PodList
			rig.OK(t, c.client.List(ctx, partial))
			rig.OK(t, c.client.List(ctx, &onNode, client.MatchingFields{"spec.nodeName": "n1"}))
			line := fmt.Sprintf("%s: v=%q phase=%q gone=%t metadata=%d n1=%d", what, one.Labels["v"], one.Status.Phase, gone, len(partial.Items), len(onNode.Items))
			if gone != goneToo || untyped.GetLabels()["v"] != one.Labels["v"] {
				line += " untyped differs"
			}
			if waited := time.Since(began); waited > 0 && what != "before" {
				line += fmt.Sprint(" waited ", waited)
			}
			got = append(got, line)
		}
		write := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			read(what)
		}
		read("before")
		pod := namedPod("web", "n1")
		write("create", c.client.Create(ctx, pod))
		pod.Labels = map[string]string{"v": "1"}
		write("update", c.client.Update(ctx, pod))
		pod.Status.Phase = corev1.PodRunning
		write("status", c.client.Status().Update(ctx, pod))
		before := pod.DeepCopy()
		pod.Labels["v"], pod.Spec.NodeName = "2", "n2"
		write("patch", c.client.Patch(ctx, pod, client.MergeFrom(before)))
		write("apply", c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied("web", "3")), client.FieldOwner("us"), client.ForceOwnership))
		write("dry run", c.client.Update(ctx, func() *corev1.Pod { p := pod.DeepCopy(); p.ResourceVersion, p.Labels = "", nil; return p }(), client.DryRunAll))
		write("delete", c.client.Delete(ctx, pod))
		want := []string{
			`before: v="" phase="" gone=true metadata=0 n1=0`,
			`create: v="" phase="" gone=false metadata=1 n1=1`,
			`update: v="1" phase="" gone=false metadata=1 n1=1`,
			`status: v="1" phase="Running" gone=false metadata=1 n1=1`,
			`patch: v="2" phase="Running" gone=false metadata=1 n1=0`,
			`apply: v="3" phase="Running" gone=false metadata=1 n1=0`,
			`dry run: v="3" phase="Running" gone=false metadata=1 n1=0`,
			`delete: v="" phase="" gone=true metadata=0 n1=0`,
		}
		rig.Same(t, "reads", want, got)
		time.Sleep(5 * watchDelay)
		got, want = nil, []string{`at last: v="" phase="" gone=true metadata=0 n1=0`}
		if read("at last"); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

// A client with TellWrites whose cache is told nothing would promise what it does not do.
func TestTellWritesNeedsItsCache(t *testing.T) {
	options := controllerruntime.Options{TellWrites: true}
	for name, opts := range map[string]client.Options{"no cache": {}, "another": {Cache: &client.CacheOptions{Reader: controllerruntime.NewReader(nil)}}} {
		if _, err := controllerruntime.NewClient(options)(&rest.Config{}, opts); err == nil || !strings.Contains(err.Error(), "NewCacheWith") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// NotTold leaves out the program's own writes, and never a change of somebody else, whatever comes
// first and however they meet.
func TestNotTold(t *testing.T) {
	type steps struct {
		*testing.T
		*toldCache
		ctx context.Context
		pod *corev1.Pod
	}
	label := func(p *corev1.Pod, value string) *corev1.Pod {
		p = p.DeepCopy()
		p.Labels = map[string]string{"v": value}
		return p
	}
	us := client.FieldOwner("us")
	foreign := func(s steps, value string) { rig.OK(s, s.foreign.Update(s.ctx, label(s.pod, value))) }
	apply := func(s steps, value string) {
		rig.OK(s, s.client.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(applied("a", value)), us, client.ForceOwnership))
	}
	for _, tt := range []struct {
		name string
		do   func(s steps)
		want []string
	}{
		{"an update", func(s steps) { rig.OK(s, s.client.Update(s.ctx, label(s.pod, "1"))) }, nil},
		{"two updates", func(s steps) {
			p := label(s.pod, "1")
			rig.OK(s, s.client.Update(s.ctx, p))
			rig.OK(s, s.client.Update(s.ctx, label(p, "2")))
		}, nil},
		{"a patch with a lock", func(s steps) {
			rig.OK(s, s.client.Patch(s.ctx, label(s.pod, "1"), client.MergeFromWithOptions(s.pod, client.MergeFromWithOptimisticLock{}), us))
		}, nil},
		{"a patch of an object without managed fields", func(s steps) { rig.OK(s, s.client.Patch(s.ctx, label(s.pod, "1"), client.MergeFrom(s.pod), us)) }, []string{"update 1"}},
		{"applies, of which the server in memory manages the fields after the first", func(s steps) {
			apply(s, "1")
			time.Sleep(time.Second)
			apply(s, "2")
			time.Sleep(time.Second)
			rig.OK(s, s.client.Patch(s.ctx, s.pod.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"w":"2"}}}`)), us))
		}, []string{"update 1"}},
		{"an apply over what nobody has seen here", func(s steps) {
			apply(s, "1")
			time.Sleep(time.Second)
			p := &corev1.Pod{}
			rig.OK(s, s.foreign.Get(s.ctx, client.ObjectKeyFromObject(s.pod), p))
			p.Spec.NodeName = "n2"
			rig.OK(s, s.foreign.Update(s.ctx, p))
			apply(s, "2")
		}, []string{"update 1", "update 2"}},
		{"a create", func(s steps) { rig.OK(s, s.client.Create(s.ctx, namedPod("b", "n1"))) }, nil},
		{"a delete", func(s steps) { rig.OK(s, s.client.Delete(s.ctx, s.pod)) }, nil},
		{"somebody's update", func(s steps) { foreign(s, "1") }, []string{"update 1"}},
		{"somebody's create", func(s steps) { rig.OK(s, s.foreign.Create(s.ctx, namedPod("b", "n1"))) }, []string{"create b"}},
		{"somebody's delete", func(s steps) { rig.OK(s, s.foreign.Delete(s.ctx, s.pod)) }, []string{"delete"}},
		{"an update of what somebody has written", func(s steps) {
			foreign(s, "1")
			time.Sleep(2 * watchDelay)
			var p corev1.Pod
			rig.OK(s, s.client.Get(s.ctx, client.ObjectKeyFromObject(s.pod), &p))
			rig.OK(s, s.client.Update(s.ctx, label(&p, "2")))
		}, []string{"update 1"}},
		{"an update that changes nothing, and then somebody's", func(s steps) {
			rig.OK(s, s.client.Update(s.ctx, s.pod.DeepCopy()))
			foreign(s, "1")
		}, []string{"update 1"}},
		{"a patch that changes nothing, and then somebody's", func(s steps) {
			rig.OK(s, s.client.Patch(s.ctx, s.pod.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"nodeName":"n1"}}`)), us))
			foreign(s, "1")
		}, []string{"update 1"}},
		{"a patch that changes nothing of what nobody has seen here", func(s steps) {
			foreign(s, "1")
			rig.OK(s, s.client.Patch(s.ctx, s.pod.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"nodeName":"n1"}}`)), us))
		}, []string{"update 1"}},
		{"a patch over what nobody has seen here", func(s steps) {
			foreign(s, "1")
			rig.OK(s, s.client.Patch(s.ctx, s.pod.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"w":"2"}}}`)), us))
		}, []string{"update 1"}},
		{"a write, and somebody's before the watch has it", func(s steps) {
			p := label(s.pod, "1")
			rig.OK(s, s.client.Update(s.ctx, p))
			s.pod = p
			foreign(s, "2")
		}, []string{"update 2"}},
		{"an answer that comes after its event and somebody's", func(s steps) {
			s.answered = func() {
				s.answered = nil
				p := &corev1.Pod{}
				rig.OK(s, s.foreign.Get(s.ctx, client.ObjectKeyFromObject(s.pod), p))
				rig.OK(s, s.foreign.Update(s.ctx, label(p, "2")))
				time.Sleep(3 * watchDelay)
			}
			rig.OK(s, s.client.Update(s.ctx, label(s.pod, "1")))
		}, []string{"update 1", "update 2"}},
	} {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			c := newToldCache(t)
			pod := namedPod("a", "n1")
			rig.OK(t, c.foreign.Create(t.Context(), pod))
			var told []string
			note := handler.Funcs{
				CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) {
					told = append(told, "create "+e.Object.GetName())
				},
				UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) {
					told = append(told, "update "+e.ObjectNew.GetLabels()["v"])
				},
				DeleteFunc: func(context.Context, event.DeleteEvent, queue) { told = append(told, "delete") },
			}
			src := source.Kind(c.Cache, client.Object(&corev1.Pod{}), note, controllerruntime.NotTold())
			rig.OK(t, src.Start(t.Context(), newQueue(t)))
			rig.OK(t, src.WaitForSync(t.Context()))
			rig.Sleep(3 * watchDelay)
			told = nil
			tt.do(steps{t, c, t.Context(), pod})
			rig.Sleep(5 * watchDelay)
			rig.Same(t, "events", tt.want, told)
		})
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// lateWatches delays what a server tells its watches.
type lateWatches struct{ http.RoundTripper }

const watchDelay = 3 * time.Second

func (l lateWatches) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") != "" {
		resp.Body = rig.Late(resp.Body, watchDelay)
	}
	return resp, err
}

// A client with EnableReadYourWritesConsistency reads what it has written, from NewCache as from
// controller-runtime's own cache, and also where the objects lack fields. Each read waits for the
// watch.
func TestReadYourWrites(t *testing.T) {
	less := controllerruntime.Options{Drop: []string{"metadata.annotations", "spec", "status"}}
	for name, newCache := range map[string]cache.NewCacheFunc{
		"controller-runtime": cache.New, "NewCache": controllerruntime.NewCache, "Drop": controllerruntime.NewCacheWith(less),
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			server := lwtest.NewServer(t, lwtest.Resource{Plural: "pods", Kind: "Pod"})
			config := &rest.Config{Host: server.URL(), Transport: lateWatches{server.Client().Transport}, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
			ctx := t.Context()
			c := rig.Must[cache.Cache](t)(newCache(config, cache.Options{}))
			t.Cleanup(func() { time.Sleep(2 * watchDelay) }) // client-go does not wait for its watches
			rig.Start(t, runner(c.Start))
			yes := true
			cl := rig.Must[client.Client](t)(client.New(config, client.Options{Cache: &client.CacheOptions{Reader: c, EnableReadYourWritesConsistency: &yes}}))
			pod := namedPod("web", "n1")
			key := client.ObjectKeyFromObject(pod)
			var got []string
			read := func(what string) {
				t.Helper()
				start := time.Now()
				var one corev1.Pod
				err := cl.Get(ctx, key, &one)
				waited := time.Since(start) > 0
				var all corev1.PodList
				rig.OK(t, cl.List(ctx, &all))
				got = append(got, fmt.Sprintf("%s: label %q, %d in the list, gone %t, waited %t", what, one.Labels["v"], len(all.Items), apierrors.IsNotFound(err), waited))
			}
			read("before")
			pod.Finalizers = []string{"example.com/stay"}
			rig.OK(t, cl.Create(ctx, pod))
			read("created")
			pod.Labels = map[string]string{"v": "1"}
			rig.OK(t, cl.Update(ctx, pod))
			read("updated")
			rig.OK(t, cl.Delete(ctx, pod))
			read("held by a finalizer")
			rig.OK(t, cl.Get(ctx, key, pod))
			pod.Finalizers = nil
			rig.OK(t, cl.Update(ctx, pod))
			pod = namedPod("other", "n1")
			key = client.ObjectKeyFromObject(pod)
			rig.OK(t, cl.Create(ctx, pod))
			rig.OK(t, cl.Delete(ctx, pod))
			read("deleted")
			want := []string{
				`before: label "", 0 in the list, gone true, waited true`,
				`created: label "", 1 in the list, gone false, waited true`,
				`updated: label "1", 1 in the list, gone false, waited true`,
				`held by a finalizer: label "1", 1 in the list, gone false, waited true`,
				`deleted: label "", 0 in the list, gone true, waited true`,
			}
			rig.Same(t, "reads", want, got)
		})
	}
}
