package controllerruntime_test

import (
	"context"
	"fmt"
	"net/http"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/verify/crds"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/lwtest"
)

// A Mouse is typed, and its plural is not the one that is guessed.
type Mouse struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

type MouseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Mouse `json:"items"`
}

func (m *Mouse) DeepCopyObject() runtime.Object {
	c := *m
	m.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func (l *MouseList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = slices.Clone(l.Items)
	return &c
}

var (
	crdVersion = schema.GroupVersion{Group: crds.Group, Version: crds.Version}
	mouseKind  = crdVersion.WithKind("Mouse")
	zoneKind   = crdVersion.WithKind("Zone") // without namespaces, and unstructured
	toolKind   = crdVersion.WithKind("Tool") // metadata
)

func kindsScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	_ = scheme.AddToScheme(s)
	s.AddKnownTypes(crdVersion, &Mouse{}, &MouseList{})
	metav1.AddToGroupVersion(s, crdVersion)
	return s
}

func untyped(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

func metadataOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(gvk)
	return m
}

// hooks is a server of webhooks that listens nowhere.
type hooks struct{ http.ServeMux }

func (h *hooks) NeedLeaderElection() bool                { return false }
func (h *hooks) Register(path string, hook http.Handler) { h.Handle(path, hook) }
func (h *hooks) Start(ctx context.Context) error         { <-ctx.Done(); return nil }
func (h *hooks) StartedChecker() healthz.Checker         { return healthz.Ping }
func (h *hooks) WebhookMux() *http.ServeMux              { return &h.ServeMux }
func (h *hooks) Default(context.Context, *Mouse) error   { return nil }

// A kindsManager is a manager whose reconcilers note what they are called for, and what their client
// then finds.
type kindsManager struct {
	ctrl.Manager
	t     *testing.T
	s     *crds.Server
	hooks hooks
	ended chan error

	mu   sync.Mutex
	seen []string // guarded by mu
}

func newKindsManager(t *testing.T, s *crds.Server, o controllerruntime.Options, change func(*ctrl.Options)) *kindsManager {
	t.Helper()
	m := &kindsManager{t: t, s: s, ended: make(chan error, 1)}
	opts := ctrl.Options{
		Scheme: kindsScheme(), NewCache: controllerruntime.NewCacheWith(o), Logger: logr.Discard(),
		Metrics: metricsserver.Options{BindAddress: "0"}, WebhookServer: &m.hooks,
		Controller: config.Controller{SkipNameValidation: new(true)},
		Client:     client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	}
	opts.Cache.DefaultWatchErrorHandler = func(context.Context, *toolscache.Reflector, error) {}
	if change != nil {
		change(&opts)
	}
	m.Manager = rig.Must[ctrl.Manager](t)(ctrl.NewManager(&rest.Config{Host: s.URL(), Transport: s, QPS: -1}, opts))
	return m
}

func (m *kindsManager) note(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = append(m.seen, what)
}

// take returns what was noted since the last take, each once.
func (m *kindsManager) take() []string {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := m.seen
	m.seen = nil
	slices.Sort(seen)
	return slices.Compact(seen)
}

// reconciler reads objects like example.
func (m *kindsManager) reconciler(what string, example client.Object) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		err := m.GetClient().Get(ctx, r.NamespacedName, example.DeepCopyObject().(client.Object))
		switch {
		case err == nil:
			m.note(what + " " + r.String())
		case apierrors.IsNotFound(err):
			m.note(what + " " + r.String() + " is gone")
		default:
			m.note(what + " " + r.String() + ": " + err.Error())
		}
		return reconcile.Result{}, nil
	})
}

// start runs the manager until the test ends.
func (m *kindsManager) start() {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { m.ended <- m.Start(ctx) }()
	m.t.Cleanup(func() {
		cancel()
		if err := <-m.ended; err != nil {
			m.t.Errorf("the manager ended: %v", err)
		}
	})
	<-m.Elected() // controller-runtime turns in circles if it is stopped before, and no time passes
	synctest.Wait()
}

// setUp is the code of an operator of three optional kinds, as its author writes it without lw.
func (m *kindsManager) setUp() error {
	name := func(o client.Object) []string { return []string{o.GetName()} }
	if err := m.GetFieldIndexer().IndexField(context.Background(), &Mouse{}, "name", name); err != nil {
		return err
	}
	err := builder.ControllerManagedBy(m).For(&Mouse{}).Owns(metadataOf(toolKind)).Complete(m.reconciler("mouse", &Mouse{}))
	if err != nil {
		return err
	}
	err = builder.ControllerManagedBy(m).For(untyped(zoneKind)).Complete(m.reconciler("zone", untyped(zoneKind)))
	if err != nil {
		return err
	}
	return builder.WebhookManagedBy(m, &Mouse{}).WithDefaulter(&m.hooks).Complete()
}

// A manager of three kinds that are not there: For, Owns, a field index and a webhook. Each kind is
// reconciled within a second of its definition, a hundred times come and gone, and its absence costs
// no request. Without Kinds the index fails, and what is left of the manager ends.
func TestManagerOutlivesKinds(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 5
	}
	synctest.Test(t, func(t *testing.T) {
		s := crds.New(t)
		var failed rig.Errors
		m := newKindsManager(t, s, controllerruntime.Options{Kinds: &kinds.Catalog{}, OnError: failed.Add}, nil)
		rig.OK(t, m.setUp())
		m.start()
		rig.Sleep(time.Hour)
		rig.Same(t, "requests for the kinds", []string{}, append([]string{}, s.Paths("/example.com/v1/")...))
		rig.Same(t, "before", []string(nil), m.take())
		for range rounds {
			s.Define("mice", "Mouse", "Namespaced")
			s.Create("mice", "Mouse", "a", "jerry")
			rig.Sleep(time.Second)
			rig.Same(t, "a mouse", []string{"mouse a/jerry"}, m.take())
			var list MouseList
			rig.OK(t, m.GetClient().List(t.Context(), &list, client.MatchingFields{"name": "jerry"}))
			rig.Same(t, "by the index", 1, len(list.Items))
			s.Define("zones", "Zone", "Cluster")
			s.Create("zones", "Zone", "", "north")
			s.Define("tools", "Tool", "Namespaced")
			tool := untyped(toolKind)
			tool.SetNamespace("a")
			tool.SetName("saw")
			tool.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: crdVersion.String(), Kind: "Mouse", Name: "jerry", UID: "1",
				Controller: new(true)}})
			s.CreateObject("tools", tool)
			rig.Sleep(time.Second)
			rig.Same(t, "a zone and a tool", []string{"mouse a/jerry", "zone /north"}, m.take())
			s.Undefine("tools")
			rig.Sleep(5 * time.Second)
			rig.Same(t, "the tool is gone", []string{"mouse a/jerry"}, m.take())
			s.Undefine("zones")
			s.Undefine("mice")
			rig.Sleep(5 * time.Second)
			rig.Same(t, "all are gone", []string{"mouse a/jerry is gone", "zone /north is gone"}, m.take())
			before := s.Asked("/example.com/v1/")
			rig.Sleep(time.Hour)
			rig.Same(t, "requests for what is gone", 0, s.Asked("/example.com/v1/")-before)
		}
		failed.MustBeNone(t)
	})
	rig.Subtest(t, "without Kinds", func(t *testing.T) {
		m := newKindsManager(t, crds.New(t), controllerruntime.Options{}, nil)
		if err := m.setUp(); !meta.IsNoMatchError(err) {
			t.Errorf("setup: %v", err)
		}
		rig.OK(t, builder.ControllerManagedBy(m).For(&Mouse{}).Complete(m.reconciler("mouse", &Mouse{})))
		began := time.Now()
		err := m.Start(t.Context())
		if took := time.Since(began); err == nil || took.Round(time.Second) != 2*time.Minute {
			t.Errorf("it ended after %v: %v", took, err)
		}
	})
}

// A row of what a cache with Kinds does of one kind.
func TestCacheKinds(t *testing.T) {
	ctx := context.Background()
	mouse := client.ObjectKey{Namespace: "a", Name: "jerry"}
	namespaces := func(o *ctrl.Options) {
		o.Cache.DefaultNamespaces = map[string]cache.Config{"a": {}, "b": {}}
	}
	for name, row := range map[string]func(*testing.T, *crds.Server){
		"a Get alone makes no informer": func(t *testing.T, s *crds.Server) {
			m := newKindsManager(t, s, controllerruntime.Options{Kinds: &kinds.Catalog{}}, nil)
			m.start()
			for range 2 {
				if err := m.GetClient().Get(ctx, mouse, &Mouse{}); !meta.IsNoMatchError(err) {
					t.Errorf("Get: %v", err)
				}
				if err := m.GetClient().List(ctx, &MouseList{}); !meta.IsNoMatchError(err) {
					t.Errorf("List: %v", err)
				}
			}
			rig.Must[cache.Informer](t)(m.GetCache().GetInformer(ctx, &Mouse{}))
			if err := m.GetClient().Get(ctx, mouse, &Mouse{}); !apierrors.IsNotFound(err) {
				t.Errorf("Get with an informer: %v", err)
			}
			rig.OK(t, m.GetClient().List(ctx, &MouseList{}))
			rig.OK(t, m.GetCache().RemoveInformer(ctx, &Mouse{}))
			if err := m.GetClient().Get(ctx, mouse, &Mouse{}); !meta.IsNoMatchError(err) {
				t.Errorf("Get after the informer is removed: %v", err)
			}
		},
		"writes and uncached reads": func(t *testing.T, s *crds.Server) {
			m := newKindsManager(t, s, controllerruntime.Options{Kinds: &kinds.Catalog{}}, nil)
			rig.OK(t, m.setUp())
			m.start()
			o := &Mouse{}
			o.Namespace, o.Name = mouse.Namespace, mouse.Name
			for what, err := range map[string]error{
				"Create": m.GetClient().Create(ctx, o), "Update": m.GetClient().Update(ctx, o), "Delete": m.GetClient().Delete(ctx, o),
				"Patch": m.GetClient().Patch(ctx, o, client.MergeFrom(&Mouse{})), "Get": m.GetAPIReader().Get(ctx, mouse, o),
			} {
				if !meta.IsNoMatchError(err) {
					t.Errorf("%s: %v", what, err)
				}
			}
		},
		"ByObject": func(t *testing.T, s *crds.Server) {
			m := newKindsManager(t, s, controllerruntime.Options{Kinds: &kinds.Catalog{}}, func(o *ctrl.Options) {
				o.Cache.ByObject = map[client.Object]cache.ByObject{&Mouse{}: {Transform: cache.TransformStripManagedFields()}}
			})
			m.start()
			if err := m.GetClient().Get(ctx, mouse, &Mouse{}); !meta.IsNoMatchError(err) {
				t.Errorf("Get without an informer: %v", err)
			}
			rig.Must[cache.Informer](t)(m.GetCache().GetInformer(ctx, &Mouse{}))
			s.Define("mice", "Mouse", "Namespaced")
			s.Create("mice", "Mouse", "a", "jerry")
			rig.Sleep(time.Second)
			rig.OK(t, m.GetClient().Get(ctx, mouse, &Mouse{}))
		},
		"GetInformerForKind, and a kind whose name ends with List": func(t *testing.T, s *crds.Server) {
			m := newKindsManager(t, s, controllerruntime.Options{Kinds: &kinds.Catalog{}}, nil)
			rig.Must[cache.Informer](t)(m.GetCache().GetInformerForKind(ctx, crdVersion.WithKind("Mouse")))
			allowed := crdVersion.WithKind("AllowList")
			rig.Must[cache.Informer](t)(m.GetCache().GetInformer(ctx, untyped(allowed)))
			m.start()
			s.Define("allowlists", "AllowList", "Cluster")
			s.Create("allowlists", "AllowList", "", "x")
			rig.Sleep(time.Second)
			rig.OK(t, m.GetClient().Get(ctx, client.ObjectKey{Name: "x"}, untyped(allowed)))
			rig.Same(t, "paths", []string{"/apis/example.com/v1/allowlists"}, s.Paths("/apis/example.com/v1/"))
		},
		"two kinds that swap plurals": func(t *testing.T, s *crds.Server) {
			m := newKindsManager(t, s, controllerruntime.Options{Kinds: &kinds.Catalog{}}, nil)
			rig.OK(t, m.setUp())
			m.start()
			for range 3 {
				s.Define("zones", "Mouse", "Namespaced") // the guess of Zone
				s.Define("mouses", "Zone", "Cluster")    // the guess of Mouse
				s.Create("zones", "Mouse", "a", "jerry")
				s.Create("mouses", "Zone", "", "north")
				rig.Sleep(time.Second)
				rig.Same(t, "served", []string{"mouse a/jerry", "zone /north"}, m.take())
				s.Undefine("zones")
				s.Undefine("mouses")
				rig.Sleep(5 * time.Second)
				m.take()
			}
		},
		"a scope that changes while an informer lives": func(t *testing.T, s *crds.Server) {
			s.Define("zones", "Zone", "Cluster")
			m := newKindsManager(t, s, controllerruntime.Options{Kinds: &kinds.Catalog{}}, nil)
			rig.OK(t, m.setUp())
			m.start()
			for range 2 {
				s.Create("zones", "Zone", "", "north")
				rig.Sleep(time.Second)
				rig.Same(t, "without namespaces", []string{"zone /north"}, m.take())
				rig.OK(t, m.GetClient().Get(ctx, client.ObjectKey{Namespace: "ignored", Name: "north"}, untyped(zoneKind)))
				s.Undefine("zones")
				rig.Sleep(5 * time.Second)
				s.Define("zonen", "Zone", "Namespaced")
				s.Create("zonen", "Zone", "a", "north")
				rig.Sleep(time.Second)
				rig.Same(t, "with namespaces", []string{"zone /north is gone", "zone a/north"}, m.take())
				s.Undefine("zonen")
				rig.Sleep(5 * time.Second)
				m.take()
				s.Define("zones", "Zone", "Cluster")
			}
		},
		"DefaultNamespaces, and a kind that comes without namespaces": func(t *testing.T, s *crds.Server) {
			var failed rig.Errors
			m := newKindsManager(t, s, controllerruntime.Options{Kinds: &kinds.Catalog{}, OnError: failed.Add}, namespaces)
			rig.OK(t, m.setUp())
			m.start()
			rig.Sleep(time.Minute) // at the start it would not be in step, and the manager would end
			s.Define("zones", "Zone", "Cluster")
			s.Create("zones", "Zone", "", "north")
			rig.Sleep(time.Hour)
			rig.Same(t, "requests", []string(nil), s.Paths("/zones"))
			const want = "example.com/v1 Zone: it has no namespaces, and the source is of the namespace "
			if errs := failed.Texts(); len(errs) < 2 || !strings.Contains(errs[0], want) {
				t.Errorf("failures %q", errs)
			}
			rig.OK(t, m.GetClient().List(ctx, &MouseList{}))
			err := m.GetClient().Get(ctx, client.ObjectKey{Name: "north"}, untyped(zoneKind))
			if err == nil || len(s.Paths("/zones")) != 0 {
				t.Errorf("Get: %v, requests %v", err, s.Paths("/zones"))
			}
		},
		"DefaultNamespaces, and a kind that has none at the start": func(t *testing.T, s *crds.Server) {
			s.Define("zones", "Zone", "Cluster")
			m := newKindsManager(t, s, controllerruntime.Options{Kinds: &kinds.Catalog{}}, namespaces)
			rig.OK(t, m.setUp())
			m.start()
			s.Define("mice", "Mouse", "Namespaced")
			s.Create("zones", "Zone", "", "north")
			s.Create("mice", "Mouse", "b", "jerry")
			s.Create("mice", "Mouse", "c", "tom")
			rig.Sleep(time.Second)
			rig.Same(t, "reconciled", []string{"mouse b/jerry", "zone /north"}, m.take())
			rig.Same(t, "paths of mice", []string{
				"/apis/example.com/v1/namespaces/a/mice", "/apis/example.com/v1/namespaces/b/mice"}, s.Paths("/mice"))
		},
		"Namespaces": func(t *testing.T, s *crds.Server) {
			var set lw.NamespaceSet
			set.Set("test", "a")
			var failed rig.Errors
			m := newKindsManager(t, s, controllerruntime.Options{Kinds: &kinds.Catalog{}, Namespaces: &set, OnError: failed.Add}, nil)
			rig.OK(t, m.setUp())
			m.start()
			s.Define("mice", "Mouse", "Namespaced")
			s.Create("mice", "Mouse", "a", "jerry")
			s.Create("mice", "Mouse", "b", "tom")
			rig.Sleep(time.Second)
			rig.Same(t, "reconciled", []string{"mouse a/jerry"}, m.take())
			failed.MustBeNone(t)
			s.Define("zones", "Zone", "Cluster")
			rig.Sleep(time.Second)
			if errs := failed.Texts(); len(errs) == 0 || !strings.Contains(errs[0], "it has no namespaces") {
				t.Errorf("failures %q", errs)
			}
		},
		"OnDemand and TellWrites": func(t *testing.T, s *crds.Server) {
			o := controllerruntime.Options{Kinds: &kinds.Catalog{}, TellWrites: true, OnDemand: []client.Object{untyped(zoneKind)}}
			m := newKindsManager(t, s, o, func(opts *ctrl.Options) { opts.NewClient = controllerruntime.NewClient(o) })
			rig.OK(t, m.setUp())
			m.start()
			s.Define("mice", "Mouse", "Namespaced")
			s.Define("zones", "Zone", "Cluster")
			s.Create("zones", "Zone", "", "north")
			rig.Sleep(time.Second)
			jerry := &Mouse{}
			jerry.Namespace, jerry.Name = mouse.Namespace, mouse.Name
			rig.OK(t, m.GetClient().Create(ctx, jerry))
			rig.OK(t, m.GetClient().Get(ctx, mouse, &Mouse{})) // at once
			rig.OK(t, m.GetClient().Get(ctx, client.ObjectKey{Namespace: "ignored", Name: "north"}, untyped(zoneKind)))
		},
		"the board": func(t *testing.T, s *crds.Server) {
			var board lw.Board
			m := newKindsManager(t, s, controllerruntime.Options{Kinds: &kinds.Catalog{}, Board: &board}, nil)
			rig.OK(t, m.setUp())
			m.start()
			rig.Sleep(time.Minute)
			var names []string
			for name, of := range board.Informers() {
				names = append(names, fmt.Sprintf("%s %v", name, of.Unserved != ""))
			}
			slices.Sort(names)
			rig.Same(t, "the board", []string{"APIService false", "CustomResourceDefinition false", "Mouse true",
				"Tool metadata true", "Zone true"}, names)
		},
		"informers of the caller's": func(t *testing.T, s *crds.Server) {
			o := controllerruntime.Options{Kinds: &kinds.Catalog{}}
			opts := cache.Options{NewInformer: toolscache.NewSharedIndexInformer}
			_, err := controllerruntime.NewCacheWith(o)(&rest.Config{Host: s.URL()}, opts)
			if err == nil || !strings.Contains(err.Error(), "leave out NewInformer") {
				t.Errorf("NewCache: %v", err)
			}
		},
		"a catalog of another server": func(t *testing.T, s *crds.Server) {
			o := controllerruntime.Options{Kinds: &kinds.Catalog{}}
			for i, host := range []string{s.URL(), s.URL() + "/b"} {
				_, err := controllerruntime.NewCacheWith(o)(&rest.Config{Host: host, Transport: s}, cache.Options{})
				if (i == 1) != (err != nil) {
					t.Errorf("NewCache of %s: %v", host, err)
				}
			}
		},
		"a stop": func(t *testing.T, s *crds.Server) {
			m := newKindsManager(t, s, controllerruntime.Options{Kinds: &kinds.Catalog{}}, nil)
			rig.OK(t, m.setUp())
			ctx, cancel := context.WithCancel(ctx)
			go func() { m.ended <- m.Start(ctx) }()
			rig.Sleep(time.Minute)
			began := time.Now()
			cancel()
			rig.OK(t, <-m.ended)
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("it took %v", took)
			}
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) { row(t, crds.New(t)) })
	}
}

// Without Kinds nothing of it is there: the cache is controller-runtime's own, nobody asks for
// definitions, and no goroutine is of package kinds.
func TestCacheWithoutKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := crds.New(t, lwtest.Resource{Group: crds.Group, Plural: "mice", Kind: "Mouse"})
		config, opts := &rest.Config{Host: s.URL(), Transport: s}, cache.Options{Scheme: kindsScheme()}
		plain := rig.Must[cache.Cache](t)(cache.New(config, opts))
		c := rig.Must[cache.Cache](t)(controllerruntime.NewCache(config, opts))
		rig.Same(t, "type", fmt.Sprintf("%T", plain), fmt.Sprintf("%T", c))
		rig.Start(t, runner(c.Start))
		rig.Must[cache.Informer](t)(c.GetInformer(t.Context(), &Mouse{}))
		rig.Sleep(time.Hour)
		rig.Same(t, "requests", []string{"/apis/example.com/v1/mice"}, s.Paths("/apis/"))
		stacks := make([]byte, 1<<20)
		if stacks = stacks[:goruntime.Stack(stacks, true)]; strings.Contains(string(stacks), "lw/kinds.") {
			t.Errorf("a goroutine is of package kinds: %s", stacks)
		}
	})
}

// An operator starts before its CustomResourceDefinition.
func ExampleOptions_kinds() {
	server := lwtest.StartServer(lwtest.Definitions()...)
	defer server.Close()
	options := controllerruntime.Options{Kinds: &kinds.Catalog{}} // the line
	mgr, err := ctrl.NewManager(&rest.Config{Host: server.URL(), Transport: server.Client().Transport}, ctrl.Options{
		NewCache: controllerruntime.NewCacheWith(options),

		Scheme: kindsScheme(), Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	reconciler := reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
		fmt.Println(r)
		stop()
		return reconcile.Result{}, nil
	})
	if err := builder.ControllerManagedBy(mgr).For(&Mouse{}).Complete(reconciler); err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		<-mgr.Elected()
		if _, err := mgr.GetCache().GetInformer(ctx, &Mouse{}); err != nil { // the controller's, when it has synced
			fmt.Println(err)
		}
		var none MouseList
		fmt.Println("before:", mgr.GetClient().List(ctx, &none), len(none.Items))

		definitions := lwtest.Objects[*unstructured.Unstructured](server, "customresourcedefinitions")
		if _, err := definitions.Create(crds.Definition("mice", "Mouse", "Namespaced")); err != nil {
			fmt.Println(err)
		}
		jerry := &Mouse{}
		jerry.Namespace, jerry.Name = "barn", "jerry"
		if err := mgr.GetClient().Create(ctx, jerry); err != nil {
			fmt.Println(err)
		}
	}()
	if err := mgr.Start(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// before: <nil> 0
	// barn/jerry
}
