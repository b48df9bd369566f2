package stress

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/go-lw/lw/internal/decode"
)

// stream decodes a list, a watch or a watch that begins with a list. Some are cut off, and some end
// because nobody wants more.
func (s *session) stream(enc decode.Encoding, near int) {
	all := make([]*item, 1+s.Intn(60))
	for i := range all {
		all[i] = s.pick(near)
	}
	form := s.Intn(3)
	var data []byte
	if form == 0 {
		data = s.list(enc, all)
	} else {
		data = s.watch(enc, all, form == 2)
	}
	cut, last := s.Intn(12) == 0, -1
	if cut {
		data = data[:s.Intn(len(data))]
	}
	if s.Intn(15) == 0 {
		last = s.Intn(len(all))
	}
	n := 0
	yield := func(o decode.Object) error {
		if n == len(all) {
			s.failf("more than %d objects", n)
			return errStopped
		}
		s.check(o, all[n], enc)
		if n++; n-1 == last || s.t.Failed() {
			return errStopped
		}
		return nil
	}
	event := func(e decode.Event) error {
		if e.Type == "BOOKMARK" {
			return nil
		}
		return yield(e.Object)
	}
	r := &pieces{rng: rand.New(rand.NewSource(s.Int63())), data: data, whole: s.Intn(3) == 0}
	var err error
	switch form {
	case 0:
		_, err = s.d.List(r, enc, yield)
	case 1:
		err = s.d.Watch(r, enc, event)
	default:
		err = s.d.WatchList(r, enc, event)
	}
	s.streams.Add(1)
	if !cut && last < 0 && (err != nil || n != len(all)) {
		s.failf("form %d, encoding %d: error %v after %d of %d", form, enc, err, n, len(all))
	}
}

// list returns the list of items.
func (s *session) list(enc decode.Encoding, all []*item) []byte {
	var b bytes.Buffer
	switch enc {
	case decode.Protobuf:
		meta := must((&metav1.ListMeta{ResourceVersion: "9", Continue: "c"}).Marshal())
		msg := withLength(1, meta)
		for _, it := range all {
			msg = append(msg, withLength(2, it.raw[enc])...)
		}
		return s.envelope(s.kind.name+"List", msg)
	case decode.CBOR:
		b.WriteString("\xd9\xd9\xf7\xa4")
		for _, v := range []any{"kind", s.kind.name + "List", "apiVersion", s.kind.version, "metadata",
			map[string]any{"resourceVersion": "9", "continue": "c"}, "items"} {
			b.Write(must(direct.Marshal(v)))
		}
		b.WriteByte(0x9f)
		for _, it := range all {
			b.Write(it.raw[enc])
		}
		b.WriteByte(0xff)
	default:
		fmt.Fprintf(&b, `{"kind":"%sList","apiVersion":"%s","metadata":{"resourceVersion":"9","continue":"c"},"items":[`,
			s.kind.name, s.kind.version)
		for i, it := range all {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(it.raw[enc])
		}
		b.WriteString("]}\n")
	}
	return b.Bytes()
}

// watch returns the events of items. Half of them are initial ones if it begins with a list.
func (s *session) watch(enc decode.Encoding, all []*item, list bool) []byte {
	var b bytes.Buffer
	for i, it := range all {
		typ := []string{"ADDED", "MODIFIED", "DELETED"}[s.Intn(3)]
		if list && i == len(all)/2 {
			b.Write(event(enc, s.kind, "BOOKMARK", bookmark(enc, s.kind, 7)))
		}
		if list && i < len(all)/2 {
			typ = "ADDED"
		}
		b.Write(event(enc, s.kind, typ, it.raw[enc]))
	}
	return b.Bytes()
}

// bookmark returns the object of the bookmark that ends the initial events.
func bookmark(enc decode.Encoding, k kind, version int) []byte {
	m := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: k.name, APIVersion: k.version},
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(version),
			Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	if enc == decode.Protobuf {
		return must(m.Marshal())
	}
	text := must(json.Marshal(m))
	if enc == decode.CBOR {
		var v any
		_ = utiljson.Unmarshal(text, &v)
		return must(direct.Marshal(v))
	}
	return text
}

// event returns an event of a watch.
func event(enc decode.Encoding, k kind, typ string, raw []byte) []byte {
	switch enc {
	case decode.Protobuf:
		e := must((&metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: k.envelope(k.name, raw)}}).Marshal())
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(e))), e...)
	case decode.CBOR:
		b := []byte{0xa2}
		for _, s := range []string{"type", typ, "object"} {
			b = append(b, must(direct.Marshal(s))...)
		}
		return append(b, raw...)
	}
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", typ, raw)
}

func (s *session) envelope(name string, raw []byte) []byte { return s.kind.envelope(name, raw) }

// envelope returns a message of that kind as servers send it.
func (k kind) envelope(name string, raw []byte) []byte {
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: name, APIVersion: k.version}, Raw: raw}
	return append([]byte("k8s\x00"), must(u.Marshal())...)
}

func withLength(field byte, b []byte) []byte {
	return append(binary.AppendUvarint([]byte{field<<3 | 2}, uint64(len(b))), b...)
}

// pieces is a stream that comes in pieces.
type pieces struct {
	rng   *rand.Rand
	data  []byte
	whole bool
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := len(b)
	if !p.whole {
		n = min(n, 1+p.rng.Intn(4000))
		if p.rng.Intn(10) == 0 {
			n = 1
		}
	}
	n = copy(b[:n], p.data)
	p.data = p.data[n:]
	return n, nil
}
