package clientgo_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/clientgo/factories"
	"github.com/go-lw/lw/internal/verify/crds"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/lwtest"
)

var (
	mice      = schema.GroupVersionResource{Group: crds.Group, Version: crds.Version, Resource: "mice"}
	mouseKind = mice.GroupVersion().WithKind("Mouse")
)

// gateConfig is the config of a client of s.
func gateConfig(s *crds.Server) *rest.Config {
	return &rest.Config{Host: s.URL(), Transport: s, QPS: 1000, Burst: 1000}
}

// gateClient is a captured client of s.
func gateClient(s *crds.Server) *http.Client { return clientgo.Capture(&http.Client{Transport: s}) }

func dynamicOf(t *testing.T, s *crds.Server) *dynamic.DynamicClient {
	t.Helper()
	return rig.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfigAndClient(gateConfig(s), gateClient(s)))
}

// untyped is an example that says a kind; empty: none.
func untyped(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

// A catalogRun runs a catalog.
type catalogRun struct{ *kinds.Catalog }

// ofMice runs an informer of mice until the test ends.
func ofMice(t *testing.T, d clientgo.Decoder, lister cache.ListerWatcher, example runtime.Object) cache.SharedIndexInformer {
	t.Helper()
	inf := d.NewInformer(lister, example, 0, cache.Indexers{})
	rig.OK(t, inf.SetWatchErrorHandler(func(*cache.Reflector, error) {})) // client-go's sleeps by the real clock
	t.Cleanup(runInformer(t, inf))
	return inf
}

func gateStatus(t *testing.T, inf cache.SharedIndexInformer) lw.Status {
	t.Helper()
	s, ok := clientgo.Status(inf)
	if !ok {
		t.Fatalf("no status of %T", inf)
	}
	return s
}

// An informer of a Decoder with Kinds waits for its kind, whoever says which it is, without a
// request; it follows the kind when that comes, and is empty when it is gone.
func TestDecoderKinds(t *testing.T) {
	for name, of := range map[string]func(*testing.T, *crds.Server) (cache.ListerWatcher, runtime.Object){
		"the example says the kind": func(t *testing.T, s *crds.Server) (cache.ListerWatcher, runtime.Object) {
			return listWatchOf(dynamicOf(t, s).Resource(mice)), untyped(mouseKind)
		},
		"the URL says the resource": func(t *testing.T, s *crds.Server) (cache.ListerWatcher, runtime.Object) {
			return listWatchOf(dynamicOf(t, s).Resource(mice).Namespace("a")), untyped(schema.GroupVersionKind{})
		},
		"metadata": func(t *testing.T, s *crds.Server) (cache.ListerWatcher, runtime.Object) {
			c := rig.Must[metadata.Interface](t)(metadata.NewForConfigAndClient(gateConfig(s), gateClient(s)))
			return listWatchOf(c.Resource(mice)), &metav1.PartialObjectMetadata{}
		},
		"client-go decodes": func(t *testing.T, s *crds.Server) (cache.ListerWatcher, runtime.Object) {
			return listWatchOf(dynamicOf(t, s).Resource(mice)), nil
		},
	} {
		for _, zero := range []bool{false, true} {
			rig.Subtest(t, name, func(t *testing.T) {
				s := crds.New(t)
				catalog := &kinds.Catalog{}
				if !zero {
					catalog = rig.Must[*kinds.Catalog](t)(clientgo.Kinds(gateConfig(s)))
				}
				rig.Start(t, catalogRun{catalog})
				lister, example := of(t, s)
				var failed rig.Errors
				d := clientgo.Decoder{Kinds: catalog, Options: &lw.Options{OnError: failed.Add}}
				inf := ofMice(t, d, lister, example)
				rig.Sleep(time.Hour)
				if st := gateStatus(t, inf); !inf.HasSynced() || s.Asked("/"+crds.Group+"/") != 0 ||
					!strings.HasPrefix(st.Unserved, "no CRD serves example.com/v1 ") {
					t.Errorf("absent: synced %v, asked %v, %q", inf.HasSynced(), s.Paths(crds.Group), st.Unserved)
				}
				for range 3 {
					s.Define("mice", "Mouse", "Namespaced")
					s.Create("mice", "Mouse", "a", "x")
					rig.Sleep(time.Second)
					rig.Same(t, "served", []string{"a/x"}, inf.GetStore().ListKeys())
					s.Undefine("mice")
					rig.Sleep(5 * time.Second)
					before := s.Asked(crds.Group)
					rig.Same(t, "gone", []string{}, inf.GetStore().ListKeys())
					rig.Sleep(time.Hour)
					rig.Same(t, "requests of what is gone", 0, s.Asked(crds.Group)-before)
				}
				failed.MustBeNone(t)
			})
		}
	}
}

// A row of what else a Decoder with Kinds does.
func TestDecoderKindsRows(t *testing.T) {
	for name, row := range map[string]func(*testing.T, *crds.Server, *kinds.Catalog){
		"a kind with another plural is asked for by that": func(t *testing.T, s *crds.Server, c *kinds.Catalog) {
			guessed := mice.GroupVersion().WithResource("mouses")
			inf := ofMice(t, clientgo.Decoder{Kinds: c}, listWatchOf(dynamicOf(t, s).Resource(guessed)), untyped(mouseKind))
			rig.Sleep(time.Minute)
			s.Define("mice", "Mouse", "Namespaced")
			s.Create("mice", "Mouse", "a", "x")
			rig.Sleep(time.Second)
			rig.Same(t, "objects", []string{"a/x"}, inf.GetStore().ListKeys())
			rig.Same(t, "paths", []string{"/apis/example.com/v1/mice"}, s.Paths(crds.Group))
		},
		"the Scheme says the kind of an example": func(t *testing.T, s *crds.Server, c *kinds.Catalog) {
			scheme := runtime.NewScheme()
			scheme.AddKnownTypeWithName(mouseKind, &metav1.PartialObjectMetadata{})
			client := rig.Must[metadata.Interface](t)(metadata.NewForConfigAndClient(gateConfig(s), gateClient(s)))
			guessed := client.Resource(mice.GroupVersion().WithResource("mouses"))
			inf := ofMice(t, clientgo.Decoder{Kinds: c, Scheme: scheme}, listWatchOf(guessed), &metav1.PartialObjectMetadata{})
			s.Define("mice", "Mouse", "Namespaced")
			s.Create("mice", "Mouse", "a", "x")
			rig.Sleep(time.Minute)
			rig.Same(t, "objects", []string{"a/x"}, inf.GetStore().ListKeys())
		},
		"an informer of a namespace of what has none fails without a request": func(t *testing.T, s *crds.Server, c *kinds.Catalog) {
			var failed rig.Errors
			d := clientgo.Decoder{Kinds: c, Options: &lw.Options{OnError: failed.Add}}
			ofMice(t, d, listWatchOf(dynamicOf(t, s).Resource(mice).Namespace("a")), untyped(mouseKind))
			rig.Sleep(time.Minute)
			s.Define("mice", "Mouse", "Cluster")
			rig.Sleep(time.Hour)
			const want = "it has no namespaces, and the source is of the namespace a"
			if errs := failed.Texts(); len(errs) == 0 || !strings.Contains(errs[0], want) || s.Asked(crds.Group) != 0 {
				t.Errorf("asked %v, failures %q", s.Paths(crds.Group), errs)
			}
		},
		"the namespaces that are wanted of what has none": func(t *testing.T, s *crds.Server, c *kinds.Catalog) {
			var failed rig.Errors
			d := clientgo.Decoder{Kinds: c, Wanted: &lw.NamespaceSet{}, Options: &lw.Options{OnError: failed.Add}}
			ofMice(t, d, listWatchOf(dynamicOf(t, s).Resource(mice)), untyped(mouseKind))
			s.Define("mice", "Mouse", "Cluster")
			rig.Sleep(time.Minute)
			if errs := failed.Texts(); len(errs) == 0 || !strings.Contains(errs[0], "it has no namespaces") || s.Asked(crds.Group) != 0 {
				t.Errorf("asked %v, failures %q", s.Paths(crds.Group), errs)
			}
		},
		"a fake serves all": func(t *testing.T, s *crds.Server, c *kinds.Catalog) {
			fake := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
				map[schema.GroupVersionResource]string{mice: "MouseList"})
			o := untyped(mouseKind)
			o.SetName("x")
			rig.Must[*unstructured.Unstructured](t)(fake.Resource(mice).Create(t.Context(), o, metav1.CreateOptions{}))
			inf := ofMice(t, clientgo.Decoder{Kinds: c}, listWatchOf(fake.Resource(mice)), untyped(mouseKind))
			rig.Sleep(time.Second)
			rig.Same(t, "objects", []string{"x"}, inf.GetStore().ListKeys())
		},
		"Kubernetes' own groups do not wait for the catalog": func(t *testing.T, s *crds.Server, c *kinds.Catalog) {
			pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
			inf := ofMice(t, clientgo.Decoder{Kinds: c}, listWatchOf(dynamicOf(t, s).Resource(pods)), untyped(schema.GroupVersionKind{}))
			rig.Sleep(time.Second)
			rig.Same(t, "synced", true, inf.HasSynced())
			rig.Same(t, "requests of the catalog", 0, s.Asked("/apis/"))
		},
		"a factory": func(t *testing.T, s *crds.Server, c *kinds.Catalog) {
			f := factories.Dynamic(dynamicOf(t, s), 0, &factories.Options{Decoder: &clientgo.Decoder{Kinds: c}})
			inf := f.ForResource(mice).Informer()
			ctx, cancel := context.WithCancel(t.Context())
			f.Start(ctx.Done())
			defer f.Shutdown()
			defer cancel()
			rig.Sleep(time.Hour)
			rig.Same(t, "synced without a request", true, inf.HasSynced() && s.Asked(crds.Group) == 0)
			s.Define("mice", "Mouse", "Namespaced")
			s.Create("mice", "Mouse", "a", "x")
			rig.Sleep(time.Second)
			rig.Same(t, "objects", []string{"a/x"}, inf.GetStore().ListKeys())
		},
		"of another server than the catalog's": func(t *testing.T, s *crds.Server, c *kinds.Catalog) {
			other := crds.New(t, lwtest.Resource{Group: crds.Group, Plural: "mice", Kind: "Mouse"})
			ofMice(t, clientgo.Decoder{Kinds: c}, listWatchOf(dynamicOf(t, s).Resource(mice)), untyped(mouseKind))
			rig.Sleep(time.Second)
			config := rest.Config{Host: s.URL() + "/clusters/b", QPS: -1}
			client := rig.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfigAndClient(&config,
				clientgo.Capture(&http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
					r = r.Clone(r.Context())
					r.URL.Path = strings.TrimPrefix(r.URL.Path, "/clusters/b")
					return other.RoundTrip(r)
				})})))
			other.Create("mice", "Mouse", "a", "x")
			inf := ofMice(t, clientgo.Decoder{Kinds: c}, listWatchOf(client.Resource(mice)), untyped(mouseKind))
			rig.Sleep(time.Second)
			rig.Same(t, "objects", []string{"a/x"}, inf.GetStore().ListKeys())
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			s, c := crds.New(t, lwtest.Resource{Plural: "pods", Kind: "Pod"}), &kinds.Catalog{}
			rig.Start(t, catalogRun{c})
			row(t, s, c)
		})
	}
}

// An informer of a client-go program starts before its CustomResourceDefinition.
func ExampleDecoder_kinds() {
	server := lwtest.StartServer(lwtest.Definitions()...)
	defer server.Close()
	config := &rest.Config{Host: server.URL(), Transport: server.Client().Transport}
	catalog, err := clientgo.Kinds(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := dynamic.NewForConfigAndClient(config, clientgo.Capture(server.Client()))
	if err != nil {
		fmt.Println(err)
		return
	}
	factory := factories.Dynamic(client, 0, &factories.Options{Decoder: &clientgo.Decoder{Kinds: catalog}})
	inf := factory.ForResource(mice).Informer()
	added := make(chan string)
	handle := cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { added <- obj.(*unstructured.Unstructured).GetName() }}
	if _, err := inf.AddEventHandler(handle); err != nil {
		fmt.Println(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer factory.Shutdown()
	defer cancel()
	running.Go(func() { _ = catalog.Run(ctx) })
	factory.Start(ctx.Done())
	fmt.Println("in step:", factory.WaitForCacheSync(ctx.Done())[mice])

	definitions := lwtest.Objects[*unstructured.Unstructured](server, "customresourcedefinitions")
	if _, err := definitions.Create(crds.Definition("mice", "Mouse", "Namespaced")); err != nil {
		fmt.Println(err)
	}
	mouse := untyped(mouseKind)
	mouse.SetNamespace("barn")
	mouse.SetName("jerry")
	if _, err := client.Resource(mice).Namespace("barn").Create(ctx, mouse, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-added)
	// Output:
	// in step: true
	// jerry
}
