package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// Only a bookmark whose annotation says "true" ends the initial events.
func TestEndAnnotation(t *testing.T) {
	for value, end := range map[string]bool{"true": true, "false": false, "": false, "True": false, "1": false} {
		meta := metav1.ObjectMeta{ResourceVersion: "5", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: value}}
		want := []Event{{Type: "BOOKMARK", ResourceVersion: "5", InitialEventsEnd: end}}
		for enc, data := range map[Encoding][]byte{
			JSON:     fmt.Appendf(nil, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{%q:%q}}}}`, metav1.InitialEventsAnnotationKey, value),
			Protobuf: frameOf(t, "BOOKMARK", protobufOf(t, &carp.Carp{ObjectMeta: meta})),
		} {
			for _, list := range []bool{false, true} {
				d := newDecoder[*carp.Carp](t, Options{})
				read := d.Watch
				if list {
					read = d.WatchList
				}
				var got []Event
				err := read(bytes.NewReader(data), enc, func(e Event) error { got = append(got, e); return nil })
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("%v, %q: %v (-want +got):\n%s", enc, value, err, diff)
				}
			}
		}
	}
}

// bytesField is a field of a protobuf message, which says that it has so many bytes.
func bytesField(num int, n int, data []byte) []byte {
	out := binary.AppendUvarint(nil, uint64(num)<<3|2)
	return append(binary.AppendUvarint(out, uint64(n)), data...)
}

// A list that is said to end in the middle of a field is broken, wherever that is, and however much comes behind.
func TestProtobufListThatEndsInAField(t *testing.T) {
	list := &carp.CarpList{ListMeta: metav1.ListMeta{ResourceVersion: "77"}, Items: []carp.Carp{*newCarp(1), *newCarp(2)}}
	raw, err := list.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	// The list's metadata, then its items.
	whole := map[int]bool{0: true}
	for at := 0; at < len(raw); {
		_, size := binary.Uvarint(raw[at+1:])
		n, _ := binary.Uvarint(raw[at+1:])
		at += 1 + size + int(n)
		whole[at] = true
	}
	d := newDecoder[*carp.Carp](t, Options{})
	for n := range len(raw) + 1 {
		kind := bytesField(2, len("CarpList"), []byte("CarpList"))
		data := append([]byte("k8s\x00"), bytesField(1, len(kind), kind)...)
		data = append(data, bytesField(2, n, raw)...)
		items := 0
		_, err := d.List(bytes.NewReader(data), Protobuf, func(Object) error { items++; return nil })
		if whole[n] && n < len(raw) {
			continue // what follows is taken for fields of the envelope
		}
		if (err == nil) != (n == len(raw)) {
			t.Fatalf("a list of %d bytes that is said to have %d: %d items, error %v", len(raw), n, items, err)
		}
	}
}

// A stream that ends too early is an error wherever it ends: never a shorter list.
func TestCutProtobufList(t *testing.T) {
	data := carpList(t, 3)
	d := newDecoder[*carp.Carp](t, Options{})
	for n := range len(data) - 16 { // what comes last are fields of the envelope that nobody needs
		items := 0
		if _, err := d.List(bytes.NewReader(data[:n]), Protobuf, func(Object) error { items++; return nil }); err == nil {
			t.Fatalf("%d of %d bytes are a list of %d", n, len(data), items)
		}
	}
}

// What yield returns ends a list and a watch, as it is.
func TestYieldEnds(t *testing.T) {
	stop := errors.New("enough")
	event := `{"type":"ADDED","object":` + sinkA + "}\n"
	d := newDecoder[*sink](t, Options{})
	for name, read := range map[string]func(n int) error{
		"list": func(n int) error {
			_, err := d.List(strings.NewReader(`{"kind":"SinkList","items":[`+sinkA+","+sinkA+","+sinkA+`]}`), JSON, func(Object) error { return countdown(&n, stop) })
			return err
		},
		"watch": func(n int) error {
			return d.Watch(strings.NewReader(event+event+event), JSON, func(Event) error { return countdown(&n, stop) })
		},
	} {
		for n := range 4 {
			if err := read(n); !errors.Is(err, stop) && n < 3 || err != nil && n == 3 {
				t.Errorf("%s, ended at %d: %v", name, n, err)
			}
		}
	}
}

func countdown(n *int, err error) error {
	if *n == 0 {
		return err
	}
	*n--
	return nil
}
