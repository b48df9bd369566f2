package wire

import (
	"bytes"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/go-lw/lw/bench/internal/pods"
	"github.com/go-lw/lw/internal/verify/rig"
)

// The frames are made by hand; client-go's own decoders must see in them what was meant.
func TestFramesAreWhatClientGoReads(t *testing.T) {
	for _, format := range []Format{JSON, Protobuf} {
		t.Run(string(format), func(t *testing.T) {
			types := scheme.Codecs.SupportedMediaTypes()
			decoder := scheme.Codecs.UniversalDeserializer()
			c := rig.Must[*collection](t)(newCollection(podKind, format, 3, 3))
			end := rig.Must[[]byte](t)(c.bookmark())
			stream := bytes.Join([][]byte{c.frames[0].bytes, c.frames[1].bytes, end, c.modified(1, state{}, 77),
				c.modified(1, state{restarted: true}, 78),
				c.modified(1, state{restarted: true, moved: true}, 79)}, nil)

			info, _ := runtime.SerializerInfoForMediaType(types, string(format))
			body := info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(bytes.NewReader(stream)))
			events := restwatch.NewDecoder(streaming.NewDecoder(body, info.StreamSerializer.Serializer),
				decoder)
			next := func() (watch.EventType, *corev1.Pod) {
				typ, obj, err := events.Decode()
				if err != nil {
					t.Fatal(err)
				}
				pod := obj.(*corev1.Pod)
				pod.TypeMeta = metav1.TypeMeta{}
				return typ, pod
			}
			for i := range 2 {
				typ, pod := next()
				if diff := cmp.Diff(pods.Full(i), pod); diff != "" || typ != watch.Added {
					t.Errorf("event %d is %s (-want +got):\n%s", i, typ, diff)
				}
			}
			typ, pod := next()
			if typ != watch.Bookmark || pod.ResourceVersion != c.version() ||
				pod.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
				t.Errorf("bookmark is %s of %+v", typ, pod.ObjectMeta)
			}
			typ, pod = next()
			want := pods.Full(1)
			want.ResourceVersion = pods.Version(77)
			if diff := cmp.Diff(want, pod); diff != "" || typ != watch.Modified {
				t.Errorf("modification is %s (-want +got):\n%s", typ, diff)
			}

			typ, pod = next()
			want = pods.Restarted(1)
			want.ResourceVersion = pods.Version(78)
			if diff := cmp.Diff(want, pod); diff != "" || typ != watch.Modified {
				t.Errorf("another status is %s (-want +got):\n%s", typ, diff)
			}

			typ, pod = next()
			want.ResourceVersion = pods.Version(79)
			want.Labels[pods.ZoneLabel] = "eu-west-1x"
			if diff := cmp.Diff(want, pod); diff != "" || typ != watch.Modified {
				t.Errorf("another label is %s (-want +got):\n%s", typ, diff)
			}

			body2 := rig.Must[[]byte](t)(c.list(1, 3, "more"))
			list := rig.Must[runtime.Object](t)(runtime.Decode(decoder, body2))
			got := list.(*corev1.PodList)
			wantItems := []corev1.Pod{*pods.Full(1), *pods.Full(2)}
			if diff := cmp.Diff(wantItems, got.Items); diff != "" || got.Continue != "more" ||
				got.ResourceVersion != c.version() {
				t.Errorf("list of %+v (-want +got):\n%s", got.ListMeta, diff)
			}
		})
	}
}
