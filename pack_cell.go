package lw

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/lz"
	"github.com/go-lw/lw/internal/recent"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/table"
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
	// the kind of an untyped object, which follows from the list's. 0: the bytes have it, or need
	// none.
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
	var labels map[string]string
	c, ok := p.contents()
	if !ok {
		c, ok = p.how.body.rest, !p.how.body.bare
	}
	if ok {
		labels, ok = p.how.pk.labelsOf(p, c)
	}
	if _, has := any(*new(T)).(labeled); !ok && (has || reflect.TypeFor[T]().Kind() == reflect.Interface) {
		if l, has := any(p.Open()).(labeled); has {
			return l.GetLabels()
		}
	}
	return labels
}

// contents are the packed bytes of a cell.
type contents struct {
	dict              *lz.Dict
	packed            string
	size              uint32
	encoding, untyped uint8
}

// asJSON are contents that are not packed.
func asJSON(data []byte, untyped uint8) contents {
	return contents{packed: string(data), size: uint32(len(data)), encoding: uint8(decode.JSON), untyped: untyped}
}

// contents returns what is packed. ok is false if it was let go.
func (p *Packed[T]) contents() (c contents, ok bool) {
	if p.how.body != nil {
		return p.how.body.contents()
	}
	c = contents{p.how.dict, p.data, p.size, p.encoding, p.untyped}
	if p.uid != elsewhere {
		c.packed = p.data[int(p.uid)+int(p.version):]
	}
	return c, true
}

// unpack appends the bytes of c to dst.
func (p *Packed[T]) unpack(c contents, dst []byte) []byte {
	out, err := lz.Unpack(c.dict, dst, c.packed, int(c.size))
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

// holds reports whether raw is what p is packed of.
func (p *Packed[T]) holds(raw *request.Raw) bool {
	if b := p.how.body; b != nil {
		return b.sum.Load() == sumOf(raw.Data)
	}
	c, ok := p.contents()
	return ok && int(c.size) == len(raw.Data) && string(p.unpack(c, nil)) == string(raw.Data)
}

// Open returns the object, which is shared and must not be changed. While anybody has it, Open
// returns the same one, and decodes nothing. It panics only if there is a fault in package lw: the
// bytes have been decoded once.
//
// A [PackLimit] may have let the object go. Then Open asks the server for it, for up to a minute,
// and returns what is there, which may be newer than this version. An object that is gone from the
// server, or that nobody can read for a minute, has its metadata alone, and the resource version
// "let-go-and-gone" or "let-go", with which no server takes a write. A version that another one has
// replaced in the store is not asked for: it has its metadata and "let-go".
//
// OpenContext returns an error in the place of metadata, and what is there now in that of a replaced
// version. So it is for the new object of a handler's call, which may be late. OpenKept is for the old
// one, whose content no server has.
func (p *Packed[T]) Open() T {
	if obj, ok := p.ref.Load(p.how.pk.kind); ok {
		p.how.body.used()
		return obj
	}
	c, ok := p.contents()
	if !ok {
		return p.how.pk.fetchForOpen(p)
	}
	p.how.body.used()
	return p.share(p.how.pk.open(p, c), true)
}

// OpenContext is Open with an error: of ctx, of the request for an object that a [PackLimit] has
// let go, or NotFound if the server does not have it any more. Without a PackLimit there is none.
func (p *Packed[T]) OpenContext(ctx context.Context) (T, error) {
	if obj, ok := p.ref.Load(p.how.pk.kind); ok {
		p.how.body.used()
		return obj, nil
	}
	c, ok := p.contents()
	if !ok {
		return p.how.pk.fetch(ctx, p)
	}
	p.how.body.used()
	return p.share(p.how.pk.open(p, c), true), nil
}

// OpenKept is Open without a request: if the object was let go, whole is false, and it has its
// metadata and the resource version "let-go". It is for the old object of an update, and for a deleted
// one.
func (p *Packed[T]) OpenKept() (obj T, whole bool) {
	if obj, ok := p.Peek(); ok {
		return obj, true
	}
	if c, ok := p.contents(); ok {
		return p.share(p.how.pk.open(p, c), true), true
	}
	return p.how.pk.remnant(p, request.LetGo), false
}

// share has others find obj, and returns what they find. What is decoded a second time, as cold
// says, is kept a little longer: a program that goes over all objects once does not drive out what
// is read often.
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

// Kept reports whether the bytes are there: a [PackLimit] may have let them go.
func (p *Packed[T]) Kept() bool {
	_, ok := p.contents()
	return ok
}

// Copy decodes an object that is the caller's own, and may be changed. Of one that was let go it is
// a copy of what Open returns.
func (p *Packed[T]) Copy() T {
	c, ok := p.contents()
	if !ok {
		obj := p.how.pk.fetchForOpen(p)
		if c, ok = p.contents(); !ok {
			return p.how.pk.open(p, asJSON(p.how.pk.written(obj), p.untyped))
		}
	}
	p.how.body.used()
	return p.how.pk.open(p, c)
}

// Bytes appends to dst what the server has sent of the object, and returns it: JSON, or a protobuf
// message without the envelope that begins with "k8s". It has all fields, whatever the source
// drops, and its kind only if the server has sent it. Of an object that was let go it is the JSON
// of what Open returns.
func (p *Packed[T]) Bytes(dst []byte) (data []byte, protobuf bool) {
	c, ok := p.contents()
	if !ok {
		obj := p.how.pk.fetchForOpen(p)
		if c, ok = p.contents(); !ok {
			return append(dst, p.how.pk.written(obj)...), false
		}
	}
	if decode.Encoding(c.encoding) != decode.CBOR {
		return p.unpack(c, dst), decode.Encoding(c.encoding) == decode.Protobuf
	}
	return append(dst, decode.CBORToJSON(p.unpack(c, nil))...), false
}

// MarshalJSON returns the JSON of what Open returns.
func (p *Packed[T]) MarshalJSON() ([]byte, error) { return json.Marshal(p.Open()) }

// Equal reports whether q is the same version of the same object, with the same content. A
// [Derived] of packed objects uses it.
func (p *Packed[T]) Equal(q *Packed[T]) bool {
	if p == q {
		return true
	}
	if p == nil || q == nil || KeyOf(p) != KeyOf(q) || !sameVersion(p, q) {
		return false
	}
	a, there := p.contents()
	b, both := q.contents()
	if !there || !both {
		if p.how.body != nil && q.how.body != nil {
			return p.how.body.sum.Load() == q.how.body.sum.Load()
		}
		return true // the version says it
	}
	if a.encoding == b.encoding && a.size == b.size && string(p.unpack(a, nil)) == string(q.unpack(b, nil)) {
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

func (p *Packed[T]) copyAny() any {
	if c, ok := p.contents(); ok {
		return p.how.pk.open(p, c)
	}
	return nil
}

func (p *Packed[T]) memo() *table.Memo {
	if p.how.body == nil {
		return nil
	}
	return &p.how.body.memo
}

func (p *Packed[T]) left() { p.how.body.left() }

func (p *Packed[T]) watch(see func(p, obj any)) {
	f := func(p *Packed[T], obj T) { see(p, obj) }
	p.how.pk.opened.Store(&f)
}
