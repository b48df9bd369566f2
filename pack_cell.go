package lw

import (
	"encoding/json"
	"fmt"
	"reflect"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/lz"
	"github.com/go-lw/lw/internal/recent"
)

// A Packed is one version of an object as compressed bytes, of a Source that [Pack] returns. It
// never changes. Its methods are safe for concurrent use.
type Packed[T Identified] struct {
	how  *packing[T]
	ref  recent.Ref[T] // what was decoded, as long as somebody has it
	ns   unique.Handle[string]
	name string
	data string // the UID, the version and the packed bytes, in memory of their own
	size uint32 // of the bytes
	// uid and version are lengths in data; elsewhere: they are too long, and only in the bytes.
	uid, version uint8
	encoding     uint8 // a decode.Encoding
	// untyped is where the kind is in that list of the packer, plus one: items of a list need not have
	// the kind of an untyped object, which follows from the list's. 0: the bytes have it, or need none.
	untyped uint8
}

// elsewhere is the length of a UID or a version that is not in the data of a Packed.
const elsewhere = 255

// GetNamespace returns the namespace. As the three below it decodes nothing.
func (p *Packed[T]) GetNamespace() string { return p.ns.Value() }

// GetName returns the name.
func (p *Packed[T]) GetName() string { return p.name }

// GetUID returns the UID.
func (p *Packed[T]) GetUID() types.UID {
	if p.uid == elsewhere {
		return p.Open().GetUID()
	}
	return types.UID(p.data[:p.uid])
}

// GetResourceVersion returns the resource version.
func (p *Packed[T]) GetResourceVersion() string {
	if p.version == elsewhere {
		return p.Open().GetResourceVersion()
	}
	return p.data[p.uid:][:p.version]
}

// GetLabels returns the labels, which must not be changed. It decodes nothing else.
func (p *Packed[T]) GetLabels() map[string]string {
	if obj, ok := p.Peek(); ok {
		if l, ok := any(obj).(labeled); ok {
			return l.GetLabels()
		}
	}
	labels, ok := p.how.pk.labelsOf(p)
	if _, has := any(*new(T)).(labeled); !ok && (has || reflect.TypeFor[T]().Kind() == reflect.Interface) {
		if l, has := any(p.Open()).(labeled); has {
			return l.GetLabels()
		}
	}
	return labels
}

// packed returns the packed bytes.
func (p *Packed[T]) packed() string {
	if p.uid == elsewhere {
		return p.data
	}
	return p.data[int(p.uid)+int(p.version):]
}

// unpack appends the bytes to dst.
func (p *Packed[T]) unpack(dst []byte) []byte {
	out, err := lz.Unpack(p.how.dict, dst, p.packed(), int(p.size))
	if err != nil {
		panic(p.broken(err))
	}
	return out
}

// broken returns what to panic with: the bytes were decoded when they came.
func (p *Packed[T]) broken(err error) string {
	return fmt.Sprintf("lw: Packed: %s at version %s cannot be opened: %v", keyString(KeyOf(p)),
		p.GetResourceVersion(), err)
}

// Open returns the object, which is shared and must not be changed. While anybody has it, Open
// returns the same one, and decodes nothing. It panics only if there is a fault in package lw: the
// bytes have been decoded once.
func (p *Packed[T]) Open() T {
	if obj, ok := p.ref.Load(p.how.pk.kind); ok {
		return obj
	}
	return p.share(p.how.pk.open(p), true)
}

// share has others find obj, and returns what they find. What is decoded a second time, as cold says,
// is kept a little longer: a program that goes over all objects once does not drive out what is read
// often.
func (p *Packed[T]) share(obj T, cold bool) T {
	pk := p.how.pk
	now, again := p.ref.Make(pk.kind, obj)
	if cold && again {
		hot.Keep(now, 2*int(p.size)) // an object takes about twice the memory of its bytes
	}
	if f := pk.opened.Load(); f != nil {
		(*f)(p, now)
	}
	return now
}

// Peek returns the object if anybody has it, and decodes nothing.
func (p *Packed[T]) Peek() (obj T, ok bool) { return p.ref.Load(p.how.pk.kind) }

// Copy decodes an object that is the caller's own, and may be changed.
func (p *Packed[T]) Copy() T { return p.how.pk.open(p) }

// Bytes appends to dst what the server has sent of the object, and returns it: JSON, or a protobuf
// message without the envelope that begins with "k8s". It has all fields, whatever the source drops,
// and its kind only if the server has sent it.
func (p *Packed[T]) Bytes(dst []byte) (data []byte, protobuf bool) {
	if decode.Encoding(p.encoding) != decode.CBOR {
		return p.unpack(dst), decode.Encoding(p.encoding) == decode.Protobuf
	}
	return append(dst, decode.CBORToJSON(p.unpack(nil))...), false
}

// MarshalJSON returns the JSON of what Open returns.
func (p *Packed[T]) MarshalJSON() ([]byte, error) { return json.Marshal(p.Open()) }

// Equal reports whether q is the same version of the same object, with the same content. A [Derived]
// of packed objects uses it.
func (p *Packed[T]) Equal(q *Packed[T]) bool {
	if p == q {
		return true
	}
	if p == nil || q == nil || KeyOf(p) != KeyOf(q) || !sameVersion(p, q) {
		return false
	}
	if p.encoding == q.encoding && p.size == q.size && string(p.unpack(nil)) == string(q.unpack(nil)) {
		return true
	}
	return reflect.DeepEqual(p.Open(), q.Open())
}

// The methods below are those of packedObject.

func (p *Packed[T]) self() any { return p }

func (p *Packed[T]) sameAs(other any) bool {
	if o, ok := other.(packedObject); ok {
		q, ok := o.self().(*Packed[T])
		return ok && p.Equal(q)
	}
	return reflect.DeepEqual(any(p.Open()), other)
}

func (p *Packed[T]) peekAny() any {
	if obj, ok := p.Peek(); ok {
		return obj
	}
	return nil
}

func (p *Packed[T]) copyAny() any { return p.Copy() }

func (p *Packed[T]) watch(see func(p, obj any)) {
	f := func(p *Packed[T], obj T) { see(p, obj) }
	p.how.pk.opened.Store(&f)
}
