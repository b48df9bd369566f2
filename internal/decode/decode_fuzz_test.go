package decode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A reading is the outcome of a stream.
type reading struct {
	objects []any
	errs    []string
	end     string
	meta    metav1.ListMeta
}

type reader func(*Decoder, io.Reader, Encoding) reading

func (r *reading) add(o Object) error {
	if o.Err != nil {
		r.errs = append(r.errs, o.Err.Error())
	} else {
		r.objects = append(r.objects, o.Value)
	}
	return nil
}

func readWatch(d *Decoder, r io.Reader, enc Encoding) (g reading) {
	g.end = fmt.Sprint(d.WatchList(r, enc, func(e Event) error {
		if e.Type == "BOOKMARK" {
			return g.add(Object{Value: e.ResourceVersion})
		}
		return g.add(e.Object)
	}))
	return g
}

func readList(d *Decoder, r io.Reader, enc Encoding) (g reading) {
	var err error
	g.meta, err = d.List(r, enc, g.add)
	g.end = fmt.Sprint(err)
	return g
}

// checkPieces checks that the outcome does not depend on the pieces in which data comes, nor on who
// decodes them.
func checkPieces(t *testing.T, d *Decoder, helpers []*Decoder, data []byte, enc Encoding, read reader) reading {
	t.Helper()
	d.opts.Workers = -1
	first := func(r io.Reader) reading {
		// A new source: what the last one has read would matter.
		d.opts.Kinds, d.lastKind = NewKinds(d.root.typ, ""), ""
		return read(d, r, enc)
	}
	whole := first(bytes.NewReader(data))
	check := func(name string, r io.Reader) {
		t.Helper()
		if got := first(r); !reflect.DeepEqual(whole, got) {
			t.Fatalf("%q %s:\n got %v\nwant %v", data, name, got, whole)
		}
	}
	bytewise := func() io.Reader { return iotest.OneByteReader(bytes.NewReader(data)) }
	check("byte by byte", bytewise())
	check("with its end", iotest.DataErrReader(bytes.NewReader(data)))
	d.opts.Workers, d.batch = len(helpers), 1
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(data), "byte by byte": bytewise(), "byte by byte, to be closed": io.NopCloser(bytewise())} {
		d.workers = slices.Clone(helpers)
		check("by a pool, "+name, r)
	}
	return whole
}

// workersOf returns decoders for a pool of d, which would otherwise be made anew for each list.
func workersOf(t fataler, d *Decoder) []*Decoder {
	return []*Decoder{decoderOf(t, d.root.typ, d.opts), decoderOf(t, d.root.typ, d.opts)}
}

// fuzzPieces runs checkPieces; check compares its outcome with what apimachinery decodes.
func fuzzPieces[T any](f *testing.F, enc Encoding, read reader, check func(*testing.T, []byte, reading)) {
	d := newDecoder[T](f, Options{})
	helpers := workersOf(f, d)
	f.Fuzz(func(t *testing.T, data []byte) { check(t, data, checkPieces(t, d, helpers, data, enc, read)) })
}

func unchecked(*testing.T, []byte, reading) {}

const sinkA = `{"kind":"Sink","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"1"},"spec":{"str":"\"\\ é","strs":["[","{"]}}`

func FuzzWatchJSON(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":` + sinkA + "}\n" + `{"object":` + sinkA + `,"type":"DELETED"}` + `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}`))
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"name":1}}}{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"m"}}`))
	f.Add([]byte(`{"type":"ADDED","object":{"spec":{"i8":300}},"object":` + sinkA + `}{"type":"X"}`))
	f.Add([]byte(` {"type" : "ADDED" , "object" : {} } {"type":"ADDED","object":{"a":"` + "\xff" + `"}}[]`))
	f.Add([]byte("{\"type\":0\" \n"))
	fuzzPieces[*sink](f, JSON, readWatch, func(t *testing.T, data []byte, got reading) {
		// apimachinery decodes every event that was decoded here, to the same object.
		frames := json.NewDecoder(bytes.NewReader(data))
		for _, obj := range got.objects {
			want := &sink{}
			for {
				var raw json.RawMessage
				if err := frames.Decode(&raw); err != nil {
					t.Fatalf("%q: apimachinery has no frame for %+v: %v", data, obj, err)
				}
				var e metav1.WatchEvent
				if err := unmarshal(raw, &e); err != nil {
					t.Fatalf("%q: %v", data, err)
				}
				if e.Type == "BOOKMARK" {
					break
				}
				*want = sink{}
				if e.Object.Raw != nil && unmarshal(e.Object.Raw, want) == nil {
					break
				}
			}
			want.TypeMeta = metav1.TypeMeta{}
			if _, bookmark := obj.(string); !bookmark && !reflect.DeepEqual(want, obj) {
				t.Fatalf("%q (-want +got):\n%s", data, cmp.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", obj)))
			}
		}
	})
}

func FuzzListJSON(f *testing.F) {
	f.Add([]byte(`{"kind":"SinkList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` + sinkA + `, ` + sinkA + `]}`))
	f.Add([]byte(`{"items":[{"spec":1},null,` + sinkA + `],"more":{"a":[1,2]},"kind":"SinkList"} `))
	f.Add([]byte(`{"kind":"Status","message":"m","code":5}`))
	f.Add([]byte(`{"kind":"SinkList","items":null}`))
	f.Add([]byte(`{"kind":"SinkList","items":[1 2]}`))
	fuzzPieces[*sink](f, JSON, readList, func(t *testing.T, data []byte, got reading) {
		if got.end != "<nil>" {
			return
		}
		// apimachinery accepts a list that was read to its end here, with the same objects.
		var want struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := unmarshal(data, &want); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if len(want.Items) != len(got.objects)+len(got.errs) || !reflect.DeepEqual(want.Metadata, got.meta) {
			t.Fatalf("%q: %d objects and %d errors of %d items, metadata %v, want %v", data, len(got.objects), len(got.errs), len(want.Items), got.meta, want.Metadata)
		}
		next := 0
		for _, raw := range want.Items {
			obj := &sink{}
			if string(raw) == "null" || unmarshal(raw, obj) != nil {
				continue
			}
			obj.TypeMeta = metav1.TypeMeta{}
			if !reflect.DeepEqual(obj, got.objects[next]) {
				t.Fatalf("%q, item %d (-want +got):\n%s", data, next, cmp.Diff(fmt.Sprintf("%+v", obj), fmt.Sprintf("%+v", got.objects[next])))
			}
			next++
		}
	})
}

func FuzzWatchProtobuf(f *testing.F) {
	f.Add(append(frameOf(f, "ADDED", protobufOf(f, newCarp(1))), frameOf(f, "BOOKMARK", protobufOf(f, newCarp(2)))...))
	f.Add([]byte{0, 0, 0, 2, 0x0a, 0, 0xff, 0xff, 0xff, 0xff})
	fuzzPieces[*carp.Carp](f, Protobuf, readWatch, func(t *testing.T, data []byte, got reading) {
		if len(got.errs) > 0 {
			// Nobody knows which frames they are from.
			return
		}
		for _, obj := range got.objects {
			n := 4 + int(binary.BigEndian.Uint32(data))
			var e metav1.WatchEvent
			var u runtime.Unknown
			want := &carp.Carp{}
			if err := errors.Join(e.Unmarshal(data[4:n]), u.Unmarshal(e.Object.Raw[4:]), want.Unmarshal(u.Raw)); err != nil && e.Type != "BOOKMARK" {
				t.Fatalf("%q: %v", data, err)
			}
			if _, bookmark := obj.(string); bookmark != (e.Type == "BOOKMARK") || !bookmark && !reflect.DeepEqual(want, obj) {
				t.Fatalf("%q (-want +got):\n%s", data, cmp.Diff(want, obj))
			}
			data = data[n:]
		}
	})
}

func FuzzListProtobuf(f *testing.F) {
	f.Add(carpList(f, 2))
	f.Add(carpList(f, 0))
	f.Add([]byte("k8s\x00\x0a\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	fuzzPieces[*carp.Carp](f, Protobuf, readList, unchecked)
}
