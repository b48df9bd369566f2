package lw

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/decode/standard"
	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/lz"
	"github.com/go-lw/lw/internal/recent"
	"github.com/go-lw/lw/internal/request"
)

// PackOptions configure [Pack]. The zero value is ready for use.
type PackOptions struct {
	// Finish is called with each object after it is decoded, and before anybody has it. It may change
	// the object. A version may be decoded many times, by any goroutine, and Finish must change it in
	// the same way each time. Nil: objects stay as they are decoded.
	Finish func(obj Identified)
	// Limit bounds the memory of the objects of all sources that share it. Nil: no bound.
	Limit *PackLimit
}

// Pack returns a Source that has the objects of src as compressed bytes. An [Informer] of them
// takes a tenth to a sixteenth of the memory that decoded objects take. [Packed.Open] decodes an
// object. Other readers get the same decoded object while anybody has it, and often for a little
// longer.
//
// The bytes are all that the server has sent. Drop, Only and a projection of src apply to what is
// decoded from them. Do not use src for anything else. The result of a [Transform] cannot be
// packed: use Finish instead, or derive a collection from the packed one.
//
// docs/memory.md says what Pack saves, and what it costs.
func Pack[T Object](src *HTTP[T], opts PackOptions) Source[*Packed[T]] {
	if src == nil {
		panic("lw: Pack: nil source")
	}
	src.packed = true
	pk := &packer[T]{h: src, finish: opts.Finish, limit: opts.Limit, kind: recent.KindOf[T](src.objectType())}
	pk.plain.pk = pk
	if opts.Limit != nil {
		pk.join(opts.Limit)
	}
	return &packSource[T]{pk}
}

// A packSource is the Source that Pack returns.
type packSource[T Identified] struct{ pk *packer[T] }

// Hints returns the hints of the source that is packed.
func (s *packSource[T]) Hints() SourceHints { return s.pk.h.Hints() }

// reuses reports whether the source wants the last versions. It lends the decoder those that
// somebody has decoded.
func (s *packSource[T]) reuses() bool { return s.pk.h.reuses() }

// Told is part of [Teller].
func (s *packSource[T]) Told(obj Identified) (out *Packed[T], stays bool, err error) {
	var raw request.Raw
	own, stays, err := s.pk.h.told(obj, &raw)
	if err != nil || !stays {
		return nil, stays, err
	}
	if out, err = s.pk.pack(own, &raw, nil, true); err == nil {
		hot.Keep(own, 2*int(out.size)) // until it is stored
	}
	return out, err == nil, err
}

// lend returns the ctx for a request of the packed source, which fills raw, and a lender of the
// store's cells. The lender in ctx lends an object only if somebody has it decoded, since it costs
// more to decode the old version than the decoder saves with it. There is a lender in any case: a
// decoder without one makes no notes for the next version, and no templates.
func (s *packSource[T]) lend(ctx context.Context, raw *request.Raw) (context.Context, request.Lender) {
	if ask := request.AskOf(ctx); ask != nil && s.pk.limit != nil && s.pk.ask.Load() == nil {
		s.pk.ask.Store(&ask)
	}
	if note := request.UsageOf(ctx); note != nil && s.pk.limit != nil {
		note(s.pk.source)
	}
	lend := request.LenderOf(ctx)
	if lend == nil {
		lend = func(string, string) any { return nil }
	}
	ctx = request.WithLender(ctx, func(namespace, name string) any {
		if p, _ := lend(namespace, name).(*Packed[T]); p != nil {
			if obj, ok := p.Peek(); ok {
				return obj
			}
		}
		return nil
	})
	return request.WithRaw(ctx, raw), lend
}

// cell returns the Packed of obj: the one in the store if the source has yielded the same version
// again, or a new one. fresh says that somebody is about to read obj.
func (s *packSource[T]) cell(obj T, raw *request.Raw, lend request.Lender, fresh bool) (*Packed[T], error) {
	was, _ := lend(obj.GetNamespace(), obj.GetName()).(*Packed[T])
	if was != nil {
		if last, ok := was.Peek(); ok && equal.Same(last, obj) {
			return was, nil
		}
		if s.pk.limit != nil && sameVersion[Identified](was, obj) && was.holds(raw) {
			return was, nil // a second cell would count until the next collection
		}
	}
	return s.pk.pack(obj, raw, was, fresh)
}

// List lists the collection.
func (s *packSource[T]) List(ctx context.Context, opts metav1.ListOptions,
	yield func(*Packed[T], error) error) (metav1.ListMeta, error) {
	var raw request.Raw
	ctx, lend := s.lend(ctx, &raw)
	return s.pk.h.List(ctx, opts, func(obj T, err error) error {
		if err != nil || equal.IsZero(obj) {
			return yield(nil, err)
		}
		p, err := s.cell(obj, &raw, lend, false)
		err = yield(p, err)
		runtime.KeepAlive(obj) // so that an index function that opens p decodes nothing
		return err
	})
}

// Watch watches the collection.
func (s *packSource[T]) Watch(ctx context.Context, opts metav1.ListOptions,
	yield func(WatchEvent[*Packed[T]]) error) error {
	var raw request.Raw
	ctx, lend := s.lend(ctx, &raw)
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	return s.pk.h.Watch(ctx, opts, func(ev WatchEvent[T]) error {
		out := WatchEvent[*Packed[T]]{
			Type: ev.Type, ResourceVersion: ev.ResourceVersion, InitialEventsEnd: ev.InitialEventsEnd,
			More: ev.More, Open: ev.Open, Filtered: ev.Filtered, Err: ev.Err, Identity: ev.Identity,
		}
		initial = initial && !ev.InitialEventsEnd
		if !equal.IsZero(ev.Object) {
			out.Object, out.Err = s.cell(ev.Object, &raw, lend, !initial)
		}
		err := yield(out)
		runtime.KeepAlive(ev.Object) // as in List
		return err
	})
}

// hot keeps the objects that were decoded more than once lately, of all packed collections.
var hot = recent.NewRing(16 << 20)

// A packer packs and opens the objects of one source.
type packer[T Identified] struct {
	h      *HTTP[T]
	finish func(Identified)
	limit  *PackLimit     // nil: none
	source *limitedSource // of limit
	kind   recent.Kind[T]
	coder  lz.Coder
	plain  packing[T]                  // without a dictionary
	last   atomic.Pointer[packing[T]]  // of the dictionary that was used last
	ask    atomic.Pointer[request.Ask] // fetches objects that were let go; nil: h does
	// opened is called with each decoded object before others get it; nil: with none.
	opened atomic.Pointer[func(*Packed[T], T)]

	mu      sync.Mutex
	idle    []*opener         // at most one for each processor; guarded by mu, as those below
	labels  *decode.Decoder   // decodes labels alone; nil: it is in use, or was never made
	untyped []metav1.TypeMeta // the kinds of objects whose bytes have none; see Packed.untyped
}

// A packing says how cells were packed, and who opens them.
type packing[T Identified] struct {
	pk   *packer[T]
	dict *lz.Dict // nil: the bytes are not compressed
	body *body    // the bytes of one cell, which a PackLimit may let go; nil: the cell has them
}

// packing returns the packing with the dictionary dict.
func (pk *packer[T]) packing(dict *lz.Dict) *packing[T] {
	if dict == nil {
		return &pk.plain
	}
	if last := pk.last.Load(); last != nil && last.dict == dict {
		return last
	}
	p := &packing[T]{pk: pk, dict: dict}
	pk.last.Store(p)
	return p
}

var packBuffers = sync.Pool{New: func() any { return new([]byte) }}

// pack returns the Packed of obj, which was decoded from raw. was is the last version, or nil.
// fresh says that somebody is about to read obj. If raw has no bytes, pack encodes obj, and fails
// if obj cannot be encoded and decoded again.
func (pk *packer[T]) pack(obj T, raw *request.Raw, was *Packed[T], fresh bool) (*Packed[T], error) {
	if pk.finish != nil {
		pk.finish(obj)
	}
	p := &Packed[T]{ns: unique.Make(obj.GetNamespace()), name: obj.GetName()}
	if was != nil && was.name == p.name {
		p.name = was.name
	} else {
		// A table keeps the name of the first version, which must not keep all of that.
		p.name = strings.Clone(p.name)
	}
	data, enc := raw.Data, raw.Encoding
	written := data == nil || raw.Filled && !pk.remember(raw, &p.untyped)
	if written {
		var err error
		if data, err = json.Marshal(obj); err != nil {
			return nil, cannotPack(obj, err)
		}
		enc = decode.JSON
	}
	uid, version := string(obj.GetUID()), obj.GetResourceVersion()
	p.encoding, p.size = uint8(enc), uint32(len(data))
	buf := packBuffers.Get().(*[]byte)
	out := (*buf)[:0]
	if len(uid) < elsewhere && len(version) < elsewhere {
		p.uid, p.version = uint8(len(uid)), uint8(len(version))
		out = append(append(out, uid...), version...)
	} else {
		p.uid, p.version = elsewhere, elsewhere
	}
	head := len(out)
	out, dict := pk.coder.Pack(out, data)
	if pk.limit != nil && len(out)-head >= leastBody && p.uid != elsewhere {
		p.data = string(out[:head])
		p.how = &packing[T]{pk: pk, body: newBody(pk.limit, pk.source, p.ns, obj,
			contents{dict, string(out[head:]), p.size, p.encoding, p.untyped}, data)}
		c, _ := p.contents()
		pk.coder.Note(dict, c.packed, len(data))
	} else {
		p.how, p.data = pk.packing(dict), string(out)
		pk.coder.Note(dict, p.data[head:], len(data))
	}
	if cap(out) <= 1<<20 {
		*buf = out
		packBuffers.Put(buf)
	}
	if written { // bytes of the server were decoded already
		if c, ok := p.contents(); ok {
			if _, err := pk.decode(p, c); err != nil {
				return nil, cannotPack(obj, err)
			}
		}
	}
	if fresh || p.how.body != nil { // index functions read it before a limit lets it go
		p.share(obj, false)
	}
	return p, nil
}

func cannotPack[T Identified](obj T, err error) *Error {
	return &Error{Op: opDecode, Key: KeyOf(obj), UID: obj.GetUID(), Err: fmt.Errorf("cannot be packed: %w", err)}
}

// remember adds the kind of raw to untyped, and sets at to its place there, counted from one. It
// reports false if there is no more room.
func (pk *packer[T]) remember(raw *request.Raw, at *uint8) bool {
	pk.mu.Lock()
	defer pk.mu.Unlock()
	is := metav1.TypeMeta{Kind: raw.Kind, APIVersion: raw.APIVersion}
	for i, known := range pk.untyped {
		if known == is {
			*at = uint8(i + 1)
			return true
		}
	}
	if len(pk.untyped) == 255 {
		return false
	}
	pk.untyped = append(pk.untyped, is)
	*at = uint8(len(pk.untyped))
	return true
}

// An opener decodes one object at a time.
type opener struct {
	d   standard.Decoder
	buf []byte
}

// open is decode for contents that were decoded before, and so cannot fail.
func (pk *packer[T]) open(p *Packed[T], c contents) T {
	obj, err := pk.decode(p, c)
	if err != nil {
		panic(p.broken(err))
	}
	return obj
}

// decode decodes c, the contents of p, into a new object.
func (pk *packer[T]) decode(p *Packed[T], c contents) (obj T, err error) {
	pk.mu.Lock()
	o := new(opener)
	if n := len(pk.idle); n > 0 {
		o, pk.idle = pk.idle[n-1], pk.idle[:n-1]
	}
	var is metav1.TypeMeta
	if c.untyped > 0 {
		is = pk.untyped[c.untyped-1]
	}
	pk.mu.Unlock()
	if o.d == nil {
		if o.d, err = pk.h.take(&o.d); err != nil {
			return obj, err
		}
		if !pk.h.Whole {
			o.d.ReuseFrom(func(string, string) any { return nil }) // so that it makes its notes, and templates
		}
	}
	o.buf = p.unpack(c, o.buf[:0])
	got := o.d.Again(o.buf, decode.Encoding(c.encoding))
	if u, ok := got.Value.(interface{ UnstructuredContent() map[string]any }); ok && is != (metav1.TypeMeta{}) {
		u.UnstructuredContent()["kind"], u.UnstructuredContent()["apiVersion"] = is.Kind, is.APIVersion
	}
	if obj, err = pk.h.object(got); err != nil {
		return obj, err
	}
	if cap(o.buf) > 1<<20 {
		o.buf = nil
	}
	pk.mu.Lock()
	if len(pk.idle) < runtime.GOMAXPROCS(0) {
		pk.idle = append(pk.idle, o)
	}
	pk.mu.Unlock()
	if pk.finish != nil {
		pk.finish(obj)
	}
	return obj, nil
}

// labelsOf decodes the labels of p alone. ok is false if that would be as much work as to decode p,
// or if the labels of the object may differ from those in its bytes.
func (pk *packer[T]) labelsOf(p *Packed[T], c contents) (labels map[string]string, ok bool) {
	if enc := decode.Encoding(c.encoding); !pk.h.reuses() || pk.h.Only != nil || len(pk.h.Drop) > 0 || pk.finish != nil ||
		enc == decode.CBOR {
		return nil, false
	}
	pk.mu.Lock()
	d := pk.labels
	pk.labels = nil
	pk.mu.Unlock()
	if d == nil {
		var err error
		if d, err = decode.New(reflect.TypeFor[*labelled](), decode.Options{Workers: -1}); err != nil {
			return nil, false
		}
	}
	buf := packBuffers.Get().(*[]byte)
	*buf = p.unpack(c, (*buf)[:0])
	got := d.Again(*buf, decode.Encoding(c.encoding))
	packBuffers.Put(buf)
	pk.mu.Lock()
	pk.labels = d
	pk.mu.Unlock()
	if got.Err != nil {
		return nil, false
	}
	return got.Value.(*labelled).Metadata.Labels, true
}

// A labelled is an object of which only the labels are decoded.
type labelled struct {
	Metadata struct {
		Labels map[string]string `json:"labels" protobuf:"bytes,11,rep,name=labels"`
	} `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
}
