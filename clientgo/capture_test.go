package clientgo_test

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
)

// Objects of all of client-go's clients come through lw's decoder as the client itself returns
// them.
func TestDecoderOverEveryClient(t *testing.T) {
	unstructuredPod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	metadataPod := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	for _, tt := range []struct {
		name    string
		config  rest.Config
		example runtime.Object
		lister  func(*testing.T, *rest.Config, *http.Client) cache.ListerWatcher
		accepts string // of the list
	}{
		{"typed JSON", rest.Config{ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}, &corev1.Pod{},
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				return typedPods(t, config, client, noTweak)
			}, "application/json"},
		{"typed protobuf", rest.Config{ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf}}, &corev1.Pod{},
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				return typedPods(t, config, client, noTweak)
			}, "application/vnd.kubernetes.protobuf,application/json"},
		{"dynamic", rest.Config{}, unstructuredPod,
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				c := rig.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfigAndClient(config, client))
				r := c.Resource(podResource).Namespace("default")
				return &cache.ListWatch{
					ListWithContextFunc:  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return r.List(ctx, opts) },
					WatchFuncWithContext: r.Watch,
				}
			}, "application/json"},
		{"metadata", rest.Config{}, metadataPod,
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				c := rig.Must[metadata.Interface](t)(metadata.NewForConfigAndClient(config, client))
				r := c.Resource(podResource).Namespace("default")
				return &cache.ListWatch{
					ListWithContextFunc:  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return r.List(ctx, opts) },
					WatchFuncWithContext: r.Watch,
				}
			}, "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," +
				"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"},
	} {
		for _, mode := range []lw.ListMode{lw.ListAuto, lw.ListPages} {
			rig.Bubble(t, tt.name+"/"+string(mode), func(t *testing.T) {
				s := newCaptureServer(t)
				client := s.client(t, &tt.config)
				direct := tt.lister(t, &tt.config, client)
				lister := witnessOf(tt.lister(t, &tt.config, clientgo.Capture(client)))
				src := clientgo.Decoder{Drop: onlyByLW}.Source(lister, tt.example)
				if len(lister.calls) != 0 || len(s.requests) != 0 {
					t.Fatalf("the constructor called %v", lister.calls)
				}
				inf := lw.NewInformer(src, &lw.Options{List: mode, PageSize: 2, OnError: func(err error) { t.Error(err) }})
				run(t, inf)
				rig.OK(t, inf.WaitForSync(t.Context()))
				synctest.Wait()
				if r := s.requests[0]; mode == lw.ListPages && r.Header.Get("Accept") != tt.accepts {
					t.Errorf("Accept %q, want %q", r.Header.Get("Accept"), tt.accepts)
				}
				s.create(t, "new", nil)
				synctest.Wait()
				want := rig.Must[runtime.Object](t)(cache.ToListerWithContext(direct).ListWithContext(t.Context(), metav1.ListOptions{}))
				if diff := cmp.Diff(byName(t, want, tt.example), byNameOf(inf.Store().List())); diff != "" {
					t.Errorf("other objects (-client-go +lw):\n%s", diff)
				}
			})
		}
	}
}

// byName returns the items of list, with the kind of example if they are metadata.
func byName(t *testing.T, list, example runtime.Object) map[string]any {
	t.Helper()
	out := map[string]any{}
	rig.OK(t, eachItem(list, func(obj runtime.Object) {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			m.TypeMeta = example.(*metav1.PartialObjectMetadata).TypeMeta
		}
		obj.(metav1.Object).SetGeneration(0)
		out[obj.(metav1.Object).GetName()] = obj
	}))
	return out
}

func byNameOf(objs []metav1.Object) map[string]any {
	out := map[string]any{}
	for _, obj := range objs {
		out[obj.GetName()] = obj
	}
	return out
}

func eachItem(list runtime.Object, f func(runtime.Object)) error {
	return meta.EachListItem(list, func(obj runtime.Object) error { f(obj); return nil })
}

// What the ListerWatcher asks for at that moment is what lw asks for: namespace, selectors,
// headers.
func TestDecoderAsksWhatTheListerWatcherAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCaptureServer(t)
		s.create(t, "other", map[string]string{"app": "db"})
		config := &rest.Config{UserAgent: "agent", BearerToken: "token", Timeout: 5 * time.Second}
		client := s.client(t, config)
		client.Jar, _ = cookiejar.New(nil)
		client.Jar.SetCookies(&url.URL{Scheme: "http", Host: "apiserver"}, []*http.Cookie{{Name: "session", Value: "1"}})
		app := "web"
		lister := typedPods(t, config, clientgo.Capture(client), func(opts *metav1.ListOptions) {
			opts.LabelSelector, opts.FieldSelector = "app="+app, "metadata.name!=pod-0"
		})
		inf := lw.NewInformer(clientgo.Decoder{}.Source(lister, &corev1.Pod{}), nil)
		run(t, inf)
		rig.OK(t, inf.WaitForSync(t.Context()))
		names := func() []string {
			var names []string
			for obj := range inf.Store().All() {
				names = append(names, obj.GetName())
			}
			slices.Sort(names)
			return names
		}
		if diff := cmp.Diff([]string{"pod-1", "pod-2"}, names()); diff != "" {
			t.Error(diff)
		}
		synctest.Wait()
		for _, r := range s.requests {
			for name, want := range map[string]string{"Cookie": "session=1", "User-Agent": "agent", "Authorization": "Bearer token"} {
				if diff := cmp.Diff([]string{want}, r.Header[name]); diff != "" {
					t.Errorf("header %s:\n%s", name, diff)
				}
			}
		}
		// The client's timeout of 5 s ends no watch.
		time.Sleep(time.Minute)
		synctest.Wait() // a bookmark of this moment has the version of before the next write
		if diff := cmp.Diff([]string{"stream default app=web metadata.name!=pod-0"}, s.took()); diff != "" {
			t.Error(diff)
		}

		// A later list asks what the ListerWatcher asks then.
		app = "db"
		s.create(t, "new", nil)
		s.pods.Compact(s.Line.Version())
		s.pods.Disconnect()
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"other"}, names()); diff != "" {
			t.Error(diff)
		}
	})
}
