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
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A reading is what came of a stream.
type reading struct {
	objects []any
	errs    []string
	end     string
	meta    metav1.ListMeta
}

func (g *reading) add(o Object) error {
	if o.Err != nil {
		g.errs = append(g.errs, o.Err.Error())
	} else {
		g.objects = append(g.objects, o.Value)
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

// checkPieces checks that it does not matter in what pieces data comes, nor who decodes them.
func checkPieces(t *testing.T, d *Decoder, helpers []*Decoder, data []byte, enc Encoding, read func(*Decoder, io.Reader, Encoding) reading) reading {
	t.Helper()
	d.opts.Workers = -1
	first := func(r io.Reader) reading {
		d.opts.Kinds, d.lastKind = NewKinds(d.root.typ, ""), "" // what a source has read before matters
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
		d.helpers = slices.Clone(helpers)
		check("by a crew, "+name, r)
	}
	return whole
}

// helpersOf returns what helps d in a crew, which would otherwise be made again for each list.
func helpersOf(t testing.TB, d *Decoder) []*Decoder {
	var all []*Decoder
	for range 2 {
		helper, err := New(d.root.typ, d.opts)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, helper)
	}
	return all
}

const sinkA = `{"kind":"Sink","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"1"},"spec":{"str":"\"\\ é","strs":["[","{"]}}`

func FuzzWatchJSON(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":` + sinkA + "}\n" + `{"object":` + sinkA + `,"type":"DELETED"}` + `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}`))
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"name":1}}}{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"m"}}`))
	f.Add([]byte(`{"type":"ADDED","object":{"spec":{"i8":300}},"object":` + sinkA + `}{"type":"X"}`))
	f.Add([]byte(` {"type" : "ADDED" , "object" : {} } {"type":"ADDED","object":{"a":"` + "\xff" + `"}}[]`))
	f.Add([]byte("{\"type\":0\" \n"))
	d := newDecoder[*sink](f, Options{})
	helpers := helpersOf(f, d)
	f.Fuzz(func(t *testing.T, data []byte) {
		got := checkPieces(t, d, helpers, data, JSON, readWatch)
		// Every event that was decoded is one that apimachinery decodes, to the same object.
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
	d := newDecoder[*sink](f, Options{})
	helpers := helpersOf(f, d)
	f.Fuzz(func(t *testing.T, data []byte) {
		got := checkPieces(t, d, helpers, data, JSON, readList)
		if got.end != "<nil>" {
			return
		}
		// A list that was read to its end is one for apimachinery, with the same objects.
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
	d := newDecoder[*carp.Carp](f, Options{})
	helpers := helpersOf(f, d)
	f.Fuzz(func(t *testing.T, data []byte) {
		got := checkPieces(t, d, helpers, data, Protobuf, readWatch)
		if len(got.errs) > 0 {
			return // it is not told which frames they are of
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
	d := newDecoder[*carp.Carp](f, Options{})
	helpers := helpersOf(f, d)
	f.Fuzz(func(t *testing.T, data []byte) {
		checkPieces(t, d, helpers, data, Protobuf, readList)
	})
}

func TestLimit(t *testing.T) {
	big := `{"metadata":{"name":"` + strings.Repeat("x", 3000) + `"}}`
	d := newDecoder[*sink](t, Options{Limit: 2000})
	for name, g := range map[string]reading{
		"an item":  readList(d, strings.NewReader(`{"kind":"SinkList","items":[`+sinkA+`,`+big+`]}`), JSON),
		"an event": readWatch(d, strings.NewReader(`{"type":"ADDED","object":`+sinkA+`}{"type":"ADDED","object":`+big+`}`), JSON),
	} {
		if len(g.objects) != 1 || !strings.HasPrefix(g.end, "more than 2000 bytes in one piece at byte") {
			t.Errorf("%s: %d objects, error %s", name, len(g.objects), g.end)
		}
	}
	many := `{"kind":"SinkList","items":[` + strings.Repeat(sinkA+",", 99) + sinkA + `]}`
	if g := readList(d, strings.NewReader(many), JSON); len(g.objects) != 100 || g.end != "<nil>" {
		t.Errorf("%d small objects, error %s", len(g.objects), g.end)
	}
}

func TestBufferShrinks(t *testing.T) {
	event := func(n int) string {
		return fmt.Sprintf(`{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":{"str":"%s"}}}`, strings.Repeat("x", n))
	}
	d := newDecoder[*sink](t, Options{})
	r, w := io.Pipe()
	go func() {
		for _, n := range []int{4 << 20, 10, 10} {
			_, _ = io.WriteString(w, event(n))
		}
		w.Close()
	}()
	var caps []int
	err := d.Watch(r, JSON, func(Event) error {
		caps = append(caps, cap(d.buf.data))
		return nil
	})
	if err != nil || len(caps) != 3 || caps[0] < 4<<20 || caps[2] > keepBuffer {
		t.Errorf("error %v, capacities %v", err, caps)
	}
}

// An event is told as soon as it is there, whatever stands behind it.
func TestEventsAreNotHeldBack(t *testing.T) {
	event := `{"type":"ADDED","object":` + sinkA + `}`
	for _, event := range []string{event, strings.ReplaceAll(event, ",", ",\n")} {
		for _, behind := range []string{"\n", "", " ", "\r", "\r\n", "\n\n", " \t"} {
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				told := 0
				go func() {
					defer w.Close()
					for i := range 3 {
						_, _ = io.WriteString(w, event[:100])
						_, _ = io.WriteString(w, event[100:]+behind)
						if synctest.Wait(); told != i+1 {
							t.Errorf("%q behind: %d events were told of %d", behind, told, i+1)
						}
					}
				}()
				if err := newDecoder[*sink](t, Options{}).Watch(r, JSON, func(e Event) error {
					if told++; e.More {
						t.Errorf("%q behind: event %d says that another one is there", behind, told)
					}
					return nil
				}); err != nil {
					t.Errorf("%q behind: %v", behind, err)
				}
			})
		}
	}
}

// What cannot become an event is an error at once, however the line goes on: nobody waits for bytes that may never come.
func TestInvalidLinesAreNotHeldBack(t *testing.T) {
	event := `{"type":"ADDED","object":` + sinkA + "}\n"
	for _, line := range []string{
		"{\"type\": oops\n", "{\"type\":\"ADDED\",\"object\":{\"metadata\":{oops\n", "{\"type\":\"ADDED\",\"object\":{\"spec\":{\"str\":\"no end\n", "{\"type\":\"\\x\n", "{{\n", "{{}", "{\"type\": oops\n{\"typ", "{\"type\":oops\n{\"typ",
		`{"type":"ADDED","object":{"metadata":{[]}`, `{"type":"ADDED","object":{"metadata":{}] {}`, "{\"type\":\"ADDED\",\"object\":{\"spec\":{\"i8\":300},\"metadata\":{oops\n", "<html>", "{\"object\":{},\"type\":tru\n",
	} {
		for _, size := range []int{1, 7, 1 << 10} {
			for _, list := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					r, w := io.Pipe()
					var err error
					told := 0
					go func() {
						d := newDecoder[*sink](t, Options{Workers: 2})
						watch := d.Watch
						if list {
							watch = d.WatchList
						}
						err = watch(r, JSON, func(Event) error { told++; return nil })
						r.Close()
					}()
					for b := []byte(event + line); len(b) > 0; b = b[min(size, len(b)):] {
						_, _ = w.Write(b[:min(size, len(b))])
					}
					synctest.Wait() // and nothing more comes
					if _, ok := err.(*SyntaxError); !ok || told != 1 {
						t.Errorf("%q in pieces of %d: %d events, error %v", line, size, told, err)
					}
					w.Close()
				})
			}
		}
	}
}

// An event says that another one is there if the whole of that is, but for initial events.
func TestMore(t *testing.T) {
	event := `{"type":"ADDED","object":` + sinkA + "}\n"
	end := `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"
	fish := string(frameOf(t, "ADDED", protobufOf(t, newCarp(1))))
	for name, tc := range map[string]struct {
		enc    Encoding
		pieces []string
		list   bool
		want   []bool
	}{
		"together":            {JSON, []string{event + event + event}, false, []bool{true, true, false}},
		"apart":               {JSON, []string{event, event, event}, false, []bool{false, false, false}},
		"half":                {JSON, []string{event + event[:50], event[50:] + event[:len(event)-1], "\n"}, false, []bool{false, false, false}},
		"indented":            {JSON, []string{event + strings.ReplaceAll(event[:100], ",", ",\n"), event[100:]}, false, []bool{false, false}},
		"initial":             {JSON, []string{event + event + end + event + event}, true, []bool{false, false, true, true, false}},
		"protobuf":            {Protobuf, []string{fish + fish + fish}, false, []bool{true, true, false}},
		"protobuf, half":      {Protobuf, []string{fish + fish[:50], fish[50:]}, false, []bool{false, false}},
		"protobuf, no length": {Protobuf, []string{fish + fish[:4], fish[4:]}, false, []bool{false, false}},
	} {
		r, w := io.Pipe()
		go func() {
			for _, piece := range tc.pieces {
				_, _ = io.WriteString(w, piece)
			}
			w.Close()
		}()
		d := newDecoder[*sink](t, Options{})
		if tc.enc == Protobuf {
			d = newDecoder[*carp.Carp](t, Options{})
		}
		watch := d.Watch
		if tc.list {
			watch = d.WatchList
		}
		var got []bool
		if err := watch(r, tc.enc, func(e Event) error { got = append(got, e.More); return nil }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestReadErrors(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	broken := errors.New("broken")
	for n := range len(sinkA) {
		data := `{"kind":"SinkList","items":[` + sinkA[:n]
		_, err := d.List(io.MultiReader(strings.NewReader(data), iotest.ErrReader(broken)), JSON, func(Object) error { return nil })
		if want := fmt.Sprintf("cut off at byte %d: broken", len(data)); !errors.Is(err, broken) || err.Error() != want {
			t.Fatalf("got %v, want %s", err, want)
		}
	}
	g := readWatch(d, strings.NewReader(strings.Repeat(" ", 100)), JSON)
	if g.end != "<nil>" {
		t.Errorf("white space alone: %s", g.end)
	}
	err := d.Watch(onlyZero{}, JSON, func(Event) error { return nil })
	if !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that reads nothing: %v", err)
	}
}

type onlyZero struct{}

func (onlyZero) Read([]byte) (int, error) { return 0, nil }

// A bookmark without a version promises nothing, and only the annotation's value "true" ends the initial events.
func TestBookmarks(t *testing.T) {
	type told struct {
		version, err string
		end          bool
	}
	meta := func(version string, annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{ResourceVersion: version, Annotations: annotations}
	}
	end := func(value string) map[string]string {
		return map[string]string{metav1.InitialEventsAnnotationKey: value, "other": "true"}
	}
	for name, tt := range map[string]struct {
		meta metav1.ObjectMeta
		want told
	}{
		"plain":                    {meta("5", nil), told{version: "5"}},
		"the end":                  {meta("5", end("true")), told{version: "5", end: true}},
		"not the end":              {meta("5", end("false")), told{version: "5"}},
		"no value":                 {meta("5", end("")), told{version: "5"}},
		"another annotation":       {meta("5", map[string]string{"k8s.io/initial-events-begin": "true"}), told{version: "5"}},
		"no version":               {meta("", nil), told{err: "a bookmark without a resource version"}},
		"an end without a version": {meta("", end("true")), told{err: "a bookmark without a resource version"}},
	} {
		c := &carp.Carp{TypeMeta: newCarp(0).TypeMeta, ObjectMeta: tt.meta}
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		for enc, stream := range map[Encoding]string{JSON: `{"type":"BOOKMARK","object":` + string(data) + "}\n", Protobuf: string(frameOf(t, "BOOKMARK", protobufOf(t, c)))} {
			for _, list := range []bool{false, true} {
				d := newDecoder[*carp.Carp](t, Options{})
				watch := d.Watch
				if list {
					watch = d.WatchList
				}
				var got told
				err := watch(strings.NewReader(stream), enc, func(e Event) error {
					got.version, got.end = e.ResourceVersion, e.InitialEventsEnd
					if e.Type != "BOOKMARK" || e.Object.Value != nil || e.Object.Err != nil {
						t.Errorf("%s: %+v", name, e)
					}
					return nil
				})
				if err != nil {
					got.err = err.Error()
				}
				if got != tt.want {
					t.Errorf("%s, encoding %d, list %v: %+v, want %+v", name, enc, list, got, tt.want)
				}
			}
		}
	}
}

// A list whose length ends inside one of its fields has lost its frame: what follows would be taken for something else.
func TestProtobufListEndsInField(t *testing.T) {
	whole := carpList(t, 3)
	var u runtime.Unknown
	if err := u.Unmarshal(whole[4:]); err != nil {
		t.Fatal(err)
	}
	ends := map[int]bool{len(u.Raw): true} // where fields of the list end
	w := &wire{data: u.Raw}
	for !w.done() {
		ends[w.pos] = true
		if _, _, err := w.field(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.bytes(); err != nil {
			t.Fatal(err)
		}
	}
	apiVersion := mustMarshal(t, &runtime.Unknown{TypeMeta: u.TypeMeta})
	head := len(magic) + 2 + int(apiVersion[1])
	for n := range len(u.Raw) + 1 {
		data := binary.AppendUvarint(append([]byte(magic), append(apiVersion[:head-len(magic):head-len(magic)], 2<<3|wireBytes)...), uint64(n))
		data = append(data, u.Raw...)
		g := readList(newDecoder[*carp.Carp](t, Options{}), bytes.NewReader(data), Protobuf)
		if inField := fmt.Sprintf("invalid protobuf: a list of %d bytes ends in a field", n); !ends[n] && g.end != inField {
			t.Errorf("%d bytes of %d: %s, want %s", n, len(u.Raw), g.end, inField)
		} else if ends[n] && strings.Contains(g.end, "ends in a field") {
			t.Errorf("%d bytes of %d, where a field ends: %s", n, len(u.Raw), g.end)
		}
	}
}
