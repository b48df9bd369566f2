package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// A partCache is a running cache that has a part of the Secrets and Pods of a server.
type partCache struct {
	cache.Cache
	*testing.T
	server *lwtest.Server
	told   []string // to a handler of the Secrets
}

func newPartCache(t *testing.T, o controllerruntime.Options, opts cache.Options) *partCache {
	t.Helper()
	server := lwtest.NewServer(t, lwtest.Resource{Plural: "secrets", Kind: "Secret"}, lwtest.Resource{Plural: "nodes",
		Kind: "Node", Cluster: true})
	c := &partCache{T: t, server: server}
	for _, key := range []string{"a/x", "a/y", "b/x"} {
		c.write(key, "1")
	}
	rig.Must[*corev1.Node](t)(lwtest.Objects[*corev1.Node](server,
		"nodes").Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	transport := rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		if r.UserAgent() != rest.DefaultKubernetesUserAgent() {
			t.Errorf("%v is a request of %q", r.URL, r.UserAgent())
		}
		return server.Client().Transport.RoundTrip(r)
	})
	config := &rest.Config{Host: server.URL(), Transport: transport,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	var err error
	c.Cache, err = controllerruntime.NewCacheWith(o)(config, opts)
	rig.OK(t, err)
	if err, ok := errors.AsType[*cache.ErrCacheNotStarted](c.Get(t.Context(), lw.Key{Namespace: "a", Name: "y"},
		&corev1.Secret{})); !ok {
		t.Errorf("before the start: %v", err)
	}
	rig.Start(t, runner(c.Start))
	ctx := t.Context()
	inf, err := c.GetInformer(ctx, &corev1.Secret{})
	rig.OK(t, err)
	note := func(what string) func(any) {
		return func(obj any) { c.told = append(c.told, what+" "+lw.KeyOf(obj.(*corev1.Secret)).String()) }
	}
	_, err = inf.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: note("add"), DeleteFunc: note("delete"), UpdateFunc: func(_, obj any) { note("update")(obj) },
	})
	rig.OK(t, err)
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("not synced")
	}
	synctest.Wait()
	return c
}

func (c *partCache) write(key, value string) {
	c.Helper()
	secrets := lwtest.Objects[*corev1.Secret](c.server, "secrets")
	namespace, name, _ := strings.Cut(key, "/")
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data: map[string][]byte{"v": []byte(value)}}
	_, err := secrets.Create(s)
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(s)
	}
	rig.OK(c, err)
	synctest.Wait()
}

// get returns the content of a Secret, and how many requests that took.
func (c *partCache) get(key string) string {
	c.Helper()
	return c.getSince(key, len(c.server.Requests()))
}

// getSince returns the content of a Secret, and how many requests there were after the first ones.
func (c *partCache) getSince(key string, before int) string {
	c.Helper()
	namespace, name, _ := strings.Cut(key, "/")
	var s corev1.Secret
	err := c.Get(c.Context(), lw.Key{Namespace: namespace, Name: name}, &s)
	got := string(s.Data["v"])
	if apierrors.IsNotFound(err) {
		got = "absent"
	} else if err != nil {
		got = err.Error()
	}
	return fmt.Sprintf("%s, %d requests", got, len(c.server.Requests())-before)
}

// saw compares what the handler was told since the last call, in any order.
func (c *partCache) saw(want ...string) {
	c.Helper()
	synctest.Wait()
	slices.Sort(c.told)
	rig.Same(c, "handler", want, c.told)
	c.told = nil
}

func (c *partCache) is(want, key string) {
	c.Helper()
	if got := c.get(key); got != want {
		c.Errorf("Get of %s: %s; want %s", key, got, want)
	}
}

// The first Get of an object is one request, later ones are none, and nobody is told of others.
func TestOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transform := func(obj any) (any, error) {
			secret, ok := obj.(*corev1.Secret)
			if !ok {
				return obj, nil
			}
			s := *secret
			s.Data = map[string][]byte{"v": append([]byte("v"), s.Data["v"]...)}
			return &s, nil
		}
		c := newPartCache(t, controllerruntime.Options{OnDemand: []client.Object{&corev1.Secret{}, &corev1.Node{}}},
			cache.Options{DefaultTransform: transform})
		c.saw("add a/y") // it was read before the start
		c.is("v1, 1 requests", "a/x")
		c.is("v1, 0 requests", "a/x")
		c.is("absent, 1 requests", "a/none")
		c.is("absent, 0 requests", "a/none")
		c.saw("add a/x")
		c.write("b/x", "2")
		c.write("a/x", "2")
		c.write("a/none", "2")
		c.saw("add a/none", "update a/x")
		c.is("v2, 0 requests", "a/x")

		// No object has an empty name, and a namespace does not count where there is none.
		c.is("absent, 0 requests", "a/")
		rig.OK(t, c.Get(t.Context(), lw.Key{Namespace: "a", Name: "n"}, &corev1.Node{}))

		err := c.List(t.Context(), &corev1.SecretList{})
		if err == nil || !strings.Contains(err.Error(), "v1.Secret") || !strings.Contains(err.Error(), "Options.OnDemand") {
			t.Errorf("List: %v", err)
		}
		time.Sleep(20 * time.Minute)
		c.is("v2, 0 requests", "a/x")
		time.Sleep(11 * time.Minute)
		c.saw("delete a/none", "delete a/y")
		time.Sleep(18 * time.Minute)
		c.is("v2, 0 requests", "a/x")
		time.Sleep(31 * time.Minute)
		c.saw("delete a/x")
		c.is("v2, 1 requests", "a/x")
	})
}

// A Get of an object that cannot be used says why, and not that there is none, until it changes.
func TestOnDemandUnusable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("it is bad")
		transform := func(obj any) (any, error) {
			if s, ok := obj.(*corev1.Secret); ok && string(s.Data["v"]) == "bad" {
				return nil, bad
			}
			return obj, nil
		}
		c := newPartCache(t, controllerruntime.Options{OnDemand: []client.Object{&corev1.Secret{}}},
			cache.Options{DefaultTransform: transform})
		c.write("b/x", "bad")
		c.write("a/z", "1")
		for _, key := range []lw.Key{{Namespace: "b", Name: "x"}, {Namespace: "b", Name: "x"}} {
			if err := c.Get(t.Context(), key, &corev1.Secret{}); !errors.Is(err, bad) || apierrors.IsNotFound(err) {
				t.Errorf("Get of what cannot be used: %v", err)
			}
		}
		c.is("1, 1 requests", "a/z")
		c.is("absent, 1 requests", "b/none")
		c.write("b/x", "2")
		c.is("2, 0 requests", "b/x")
		c.write("b/none", "bad")
		if err := c.Get(t.Context(), lw.Key{Namespace: "b", Name: "none"}, &corev1.Secret{}); !errors.Is(err, bad) {
			t.Errorf("Get of what was created, and cannot be used: %v", err)
		}
		rig.OK(t, lwtest.Objects[*corev1.Secret](c.server, "secrets").Delete(lw.Key{Namespace: "b", Name: "none"}))
		synctest.Wait()
		c.is("absent, 0 requests", "b/none")
	})
}

// A Get whose request fails waits for the next one, or its context, and says what has failed.
func TestOnDemandFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed atomic.Int64
		c := newPartCache(t, controllerruntime.Options{OnDemand: []client.Object{&corev1.Secret{}}, OnDemandFor: time.Minute},
			cache.Options{
				DefaultWatchErrorHandler: func(context.Context, *toolscache.Reflector, error) { failed.Add(1) },
			})
		c.server.SetDown(true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // longer than an object is kept
		defer cancel()
		err := c.Get(ctx, lw.Key{Namespace: "b", Name: "x"}, &corev1.Secret{})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "b/x") {
			t.Errorf("%v", err)
		}
		c.server.SetDown(false)
		if got := c.get("b/x"); !strings.HasPrefix(got, "1, ") {
			t.Error(got)
		}
		if failed.Load() == 0 {
			t.Error("the handler of errors is told nothing")
		}
	})
}

// The cache follows a set of namespaces that changes.
func TestNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var namespaces lw.NamespaceSet
		namespaces.Set("test", "a")
		c := newPartCache(t, controllerruntime.Options{Namespaces: &namespaces}, cache.Options{})
		c.saw("add a/x", "add a/y")
		c.is("1, 0 requests", "a/x")
		c.is("absent, 0 requests", "a/none")
		c.is("unable to get: b/x because of unknown namespace for the cache, 0 requests", "b/x")
		list := func(namespace string) string {
			var secrets corev1.SecretList
			err := c.List(t.Context(), &secrets, client.InNamespace(namespace))
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(len(secrets.Items))
		}
		got := []string{list("a"), list("b"), list("")}
		namespaces.Set("test", "a", "b")
		got = append(got, list("b"), list(""))
		c.is("1, 0 requests", "b/x")
		c.saw("add b/x")
		namespaces.Set("test", "b")
		synctest.Wait()
		c.is("absent, 0 requests", "a/x")
		if err := c.List(t.Context(), &corev1.SecretList{}, client.InNamespace("a")); !errors.Is(err,
			reconcile.TerminalError(nil)) {
			t.Errorf("List of a namespace that was let go: %v", err)
		}
		if err := c.List(t.Context(), &corev1.SecretList{}, client.InNamespace("c")); err == nil ||
			errors.Is(err, reconcile.TerminalError(nil)) {
			t.Errorf("List of another one: %v", err)
		}
		got = append(got, list("a"), list(""))
		c.saw("delete a/x", "delete a/y")
		before := len(c.server.Requests()) // the request may begin before the Get
		namespaces.Set("test", "a")
		if got := c.getSince("a/x", before); got != "1, 1 requests" {
			t.Errorf("Get in a namespace that is back: %s", got)
		}
		unknown := "unable to list: %s because of unknown namespace for the cache"
		rig.Same(t, "lists", []string{"2", fmt.Sprintf(unknown, "b"), "2", "1", "3", "terminal error: " + fmt.Sprintf(unknown,
			"a"), "1"}, got)
		if err := c.Get(t.Context(), lw.Key{Name: "n"}, &corev1.Node{}); err != nil {
			t.Errorf("an object without a namespace: %v", err)
		}
		// A namespace that comes while a List reads the store.
		late := &lateList{UnstructuredList: &unstructured.UnstructuredList{}}
		late.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
		for namespace, want := range map[string]int{"a": 2, "b": 1} {
			namespaces.Set("test", namespace)
			if err := c.List(t.Context(), late, client.InNamespace(namespace)); err != nil || len(late.Items) != want {
				t.Errorf("List of %s: %d, %v", namespace, len(late.Items), err)
			}
		}
	})
}

// A lateList is filled by a List that takes long.
type lateList struct{ *unstructured.UnstructuredList }

func (l lateList) SetContinue(string) { synctest.Wait() }

// Options that contradict each other are errors.
func TestPartOptions(t *testing.T) {
	onDemand := controllerruntime.Options{OnDemand: []client.Object{&corev1.Secret{}}}
	for name, tt := range map[string]struct {
		o    controllerruntime.Options
		opts cache.Options
	}{
		"namespaces twice": {controllerruntime.Options{Namespaces: &lw.NamespaceSet{}},
			cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}}}},
		"an informer each": {onDemand, cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}}},
		"of a kind": {onDemand, cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Namespaces: map[string]cache.Config{"a": {}, "b": {}}},
		}}},
		"no kind": {controllerruntime.Options{OnDemand: []client.Object{nil}}, cache.Options{}},
		"not lw's": {onDemand, cache.Options{NewInformer: func(toolscache.ListerWatcher, runtime.Object, time.Duration,
			toolscache.Indexers) toolscache.SharedIndexInformer {
			return nil
		}}},
	} {
		config := &rest.Config{Host: "http://apiserver"}
		if _, err := controllerruntime.NewCacheWith(tt.o)(config, tt.opts); err == nil || !strings.HasPrefix(err.Error(),
			"controllerruntime: NewCache: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
