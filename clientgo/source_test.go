package clientgo_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientfeatures "k8s.io/client-go/features"
	clientfeaturestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
)

// A ListerWatcher that nobody prepared for streamed lists is listed at once, without an error.
func TestSourceOfFakeControllerSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := handleErrors(t)
		fake := fcache.NewFakeControllerSource()
		defer fake.Shutdown()
		fake.Add(labelled("a"))
		inf := clientgo.NewInformer(fake, &corev1.Pod{}, 0, nil)
		var got calls
		mustAdd(t, inf, &got)
		stop := runInformer(t, inf)
		got.want(t, "the first list", "add a initial")
		fake.Add(labelled("b"))
		fake.Modify(labelled("a", "v=2"))
		fake.Delete(labelled("b"))
		got.want(t, "the watch", "add b", "update a2 from a", "delete b")
		stop()
		errs.want(t)
	})
}

// SourceOf sets objects of another type aside.
func TestSourceOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := &internalversion.List{Items: []runtime.Object{labelled("a"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}}}
		list.ResourceVersion = "1"
		var errs []string
		inf := lw.NewInformer(clientgo.SourceOf[*corev1.Pod](&cache.ListWatch{
			ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, nil },
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
		}), &lw.Options{OnError: func(err error) { errs = append(errs, err.Error()) }})
		rig.Start(t, inf)
		synctest.Wait()
		if _, ok := inf.Store().Get(lw.Key{Namespace: "ns", Name: "a"}); !ok || inf.Store().Len() != 1 {
			t.Errorf("the store has %v", inf.Store().List())
		}
		rig.Same(t, "errors", []string{"lw: Pod: decode s: list *internalversion.List holds a *v1.Secret, not a *v1.Pod"}, errs)
	})
}

// accessed is a list whose metadata is not its own method set, and whose items are not of one type.
type accessed struct {
	metav1.TypeMeta
	Meta  metav1.ListMeta
	Items []runtime.RawExtension
}

func (a *accessed) GetListMeta() metav1.ListInterface { return &a.Meta }
func (a *accessed) DeepCopyObject() runtime.Object    { return a }

// Lists of all forms are read; what is none is an error that says so.
func TestLists(t *testing.T) {
	left := int64(7)
	for name, tc := range map[string]struct {
		list runtime.Object
		want []string
		err  string
	}{
		"typed":            {&corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5", Continue: "c", RemainingItemCount: &left}, Items: []corev1.Pod{*labelled("a"), *labelled("b")}}, []string{"a", "b"}, ""},
		"unstructured":     {&unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "5", "continue": "c", "remainingItemCount": int64(7)}}, Items: []unstructured.Unstructured{{Object: map[string]any{"metadata": map[string]any{"name": "a"}}}}}, []string{"a"}, ""},
		"with an accessor": {&accessed{Meta: metav1.ListMeta{ResourceVersion: "5", Continue: "c", RemainingItemCount: &left}, Items: []runtime.RawExtension{{Object: labelled("a")}}}, []string{"a"}, ""},
		"nil":              {(*corev1.PodList)(nil), nil, "lw: ListWatch: ListFunc returned a nil *v1.PodList"},
		"an object":        {&corev1.Pod{}, nil, "lw: ListWatch: ListFunc returned a *v1.Pod: object does not implement the List interfaces"},
	} {
		t.Run(name, func(t *testing.T) {
			src := clientgo.Source(&cache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return tc.list, nil }}, nil)
			var got []any
			meta, err := src.List(t.Context(), metav1.ListOptions{}, func(obj metav1.Object, err error) error {
				got = append(got, obj)
				return err
			})
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("error %v, want %s", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, names(got)); diff != "" || err != nil {
				t.Errorf("error %v, objects (-want +got):\n%s", err, diff)
			}
			want := metav1.ListMeta{ResourceVersion: "5", Continue: "c", RemainingItemCount: &left}
			rig.Same(t, "metadata", want, meta)
		})
	}
}

// A request that does not heed its context delays the stop hardly, and a watch that comes too late
// is stopped.
func TestStopDuringRequests(t *testing.T) {
	late := watch.NewFake()
	for name, from := range map[string]func(release <-chan struct{}) cache.ListerWatcher{
		"a list": func(release <-chan struct{}) cache.ListerWatcher {
			return &cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					<-release
					return &corev1.PodList{}, nil
				},
				WatchFuncWithContext: noStreams,
			}
		},
		"a watch": func(release <-chan struct{}) cache.ListerWatcher {
			return &cache.ListWatch{
				ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return &corev1.PodList{}, nil },
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { <-release; return late, nil },
			}
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			release := make(chan struct{})
			inf := clientgo.NewInformer(from(release), &corev1.Pod{}, 0, nil)
			stop := runInformer(t, inf)
			time.Sleep(time.Second)
			began := time.Now()
			stop()
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("stopped after %v", took)
			}
			close(release)
		})
	}
	if !late.IsStopped() {
		t.Error("the late watch is open")
	}
}

// A request that heeds its context is over when Run returns.
func TestStopWaitsForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		inf := clientgo.NewInformer(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
				<-ctx.Done()
				time.Sleep(10 * time.Millisecond)
				ended = true
				return nil, ctx.Err()
			},
			WatchFuncWithContext: noStreams,
		}, &corev1.Pod{}, 0, nil)
		stop := runInformer(t, inf)
		synctest.Wait()
		stop()
		if !ended {
			t.Error("Run has returned before its request")
		}
	})
}

// A process that has turned client-go's streamed lists off gets none.
func TestWatchListClientGate(t *testing.T) {
	for _, on := range []bool{true, false} {
		clientfeaturestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, on)
		if got := lw.HintsOf(clientgo.SourceOf[*corev1.Pod](newPodMemory())); got.NoStream == on || got.Decoder != "client-go" {
			t.Errorf("gate %t: hints %+v", on, got)
		}
	}
}

// optsOut is a client that wants whole lists, as kube-state-metrics says of its real one.
type optsOut struct{}

func (optsOut) IsWatchListSemanticsUnSupported() bool { return true }

// A ListerWatcher that opts out of streamed lists has versions all the same: its watches are
// resumed, and no older state is shown.
func TestOptOutOfStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCaptureServer(t)
		config := &rest.Config{}
		lister := cache.ToListWatcherWithWatchListSemantics(typedPods(t, config, s.client(t, config), noTweak), optsOut{})
		inf := synced(t, clientgo.Source(lister, &corev1.Pod{}), strict(t))
		for range 3 {
			time.Sleep(time.Minute)
			s.pods.Disconnect()
		}
		time.Sleep(time.Minute)
		if s := inf.Status(); s.Requests["list"].Started != 1 || s.Requests["watch"].Started < 4 {
			t.Errorf("%d lists and %d watches, want 1 and 4 or more", s.Requests["list"].Started, s.Requests["watch"].Started)
		}
		rig.Same(t, "hints", lw.SourceHints{NoStream: true, Decoder: "client-go"}, lw.HintsOf(clientgo.Source(lister, &corev1.Pod{})), cmpopts.IgnoreFields(lw.SourceHints{}, "StillHas", "unnamed", "polled"))
	})
}

// A lagging replica behind such a ListerWatcher is not believed.
func TestOptOutNeverBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		versions := []string{"120", "110", "130"}
		lists := 0
		lister := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				p := pod("default", "a")
				p.ResourceVersion = versions[lists]
				lists++
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: p.ResourceVersion}, Items: []corev1.Pod{*p}}, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				if lists == 1 {
					return nil, apierrors.NewResourceExpired("too old")
				}
				return &silentWatch{}, nil
			},
		}, optsOut{})
		inf := lw.NewInformer(clientgo.Source(lister, &corev1.Pod{}), &lw.Options{OnError: func(error) {}})
		var shown []string
		inf.AddHandler(lw.Handler[metav1.Object]{
			Add:    func(obj metav1.Object) { shown = append(shown, obj.GetResourceVersion()) },
			Update: func(_, obj metav1.Object) { shown = append(shown, obj.GetResourceVersion()) },
		})
		rig.Start(t, inf)
		rig.Sleep(time.Minute)
		rig.Same(t, "versions", []string{"120", "130"}, shown)
	})
}

// silentWatch is a watch that is none of apimachinery's fakes.
type silentWatch struct{}

func (*silentWatch) Stop()                          {}
func (*silentWatch) ResultChan() <-chan watch.Event { return nil }

// client-go's own fake of a controller's source refuses a streamed list with an error of strconv:
// neither the API's nor the network's. It is listed then, within a backoff.
func TestFakeControllerSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fcache.NewFakeControllerSource()
		fake.Add(pod("default", "a"))
		fake.Add(pod("default", "b"))
		src := &lw.ListWatch[*corev1.Pod, *corev1.List]{
			ListFunc: func(_ context.Context, opts metav1.ListOptions) (*corev1.List, error) {
				l, err := fake.List(opts)
				if err != nil {
					return nil, err
				}
				return l.(*corev1.List), nil
			},
			WatchFunc: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) { return fake.Watch(opts) },
		}
		var errs []error
		inf := lw.NewInformer(src, &lw.Options{OnError: func(err error) { errs = append(errs, err) }})
		var told []string
		inf.AddHandler(lw.Handler[*corev1.Pod]{
			Add:    func(p *corev1.Pod) { told = append(told, "add "+p.Name) },
			Update: func(_, p *corev1.Pod) { told = append(told, "update "+p.Name) },
			Delete: func(p *corev1.Pod) { told = append(told, "delete "+p.Name) },
		})
		begin := time.Now()
		stop := rig.Begin(t, inf)
		rig.OK(t, inf.WaitForSync(t.Context()))
		if took := time.Since(begin); took > 2*time.Second || len(errs) != 2 {
			t.Errorf("synced after %v and %v", took, errs)
		}
		fake.Add(pod("default", "c"))
		fake.Modify(pod("default", "a"))
		fake.Delete(pod("default", "b"))
		rig.Sleep(time.Minute)
		slices.Sort(told[:2])
		if want := []string{"add a", "add b", "add c", "update a", "delete b"}; !slices.Equal(want, told) {
			t.Errorf("told %v, want %v", told, want)
		}
		if s := inf.Status(); s.Mode != lw.ListPages || s.Failures != 0 || s.Objects != 2 {
			t.Errorf("status: %+v", s)
		}
		stop()
		fake.Shutdown()
	})
}
