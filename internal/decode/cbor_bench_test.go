//go:build unix

package decode

import (
	"bytes"
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// podsOfJSON returns n pods.
func podsOfJSON(b *testing.B, n int) []pod {
	pods := make([]pod, n)
	for i := range pods {
		if err := unmarshal(podJSON(i), &pods[i]); err != nil {
			b.Fatal(err)
		}
	}
	return pods
}

// podScheme knows the pod as a server's client does.
func podScheme() (*runtime.Scheme, schema.GroupVersion) {
	scheme, gv := runtime.NewScheme(), schema.GroupVersion{Version: "v1"}
	scheme.AddKnownTypeWithName(gv.WithKind("Pod"), &pod{})
	metav1.AddToGroupVersion(scheme, gv)
	return scheme, gv
}

// BenchmarkCBORListItem decodes lists of 500 pods in CBOR: by this package, through JSON, and by
// apimachinery's serializer, item by item and as a whole. An operation is one pod.
func BenchmarkCBORListItem(b *testing.B) {
	const n = 500
	list := struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []pod `json:"items"`
	}{metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, metav1.ListMeta{ResourceVersion: "1"}, podsOfJSON(b, n)}
	data := mustCBOR(b, list)
	run := func(name string, decode func(r io.Reader) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data) / n))
			defer cpuTime(b)()
			for done := 0; done < b.N; done += n {
				if err := decode(bytes.NewReader(data)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	all := func(d *Decoder) func(io.Reader) error {
		return func(r io.Reader) error {
			_, err := d.List(r, CBOR, func(o Object) error { return o.Err })
			return err
		}
	}
	// apart decodes the items by apimachinery, one after the other, as the other design of this
	// package would.
	apart := func(into func() runtime.Object) func(io.Reader) error {
		scheme, _ := podScheme()
		s := cbor.NewSerializer(scheme, scheme)
		gvk := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
		return func(r io.Reader) error {
			var buf buffer
			buf.reset(r, MaxObject, listBuffer, listBuffer)
			for {
				h, err := buf.openCBOR("a list", cborMap)
				if err != nil {
					return err
				}
				for range h.arg {
					name, err := buf.cborItem()
					if err != nil {
						return err
					}
					if !bytes.HasSuffix(name, []byte("items")) {
						if _, err := buf.cborItem(); err != nil {
							return err
						}
						continue
					}
					items, err := buf.openCBOR("the items", cborArray)
					if err != nil {
						return err
					}
					for range items.arg {
						raw, err := buf.cborItem()
						if err != nil {
							return err
						}
						if _, _, err := s.Decode(raw, &gvk, into()); err != nil {
							return err
						}
					}
				}
				return nil
			}
		}
	}
	run("compiled", all(newDecoder[*pod](b, Options{})))
	run("share", all(newDecoder[*pod](b, Options{Share: true})))
	run("projection", all(newDecoder[*podPlace](b, Options{})))
	run("unstructured", all(newDecoder[*unstructured.Unstructured](b, Options{})))
	run("apimachinery-items", apart(func() runtime.Object { return &pod{} }))
	run("apimachinery", func(r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		l := list
		l.Items = nil
		return direct.Unmarshal(data, &l)
	})
	run("apimachinery-unstructured", func(r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		var l map[string]any
		return direct.Unmarshal(data, &l)
	})
}

// BenchmarkCBORWatchEvent decodes watch events of pods in CBOR: by this package, and by
// apimachinery's serializer, as client-go does.
func BenchmarkCBORWatchEvent(b *testing.B) {
	var frames []byte
	pods := podsOfJSON(b, 500)
	for i := range pods {
		pods[i].TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
		frames = append(frames, cborEvent(b, "MODIFIED", &pods[i])...)
	}
	size := len(frames) / len(pods)
	run := watchBench(b, CBOR, frames, size)
	run("compiled", newDecoder[*pod](b, Options{}))
	run("share", newDecoder[*pod](b, Options{Share: true}))
	run("drop", newDecoder[*pod](b, Options{Drop: []string{"metadata.managedFields"}}))
	run("projection", newDecoder[*podPlace](b, Options{}))
	b.Run("apimachinery", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(size))
		defer cpuTime(b)()
		scheme, _ := podScheme()
		stream, object := cbor.NewSerializer(scheme, scheme, cbor.Transcode(false)), cbor.NewSerializer(scheme, scheme)
		for n := 0; n < b.N; {
			r := cbor.NewFramer().NewFrameReader(io.NopCloser(bytes.NewReader(frames)))
			frame := make([]byte, 64<<10)
			for ; n < b.N; n++ {
				read, err := r.Read(frame)
				if err == io.EOF {
					break
				} else if err != nil {
					b.Fatal(err)
				}
				var got metav1.WatchEvent
				if _, _, err := stream.Decode(frame[:read], nil, &got); err != nil {
					b.Fatal(err)
				}
				if _, _, err := object.Decode(got.Object.Raw, nil, &pod{}); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
