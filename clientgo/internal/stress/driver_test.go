package stress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	randv2 "math/rand/v2"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/decode/prune"
)

// counts says what all sessions have done.
type counts struct{ sessions, objects, again, lent, spoilt, stopped, passed, streams atomic.Int64 }

// A message is an object that is written in protobuf.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// An item is an object in each encoding, and what apimachinery makes of it.
type item struct {
	name, version string
	shape         int
	raw           [3][]byte // by encoding; in protobuf without the envelope
	want          [3]any
	err           [3]error
}

// A session is what one decoder decodes: a few hundred objects of a few shapes, in random order, for
// so long that templates are made, moved to blocks, and replaced.
type session struct {
	*gen
	t         *testing.T
	what      string // it was, for a failure
	kind      kind
	opts      decode.Options
	d         *decode.Decoder
	encodings []decode.Encoding
	shapes    int
	items     []*item

	lends    bool
	versions sync.Map // []any by name: the last ones that were decoded
	asked    atomic.Int64

	// quick says that the decoder makes templates for nearly all objects, and that a part of them is
	// compared, which takes longer than to decode them.
	quick bool

	passing, spoiling, stopping bool
	// kept are objects to look at again, each in the place of one that was kept before; none are
	// kept if it has no places.
	kept []struct{ got, want any }
	next int

	*counts
}

var errStopped = errors.New("stopped")

// newSession makes all that is random from the seed.
func newSession(t *testing.T, seed int64, c *counts) *session {
	s := &session{gen: &gen{Rand: rand.New(rand.NewSource(seed))}, t: t, counts: c}
	s.kind = kinds[s.Intn(len(kinds))]
	s.noZero = s.kind.projected
	into := reflect.PointerTo(s.kind.into)
	whole := decode.Options{Share: s.Intn(4) == 0, Workers: []int{-1, -1, -1, 2}[s.Intn(4)],
		Kinds: decode.NewKinds(into, s.kind.name)}
	if s.quick = s.Intn(2) == 0; s.quick {
		whole.Share, whole.Workers = false, -1
	}
	s.opts = whole
	switch option := s.Intn(5); {
	case s.quick:
	case option == 0:
		s.opts.Drop = []string{"metadata.managedFields", "metadata.annotations"}
	case option == 1:
		if s.kind.into.Name() == "Unstructured" {
			s.opts.Only = []string{"metadata.labels", "spec.containers.name", "spec.kids", "status.by"}
		} else {
			s.opts.Only = prune.Random(randv2.New(randv2.NewPCG(uint64(seed), 1)), s.kind.into, "a0", "app1", "cpu")
		}
	}
	var err error
	if s.d, err = decode.New(into, s.opts); err != nil { // a projection may lack the fields
		s.opts = whole
		s.d = must(decode.New(into, s.opts))
	}
	s.encodings = []decode.Encoding{decode.JSON, decode.JSON}
	if !s.quick {
		s.encodings = append(s.encodings, decode.CBOR)
	}
	if s.kind.protobuf && s.d.Protobuf() {
		s.encodings = append(s.encodings, decode.Protobuf, decode.Protobuf, decode.Protobuf)
	}
	s.makeItems()
	if s.Intn(3) > 0 {
		s.kept = make([]struct{ got, want any }, 1+s.Intn(200))
	}
	switch lend := s.Intn(4); {
	case s.quick || lend == 1:
		s.d.ReuseFrom(func(string, string) any { return nil })
	case lend > 1:
		s.lends = true
		s.d.ReuseFrom(s.lend)
	}
	if s.Intn(3) == 0 && s.opts.Workers < 0 {
		s.d.StopWhen(func() error {
			if s.stopping {
				return errStopped
			}
			return nil
		})
	}
	if s.passing = !s.quick && s.Intn(3) == 0; s.passing {
		s.d.PassOver(func(namespace, name string) bool {
			if !s.spoiling && (namespace != "ns" || !strings.HasPrefix(name, "obj-")) {
				s.failf("PassOver is asked for %q %q", namespace, name)
			}
			return !unwanted(name)
		})
	}
	s.what = fmt.Sprintf("-stress.seed %d, %v of %s, share %v, workers %d, drop %v, only %v, lends %v, passes over %v",
		seed, into, s.kind.name,
		s.opts.Share, s.opts.Workers, s.opts.Drop, s.opts.Only, s.lends, s.passing)
	return s
}

func unwanted(name string) bool { return name != "" && (name[len(name)-1]-'0')%3 == 0 }

func (s *session) failf(format string, args ...any) {
	s.t.Errorf("%s: %s", s.what, fmt.Sprintf(format, args...))
}

// makeItems makes objects of a few shapes. Some have the same name.
func (s *session) makeItems() {
	if s.shapes = 1 + s.Intn(8); s.quick {
		s.shapes += 4
	}
	var base any
	for shape := range s.shapes {
		if base == nil || s.Intn(3) == 0 {
			base = s.random(s.kind.from, 20+s.Intn(200))
		} else { // a cousin of the one before
			base = clone(base)
			s.leafOnly = false
			for range 1 + s.Intn(4) {
				s.mutate(reflect.ValueOf(base).Elem(), 0)
			}
		}
		for range 3 + s.Intn(16) {
			o := clone(base)
			s.leafOnly = true
			for range s.Intn(12) {
				s.mutate(reflect.ValueOf(o).Elem(), 0)
			}
			m := o.(metav1.Object)
			m.SetName("obj-" + strconv.Itoa(len(s.items)/2))
			m.SetNamespace("ns")
			m.SetUID("u")
			m.SetGenerateName([]string{"", "gen-", "other-"}[s.Intn(3)])
			m.SetResourceVersion(strconv.Itoa(100 + s.Intn(5)))
			it := &item{name: m.GetName(), version: m.GetResourceVersion(), shape: shape}
			for _, enc := range []decode.Encoding{decode.JSON, decode.Protobuf, decode.CBOR} {
				if enc != decode.Protobuf || s.kind.protobuf {
					it.raw[enc], it.want[enc], it.err[enc] = s.encode(o.(runtime.Object), enc)
				}
			}
			s.items = append(s.items, it)
		}
	}
}

// encode returns the bytes of an object, and what apimachinery makes of them. Some have what no
// server writes.
func (s *session) encode(o runtime.Object, enc decode.Encoding) (raw []byte, want any, err error) {
	want = reflect.New(s.kind.into).Interface()
	raw = s.kind.write(o, enc)
	switch open := raw[:len(raw)-1]; {
	case enc == decode.Protobuf:
		if s.Intn(40) == 0 {
			raw = append(bytes.Clone(raw), raw...)
		}
		err = s.fromMessage(raw, want)
	case enc == decode.CBOR:
		err = utiljson.Unmarshal(s.kind.write(o, decode.JSON), want)
	default:
		switch s.Intn(40) {
		case 0:
			var b bytes.Buffer
			_ = json.Indent(&b, raw, "", "  ")
			raw = bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte("\t"))
		case 1:
			raw = fmt.Appendf(nil, `%s,%s`, open, raw[1:]) // each member twice
		case 2:
			raw = fmt.Appendf(nil, `%s,"unknown":{"a":[1,2,{"b":null}]}}`, open)
		case 3:
			raw = fmt.Appendf(nil, `%s,"spec":null}`, open)
		}
		err = utiljson.Unmarshal(raw, want)
	}
	if err == nil && (s.opts.Only != nil || s.opts.Drop != nil) {
		prune.Object(want, s.opts.Drop, s.opts.Only)
	}
	return raw, typeless(want), err
}

// write returns the bytes of an object as a server writes them.
func (k kind) write(o runtime.Object, enc decode.Encoding) []byte {
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(k.version, k.name))
	defer o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if enc == decode.Protobuf {
		return must(o.(message).Marshal())
	}
	raw := must(json.Marshal(o))
	if enc == decode.CBOR {
		var v any
		_ = utiljson.Unmarshal(raw, &v)
		raw = must(direct.Marshal(v))
	}
	return raw
}

// fromMessage decodes a message as generated code does it.
func (s *session) fromMessage(raw []byte, want any) error {
	if !s.kind.projected {
		return want.(message).Unmarshal(raw)
	}
	whole := reflect.New(s.kind.from).Interface()
	if err := whole.(message).Unmarshal(raw); err != nil {
		return err
	}
	return utiljson.Unmarshal(must(json.Marshal(whole)), want)
}

// typeless removes kind and API version from an object with a type, as a decoder leaves them empty.
func typeless(obj any) any {
	if _, ok := obj.(runtime.Unstructured); !ok {
		if f := reflect.ValueOf(obj).Elem().FieldByName("TypeMeta"); f.IsValid() {
			f.SetZero()
		}
	}
	return obj
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// lend returns the last version of an object mostly, and else an older one, one of another object,
// or none. Workers call it concurrently.
func (s *session) lend(_, name string) any {
	n := s.asked.Add(1)
	if n%7 == 0 {
		return nil
	}
	if n%31 == 0 {
		name = "obj-1"
	}
	v, ok := s.versions.Load(name)
	if !ok {
		return nil
	}
	s.lent.Add(1)
	all := v.([]any)
	if n%11 == 0 {
		return all[0]
	}
	return all[len(all)-1]
}

// run decodes until the time is over or something is wrong.
func (s *session) run(until time.Time) {
	near, enc := 0, s.encodings[0]
	for i := 0; !s.t.Failed() && (i < 50 || time.Now().Before(until)); i++ { // a busy machine does some, too
		if s.Intn(60) == 0 {
			near = s.Intn(s.shapes)
		}
		if s.Intn(200) == 0 {
			enc = s.encodings[s.Intn(len(s.encodings))]
		}
		switch s.Intn(200) {
		case 0:
			s.stream(enc, near)
		case 1, 2:
			s.spoil(enc, s.pick(near))
		case 3:
			if s.opts.Workers < 0 {
				s.stopping = true
				s.d.One(s.one(enc, s.pick(near).raw[enc]), enc)
				s.stopping = false
				s.stopped.Add(1)
			}
		default:
			it := s.pick(near)
			data := s.one(enc, it.raw[enc])
			o := s.d.One(data, enc)
			clear(data) // One keeps nothing of it
			if s.quick && s.Intn(8) > 0 {
				s.objects.Add(1)
			} else {
				s.check(o, it, enc)
			}
		}
	}
	for _, k := range s.kept {
		if k.got != nil && !reflect.DeepEqual(k.want, k.got) {
			s.failf("an object is another one later (-want +got):\n%.2000s", cmp.Diff(k.want, k.got))
		}
	}
	s.sessions.Add(1)
}

// pick returns an item, mostly one of that shape.
func (s *session) pick(near int) *item {
	it := s.items[s.Intn(len(s.items))]
	for range 20 {
		if it.shape == near || s.Intn(40) == 0 {
			break
		}
		it = s.items[s.Intn(len(s.items))]
	}
	return it
}

// one returns a copy of an object's bytes for One.
func (s *session) one(enc decode.Encoding, raw []byte) []byte {
	if enc == decode.Protobuf {
		return s.envelope(s.kind.name, raw)
	}
	return bytes.Clone(raw)
}

// check compares an object with what it has to be, and keeps it.
func (s *session) check(o decode.Object, it *item, enc decode.Encoding) {
	s.objects.Add(1)
	want, wantErr := it.want[enc], it.err[enc]
	switch {
	case o.Passed != 0:
		if s.passed.Add(1); !s.passing || !unwanted(it.name) || it.version != strconv.FormatUint(o.Passed, 10) {
			s.failf("%s, version %s, was passed over as version %d", it.name, it.version, o.Passed)
		}
		return
	case (o.Err == nil) != (wantErr == nil):
		s.failf("encoding %d: error %v, want %v: %.1000q", enc, o.Err, wantErr, it.raw[enc])
		return
	case o.Err != nil:
		return
	case !reflect.DeepEqual(want, o.Value):
		s.failf("encoding %d: another object (-want +got):\n%.2000s", enc, cmp.Diff(want, o.Value))
		return
	}
	if s.lends {
		v, _ := s.versions.Load(it.name)
		all, _ := v.([]any)
		if len(all) == 4 {
			all = all[1:]
		}
		s.versions.Store(it.name, append(all[:len(all):len(all)], o.Value))
	}
	if len(s.kept) > 0 {
		k := &s.kept[s.next%len(s.kept)]
		s.next++
		if k.got != nil {
			if s.again.Add(1); !reflect.DeepEqual(k.want, k.got) {
				s.failf("an object is another one later (-want +got):\n%.2000s", cmp.Diff(k.want, k.got))
			}
		}
		k.got, k.want = o.Value, want
	}
}

// slow finds an exponent that keeps apimachinery's parser of quantities busy for minutes.
var slow = regexp.MustCompile(`[0-9][eE][+-]?[0-9]{3}`)

// spoil decodes what is cut off or has wrong bytes. Where the decoder and apimachinery both make an
// object of it, it is the same one.
func (s *session) spoil(enc decode.Encoding, it *item) {
	raw := bytes.Clone(it.raw[enc])
	switch i := s.Intn(len(raw)); s.Intn(4) {
	case 0:
		raw = raw[:i]
	case 1:
		raw[i] = byte(s.Intn(256))
	case 2:
		raw[i] ^= 1 << s.Intn(8)
	case 3:
		raw = append(raw[:i], raw[min(len(raw), i+s.Intn(20)):]...)
	}
	if slow.Match(raw) {
		return
	}
	s.spoiling = true
	o := s.d.One(s.one(enc, raw), enc)
	s.spoiling = false
	s.spoilt.Add(1)
	if o.Err != nil || o.Value == nil || s.opts.Only != nil || s.opts.Drop != nil || enc == decode.CBOR ||
		enc == decode.Protobuf && s.kind.projected {
		return
	}
	want := reflect.New(s.kind.into).Interface()
	if err := decodedBy(enc, raw, want); err == nil && !reflect.DeepEqual(typeless(want), o.Value) {
		s.failf("encoding %d: another object of spoilt bytes %.2000q (-want +got):\n%.2000s", enc, raw,
			cmp.Diff(want, o.Value))
	}
}

// decodedBy decodes raw by apimachinery, whose generated code may panic.
func decodedBy(enc decode.Encoding, raw []byte, want any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if enc == decode.Protobuf {
		return want.(message).Unmarshal(raw)
	}
	return utiljson.Unmarshal(raw, want)
}
