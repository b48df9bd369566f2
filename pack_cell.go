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

// A Packed is one version of an object, as compressed bytes. The Source that [Pack] returns yields
// it. It never changes, and its methods are safe for concurrent use.
type Packed[T Identified] struct {
	how  *packing[T]
	ref  recent.Ref[T] // the decoded object, as long as anybody has it
	ns   unique.Handle[string]
	name string
	data string // the UID, the version and the packed bytes, in memory of their own
	size uint32 // of the bytes
	// uid and version are lengths in data, or elsewhere.
	uid, version uint8
	encoding     uint8 // a decode.Encoding
	// untyped is the place of the kind in packer.untyped, counted from one. An untyped object needs
	// its kind, and items of a list may lack it, since it follows from the list's. 0: the bytes have
	// the kind, or the object needs none.
	untyped uint8
}

// elsewhere stands for the length of a UID or a version that is too long for data. Only the packed
// bytes have it.
const elsewhere = 255

// GetNamespace returns the namespace. Like GetName, GetUID and GetResourceVersion, it decodes
// nothing.
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

// contents returns the packed bytes. ok is false if they were let go.
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

// broken returns the text of a panic. Only a fault in package lw leads to it, since the bytes were
// decoded when they came.
func (p *Packed[T]) broken(err error) string {
	return fmt.Sprintf("lw: Packed: %s at version %s cannot be opened: %v", keyString(KeyOf(p)),
		p.GetResourceVersion(), err)
}

// holds reports whether p was packed from the same bytes as raw has.
func (p *Packed[T]) holds(raw *request.Raw) bool {
	if b := p.how.body; b != nil {
		return b.sum.Load() == sumOf(raw.Data)
	}
	c, ok := p.contents()
	return ok && int(c.size) == len(raw.Data) && string(p.unpack(c, nil)) == string(raw.Data)
}

// Open returns the object, which is shared and must not be changed. While anybody has the decoded
// object, Open returns that one, and decodes nothing. It panics only if package lw has a fault,
// since the bytes were decoded before.
//
// A [PackLimit] may have let the object go. Then Open asks the server for it, for up to a minute,
// and returns the server's object, which may be newer than this version. If the server no longer
// has the object, Open returns its metadata alone, at the resource version "let-go-and-gone". If
// nobody can read the object for a minute, that version is "let-go". No server takes a write with
// either. If another version has replaced this one in the store, Open makes no request, and returns
// metadata at "let-go".
//
// OpenContext returns an error instead of metadata, and the present object instead of a replaced
// one. Use it for the new object of a handler's call, which may be late. Use OpenKept for the old
// object, whose content no server has any more.
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

// OpenContext is Open with an error. The error is that of ctx or of the request for an object that
// a [PackLimit] has let go, and NotFound if the server no longer has the object. Without a
// PackLimit, it is always nil.
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

// OpenKept is Open without a request. If the object was let go, whole is false, and obj has only
// its metadata, and the resource version "let-go". Use it for the old object of an update, and for
// a deleted object.
func (p *Packed[T]) OpenKept() (obj T, whole bool) {
	if obj, ok := p.Peek(); ok {
		return obj, true
	}
	if c, ok := p.contents(); ok {
		return p.share(p.how.pk.open(p, c), true), true
	}
	return p.how.pk.remnant(p, request.LetGo), false
}

// share makes obj the decoded object of p, unless there is one already, and returns that. cold says
// that obj was decoded for a read. An object that is decoded for a second read is kept a little
// longer. A first read keeps nothing, so that a program that walks over all objects does not drive
// out those that are read often.
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

// Kept reports whether the object is here. It is false if a [PackLimit] has let it go.
func (p *Packed[T]) Kept() bool {
	_, ok := p.contents()
	return ok
}

// Copy returns an object of the caller's own, which may be changed. If the object was let go, it is
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

// Bytes appends the object to dst as the server has sent it, and returns the result: JSON, or a
// protobuf message without the envelope that begins with "k8s". It has all fields, whatever the
// source drops, and has the kind only if the server has sent it. If the object was let go, it is
// the JSON of what Open returns.
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

// Equal reports whether p and q are the same version of the same object, with the same content. A
// [Derived] of packed objects compares them with it.
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
