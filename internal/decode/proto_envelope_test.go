package decode

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// unknownFields are fields that nobody knows.
var unknownFields = map[string]message{"bytes": message{}.bytes(9, "x"), "varint": message{}.varint(9, 1), "fixed32": message{}.fixed32(9, 1), "fixed64": message{}.fixed64(9, 1)}

// A broken field of the envelope is an error too, before the list and behind it.
func TestBrokenEnvelopes(t *testing.T) {
	whole := carpList(t, 2)
	d := newDecoder[*carp.Carp](t, Options{})
	list := func(data []byte) (items int, err error) {
		_, err = d.List(bytes.NewReader(data), Protobuf, func(Object) error { items++; return nil })
		return items, err
	}
	for name, behind := range map[string]string{"a tag that ends": "\x80", "a length that ends": "\x12\x80", "a field that ends": "\x1a\x05x", "no field": "\x00"} {
		if n, err := list(append(slices.Clone(whole), behind...)); err == nil {
			t.Errorf("%s behind a list of %d items is no error", name, n)
		}
	}
	for name, behind := range unknownFields {
		if n, err := list(append(slices.Clone(whole), behind...)); err != nil || n != 2 {
			t.Errorf("%s behind a list: %d items, error %v", name, n, err)
		}
		front := append(append([]byte("k8s\x00"), behind...), whole[4:]...)
		if n, err := list(front); err != nil || n != 2 {
			t.Errorf("%s before a list: %d items, error %v", name, n, err)
		}
	}
}

// What a newer server may add to the frame of an event is skipped.
func TestUnknownFieldsOfFrames(t *testing.T) {
	d := newDecoder[*carp.Carp](t, Options{})
	whole := frameOf(t, "ADDED", protobufOf(t, newCarp(1)))[4:]
	for name, more := range unknownFields {
		for _, frame := range [][]byte{append(slices.Clone(more), whole...), append(slices.Clone(whole), more...)} {
			ev, err := d.decodeProtobufFrame(frame, 0)
			if err != nil || ev.Object.Err != nil {
				t.Errorf("%s: errors %v and %v", name, err, ev.Object.Err)
				continue
			}
			if diff := cmp.Diff(wantCarp(1), ev.Object.Value); diff != "" || ev.Type != "ADDED" {
				t.Errorf("%s: %s event (-want +got):\n%s", name, ev.Type, diff)
			}
		}
	}
}
