package decode

import (
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// A nest contains itself in every way in which generated types do.
type nest struct {
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	One               *nest           `json:"one,omitempty" protobuf:"bytes,2,opt,name=one"`
	Many              []nest          `json:"many,omitempty" protobuf:"bytes,3,rep,name=many"`
	Named             map[string]nest `json:"named,omitempty" protobuf:"bytes,4,rep,name=named"`
	Any               any             `json:"any,omitempty"`
	Float             float64         `json:"float,omitempty"`
}

func (*nest) Unmarshal([]byte) error { panic("the tags are there to be compiled") }

// nested returns the message of depth nests, each in the given field of the one around it, with
// innermost in the last one.
func nested(depth, field int, innermost []byte) []byte {
	// The length of a message is known only when its content is, so the bytes are written from the
	// end to the start.
	var out []byte
	put := func(b ...byte) {
		for _, v := range slices.Backward(b) {
			out = append(out, v)
		}
	}
	length := func(n int) { put(binary.AppendUvarint(nil, uint64(n))...) }
	put(innermost...)
	for range depth - 1 {
		size := len(out)
		length(size)
		put(byte(field<<3 | wireBytes))
		// Of a map: it is the value of an entry.
		if field == 4 {
			out[len(out)-1] = 2<<3 | wireBytes
			length(len(out))
			put(4<<3 | wireBytes)
		}
	}
	slices.Reverse(out)
	return out
}

// Messages may nest as deep as JSON may, and no deeper: a server must not decide how large the
// stack gets.
func TestProtobufNesting(t *testing.T) {
	meta := []byte{1<<3 | wireBytes, 3, 1<<3 | wireBytes, 1, 'a'}
	for _, share := range []bool{false, true} {
		for field, name := range map[int]string{2: "one", 3: "many", 4: "named"} {
			for depth, fits := range map[int]bool{maxDepth: true, maxDepth + 1: false, 2_000_000: false} {
				if depth > maxDepth+1 && (field != 2 || share) {
					// Once is enough to overflow a stack.
					continue
				}
				d := newDecoder[*nest](t, Options{Share: share})
				o := messageOf(d, append(append([]byte(nil), meta...), nested(depth, field, nil)...))
				switch {
				case fits && o.Err != nil:
					t.Errorf("share %v, %d levels of %q: %v", share, depth, name, o.Err)
				case !fits && (o.Err == nil || !strings.HasSuffix(o.Err.Error(), "invalid protobuf: more than 10000 levels")):
					t.Errorf("share %v, %d levels of %q: error %.200v", share, depth, name, o.Err)
				case !fits && o.Ident.Name != "a":
					t.Errorf("share %v, %d levels of %q: %+v is set aside", share, depth, name, o.Ident)
				}
				// An object that was refused has no effect on the next one.
				if o := messageOf(d, nested(maxDepth, field, nil)); o.Err != nil {
					t.Errorf("share %v, %q after %d levels: %v", share, name, depth, o.Err)
				}
			}
		}
	}
}

// A time in protobuf is decoded as (*metav1.Time).Unmarshal does it.
func TestSeconds(t *testing.T) {
	known := 0
	check := func(data []byte) {
		second, ok := seconds(data)
		if !ok {
			return
		}
		known++
		var want metav1.Time
		if err := want.Unmarshal(data); err != nil || !reflect.DeepEqual(want, metav1.Unix(second, 0)) {
			t.Fatalf("%x: got %v, want %v, error %v", data, metav1.Unix(second, 0), want, err)
		}
	}
	for _, second := range []int64{0, 1, 127, 128, 1700000000, -1, -62135596800, 253402300799, math.MaxInt64, math.MinInt64} {
		data := mustMarshal(t, &metav1.Timestamp{Seconds: second})
		check(data)
		check(mustMarshal(t, &metav1.Timestamp{Seconds: second, Nanos: 5}))
		check(append(data, data...))
		for n := range data {
			check(data[:n])
		}
	}
	// Ten with zero nanoseconds, as servers write them, and ten without any.
	if known != 20 {
		t.Errorf("%d times were known", known)
	}
}

func TestProtobufObjectThatDoesNotFit(t *testing.T) {
	spec := message{}.varint(3, 1) // restartPolicy as a number
	raw := append(fieldOfBytes(1, mustMarshal(t, &newCarp(1).ObjectMeta)), fieldOfBytes(2, spec)...)
	for name, d := range map[string]*Decoder{"compiled": newDecoder[*carp.Carp](t, Options{}), "own": ownUnmarshal(t)} {
		o := messageOf(d, raw)
		want := Ident{Namespace: "ns", Name: "carp-1", UID: "u", ResourceVersion: "101"}
		if o.Err == nil || o.Ident != want {
			t.Errorf("%s: %+v, error %v; want %+v", name, o.Ident, o.Err, want)
		}
	}
}

// FuzzProtobufObject compares the compiled decoder with the generated one. The generated one does
// not check lengths and wire types in the entries of maps. What it reads from such bytes is
// compared as it would write it.
func FuzzProtobufObject(f *testing.F) {
	f.Add(mustMarshal(f, newCarp(1)))
	f.Add(mustMarshal(f, &carp.Carp{}))
	f.Add([]byte{0x0a, 0x00, 0x12, 0x00, 0x0b, 0x0c})
	f.Add([]byte("C\xec\xec\xec\xec\xec\xec0"))
	f.Add(append(mustMarshal(f, newCarp(1)), mustMarshal(f, newCarp(2))...))
	decoders := []*Decoder{newDecoder[*carp.Carp](f, Options{}), newDecoder[*carp.Carp](f, Options{Share: true})}
	f.Fuzz(func(t *testing.T, data []byte) {
		want := &carp.Carp{}
		wantErr := want.Unmarshal(data)
		for _, d := range decoders {
			checkMessage(t, d, data, want, wantErr)
		}
	})
}

// checkMessage checks that d decodes data to what the generated code does. It does so several
// times, because a Decoder guesses from what came before.
func checkMessage(t *testing.T, d *Decoder, data []byte, want *carp.Carp, wantErr error) {
	for i := range 3 {
		if o := messageOf(d, mustMarshal(t, newCarp(i))); o.Err != nil || !reflect.DeepEqual(wantCarp(i), o.Value) {
			t.Fatalf("error %v (-want +got):\n%s", o.Err, cmp.Diff(wantCarp(i), o.Value))
		}
	}
	for range 3 {
		o := messageOf(d, data)
		if wantErr == nil && o.Err != nil {
			data = mustMarshal(t, want)
			want = &carp.Carp{}
			wantErr = want.Unmarshal(data)
			o = messageOf(d, data)
		}
		if (o.Err == nil) != (wantErr == nil) {
			t.Fatalf("got error %v, want %v", o.Err, wantErr)
		}
		if o.Err == nil && !reflect.DeepEqual(want, o.Value) {
			t.Fatalf("(-want +got):\n%s", cmp.Diff(want, o.Value))
		}
	}
}
