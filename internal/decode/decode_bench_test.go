//go:build unix

package decode

import (
	"bytes"
	"io"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	serjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
)

// cpuTime reports the process's CPU time. On a machine with other work it says more than the wall
// time.
func cpuTime(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// watchBench returns the function that runs the benchmark of d, which decodes the watch events of
// frames. Each has about size bytes.
func watchBench(b *testing.B, encoding Encoding, frames []byte, size int) (run func(name string, d *Decoder)) {
	return func(name string, d *Decoder) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			defer cpuTime(b)()
			for n := 0; n < b.N; {
				err := d.Watch(bytes.NewReader(frames), encoding, func(Event) error {
					if n++; n >= b.N {
						return io.EOF
					}
					return nil
				})
				if err != nil && err != io.EOF {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWatchEvent decodes watch events of pods: by this package with several options, and by
// client-go's decoder.
func BenchmarkWatchEvent(b *testing.B) {
	frames, size := podFrames(500)
	run := watchBench(b, JSON, frames, size)
	run("compiled", newDecoder[*pod](b, Options{}))
	run("share", newDecoder[*pod](b, Options{Share: true}))
	run("drop", newDecoder[*pod](b, Options{Drop: []string{"metadata.managedFields"}}))
	run("share-drop", newDecoder[*pod](b, Options{Share: true, Drop: []string{"metadata.managedFields"}}))
	run("projection", newDecoder[*podPlace](b, Options{}))
	b.Run("apimachinery", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(size))
		defer cpuTime(b)()
		scheme := runtime.NewScheme()
		gv := schema.GroupVersion{Version: "v1"}
		scheme.AddKnownTypeWithName(gv.WithKind("Pod"), &pod{})
		metav1.AddToGroupVersion(scheme, gv)
		codecs := serializer.NewCodecFactory(scheme)
		plain := serjson.NewSerializerWithOptions(serjson.DefaultMetaFactory, scheme, scheme, serjson.SerializerOptions{})
		object := codecs.WithoutConversion().DecoderToVersion(plain, gv)
		for n := 0; n < b.N; {
			r := serjson.Framer.NewFrameReader(io.NopCloser(bytes.NewReader(frames)))
			events := streaming.NewDecoder(r, object)
			for ; n < b.N; n++ {
				var got metav1.WatchEvent
				if _, _, err := events.Decode(nil, &got); err == io.EOF {
					break
				} else if err != nil {
					b.Fatal(err)
				}
				if _, err := runtime.Decode(object, got.Object.Raw); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkListItem decodes lists of 500 pods. An operation is one pod.
func BenchmarkListItem(b *testing.B) {
	const n = 500
	list := []byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`)
	for i := range n {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, podJSON(i)...)
	}
	list = append(list, "]}"...)
	run := func(name string, decode func(r io.Reader) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(list) / n))
			defer cpuTime(b)()
			for done := 0; done < b.N; done += n {
				if err := decode(bytes.NewReader(list)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	all := func(d *Decoder) func(io.Reader) error {
		return func(r io.Reader) error {
			_, err := d.List(r, JSON, func(o Object) error { return o.Err })
			return err
		}
	}
	run("compiled", all(newDecoder[*pod](b, Options{})))
	run("share", all(newDecoder[*pod](b, Options{Share: true})))
	run("unstructured", all(newDecoder[*unstructured.Unstructured](b, Options{})))
	run("apimachinery", func(r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		var l struct {
			metav1.TypeMeta `json:",inline"`
			metav1.ListMeta `json:"metadata"`
			Items           []pod `json:"items"`
		}
		return unmarshal(data, &l)
	})
	run("apimachinery-unstructured", func(r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return new(unstructured.UnstructuredList).UnmarshalJSON(data)
	})
}
