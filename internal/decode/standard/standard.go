// Package standard makes objects as package decode does, by apimachinery's decoders alone:
// serializer/json, serializer/protobuf and serializer/cbor, and their framers for watches. What does
// not come from an API's type is left to the functions of apimachinery that these use.
//
// It is for a program whose owners do not want package decode to make their objects. It shares no
// decoding with that package, but its options, its results, its check of kinds and the words of its
// errors, so that nothing else depends on who decodes. Where the two would differ, a program that
// changes its decoder would notice: an object that does not fit its type is an error of its own, and
// Drop and Only hold, which here cut the object when it is complete.
//
// A list is read whole before its first object, as client-go reads it. Nothing is taken from the
// last version of an object, and nothing is shared. A type without an Unmarshal is read from JSON
// or CBOR alone, whatever its tags are.
package standard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/decode/prune"
)

// A Decoder is a *decode.Decoder, whose methods say what they do, or one of apimachinery.
type Decoder interface {
	List(r io.Reader, enc decode.Encoding, yield func(decode.Object) error) (metav1.ListMeta, error)
	NextPage(r io.Reader, enc decode.Encoding, yield func(decode.Object) error) (metav1.ListMeta, error)
	Watch(r io.Reader, enc decode.Encoding, yield func(decode.Event) error) error
	WatchList(r io.Reader, enc decode.Encoding, yield func(decode.Event) error) error
	One(data []byte, enc decode.Encoding) decode.Object
	Again(raw []byte, enc decode.Encoding) decode.Object
	Protobuf() bool
	StopWhen(stopped func() error)
	ReuseFrom(lend func(namespace, name string) any)
	PassOver(wanted func(namespace, name string) bool)
}

// Env is the variable of the environment that chooses the decoder of all sources of the process.
const Env = "LW_DECODE"

// Chosen reports whether Env asks for apimachinery's decoders. A value that it does not know is an
// error: whoever sets it must not get the other decoder for a mistyped word.
func Chosen() (bool, error) {
	switch is := os.Getenv(Env); is {
	case "", "lw":
		return false, nil
	case "standard":
		return true, nil
	default:
		return false, fmt.Errorf("%s is %.40q: want standard or lw", Env, is)
	}
}

// LW and Apimachinery are the names of the decoders, for people.
const (
	LW           = "lw"
	Apimachinery = "apimachinery"
)

// Name returns the name of the decoder that [New] makes.
func Name(standard bool) string {
	if chosen, _ := Chosen(); chosen || standard {
		return Apimachinery
	}
	return LW
}

// New returns a Decoder of objects of type typ, which must be a pointer type: apimachinery's if
// standard is set or [Env] asks for it, else package decode's. It fails as [decode.New] does.
func New(typ reflect.Type, opts decode.Options, standard bool) (Decoder, error) {
	chosen, err := Chosen()
	if err != nil {
		return nil, err
	}
	if !standard && !chosen {
		return decode.New(typ, opts)
	}
	if typ.Kind() != reflect.Pointer {
		return nil, fmt.Errorf("cannot decode into %v: want a pointer", typ)
	}
	if err := decode.CheckPaths(typ, opts.Drop, opts.Only); err != nil {
		return nil, err
	}
	if opts.Limit <= 0 {
		opts.Limit = decode.MaxObject
	}
	if opts.Kinds == nil {
		opts.Kinds = decode.NewKinds(typ, "")
	}
	d := &decoder{elem: typ.Elem(), opts: opts, untyped: typ.Implements(reflect.TypeFor[runtime.Unstructured]())}
	d.object = !d.untyped && typ.Implements(reflect.TypeFor[runtime.Object]())
	d.protobuf = d.object && typ.Implements(reflect.TypeFor[message]()) && decode.Unmarshals(typ.Elem())
	if d.elem.Kind() == reflect.Struct {
		if f, ok := d.elem.FieldByName("TypeMeta"); ok && f.Anonymous && f.Type == reflect.TypeFor[metav1.TypeMeta]() {
			d.typeMeta = f.Index
		}
	}
	return d, nil
}

// A message is what serializer/protobuf decodes.
type message interface {
	Reset()
	Unmarshal(data []byte) error
}

// A decoder is the Decoder of apimachinery.
type decoder struct {
	elem     reflect.Type
	opts     decode.Options
	untyped  bool  // the objects are runtime.Unstructured
	object   bool  // they are runtime.Objects, and not untyped
	protobuf bool  // there may be protobuf
	typeMeta []int // the index of the embedded metav1.TypeMeta; nil: there is none

	stopped func() error
	wanted  func(namespace, name string) bool
}

// Protobuf implements Decoder.
func (d *decoder) Protobuf() bool { return d.protobuf }

// StopWhen implements Decoder. stopped is asked between two objects.
func (d *decoder) StopWhen(stopped func() error) { d.stopped = stopped }

// ReuseFrom implements Decoder, and does nothing: apimachinery makes each object whole.
func (d *decoder) ReuseFrom(func(namespace, name string) any) {}

// PassOver implements Decoder. An object that nobody wants is made and dropped.
func (d *decoder) PassOver(wanted func(namespace, name string) bool) { d.wanted = wanted }

// One implements Decoder.
func (d *decoder) One(data []byte, enc decode.Encoding) decode.Object {
	return d.decode(data, enc, false)
}

// Again implements Decoder.
func (d *decoder) Again(raw []byte, enc decode.Encoding) decode.Object {
	return d.decode(raw, enc, enc == decode.Protobuf)
}

// raw has o keep its bytes: in protobuf without an envelope.
func (d *decoder) raw(o *decode.Object, data []byte, enc decode.Encoding, bare bool) {
	if enc == decode.Protobuf && !bare {
		u, err := readEnvelope(data)
		if err != nil {
			return // it was decoded; without its bytes it is kept as it is
		}
		data = u.Raw
	}
	o.Raw, o.RawEncoding = data, enc
}

// decode makes the object that data is. bare says that it has no envelope, as an item of a list in
// protobuf. A null in the place of an object has no bytes in CBOR.
func (d *decoder) decode(data []byte, enc decode.Encoding, bare bool) decode.Object {
	v := reflect.New(d.elem)
	o := decode.Object{Value: v.Interface()}
	if o.Err = d.fill(&o, data, enc, bare); o.Err != nil {
		o.Err = shorten(o.Err)
		o.Value, o.Ident = nil, identify(data, enc, bare)
	} else {
		if d.typeMeta != nil {
			if f, err := v.Elem().FieldByIndexErr(d.typeMeta); err == nil {
				f.SetZero() // as package decode leaves it
			}
		}
		if len(d.opts.Drop) > 0 || d.opts.Only != nil {
			prune.Object(o.Value, d.opts.Drop, d.opts.Only)
		}
		if d.opts.Raw {
			d.raw(&o, data, enc, bare)
		}
	}
	if d.wanted != nil {
		d.pass(&o)
	}
	return o
}

// fill decodes data into the value of o, and sets the kind of o.
func (d *decoder) fill(o *decode.Object, data []byte, enc decode.Encoding, bare bool) (err error) {
	if enc == decode.JSON && string(data) == "null" || enc == decode.CBOR && len(data) == 0 {
		return errNull
	}
	if d.untyped {
		return fillUntyped(o, data, enc)
	}
	if d.object && bare && enc == decode.Protobuf {
		return readMessage(data, o.Value.(runtime.Object))
	}
	if d.object {
		o.Ident, err = read(data, enc, o.Value.(runtime.Object))
		return err
	}
	if data, err = asJSON(data, enc); err != nil {
		return err
	}
	var is head
	if err = unmarshal(data, o.Value); err == nil {
		_ = unmarshal(data, &is) // its metadata may be anything
		o.Ident.APIVersion, o.Ident.Kind = is.APIVersion, is.Kind
	}
	return err
}

// A head is what identifies an object.
type head struct {
	metav1.TypeMeta
	Metadata struct {
		Namespace       string    `json:"namespace"`
		Name            string    `json:"name"`
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	} `json:"metadata"`
}

// DeepCopyObject makes it a runtime.Object, which serializer/cbor demands.
func (h *head) DeepCopyObject() runtime.Object { c := *h; return &c }

// identify returns what identifies an object that could not be made, as far as it can be read.
func identify(data []byte, enc decode.Encoding, bare bool) decode.Ident {
	if enc == decode.Protobuf {
		var m metav1.PartialObjectMetadata // field 1 of every API type is its metadata
		var id decode.Ident
		if bare {
			_ = readMessage(data, &m)
		} else {
			id, _ = read(data, enc, &m)
		}
		return decode.Ident{APIVersion: id.APIVersion, Kind: id.Kind, Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
	}
	var h head
	if enc == decode.CBOR {
		_, _ = read(data, enc, &h)
	} else {
		_ = unmarshal(data, &h)
	}
	m := &h.Metadata
	return decode.Ident{APIVersion: h.APIVersion, Kind: h.Kind, Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
}

// pass makes o one that is passed over, if nobody wants it.
func (d *decoder) pass(o *decode.Object) {
	namespace, name, version := o.Ident.Namespace, o.Ident.Name, o.Ident.ResourceVersion
	switch m := o.Value.(type) {
	case nil:
	case interface {
		GetNamespace() string
		GetName() string
		GetResourceVersion() string
	}:
		namespace, name, version = m.GetNamespace(), m.GetName(), m.GetResourceVersion()
	}
	at, err := strconv.ParseUint(version, 10, 63)
	if name == "" || err != nil || version[0] == '0' || d.wanted(namespace, name) {
		return
	}
	*o = decode.Object{Ident: decode.Ident{APIVersion: o.Ident.APIVersion, Kind: o.Ident.Kind}, Passed: at}
}

// maxText is the most bytes of an error, which a caller may keep for as long as the object stays
// broken.
const maxText = 2 << 10

// shorten returns err, or one with the start of its text: apimachinery quotes the value, and of an
// object without a kind all of it.
func shorten(err error) error {
	if text := err.Error(); len(text) > maxText {
		return errors.New(strings.ToValidUTF8(text[:maxText], "") + "…")
	}
	return err
}
