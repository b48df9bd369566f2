package clientgo_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand"
	randv2 "math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/prune"
)

// What is decoded with random masks is what is left of the whole objects, for the kinds of which
// programs cache most: in every encoding, typed and not, with and without shared parts, from lists,
// from events, and from events of an object that has a version before.
func TestMaskEqualsPrune(t *testing.T) {
	const masks, versions, seed = 60, 4, 7
	fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs), rand.NewSource(seed), serializer.NewCodecFactory(scheme.Scheme))
	rng, pick := rand.New(rand.NewSource(seed)), randv2.New(randv2.NewPCG(seed, 0))
	for _, like := range []runtime.Object{&corev1.Pod{}, &corev1.Node{}, &corev1.Service{}, &appsv1.Deployment{}} {
		typ := reflect.TypeOf(like)
		gvks, _, err := scheme.Scheme.ObjectKinds(like)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(gvks[0].Kind, func(t *testing.T) {
			for n := range masks {
				for _, into := range []reflect.Type{typ, reflect.TypeFor[*unstructured.Unstructured]()} {
					var last any
					opts := decode.Options{Only: prune.Random(pick, typ.Elem(), "a", "app", "cpu", "memory", "example.com/a"), Share: n%2 == 0, Workers: -1}
					masked, err := decode.New(into, opts)
					if err != nil {
						t.Fatal(err)
					}
					masked.ReuseFrom(func(string, string) any { return last })
					whole, err := decode.New(into, decode.Options{Workers: -1})
					if err != nil {
						t.Fatal(err)
					}
					var before runtime.Object
					for range versions {
						obj := reflect.New(typ.Elem()).Interface().(runtime.Object)
						fill.Fill(obj)
						if before != nil {
							obj = mixed(rng, before, obj)
						}
						before = obj
						obj.(metav1.Object).SetName("a")
						obj.(metav1.Object).SetLabels(map[string]string{"a": "b", "app": fmt.Sprint(rng.Intn(3))})
						obj.GetObjectKind().SetGroupVersionKind(gvks[0])
						encodings := []decode.Encoding{decode.JSON, decode.CBOR}
						if into == typ {
							encodings = append(encodings, decode.Protobuf)
						}
						enc, listing := encodings[rng.Intn(len(encodings))], rng.Intn(2) == 0
						data := encodedObject(t, obj, enc)
						want := readObject(t, whole, gvks[0].Kind, data, enc, listing)
						prune.Object(want, nil, opts.Only)
						got := readObject(t, masked, gvks[0].Kind, data, enc, listing)
						if !reflect.DeepEqual(want, got) {
							t.Fatalf("%v, encoding %v, listing %v, only %q (-want +got):\n%s", into, enc, listing, opts.Only, cmp.Diff(want, got))
						}
						last = got
					}
				}
			}
		})
	}
}

// encodedObject returns obj as a server writes it: in protobuf without its envelope.
func encodedObject(t *testing.T, obj runtime.Object, enc decode.Encoding) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch enc {
	case decode.JSON:
		err = json.NewEncoder(&b).Encode(obj)
	case decode.CBOR:
		err = cbor.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &b)
	default:
		var data []byte
		data, err = obj.(interface{ Marshal() ([]byte, error) }).Marshal()
		b.Write(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readObject returns the object that is data, read from an event or from a list.
func readObject(t *testing.T, d *decode.Decoder, kind string, data []byte, enc decode.Encoding, listing bool) (got any) {
	t.Helper()
	envelope := func(kind string, raw []byte) []byte {
		b, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: kind}, Raw: raw}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte("k8s\x00"), b...)
	}
	var event, list []byte
	switch enc {
	case decode.JSON:
		event, list = fmt.Appendf(nil, `{"type":"ADDED","object":%s}`, data), fmt.Appendf(nil, `{"kind":"%sList","items":[%s]}`, kind, data)
	case decode.CBOR:
		event = fmt.Appendf(nil, "\xd9\xd9\xf7\xa2\x44type\x45ADDED\x46object%s", data)
		list = append(append(fmt.Appendf(nil, "\xd9\xd9\xf7\xa2\x44kind"), byte(0x44+len(kind))), fmt.Appendf(nil, "%sList\x45items\x81%s", kind, data[3:])...)
	default:
		e, err := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: envelope(kind, data)}}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		event = append(binary.BigEndian.AppendUint32(nil, uint32(len(e))), e...)
		// The list's metadata, which is empty, and field 2: an item.
		list = envelope(kind+"List", slices.Concat([]byte{0x0a, 0, 0x12}, binary.AppendUvarint(nil, uint64(len(data))), data))
	}
	keep := func(o decode.Object) error {
		got = o.Value
		return o.Err
	}
	var err error
	if listing {
		_, err = d.List(bytes.NewReader(list), enc, keep)
	} else {
		err = d.Watch(bytes.NewReader(event), enc, func(e decode.Event) error { return keep(e.Object) })
	}
	if err != nil {
		t.Fatalf("encoding %v, listing %v: %v", enc, listing, err)
	}
	return got
}
