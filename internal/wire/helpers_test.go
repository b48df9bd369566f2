package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/internal/wire"
)

// scheme knows a kind whose type is the only generated one that there is here.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	core := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(s, core)
	s.AddKnownTypeWithName(core.WithKind("Pod"), &metav1.PartialObjectMetadata{})
	s.AddKnownTypeWithName(core.WithKind("PodList"), &metav1.PartialObjectMetadataList{})
	if err := metav1.AddMetaToScheme(s); err != nil {
		panic(err)
	}
	return s
}()

var podKind = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}

// An encoding is what apimachinery reads an encoding with.
type encoding struct {
	wire.Encoding
	// object decodes an answer, and the object in an event.
	object runtime.Serializer
	// event decodes an event, and frames takes a stream to pieces.
	event  runtime.Decoder
	frames func(io.ReadCloser) io.ReadCloser
}

var encodings = map[string]encoding{
	"json": {
		Encoding: wire.JSON,
		object:   newJSON(true),
		event:    newJSON(false),
		frames:   jsonserializer.Framer.NewFrameReader,
	},
	"protobuf": {
		Encoding: wire.Protobuf,
		object:   protobuf.NewSerializer(scheme, scheme),
		event:    protobuf.NewRawSerializer(scheme, scheme),
		frames:   protobuf.LengthDelimitedFramer.NewFrameReader,
	},
	"cbor": {
		Encoding: wire.CBOR,
		object:   cbor.NewSerializer(scheme, scheme),
		event:    cbor.NewSerializerInfo(scheme, scheme).StreamSerializer.Serializer,
		frames:   cbor.NewFramer().NewFrameReader,
	},
}

func newJSON(strict bool) runtime.Serializer {
	return jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme,
		jsonserializer.SerializerOptions{Strict: strict})
}

// pod is an object whose size grows with n.
func pod(name string, n int) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: podKind,
		ObjectMeta: metav1.ObjectMeta{
			Name: name, ResourceVersion: "7", Annotations: map[string]string{"x": string(bytes.Repeat([]byte("é"), n))},
		},
	}
}

// bytesOf returns an object as package wire wants it.
func (e encoding) bytesOf(t testing.TB, obj *metav1.PartialObjectMetadata) []byte {
	t.Helper()
	must := rig.Must[[]byte](t)
	switch e.Encoding {
	case wire.Protobuf:
		return must(obj.Marshal())
	case wire.CBOR:
		return must(direct.Marshal(obj))
	}
	return must(json.Marshal(obj))
}

// describe says what an object is that apimachinery has decoded.
func describe(obj runtime.Object, kind *schema.GroupVersionKind) string {
	s := kind.GroupVersion().String() + " " + kind.Kind
	switch obj := obj.(type) {
	case *metav1.PartialObjectMetadata:
		s += fmt.Sprintf(" %s@%s", obj.Name, obj.ResourceVersion)
		if obj.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			s += " end"
		}
		if n := len(obj.Annotations["x"]) / len("é"); n > 0 {
			s += fmt.Sprint(" ", n)
		}
	case *metav1.Status:
		s += fmt.Sprintf(" %d %s: %s", obj.Code, obj.Reason, obj.Message)
	}
	return s
}
