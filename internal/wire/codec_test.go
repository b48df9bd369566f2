package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/internal/wire"
)

// sizes are such that lengths have one byte, two and more.
var sizes = []int{0, 1, 20, 60, 63, 64, 120, 8000, 9000, 40000}

// TestEvents reads a stream with apimachinery's framers and decoders.
func TestEvents(t *testing.T) {
	for name, e := range encodings {
		t.Run(name, func(t *testing.T) {
			c := wire.NewCodec(wire.Format{Encoding: e.Encoding}, podKind, nil)
			var stream []byte
			var want []string
			add := func(event watch.EventType, object []byte, line string) {
				before := len(stream)
				stream = c.AppendEvent(stream, event, object)
				if got := len(stream) - before; got != c.EventSize(event, len(object)) {
					t.Errorf("%s has %d bytes, EventSize says %d", line, got, c.EventSize(event, len(object)))
				}
				head := len(c.AppendEventHead(nil, event, len(object)))
				if inside := stream[before+head:][:len(object)]; !bytes.Equal(inside, object) {
					t.Errorf("%s: the object is not at %d", line, head)
				}
				want = append(want, line)
			}
			for i, n := range sizes {
				event := []watch.EventType{watch.Added, watch.Modified, watch.Deleted}[i%3]
				obj := pod("a", n)
				add(event, e.bytesOf(t, obj), string(event)+" "+describe(obj, &schema.GroupVersionKind{Version: "v1", Kind: "Pod"}))
			}
			add(watch.Bookmark, c.Bookmark(1<<63, false), "BOOKMARK v1 Pod @9223372036854775808")
			add(watch.Bookmark, c.Bookmark(9, true), "BOOKMARK v1 Pod @9 end")
			stream = c.AppendErrorEvent(stream, wire.Status(errors.New("oops")))
			want = append(want, "ERROR v1 Status 500 InternalError: Internal error occurred: oops")
			rig.Same(t, "events", want, e.read(t, stream))
		})
	}
}

// read returns the events of a stream.
func (e encoding) read(t *testing.T, stream []byte) (lines []string) {
	t.Helper()
	decoder := streaming.NewDecoder(e.frames(io.NopCloser(bytes.NewReader(stream))), e.event)
	for {
		var ev metav1.WatchEvent
		_, _, err := decoder.Decode(&schema.GroupVersionKind{Version: "v1", Kind: "WatchEvent"}, &ev)
		if err == io.EOF {
			return lines
		}
		if err != nil {
			t.Fatalf("after %q: %v", lines, err)
		}
		obj, kind, err := e.object.Decode(ev.Object.Raw, nil, nil)
		rig.OK(t, err)
		lines = append(lines, ev.Type+" "+describe(obj, kind))
	}
}

// TestPartialEvents checks that bookmarks have the kind of the objects beside them.
func TestPartialEvents(t *testing.T) {
	for name, e := range encodings {
		c := wire.NewCodec(wire.Format{Encoding: e.Encoding, Shape: wire.Partial}, podKind, nil)
		obj := pod("a", 1)
		obj.TypeMeta = c.Kind()
		stream := c.AppendEvent(nil, watch.Added, e.bytesOf(t, obj))
		stream = c.AppendEvent(stream, watch.Bookmark, c.Bookmark(9, true))
		want := []string{"ADDED meta.k8s.io/v1 PartialObjectMetadata a@7 1",
			"BOOKMARK meta.k8s.io/v1 PartialObjectMetadata @9 end"}
		rig.Same(t, name, want, e.read(t, stream))
	}
}

// TestJSONEvent pins that an event is one line.
func TestJSONEvent(t *testing.T) {
	c := wire.NewCodec(wire.Format{}, podKind, nil)
	got := string(c.AppendEvent(nil, watch.Added, []byte(`{"x":1}`)))
	rig.Same(t, "event", `{"type":"ADDED","object":{"x":1}}`+"\n", got)
	for shape := wire.Full; shape <= wire.Table; shape++ {
		bookmark := wire.NewCodec(wire.Format{Shape: shape}, podKind, nil).Bookmark(1, true)
		if bytes.ContainsAny(bookmark, "\n") || !json.Valid(bookmark) {
			t.Errorf("bookmark: %q", bookmark)
		}
	}
}

// TestProtobufBytes compares with apimachinery's own encoder to the byte.
func TestProtobufBytes(t *testing.T) {
	e := encodings["protobuf"]
	c := wire.NewCodec(wire.Format{Encoding: wire.Protobuf}, podKind, nil)
	for _, n := range sizes {
		obj := pod("a", n)
		var want bytes.Buffer
		rig.OK(t, e.object.Encode(obj, &want))
		got := c.AppendObject([]byte("before"), e.bytesOf(t, obj))
		if !bytes.Equal(got, append([]byte("before"), want.Bytes()...)) {
			t.Errorf("size %d: %d bytes differ from apimachinery's %d", n, len(got), want.Len())
		}
	}
}

// TestObjects reads single objects with apimachinery's decoders.
func TestObjects(t *testing.T) {
	for name, e := range encodings {
		for _, n := range sizes {
			obj := pod("a", n)
			c := wire.NewCodec(wire.Format{Encoding: e.Encoding}, podKind, nil)
			got, kind, err := e.object.Decode(c.AppendObject(nil, e.bytesOf(t, obj)), nil, nil)
			rig.OK(t, err)
			pod := &schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
			rig.Same(t, fmt.Sprintf("%s, size %d", name, n), describe(obj, pod), describe(got, kind))
		}
	}
}

// TestEventAllocates checks that events cost no allocation beside their bytes.
func TestEventAllocates(t *testing.T) {
	for name, e := range encodings {
		c := wire.NewCodec(wire.Format{Encoding: e.Encoding}, podKind, nil)
		object := e.bytesOf(t, pod("a", 1000))
		buf := make([]byte, 0, 2*len(object))
		if n := testing.AllocsPerRun(100, func() {
			buf = c.AppendEvent(buf[:0], watch.Modified, object)
			if len(buf) != c.EventSize(watch.Modified, len(object)) {
				t.Error("another size")
			}
			buf = c.AppendItemHead(buf[:0], false, len(object))
		}); n != 0 {
			t.Errorf("%s: an event and an item have %v allocations, want none", name, n)
		}
	}
}

// TestTable reads tables as kubectl does.
func TestTable(t *testing.T) {
	columns := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name"}}
	c := wire.NewCodec(wire.Format{Shape: wire.Table}, podKind, columns)
	meta := &metav1.ListMeta{ResourceVersion: "9"}
	row := []byte(`{"cells":["a"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}}`)
	list := c.AppendListHead(nil, meta, wire.Total{})
	for i := range 2 {
		list = append(c.AppendItemHead(list, i == 0, len(row)), row...)
	}
	list = append(list, c.ListTail()...)
	for _, tt := range []struct {
		name    string
		data    []byte
		columns []metav1.TableColumnDefinition
		rows    int
		rv      string
	}{
		{"list", list, columns, 2, "9"},
		{"first object", c.AppendTable(nil, meta, true, row), columns, 1, "9"},
		{"next object", c.AppendTable(nil, meta, false, row), nil, 1, "9"},
		{"bookmark", c.Bookmark(8, true), nil, 1, "8"},
	} {
		var table metav1.Table
		rig.OK(t, json.Unmarshal(tt.data, &table))
		want := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"}
		if table.TypeMeta != want || table.ResourceVersion != tt.rv || len(table.Rows) != tt.rows {
			t.Errorf("%s: version %q, %d rows, kind %v", tt.name, table.ResourceVersion, len(table.Rows), table.TypeMeta)
		}
		rig.Same(t, fmt.Sprintf("%s: columns", tt.name), tt.columns, table.ColumnDefinitions)
		if !strings.Contains(string(table.Rows[0].Object.Raw), "PartialObjectMetadata") {
			t.Errorf("%s: the row's object is %s", tt.name, table.Rows[0].Object.Raw)
		}
	}
}

// listOf writes a list as a server does, from items that it never gathers.
func listOf(t *testing.T, c *wire.Codec, meta *metav1.ListMeta, items [][]byte) []byte {
	t.Helper()
	var total wire.Total
	for _, item := range items {
		total = c.Add(total, len(item))
	}
	list := c.AppendListHead(nil, meta, total)
	length := c.ListLength(len(list), total)
	for i, item := range items {
		list = append(c.AppendItemHead(list, i == 0, len(item)), item...)
	}
	list = append(list, c.ListTail()...)
	if int64(len(list)) != length {
		t.Errorf("a list of %d items has %d bytes, ListLength says %d", len(items), len(list), length)
	}
	return list
}

// TestLists reads lists with apimachinery's decoders, and compares their lengths with those said
// before.
func TestLists(t *testing.T) {
	meta := metav1.ListMeta{ResourceVersion: "9", Continue: "token", RemainingItemCount: new(int64(5))}
	for name, e := range encodings {
		for _, shape := range []wire.Shape{wire.Full, wire.Partial} {
			c := wire.NewCodec(wire.Format{Encoding: e.Encoding, Shape: shape}, podKind, nil)
			for _, n := range []int{0, 1, 2, 23, 24, 300} {
				want := &metav1.PartialObjectMetadataList{ListMeta: meta}
				want.APIVersion, want.Kind = c.Kind().APIVersion, c.Kind().Kind+"List"
				var items [][]byte
				for i := range n {
					obj := pod(fmt.Sprint("pod-", i), i%200)
					obj.TypeMeta = c.Kind()
					items = append(items, e.bytesOf(t, obj))
					if e.Encoding == wire.Protobuf {
						obj.TypeMeta = metav1.TypeMeta{} // is only in the envelope of the list
					}
					want.Items = append(want.Items, *obj)
				}
				if n == 0 && e.Encoding != wire.Protobuf {
					want.Items = []metav1.PartialObjectMetadata{} // as in a list of JSON: not null
				}
				list := listOf(t, c, &meta, items)
				got, _, err := e.object.Decode(list, nil, nil)
				rig.OK(t, err)
				if e.Encoding == wire.Protobuf {
					var bytesWanted bytes.Buffer
					rig.OK(t, e.object.Encode(want, &bytesWanted))
					if !bytes.Equal(list, bytesWanted.Bytes()) {
						t.Errorf("%d items: %d bytes differ from apimachinery's %d", n, len(list), bytesWanted.Len())
					}
				}
				got.GetObjectKind().SetGroupVersionKind(want.GroupVersionKind())
				rig.Same[any](t, fmt.Sprintf("%s, %d items", name, n), want, got)
			}
		}
	}
}

// TestCBORNumber compares how a list in CBOR says how many items follow with what apimachinery
// does.
func TestCBORNumber(t *testing.T) {
	c := wire.NewCodec(wire.Format{Encoding: wire.CBOR}, podKind, nil)
	for _, n := range []int{0, 23, 24, 255, 256, 65535, 65536} {
		array := rig.Must[[]byte](t)(direct.Marshal(make([]bool, n)))
		if head := c.AppendListHead(nil, &metav1.ListMeta{}, wire.Total{Items: n}); !bytes.HasSuffix(head,
			array[:len(array)-n]) {
			t.Errorf("%d items: the head ends with % x, want % x", n, head[len(head)-5:], array[:len(array)-n])
		}
	}
}

// TestJSONList pins what a list looks like to the byte.
func TestJSONList(t *testing.T) {
	c := wire.NewCodec(wire.Format{}, metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, nil)
	got := listOf(t, c, &metav1.ListMeta{ResourceVersion: "9"}, [][]byte{[]byte(`{"a":1}`), []byte(`{"b":2}`)})
	const want = `{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{"resourceVersion":"9"},"items":[{"a":1},{"b":2}]}` + "\n"
	rig.Same(t, "list", want, string(got))
}

// Bytes that are no JSON object are an error, and no panic.
func TestNoMembers(t *testing.T) {
	for _, data := range []string{"", " \n", "x", `"a"`, "[]", `["a":1]`, `["a":1}`, "{", `{"a"`, `{"a":`, `{"a":1`,
		`{"a":1,`, `{"a":1 `, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":"`, `{"a":{`} {
		if err := wire.Members([]byte(data), 0, func([]byte, int, int) bool { return true }); err != wire.ErrNotObject {
			t.Errorf("members of %q: %v", data, err)
		}
	}
}

// The first member of a name is found, and a walk ends where it is told to.
func TestFindMember(t *testing.T) {
	const data = ` {"a":{"b":1}, "b":"\"}" ,"b":2,"c":-3}`
	for name, want := range map[string]string{"a": `{"b":1}`, "b": `"\"}"`, "c": "-3", "d": ""} {
		from, to, err := wire.FindMember([]byte(data), 0, name)
		if got := data[from:to]; got != want || err != nil {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
	seen := ""
	rig.OK(t, wire.Walk([]byte(data), 0, func(name []byte, from int) int {
		seen += string(name)
		return wire.Stop
	}))
	rig.Same(t, "what a walk sees that ends at once", "a", seen)
}

// What Members finds in any bytes is what encoding/json finds, and it never panics.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1,"b":{"c":[1,"]"]}}`, ` { "a" : "\\\"" , "b":null } `, `{"a":}`, `{"a":"`, `[`,
		`{"a":1 "b":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := map[string]string{}
		err := wire.Members(data, 0, func(name []byte, from, to int) bool {
			got[string(name)] = string(data[from:to])
			return true
		})
		var want map[string]json.RawMessage
		if json.Unmarshal(data, &want) != nil || want == nil {
			return
		}
		if err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		for raw, value := range got {
			var name string
			rig.OK(t, json.Unmarshal([]byte(`"`+raw+`"`), &name))
			if string(want[name]) != value && len(got) == len(want) {
				t.Fatalf("%q is %s, want %s", name, value, want[name])
			}
		}
	})
}
