package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
)

// A transform is set until Run, and sees every object once, from the first list on. Its result may
// be of another type.
func TestSetTransform(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		if impl.lent {
			err := inf.SetTransform(func(obj any) (any, error) { return obj, nil })
			if err == nil || !strings.Contains(err.Error(), "lw.Transform") {
				t.Errorf("error %v", err)
			}
			if err := inf.SetTransform(nil); err != nil {
				t.Errorf("no transform: %v", err)
			}
			return
		}
		server.create(t, labelled("a", "v=1"))
		var seen []string
		for _, f := range []cache.TransformFunc{
			func(any) (any, error) { return nil, errors.New("replaced before Run") },
			func(obj any) (any, error) {
				p, ok := obj.(*corev1.Pod)
				if !ok && impl.clientgo {
					return obj, nil // client-go transforms a streamed object twice
				}
				seen = append(seen, describe(obj))
				return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "of-" + p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion}}, nil
			},
		} {
			if err := inf.SetTransform(f); err != nil {
				t.Error(err)
			}
		}
		var got calls
		mustAdd(t, inf, &got)
		runInformer(t, inf)
		synctest.Wait()
		if err := inf.SetTransform(nil); err == nil || !strings.HasSuffix(err.Error(), "informer has already started") {
			t.Errorf("after Run: %v", err)
		}
		server.create(t, labelled("b", "v=1"))
		got.want(t, "all", "add *v1.PartialObjectMetadata initial", "add *v1.PartialObjectMetadata")
		if diff := cmp.Diff([]string{"a1", "b1"}, seen); diff != "" {
			t.Errorf("the transform saw (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"of-a", "of-b"}, names(inf.GetStore().List())); diff != "" {
			t.Errorf("the store has (-want +got):\n%s", diff)
		}
	})
}

// What a transform leaves out is not there, and what it cannot do is reported; neither hides the
// other objects. With client-go both fail the whole list.
func TestTransformLeavesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := handleErrors(t)
		server := newPodMemory(labelled("a"), labelled("b"), labelled("nil"), labelled("typed-nil"), labelled("fails"), labelled("no-object"))
		inf := clientgo.NewInformer(server, &corev1.Pod{}, 0, nil)
		if err := inf.SetTransform(func(obj any) (any, error) {
			switch p := obj.(*corev1.Pod); p.Name {
			case "nil":
				return nil, nil
			case "typed-nil":
				return (*corev1.Pod)(nil), nil
			case "fails":
				return nil, errors.New("it is broken")
			case "no-object":
				return "a string", nil
			default:
				return p, nil
			}
		}); err != nil {
			t.Fatal(err)
		}
		stop := runInformer(t, inf)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a", "b"}, names(inf.GetStore().List())); diff != "" || !inf.HasSynced() {
			t.Errorf("the store has (-want +got):\n%s", diff)
		}
		stop()
		errs.want(t, "lw: Pod: transform ns/fails: it is broken", "lw: Pod: transform ns/no-object: the transform returned a string, which has no metadata")
	})
}

// handleErrors replaces client-go's handlers of errors during the test. The default ones wait for a
// clock that all bubbles share.
func handleErrors(t *testing.T) *reported {
	r := &reported{}
	before := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, msg string, _ ...any) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errs = append(r.errs, fmt.Sprint(err))
		r.msgs = append(r.msgs, msg)
	}}
	t.Cleanup(func() { utilruntime.ErrorHandlers = before })
	return r
}

type reported struct {
	mu         sync.Mutex
	errs, msgs []string
}

// want checks that these errors, in their order as text, were reported since the last check.
func (r *reported) want(t *testing.T, errs ...string) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.errs)
	if diff := cmp.Diff(errs, r.errs); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	r.errs = nil
}

// The handler of watch errors gets the failures of requests as they are, with the context of Run.
func TestWatchErrorHandler(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		inf := impl.new(server, cache.SharedIndexInformerOptions{ObjectDescription: "the pods"})
		if impl.lent {
			for name, err := range map[string]error{
				"SetWatchErrorHandler":            inf.SetWatchErrorHandler(func(*cache.Reflector, error) {}),
				"SetWatchErrorHandlerWithContext": inf.SetWatchErrorHandlerWithContext(cache.DefaultWatchErrorHandler),
			} {
				if err == nil || !strings.Contains(err.Error(), "lw.Options.OnError") {
					t.Errorf("%s: %v", name, err)
				}
			}
			return
		}
		type key struct{}
		var errs []error
		handler := func(ctx context.Context, r *cache.Reflector, err error) {
			if ctx.Value(key{}) != "of Run" || r.TypeDescription() != "the pods" || r.Name() == "" {
				t.Errorf("context %v, reflector %q of %q", ctx.Value(key{}), r.Name(), r.TypeDescription())
			}
			errs = append(errs, err)
			time.Sleep(time.Millisecond)
		}
		if err := inf.SetWatchErrorHandler(func(*cache.Reflector, error) { t.Error("the handler that was replaced") }); err != nil {
			t.Error(err)
		}
		if err := inf.SetWatchErrorHandlerWithContext(handler); err != nil {
			t.Error(err)
		}
		server.Fail(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no role")))
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "of Run"))
		done := make(chan struct{})
		go func() { defer close(done); inf.RunWithContext(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := inf.SetWatchErrorHandler(nil); err == nil || !strings.HasSuffix(err.Error(), "informer has already started") {
			t.Errorf("after Run: %v", err)
		}
		if len(errs) < 3 {
			t.Errorf("%d errors in a minute of failures", len(errs))
		}
		for _, err := range errs {
			if !apierrors.IsForbidden(err) || errors.As(err, new(*lw.Error)) {
				t.Errorf("error %#v", err)
			}
		}
		server.Fail(nil)
		server.create(t, labelled("a"))
		time.Sleep(time.Minute)
		synctest.Wait()
		errs = nil
		if !inf.HasSynced() {
			t.Error("not synced after the failures")
		}
		// An error that nobody wraps can be compared.
		server.Fail(io.ErrUnexpectedEOF)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if !slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }) {
			t.Errorf("errors of a broken network: %v", errs)
		}
		cancel()
		<-done
	})
}

// Without a handler of its own, an informer reports to those of the process, as client-go does.
func TestDefaultWatchErrorHandler(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		errs := handleErrors(t)
		if impl.lent {
			return
		}
		server.Fail(apierrors.NewServiceUnavailable("down"))
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		stop := runInformer(t, inf)
		time.Sleep(300 * time.Millisecond) // less than the first pause
		stop()
		errs.mu.Lock()
		defer errs.mu.Unlock()
		if len(errs.errs) == 0 || !strings.Contains(errs.errs[0], "down") || errs.msgs[0] != "Failed to watch" {
			t.Errorf("reported %q: %q", errs.msgs, errs.errs)
		}
	})
}

// A handler that hangs delays neither the informer nor its handlers, and memory is bounded. When it
// returns, Run does.
func TestWatchErrorHandlerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPodMemory()
		inf := clientgo.NewInformer(server, &corev1.Pod{}, 0, nil)
		release := make(chan struct{})
		n := 0
		if err := inf.SetWatchErrorHandler(func(*cache.Reflector, error) { n++; <-release }); err != nil {
			t.Fatal(err)
		}
		stop := runInformer(t, inf)
		server.Fail(errors.New("down"))
		time.Sleep(24 * time.Hour)
		server.Fail(nil)
		server.create(t, labelled("a"))
		time.Sleep(time.Hour)
		if !inf.HasSynced() || len(inf.GetStore().List()) != 1 {
			t.Error("the informer waits for a handler of errors")
		}
		if n != 1 {
			t.Errorf("%d calls at a time", n)
		}
		close(release)
		synctest.Wait()
		if n < 10 || n > 100 {
			t.Errorf("%d calls in the end", n)
		}
		stop()
	})
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				errs := handleErrors(t)
				list := &lw.ListOf[runtime.Object]{Items: []runtime.Object{tc.good, tc.bad}}
				list.ResourceVersion = "10"
				events := watch.NewFake()
				inf := clientgo.NewInformer(&cache.ListWatch{
					ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list.DeepCopyObject(), nil },
					WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return events, nil },
				}, tc.example, 0, nil)
				stop := runInformer(t, inf)
				synctest.Wait()
				want := 2
				if tc.err != "" {
					want = 1
					errs.want(t, tc.err)
				}
				if name == "a type" {
					want = 1 // the names are the same
				}
				if got := inf.GetStore().List(); len(got) != want {
					t.Errorf("the store has %v", got)
				}
				events.Modify(tc.bad.DeepCopyObject())
				synctest.Wait()
				stop()
				if tc.err != "" {
					errs.want(t, tc.err)
				} else {
					errs.want(t)
				}
			})
		})
	}
}

// An index whose function panics crashes the program, as any panic; unless ReallyCrash is false,
// when only the object is set aside.
func TestIndexPanicWhileRunning(t *testing.T) {
	defer func(before bool) { utilruntime.ReallyCrash = before }(utilruntime.ReallyCrash)
	utilruntime.ReallyCrash = false
	defer func(before []func(context.Context, any)) { utilruntime.PanicHandlers = before }(utilruntime.PanicHandlers)
	var panics []any
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, v any) { panics = append(panics, v) }}
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
		if diff := cmp.Diff([]string{"a"}, names(inf.GetStore().List())); diff != "" {
			t.Errorf("the store has (-want +got):\n%s", diff)
		}
		stop()
		if got, want := fmt.Sprint(panics), `[unable to calculate an index entry for key "ns/b" on index "x": no value]`; got != want {
			t.Errorf("panics %s, want %s", got, want)
		}
	})
}

// An error that no retry can mend ends Run, after it was reported.
func TestPermanentError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := clientgo.NewInformer(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return nil, fmt.Errorf("no such field: %w", lw.ErrPermanent)
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				return nil, errors.New("no streams")
			},
		}, &corev1.Pod{}, 0, nil)
		var errs []error
		if err := inf.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { errs = append(errs, err) }); err != nil {
			t.Fatal(err)
		}
		inf.Run(nil)
		if len(errs) != 1 || !errors.Is(errs[0], lw.ErrPermanent) || !inf.IsStopped() {
			t.Errorf("errors %v, stopped %t", errs, inf.IsStopped())
		}
		if s, ok := clientgo.Status(inf); !ok || !errors.Is(s.Err, lw.ErrPermanent) || s.Informer != "Pod" {
			t.Errorf("status %+v, %t", s, ok)
		}
	})
	if _, ok := clientgo.Status(implementations["client-go"].new(newPodMemory(), cache.SharedIndexInformerOptions{})); ok {
		t.Error("a Status of client-go's informer")
	}
}

// The constructors say what is wrong with their parameters.
func TestMisuse(t *testing.T) {
	var none *cache.ListWatch
	for want, f := range map[string]func(){
		"clientgo: NewInformer: nil lister-watcher":            func() { clientgo.NewInformer(nil, &corev1.Pod{}, 0, nil) },
		"clientgo: NewInformerWithOptions: nil lister-watcher": func() { clientgo.NewInformerWithOptions(none, nil, cache.SharedIndexInformerOptions{}) },
		"clientgo: Source: nil lister-watcher":                 func() { clientgo.Source(nil, nil) },
		"clientgo: SourceOf: nil lister-watcher":               func() { clientgo.SourceOf[*corev1.Pod](none) },
		"clientgo: SharedIndexInformer: nil informer":          func() { clientgo.SharedIndexInformer[*corev1.Pod](nil) },
		"clientgo: Enqueue: nil queue":                         func() { clientgo.Enqueue[*corev1.Pod](nil) },
		"clientgo: EnqueueOwner: nil queue":                    func() { clientgo.EnqueueOwner[*corev1.Pod](nil, schema.GroupKind{}) },
		"clientgo: EnqueueMapped: nil queue or function":       func() { clientgo.EnqueueMapped[*corev1.Pod](make(keys), nil) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v, want %s", got, want)
				}
			}()
			f()
		}()
	}
	inf := clientgo.NewInformer(newPodMemory(), &corev1.Pod{}, 0, nil)
	if _, err := inf.AddEventHandler(nil); err == nil || err.Error() != "clientgo: *v1.Pod: AddEventHandler: nil handler" {
		t.Errorf("a nil handler: %v", err)
	}
}
