package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A nil argument is refused where it is given, by the name of the function.
func TestNil(t *testing.T) {
	queue, server, store := newLimited(), newPodMemory(), &recordingStore{}
	lister, informer := "nil lister-watcher", cache.SharedIndexInformerOptions{}
	var d clientgo.Decoder
	for _, tt := range []struct {
		function, want string
		call           func()
	}{
		{"NewInformer", lister, func() { clientgo.NewInformer(nil, nil, 0, nil) }},
		{"NewInformerWithOptions", lister, func() { clientgo.NewInformerWithOptions(nil, nil, informer) }},
		{"NewController", lister, func() { clientgo.NewController(nil, nil, 0, nil) }},
		{"NewControllerWithOptions", lister, func() { clientgo.NewControllerWithOptions(cache.InformerOptions{}) }},
		{"NewReflector", lister, func() { clientgo.NewReflectorWithOptions(nil, nil, store, cache.ReflectorOptions{}) }},
		{"NewReflector", "nil store", func() { clientgo.NewReflectorWithOptions(server, nil, nil, cache.ReflectorOptions{}) }},
		{"StoreSink", "nil store", func() { clientgo.StoreSink[*corev1.Pod](nil) }},
		{"Source", lister, func() { clientgo.Source(nil, nil) }},
		{"SourceOf", lister, func() { clientgo.SourceOf[*corev1.Pod](nil) }},
		{"Decoder.NewInformer", lister, func() { d.NewInformer(nil, nil, 0, nil) }},
		{"Decoder.NewController", lister, func() { d.NewController(cache.InformerOptions{}) }},
		{"Decoder.NewReflector", lister, func() { d.NewReflector(nil, nil, store, cache.ReflectorOptions{}) }},
		{"Decoder.Source", lister, func() { d.Source(nil, nil) }},
		{"SharedIndexInformer", "nil collection", func() { clientgo.SharedIndexInformer[*corev1.Pod](nil) }},
		{"Use", "nil collection", func() {
			clientgo.Use[*corev1.Pod](informers.NewSharedInformerFactory(fake.NewClientset(), 0), nil)
		}},
		{"Reasons", "nil queue", func() { clientgo.Reasons[lw.Key](nil, nil) }},
		{"Enqueue", "nil queue", func() { clientgo.Enqueue[*corev1.Pod](nil) }},
		{"EnqueueOwner", "nil queue", func() { clientgo.EnqueueOwner[*corev1.Pod](nil, schema.GroupKind{}) }},
		{"EnqueueMapped", "nil queue or function", func() { clientgo.EnqueueMapped[*corev1.Pod](queue, nil) }},
		{"EnqueueMapped", "nil queue or function", func() {
			clientgo.EnqueueMapped[*corev1.Pod, lw.Key](nil, func(*corev1.Pod) iter.Seq[lw.Key] { return nil })
		}},
	} {
		rig.MustPanic(t, "clientgo: "+tt.function+": "+tt.want, tt.call)
	}
}

// An object of another type or kind than the example's is reported, and hides no other.
func TestExample(t *testing.T) {
	configMap := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "ns", "name": "good", "resourceVersion": "1"},
	}}
	secret := configMap.DeepCopy()
	secret.SetName("bad")
	secret.SetKind("Secret")
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	for name, tc := range map[string]struct {
		example   runtime.Object
		good, bad runtime.Object
		err       string // "": bad is as good as good
	}{
		"a type":       {&corev1.Pod{}, labelled("good"), configMap, "lw: Pod: decode ns/good: the object is a *unstructured.Unstructured, not a *v1.Pod as the example"},
		"a kind":       {kind, configMap, secret, "lw: ConfigMap: decode ns/bad: the object is a /v1, Kind=Secret, not a /v1, Kind=ConfigMap as the example"},
		"no kind":      {&unstructured.Unstructured{}, configMap, secret, ""},
		"none":         {nil, configMap, labelled("bad"), ""},
		"only by name": {&metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{ObjectMeta: labelled("good").ObjectMeta}, labelled("bad"), "lw: PartialObjectMetadata: decode ns/bad: the object is a *v1.Pod, not a *v1.PartialObjectMetadata as the example"},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			errs := handleErrors(t)
			list := &internalversion.List{Items: []runtime.Object{tc.good, tc.bad}}
			list.ResourceVersion = "10"
			events := watch.NewFake()
			from := lists(list.DeepCopyObject())
			from.WatchFuncWithContext = func(context.Context, metav1.ListOptions) (watch.Interface, error) { return events, nil }
			inf := clientgo.NewInformer(from, tc.example, 0, nil)
			stop := runInformer(t, inf)
			synctest.Wait()
			kept, reported := []string{"bad", "good"}, []string(nil)
			if tc.err != "" {
				kept, reported = []string{"good"}, []string{tc.err}
				errs.want(t, tc.err)
			}
			rig.Same(t, "the store has", kept, names(inf.GetStore().List()))
			events.Modify(tc.bad.DeepCopyObject())
			synctest.Wait()
			stop()
			errs.want(t, reported...)
		})
	}
}

// An index whose function panics crashes the program, as any panic; unless ReallyCrash is false,
// when only the object is set aside.
func TestIndexPanicWhileRunning(t *testing.T) {
	rig.Swap(t, &utilruntime.ReallyCrash, false)
	var panics []any
	rig.Swap(t, &utilruntime.PanicHandlers, []func(context.Context, any){func(_ context.Context, v any) { panics = append(panics, v) }})
	synctest.Test(t, func(t *testing.T) {
		handleErrors(t)
		server := newPodMemory(labelled("a"), labelled("b"))
		inf := clientgo.NewInformer(server, &corev1.Pod{}, 0, cache.Indexers{"x": func(obj any) ([]string, error) {
			if obj.(*corev1.Pod).Name == "b" {
				return nil, errors.New("no value")
			}
			return nil, nil
		}})
		stop := runInformer(t, inf)
		synctest.Wait()
		rig.Same(t, "the store has", []string{"a"}, names(inf.GetStore().List()))
		stop()
		rig.Same(t, "panics", `[unable to calculate an index entry for key "ns/b" on index "x": no value]`, fmt.Sprint(panics))
	})
}

// An error that no retry can mend ends Run, after it was reported.
func TestPermanentError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := clientgo.NewInformer(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return nil, fmt.Errorf("no such field: %w", lw.ErrPermanent)
			},
			WatchFuncWithContext: noStreams,
		}, &corev1.Pod{}, 0, nil)
		var errs []error
		rig.OK(t, inf.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { errs = append(errs, err) }))
		inf.Run(nil)
		if len(errs) != 1 || !errors.Is(errs[0], lw.ErrPermanent) || !inf.IsStopped() {
			t.Errorf("errors %v, stopped %t", errs, inf.IsStopped())
		}
		if s, ok := clientgo.Status(inf); !ok || !errors.Is(s.Err, lw.ErrPermanent) || s.Name != "Pod" {
			t.Errorf("status %+v, %t", s, ok)
		}
	})
	if _, ok := clientgo.Status(implementations["client-go"].new(newPodMemory(), cache.SharedIndexInformerOptions{})); ok {
		t.Error("a Status of client-go's informer")
	}
}

// A podValue is an object that is no pointer: no factory has an informer of it.
type podValue struct{ *corev1.Pod }

// The constructors say what is wrong with their parameters.
func TestMisuse(t *testing.T) {
	var none *cache.ListWatch
	clientset := fake.NewClientset()
	pods := lw.NewInformer(lw.FromClient(clientset.CoreV1().Pods("")), nil)
	factory := func(o ...informers.SharedInformerOption) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(clientset, 0, o...)
	}
	asked := factory()
	asked.Core().V1().Pods().Informer()
	transforming := factory(informers.WithTransform(func(obj any) (any, error) { return obj, nil }))
	for want, f := range map[string]func(){
		"clientgo: Use: the factory has an informer of *v1.Pod already: call Use before anybody asks for it": func() {
			clientgo.Use(asked, pods)
		},
		"clientgo: Use: the factory has a transform or a shard selector: clientgo: *v1.Pod: SetTransform: the transform of this informer is set where it is made: lw.NewInformer(lw.Transform(source, f), options)": func() {
			clientgo.Use(transforming, pods)
		},
		"clientgo: Use: nil collection": func() { clientgo.Use[*corev1.Pod](factory(), nil) },
		"clientgo: Use: a factory has no informer of clientgo_test.podValue: want a pointer to a struct": func() {
			clientgo.Use(factory(), lw.NewInformer(lw.NewMemory[podValue](), nil))
		},
		"clientgo: NewInformer: nil lister-watcher":            func() { clientgo.NewInformer(nil, &corev1.Pod{}, 0, nil) },
		"clientgo: NewInformerWithOptions: nil lister-watcher": func() { clientgo.NewInformerWithOptions(none, nil, cache.SharedIndexInformerOptions{}) },
		"clientgo: Source: nil lister-watcher":                 func() { clientgo.Source(nil, nil) },
		"clientgo: SourceOf: nil lister-watcher":               func() { clientgo.SourceOf[*corev1.Pod](none) },
		"clientgo: SharedIndexInformer: nil collection":        func() { clientgo.SharedIndexInformer[*corev1.Pod](nil) },
		"clientgo: Enqueue: nil queue":                         func() { clientgo.Enqueue[*corev1.Pod](nil) },
		"clientgo: EnqueueOwner: nil queue":                    func() { clientgo.EnqueueOwner[*corev1.Pod](nil, schema.GroupKind{}) },
		"clientgo: EnqueueMapped: nil queue or function":       func() { clientgo.EnqueueMapped[*corev1.Pod](make(keys), nil) },
	} {
		rig.PanicsWith(t, want, f)
	}
	_, err := clientgo.NewInformer(newPodMemory(), &corev1.Pod{}, 0, nil).AddEventHandler(nil)
	rig.Same(t, "of a nil handler", "clientgo: *v1.Pod: AddEventHandler: nil handler", fmt.Sprint(err))
}

// All methods may be called at any time, by any goroutine. Run it with -race.
func TestConcurrentUse(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		if impl.clientgo {
			return // whose GetIndexers is not safe
		}
		inf := impl.new(server, cache.SharedIndexInformerOptions{ResyncPeriod: time.Second})
		const rounds = 50
		var users sync.WaitGroup
		each := func(f func(i int) error) {
			users.Go(func() {
				for i := range rounds {
					if err := f(i); err != nil {
						t.Error(err)
					}
				}
			})
		}
		each(func(i int) error { server.create(t, labelled(fmt.Sprint("pod-", i), "v=1")); return nil })
		each(func(i int) error {
			_ = inf.SetTransform(func(obj any) (any, error) { return obj, nil })
			_ = inf.SetWatchErrorHandler(func(*cache.Reflector, error) {})
			return nil
		})
		each(func(i int) error { return inf.AddIndexers(cache.Indexers{fmt.Sprint(i): byLabels}) })
		each(func(i int) (err error) {
			x := inf.GetIndexer()
			for name := range x.GetIndexers() {
				_, failed := x.ByIndex(name, "v")
				_, failedToo := x.Index(name, labelled("?", "v=1", "w=1"))
				err = errors.Join(err, failed, failedToo)
			}
			x.List()
			_ = x.LastStoreSyncResourceVersion() + inf.LastSyncResourceVersion()
			return err
		})
		var got calls
		for range 3 {
			each(func(i int) error {
				reg := mustAdd(t, inf, &got, time.Duration(i)*time.Second)
				_ = reg.HasSynced()
				return inf.RemoveEventHandler(reg)
			})
		}
		var last calls
		mustAdd(t, inf, &last, 0)
		runInformer(t, inf)
		users.Wait()
		rig.Same(t, "calls", rounds, len(last.take()))
		for i := range rounds {
			rig.Same(t, "objects by an index", rounds, len(byIndex(t, inf.GetIndexer(), fmt.Sprint(i), "v")))
		}
	})
}

// crashes are the ways in which a program crashes with client-go, and so must with lw. Each is a
// part of a test that runs in a process of its own.
var crashes = map[string]struct {
	crash func(t *testing.T, impl implementation)
	want  []string // in what the process prints before it dies
}{
	"a handler that panics": {
		func(t *testing.T, impl implementation) {
			inf := impl.new(newPodMemory(labelled("a")), cache.SharedIndexInformerOptions{})
			mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { panic("of the handler") }})
			runInformer(t, inf)
		},
		[]string{`"Observed a panic" panic="of the handler"`, "panic: of the handler"},
	},
	"an index that fails": {
		func(t *testing.T, impl implementation) {
			runInformer(t, impl.new(newPodMemory(labelled("a")), cache.SharedIndexInformerOptions{Indexers: cache.Indexers{
				"fails": func(any) ([]string, error) { return nil, errors.New("no value") },
			}}))
		},
		[]string{`unable to calculate an index entry for key "ns/a" on index "fails": no value`},
	},
	"a changed object": {
		func(t *testing.T, impl implementation) {
			inf := impl.new(newPodMemory(labelled("a")), cache.SharedIndexInformerOptions{})
			runInformer(t, inf)
			synctest.Wait()
			inf.GetStore().List()[0].(*corev1.Pod).Spec.NodeName = "changed"
			time.Sleep(time.Hour)
		},
		[]string{"changed"},
	},
}

// Each crash happens with client-go's informer and with lw's, in a process that asks for
// client-go's detector of changes.
func TestCrash(t *testing.T) {
	const which = "CLIENTGO_TEST_CRASH"
	if name, implName, ok := strings.Cut(os.Getenv(which), ", "); ok {
		synctest.Test(t, func(t *testing.T) {
			crashes[name].crash(t, implementations[implName])
			synctest.Wait()
		})
		return
	}
	self := rig.Must[string](t)(os.Executable())
	for name, tc := range crashes {
		for _, impl := range []string{"client-go", "NewInformer"} {
			t.Run(name+", "+impl, func(t *testing.T) {
				child := exec.CommandContext(t.Context(), self, "-test.run=^TestCrash$")
				child.Env = append(os.Environ(), which+"="+name+", "+impl, "KUBE_CACHE_MUTATION_DETECTOR=true")
				out, err := child.CombinedOutput()
				if err == nil || !strings.Contains(string(out), "panic: ") {
					t.Errorf("the process has not crashed: %v\n%s", err, out)
				}
				for _, want := range tc.want {
					if !strings.Contains(string(out), want) {
						t.Errorf("the process does not print %s, but\n%s", want, out)
					}
				}
			})
		}
	}
}
