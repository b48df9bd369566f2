package decode

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/verify/leak"
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

// nested returns the message of depth nests, each in that field of the one around it.
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

// Messages nest no deeper than JSON: a server must not decide how large the stack gets.
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
	for _, second := range []int64{0, 1, 127, 128, 1700000000, -1, -62135596800, 253402300799, math.MaxInt64,
		math.MinInt64} {
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
	leak.Collect(f, time.Millisecond)
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

func largeCarp() *carp.Carp {
	c := newCarp(1)
	c.Spec.Hostname, c.Spec.Subdomain = strings.Repeat("h", 60), "s"
	return c
}

// plainCarps returns a decoder that makes no templates.
var plainCarps = sync.OnceValues(func() (*Decoder, error) { return New(reflect.TypeFor[*carp.Carp](), Options{}) })

// checkCarp decodes a message with templates, without them, and as apimachinery does, and returns
// the first object. Of a wrong message apimachinery may make an object, as of a map's entry of
// another wire type.
func checkCarp(t fataler, d *Decoder, data []byte) *carp.Carp {
	t.Helper()
	plain := must[*Decoder](t)(plainCarps())
	o, want := messageOf(d, data), messageOf(plain, data)
	if diff := cmp.Diff(want.Value, o.Value); diff != "" || fmt.Sprint(o.Err) != fmt.Sprint(want.Err) {
		t.Fatalf("%q: error %v, want %v (-want +got):\n%s", data, o.Err, want.Err, diff)
	}
	if o.Err != nil {
		return nil
	}
	of := &carp.Carp{}
	ok(t, of.Unmarshal(data))
	checkDiff(t, fmt.Sprintf("%q", data), of, o.Value.(*carp.Carp))
	return o.Value.(*carp.Carp)
}

// What a template makes of a message is what apimachinery makes of it.
func TestWireTemplateFits(t *testing.T) {
	long := strings.Repeat("long", 40) // its length has two bytes
	for name, tt := range map[string]struct {
		part   string
		change func(c *carp.Carp)
		fits   bool
	}{
		"nothing":         {"spec", func(*carp.Carp) {}, true},
		"a string":        {"spec", func(c *carp.Carp) { c.Spec.Subdomain = "t" }, true},
		"a longer string": {"spec", func(c *carp.Carp) { c.Spec.Subdomain = long }, true},
		"an empty string": {"spec", func(c *carp.Carp) { c.Spec.Hostname = "" }, true},
		"a truth value":   {"spec", func(c *carp.Carp) { c.Spec.HostPID = false }, true},
		"a longer number": {"spec", func(c *carp.Carp) { *c.Spec.TerminationGracePeriodSeconds = 1 << 40 }, true},
		"a map":           {"spec", func(c *carp.Carp) { c.Spec.NodeSelector["os"] = "windows" }, true},
		"an entry more":   {"spec", func(c *carp.Carp) { c.Spec.NodeSelector["arch"] = long }, true},
		"an element":      {"status", func(c *carp.Carp) { c.Status.Infos[1].B = long }, true},
		"no entry":        {"spec", func(c *carp.Carp) { c.Spec.NodeSelector = nil }, false},
		"an element more": {"status", func(c *carp.Carp) { c.Status.Infos = append(c.Status.Infos, carp.CarpInfo{}) },
			false},
		"an element less": {"status", func(c *carp.Carp) { c.Status.Infos = c.Status.Infos[:1] }, false},
		"no pointer":      {"status", func(c *carp.Carp) { c.Status.StartTime = nil }, false},
		"a time": {"status",
			func(c *carp.Carp) { c.Status.StartTime = &metav1.Time{Time: c.CreationTimestamp.Add(1 << 40)} }, true},
		"a string in a pointer": {"status", func(c *carp.Carp) { *c.Status.Infos[0].C = long }, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTemplater[*carp.Carp](t, Options{})
			first := checkCarp(t, d, mustMarshal(t, largeCarp()))
			was := first.DeepCopy()
			ts := templatesFor(t, d, tt.part)
			if len(ts.all) != 1 {
				t.Fatalf("%d templates", len(ts.all))
			}
			c := largeCarp()
			tt.change(c)
			credit := ts.credit
			checkCarp(t, d, mustMarshal(t, c))
			if fitted := ts.credit > credit; fitted != tt.fits {
				t.Errorf("it fits: %v", fitted)
			}
			// Often enough for blocks.
			for range blocksFrom {
				checkCarp(t, d, mustMarshal(t, largeCarp()))
			}
			checkCarp(t, d, mustMarshal(t, c))
			if diff := cmp.Diff(was, first); diff != "" {
				t.Errorf("the first object has changed (-was +is):\n%s", diff)
			}
		})
	}
}

// Messages with lengths that do not fit are what apimachinery makes of them.
func TestWireTemplateLengths(t *testing.T) {
	d := newTemplater[*carp.Carp](t, Options{})
	whole := mustMarshal(t, largeCarp())
	checkCarp(t, d, whole)
	for i := range whole {
		for _, by := range []byte{1, 2, 0x7f, 0xff} {
			data := slices.Clone(whole)
			data[i] += by
			checkCarp(t, d, data)
		}
		if i%3 == 0 {
			checkCarp(t, d, whole[:i])
		}
	}
	if ts := templatesFor(t, d, "spec"); len(ts.all) == 0 {
		t.Error("no template is left")
	}
}

// Objects that were made by one template share no memory, before it has blocks and after that.
func TestWireTemplateSharesNothing(t *testing.T) {
	d := newTemplater[*carp.Carp](t, Options{})
	data := mustMarshal(t, largeCarp())
	owner := map[uintptr]int{}
	var all []*carp.Carp // no memory is used again
	for i := range 2 * blocksFrom {
		c := checkCarp(t, d, data)
		all = append(all, c)
		checkOwner(t, owner, i, c)
		if n := cap(c.Status.Infos); n != 2 {
			t.Errorf("capacity %d of 2", n)
		}
		// Nobody sees what the owner of an object does with it.
		c.Status.Infos[0].B, *c.Status.Infos[0].C, c.Spec.NodeSelector["os"] = "mine", "mine", "mine"
		*c.OwnerReferences[0].Controller = false
	}
	runtime.KeepAlive(all)
	if ts := templatesFor(t, d, "status"); ts.credit == 0 || ts.all[0].blocks == nil {
		t.Error("they were not made by a template with blocks")
	}
}

// A field that comes twice, an unknown one and a wrong one make no template.
func TestNoWireTemplate(t *testing.T) {
	var m message
	for name, extra := range map[string]message{
		"nothing": m, "a string twice": m.bytes(10, "x"), "a number twice": m.varint(12, 0),
		"a pointer twice": m.varint(4, 9), "an unknown field": m.varint(99, 1), "a high number": m.varint(1<<20, 1),
		"another wire type":  m.varint(8, 1),
		"the end of a group": m.tag(8, wireEnd),
	} {
		t.Run(name, func(t *testing.T) {
			d := newTemplater[*carp.Carp](t, Options{})
			spec := append(mustMarshal(t, &largeCarp().Spec), extra...)
			for range 3 {
				checkCarp(t, d, m.bytes(1, string(m.bytes(1, "a"))).bytes(2, string(spec)))
			}
			if ts := templatesFor(t, d, "spec"); (len(ts.all) != 0) != (extra == nil) {
				t.Errorf("%d templates", len(ts.all))
			}
		})
	}
}

// Messages that have much in common are decoded as apimachinery decodes each.
func TestWireTemplateModel(t *testing.T) {
	d := newTemplater[*carp.Carp](t, Options{})
	rapid.Check(t, func(t *rapid.T) {
		forgetTemplates(d)
		c := largeCarp()
		type shown struct{ is, was *carp.Carp }
		var all []shown
		for range rapid.IntRange(2, 20).Draw(t, "objects") {
			if rapid.IntRange(0, 2).Draw(t, "changes") == 0 {
				changeCarp(t, c)
			}
			c.Name = fmt.Sprint("name-", rapid.IntRange(0, 200).Draw(t, "name"))
			c.Spec.NodeName = strings.Repeat("n", rapid.SampledFrom([]int{0, 1, 5, 127, 128, 300}).Draw(t, "length"))
			c.Status.Phase = carp.CarpPhase(rapid.SampledFrom([]string{"", "Running", "Failed"}).Draw(t, "phase"))
			data := mustMarshal(t, c)
			switch rapid.IntRange(0, 5).Draw(t, "bytes") {
			case 0:
				data[rapid.IntRange(0, len(data)-1).Draw(t, "at")] ^= rapid.Byte().Draw(t, "with")
			case 1:
				data = data[:rapid.IntRange(0, len(data)).Draw(t, "end")]
			case 2:
				data = append(data, mustMarshal(t, largeCarp())...)
			}
			if got := checkCarp(t, d, data); got != nil {
				all = append(all, shown{got, got.DeepCopy()})
			}
		}
		for i, s := range all {
			if diff := cmp.Diff(s.was, s.is); diff != "" {
				t.Fatalf("object %d has changed (-was +is):\n%s", i, diff)
			}
		}
	})
}
