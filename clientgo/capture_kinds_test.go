package clientgo_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
)

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
				if got := fmt.Sprint(server.anything); got != "[true false true false]" {
					t.Errorf("requests of client-go: %v", got)
				}
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
