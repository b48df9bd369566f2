package clientgo_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
)

// Objects of all of client-go's clients come through lw's decoder as the client itself returns
// them.
func TestDecoderOverEveryClient(t *testing.T) {
	unstructuredPod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	metadataPod := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	typed := func(t *testing.T, config *rest.Config, client *http.Client) *cache.ListWatch {
		return typedPods(t, config, client, noTweak)
	}
	for _, tt := range []struct {
		name    string
		content string // its type
		example runtime.Object
		lister  func(*testing.T, *rest.Config, *http.Client) *cache.ListWatch
		accepts string // of the list
	}{
		{"typed JSON", runtime.ContentTypeJSON, &corev1.Pod{}, typed, "application/json"},
		{"typed protobuf", runtime.ContentTypeProtobuf, &corev1.Pod{}, typed,
			"application/vnd.kubernetes.protobuf,application/json"},
		{"dynamic", "", unstructuredPod,
			func(t *testing.T, config *rest.Config, client *http.Client) *cache.ListWatch {
				c := rig.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfigAndClient(config, client))
				return listWatchOf(c.Resource(podResource).Namespace("default"))
			}, "application/json"},
		{"metadata", "", metadataPod,
			func(t *testing.T, config *rest.Config, client *http.Client) *cache.ListWatch {
				c := rig.Must[metadata.Interface](t)(metadata.NewForConfigAndClient(config, client))
				return listWatchOf(c.Resource(podResource).Namespace("default"))
			}, "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," +
				"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"},
	} {
		for _, mode := range []lw.ListMode{lw.ListAuto, lw.ListPages} {
			rig.Subtest(t, tt.name+"/"+string(mode), func(t *testing.T) {
				s, config := newCaptureServer(t), &rest.Config{ContentConfig: rest.ContentConfig{ContentType: tt.content}}
				client := s.client(t, config)
				direct := tt.lister(t, config, client)
				lister := &witness{ListWatch: tt.lister(t, config, clientgo.Capture(client))}
				src := clientgo.Decoder{Drop: onlyByLW}.Source(lister, tt.example)
				if len(lister.calls) != 0 || len(s.requests) != 0 {
					t.Fatalf("the constructor called %v", lister.calls)
				}
				opts := strict(t)
				opts.List, opts.PageSize = mode, 2
				inf := synced(t, src, opts)
				synctest.Wait()
				if r := s.requests[0]; mode == lw.ListPages && r.Header.Get("Accept") != tt.accepts {
					t.Errorf("Accept %q, want %q", r.Header.Get("Accept"), tt.accepts)
				}
				s.create(t, "new", nil)
				synctest.Wait()
				want := rig.Must[runtime.Object](t)(direct.ListWithContext(t.Context(), metav1.ListOptions{}))
				rig.Same(t, "objects of client-go and of lw", byName(t, want, tt.example), byNameOf(inf.Store().List()))
			})
		}
	}
}

// byName returns the items of list, with the kind of example if they are metadata.
func byName(t *testing.T, list, example runtime.Object) map[string]any {
	t.Helper()
	out := map[string]any{}
	rig.OK(t, meta.EachListItem(list, func(obj runtime.Object) error {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			m.TypeMeta = example.(*metav1.PartialObjectMetadata).TypeMeta
		}
		obj.(metav1.Object).SetGeneration(0)
		out[obj.(metav1.Object).GetName()] = obj
		return nil
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
		inf := synced(t, clientgo.Decoder{}.Source(lister, &corev1.Pod{}), nil)
		rig.Same(t, "", []string{"pod-1", "pod-2"}, names(inf.Store().List()))
		synctest.Wait()
		for _, r := range s.requests {
			for name, want := range map[string]string{"Cookie": "session=1", "User-Agent": "agent",
				"Authorization": "Bearer token"} {
				rig.Same(t, name, []string{want}, r.Header[name])
			}
		}
		// The client's timeout of 5 s ends no watch.
		time.Sleep(time.Minute)
		synctest.Wait() // a bookmark of this moment has the version of before the next write
		rig.Same(t, "", []string{"stream default app=web metadata.name!=pod-0"}, s.took())

		// A later list asks what the ListerWatcher asks then.
		app = "db"
		s.create(t, "new", nil)
		s.pods.Compact(s.Line.Version())
		s.pods.Disconnect()
		time.Sleep(time.Minute)
		rig.Same(t, "", []string{"other"}, names(inf.Store().List()))
	})
}

// Every kind of k8s.io/api comes out of a captured list and watch as it comes out of client-go's,
// in the encoding that the client prefers.
func TestDecoderDecodesEveryKind(t *testing.T) {
	const seed = 1
	fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs), rand.NewSource(seed), scheme.Codecs)
	kinds := 0
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if _, ok := reflect.New(typ).Interface().(metav1.Object); !ok || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		if !scheme.Scheme.Recognizes(gvk.GroupVersion().WithKind(gvk.Kind + "List")) {
			continue // it has no collection
		}
		kinds++
		var objs []runtime.Object
		for i := range 3 {
			obj := reflect.New(typ).Interface().(runtime.Object)
			fill.Fill(obj)
			obj.(metav1.Object).SetName(fmt.Sprintf("object-%d", i))
			obj.(metav1.Object).SetResourceVersion(fmt.Sprint(100 + i))
			obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			objs = append(objs, obj)
		}
		for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			t.Run(gvk.GroupVersion().String()+"/"+gvk.Kind+"/"+contentType, func(t *testing.T) {
				server := &oneCollection{t: t, gvk: gvk, objs: objs, want: contentType}
				lister := listerOf(t, gvk, contentType, &http.Client{Transport: server})
				captured := listerOf(t, gvk, contentType, clientgo.Capture(&http.Client{Transport: server}))
				src := clientgo.Decoder{}.Source(captured, reflect.New(typ).Interface().(runtime.Object))

				want := rig.Must[runtime.Object](t)(lister.ListWithContext(t.Context(), metav1.ListOptions{}))
				wantItems := rig.Must[[]runtime.Object](t)(meta.ExtractList(want))
				var items []runtime.Object
				rig.Must[metav1.ListMeta](t)(src.List(t.Context(), metav1.ListOptions{}, func(obj metav1.Object, err error) error {
					items = append(items, obj.(runtime.Object))
					return err
				}))
				if !reflect.DeepEqual(wantItems, items) {
					t.Errorf("other items (-client-go +lw):\n%s", cmp.Diff(wantItems, items))
				}

				w := rig.Must[watch.Interface](t)(lister.WatchWithContext(t.Context(), metav1.ListOptions{}))
				var wantEvents, events []watch.Event
				for ev := range w.ResultChan() {
					wantEvents = append(wantEvents, ev)
				}
				rig.OK(t, src.Watch(t.Context(), metav1.ListOptions{}, func(ev lw.WatchEvent[metav1.Object]) error {
					events = append(events, watch.Event{Type: ev.Type, Object: ev.Object.(runtime.Object)})
					return ev.Err
				}))
				if !reflect.DeepEqual(wantEvents, events) {
					t.Errorf("other events (-client-go +lw):\n%s", cmp.Diff(wantEvents, events))
				}
				if len(items) != len(objs) || len(events) != len(objs) {
					t.Errorf("%d items and %d events of %d objects", len(items), len(events), len(objs))
				}
				// client-go adds */* to what it asks for, lw does not.
				rig.Same(t, "requests of client-go", []bool{true, false, true, false}, server.anything)
			})
		}
	}
	if kinds < 80 {
		t.Errorf("only %d kinds", kinds)
	}
}

// listerOf returns a ListerWatcher of a typed REST client, for the collection of gvk.
func listerOf(t *testing.T, gvk schema.GroupVersionKind, contentType string, client *http.Client) *cache.ListWatch {
	gv := gvk.GroupVersion()
	config := &rest.Config{Host: "http://server", APIPath: "/apis", ContentConfig: rest.ContentConfig{
		GroupVersion: &gv, ContentType: contentType, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}}
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	c := rig.Must[*rest.RESTClient](t)(rest.RESTClientForConfigAndClient(config, client))
	return cache.NewListWatchFromClient(c, strings.ToLower(gvk.Kind)+"s", "", fields.Everything())
}

// oneCollection is the transport to a server of one collection of typed objects.
type oneCollection struct {
	t    *testing.T
	gvk  schema.GroupVersionKind
	objs []runtime.Object
	want string // the content type that the client must prefer
	// anything says of each request whether it takes any content type.
	anything []bool
}

func (s *oneCollection) RoundTrip(r *http.Request) (*http.Response, error) {
	accept := r.Header.Get("Accept")
	s.anything = append(s.anything, strings.Contains(accept, "*/*"))
	if !strings.HasPrefix(accept, s.want) {
		s.t.Errorf("Accept %q, want %s", accept, s.want)
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), s.want)
	if !ok {
		s.t.Fatalf("no serializer for %s", s.want)
	}
	encode := func(obj runtime.Object) []byte {
		var b bytes.Buffer
		rig.OK(s.t, scheme.Codecs.EncoderForVersion(info.Serializer, s.gvk.GroupVersion()).Encode(obj, &b))
		return b.Bytes()
	}
	var body bytes.Buffer
	if r.URL.Query().Get("watch") == "" {
		list := rig.Must[runtime.Object](s.t)(scheme.Scheme.New(s.gvk.GroupVersion().WithKind(s.gvk.Kind + "List")))
		rig.OK(s.t, meta.SetList(list, s.objs))
		list.(metav1.ListInterface).SetResourceVersion("200")
		body.Write(encode(list))
	} else {
		for _, obj := range s.objs {
			ev := &metav1.WatchEvent{Type: string(watch.Modified), Object: runtime.RawExtension{Raw: encode(obj)}}
			if s.want == runtime.ContentTypeProtobuf {
				data := rig.Must[[]byte](s.t)(ev.Marshal())
				body.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data))))
				body.Write(data)
			} else if err := json.NewEncoder(&body).Encode(ev); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {s.want}}, Body: io.NopCloser(&body), Request: r,
	}, nil
}
