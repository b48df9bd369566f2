package clientgo_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/go-lw/lw/internal/decode"
)

// Every kind of k8s.io/api, filled with random values, is decoded as apimachinery's decoders decode
// it, from JSON and from protobuf, with and without shared parts.
func TestKinds(t *testing.T) {
	const objects, seed = 8, 1
	fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs), rand.NewSource(seed), serializer.NewCodecFactory(scheme.Scheme))
	kinds := 0
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if _, ok := reflect.New(typ).Interface().(metav1.Object); !ok || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		kinds++
		t.Run(strings.ReplaceAll(gvk.String(), ", Kind=", "/"), func(t *testing.T) {
			for _, share := range []bool{false, true} {
				d, err := decode.New(reflect.PointerTo(typ), decode.Options{Share: share})
				if err != nil {
					t.Fatal(err)
				}
				if !d.Protobuf() {
					t.Fatal("not read from protobuf")
				}
				for range objects {
					obj := reflect.New(typ).Interface().(runtime.Object)
					fill.Fill(obj)
					obj.GetObjectKind().SetGroupVersionKind(gvk)
					fromJSON(t, d, obj)
					fromProtobuf(t, d, obj)
				}
			}
		})
	}
	if kinds < 100 {
		t.Errorf("only %d kinds", kinds)
	}
}

func fromJSON(t *testing.T, d *decode.Decoder, obj runtime.Object) {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	want := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
	wantErr := utiljson.Unmarshal(data, want)
	// The items of a list lack it, so those of a watch do as well.
	want.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	same(t, d, []byte(fmt.Sprintf(`{"type":"ADDED","object":%s}`+"\n", data)), decode.JSON, want, wantErr)
}

func fromProtobuf(t *testing.T, d *decode.Decoder, obj runtime.Object) {
	t.Helper()
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &b); err != nil {
		t.Fatal(err)
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(b.Bytes()[4:]); err != nil { // after the magic bytes
		t.Fatal(err)
	}
	want := reflect.New(reflect.TypeOf(obj).Elem()).Interface()
	wantErr := want.(interface{ Unmarshal([]byte) error }).Unmarshal(envelope.Raw)
	event, err := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: b.Bytes()}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	same(t, d, append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...), decode.Protobuf, want, wantErr)
}

// same reads one frame several times, since the decoder learns from what it has seen.
func same(t *testing.T, d *decode.Decoder, frame []byte, encoding decode.Encoding, want any, wantErr error) {
	t.Helper()
	for range 3 {
		events := 0
		err := d.Watch(bytes.NewReader(frame), encoding, func(ev decode.Event) error {
			events++
			if (ev.Object.Err != nil) != (wantErr != nil) {
				t.Errorf("error %v, want %v", ev.Object.Err, wantErr)
			} else if wantErr == nil && !reflect.DeepEqual(want, ev.Object.Value) {
				t.Errorf("another object (-want +got):\n%s", cmp.Diff(want, ev.Object.Value))
			}
			return nil
		})
		if err != nil || events != 1 {
			t.Errorf("%d events, %v", events, err)
		}
	}
}
