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
	// Finish is called with each object that was decoded, before anybody has it: with the same
	// version as often as it is decoded, by any goroutine. It may change the object, in the same way
	// each time. Nil: nothing is done.
	Finish func(obj Identified)
	// Limit bounds the memory of the objects, together with those of other sources that have the same
	// one. Nil: all are kept.
	Limit *PackLimit
}

// Pack returns a Source of the objects of src as compressed bytes, of which an [Informer] keeps a
// tenth to a sixteenth of the memory that objects take. [Packed.Open] decodes one. What was decoded
// is there for others as long as somebody has it, and some of it a little longer.
//
// The bytes are those that the server has sent, whole: Drop, Only and a projection of src hold for
// what is decoded of them. Keep src for this alone. What a [Transform] makes of an object cannot be
// packed; of a packed collection use Finish, or derive another one.
//
// docs/memory.md says what it saves and what it costs.
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

// A packSource is the result of Pack.
type packSource[T Identified] struct{ pk *packer[T] }

// Hints returns those of the source of objects.
func (s *packSource[T]) Hints() SourceHints { return s.pk.h.Hints() }

// reuses reports that the source wants the last versions: those of them that somebody has decoded
// are for the decoder.
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

// lend returns ctx for the source of objects, which gets raw to fill, and the function that it
// lends from: nil lends nothing. A version is lent only if somebody has it: to decode the old one
// for the new one would cost more than it saves. A lender is there in any case, since a decoder
// without one makes no notes for the next version, and no templates.
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

// cell returns what is yielded in the place of obj: its last version, if that is what the source
// has yielded again. fresh says that obj is about to be read.
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
		runtime.KeepAlive(obj) // who indexes p finds it
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
		runtime.KeepAlive(ev.Object) // who indexes out.Object finds it
		return err
	})
}

// hot is what keeps objects that were decoded more than once, of all packed collections.
var hot = recent.NewRing(16 << 20)

// A packer packs and opens the objects of one source.
type packer[T Identified] struct {
	h      *HTTP[T]
	finish func(Identified)
	limit  *PackLimit     // nil: none
	source *limitedSource // of limit
	kind   recent.Kind[T]
	coder  lz.Coder
	plain  packing[T]                  // of bytes as they came
	last   atomic.Pointer[packing[T]]  // of the dictionary that was used last
	ask    atomic.Pointer[request.Ask] // makes the requests for what was let go; nil: h does
	// opened is called with what was decoded and is about to be shared; nil: nobody asks.
	opened atomic.Pointer[func(*Packed[T], T)]

	mu      sync.Mutex
	idle    []*opener         // at most one for each processor; guarded by mu, as those below
	labels  *decode.Decoder   // of labels alone; nil: there is none, or it is in use
	untyped []metav1.TypeMeta // of objects whose bytes do not say it; see Packed.untyped
}

// A packing is how a cell was packed: who can open it, by which dictionary.
type packing[T Identified] struct {
	pk   *packer[T]
	dict *lz.Dict // nil: the bytes are as they came
	body *body    // of one cell, which a PackLimit may let go; nil: the bytes are in the cell
}

// packing returns the one with that dictionary.
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

// pack returns obj, which was decoded from raw. was is the last version; nil: it is not known.
// fresh says that obj is about to be read. There is an error if obj has no bytes, and cannot be
// written and read.
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
	if written { // what came as bytes has been decoded from them
		if c, ok := p.contents(); ok {
			if _, err := pk.decode(p, c); err != nil {
				return nil, cannotPack(obj, err)
			}
		}
	}
	if fresh || p.how.body != nil { // the indexes open it before it is let go
		p.share(obj, false)
	}
	return p, nil
}

func cannotPack[T Identified](obj T, err error) *Error {
	return &Error{Op: opDecode, Key: KeyOf(obj), UID: obj.GetUID(), Err: fmt.Errorf("cannot be packed: %w", err)}
}

// remember sets at to where the kind of raw is in untyped, plus one. It reports false if there is
// no more room.
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

// An opener has what it takes to decode one object.
type opener struct {
	d   standard.Decoder
	buf []byte
}

// open is decode of what was decoded before.
func (pk *packer[T]) open(p *Packed[T], c contents) T {
	obj, err := pk.decode(p, c)
	if err != nil {
		panic(p.broken(err))
	}
	return obj
}

// decode decodes c, the contents of p, to an object that nobody else has.
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

// labelsOf decodes the labels of p alone. ok is false if that is no less work, or the labels are
// not all that the object's bytes have.
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

// A labelled is the part of an object that has its labels.
type labelled struct {
	Metadata struct {
		Labels map[string]string `json:"labels" protobuf:"bytes,11,rep,name=labels"`
	} `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
}
