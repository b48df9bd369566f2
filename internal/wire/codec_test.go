package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/rig"
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
			if diff := cmp.Diff(want, e.read(t, stream)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
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
		if err != nil {
			t.Fatal(err)
		}
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
		want := []string{"ADDED meta.k8s.io/v1 PartialObjectMetadata a@7 1", "BOOKMARK meta.k8s.io/v1 PartialObjectMetadata @9 end"}
		rig.Same(t, name, want, e.read(t, stream))
	}
}

// TestJSONEvent pins that an event is one line.
func TestJSONEvent(t *testing.T) {
	c := wire.NewCodec(wire.Format{}, podKind, nil)
	got := string(c.AppendEvent(nil, watch.Added, []byte(`{"x":1}`)))
	if diff := cmp.Diff(`{"type":"ADDED","object":{"x":1}}`+"\n", got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
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
			if err != nil {
				t.Errorf("%s, size %d: %v", name, n, err)
				continue
			}
			if diff := cmp.Diff(describe(obj, kind), describe(got, kind)); diff != "" || kind.Kind != "Pod" {
				t.Errorf("%s, size %d (-want +got):\n%s", name, n, diff)
			}
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
		if err := json.Unmarshal(tt.data, &table); err != nil {
			t.Errorf("%s: %v in %s", tt.name, err, tt.data)
			continue
		}
		want := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"}
		if diff := cmp.Diff(want, table.TypeMeta); diff != "" || table.ResourceVersion != tt.rv || len(table.Rows) != tt.rows {
			t.Errorf("%s: version %q, %d rows, kind (-want +got):\n%s", tt.name, table.ResourceVersion, len(table.Rows), diff)
		}
		rig.Same(t, fmt.Sprintf("%s: columns", tt.name), tt.columns, table.ColumnDefinitions)
		if !strings.Contains(string(table.Rows[0].Object.Raw), "PartialObjectMetadata") {
			t.Errorf("%s: the row's object is %s", tt.name, table.Rows[0].Object.Raw)
		}
	}
}
