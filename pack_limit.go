package lw

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"
	"weak"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/internal/pace"
	"github.com/go-lw/lw/internal/recent"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/table"
)

const (
	// leastBody is the least number of packed bytes that is let go. Less is not worth it, since the
	// metadata that stays takes about half a kilobyte.
	leastBody = 2 << 10
	// mostRest bounds the metadata that stays, since annotations alone may have 256 KiB.
	mostRest = 16 << 10
	// fetches bounds the requests for objects at the same time. An object may have a megabyte, and
	// takes three times as much until it is packed.
	fetches = 8
	// openPatience is how long a read that returns no error waits for an object.
	openPatience = time.Minute
)

// A PackLimit bounds the memory of packed objects, however many objects others make, and however
// large. It is for all sources whose [PackOptions] have it. Above the limit, it lets objects go:
// the largest that nobody has opened lately. Of these the program keeps the identity and the
// metadata alone, and a read asks the server for the rest, as [Packed.Open] says. Lists and indexes
// stay complete. The zero value has no limit.
//
// Three quarters of Bytes are for objects. The rest is for decoded objects, and for versions that
// have left the store while a late handler or a [Snapshot] still has them. The oldest of these are
// let go first.
//
// A PackLimit also sets the memory limit of Go's runtime, unless the program or GOMEMLIMIT has set
// one. That limit is a little above Bytes, or above what the program has live, so that garbage does
// not double the memory. It ends when nobody uses the PackLimit any more.
//
// Indexes cost no request. Their functions are called when an object comes, and the values stay
// when the object is let go. They are also called for objects of a list that fails later, and again
// for a version that a relist brings with other bytes. Only an index that is added to a cache that
// has objects already opens them.
//
// An object of less than 2 KiB of packed bytes is never let go, since its metadata takes as much. A
// PackLimit must not be copied, and its fields must not be changed after its first use.
type PackLimit struct {
	Bytes int64 // the limit, for packed and decoded objects together; 0: none
	// OnError is called when Open, or another read without an error of its own, has to return metadata
	// because the server has not returned the object for a minute. It is called in the goroutine of
	// the read. Nil: slog.Default logs the error.
	OnError func(error)

	packTotals
	requests, gone, failed atomic.Uint64
	once                   sync.Once
	slots                  chan struct{} // one for each fetch that runs

	bodies   []weak.Pointer[body] // that may be let go, and some that were; guarded by mu, as those below
	lived    int                  // the length of bodies after tidyLocked
	outlived []weak.Pointer[body] // that have left their store, the oldest first; some are collected
	outBytes int64                // of outlived
	paced    recent.Pacing
}

// Usage returns what fills the limit now.
func (l *PackLimit) Usage() PackUsage {
	u := PackUsage{Limit: l.Bytes, Bytes: l.kept.Load(), LetGo: l.letGone.Load(), Requests: l.requests.Load(),
		Gone: l.gone.Load(), Failed: l.failed.Load()}
	l.mu.Lock()
	for s := range l.sources {
		u.Largest = append(u.Largest, s.sharesLocked()...)
	}
	l.mu.Unlock()
	u.sort()
	return u
}

// join adds the source of pk to its limit.
func (pk *packer[T]) join(l *PackLimit) {
	pk.source = &limitedSource{limit: &l.packTotals, bytes: &l.Bytes, url: pk.h.URL,
		shares: map[unique.Handle[string]]*limitedShare{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sources == nil {
		l.sources = map[*limitedSource]struct{}{}
	}
	l.sources[pk.source] = struct{}{}
	runtime.AddCleanup(pk, (*limitedSource).leave, pk.source) // every object has pk, so none is left
}

// most returns how many packed bytes may stay.
func (l *PackLimit) most() int64 { return l.Bytes - l.Bytes/4 }

// A body has the packed bytes of one cell, which may be let go.
type body struct {
	limit *PackLimit
	now   atomic.Pointer[contents] // nil: it was let go
	rest  contents                 // stays when now is let go: the metadata as JSON
	bare  bool                     // rest has only the identity
	sum   atomic.Uint64            // sumOf the bytes that were packed last
	memo  table.Memo               // of the indexes of the store that has the cell
	hot   atomic.Bool              // somebody has opened the object since shrinkLocked last looked
	old   atomic.Bool              // the cell has left the store
	bytes *counted
	// listed says that limit.bodies has it. Guarded by limit.mu.
	listed bool
}

// newBody returns the body of a cell in the namespace ns. c has the packed bytes of data.
func newBody(l *PackLimit, s *limitedSource, ns unique.Handle[string], obj Identified, c contents, data []byte) *body {
	b := &body{limit: l, bytes: &counted{limit: s.limit}}
	b.sum.Store(sumOf(data))
	var rest []byte
	rest, b.bare = restOf(obj)
	b.rest = asJSON(rest, c.untyped)
	b.now.Store(&c)
	runtime.AddCleanup(b, (*counted).leave, b.bytes)
	l.mu.Lock()
	defer l.mu.Unlock()
	b.bytes.share = s.shareLocked(ns)
	l.addLocked(b)
	return b
}

var sums = maphash.MakeSeed()

// sumOf returns a hash of the bytes of an object. An item of a list, which may lack its kind, has
// the same hash as the object of an event.
func sumOf(data []byte) uint64 {
	if bytes.HasPrefix(data, []byte(`{"kind":`)) {
		if _, rest, ok := bytes.Cut(data[:min(len(data), 512)], []byte(`"metadata":`)); ok {
			data = data[min(len(data), 512)-len(rest):]
		}
	} else {
		data = bytes.TrimPrefix(data, []byte(`{"metadata":`))
	}
	return maphash.Bytes(sums, data)
}

// restOf returns the metadata of obj that stays when obj is let go, as JSON. bare says that there
// was room for its identity alone.
func restOf(obj Identified) (text []byte, bare bool) {
	write := func(m any) []byte {
		data, _ := json.Marshal(map[string]any{"metadata": m}) // metadata can always be encoded
		return data
	}
	if m, ok := obj.(metav1.Object); ok {
		rest := &metav1.ObjectMeta{Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID(),
			ResourceVersion: m.GetResourceVersion(), GenerateName: m.GetGenerateName(), Generation: m.GetGeneration(),
			CreationTimestamp: m.GetCreationTimestamp(), DeletionTimestamp: m.GetDeletionTimestamp(),
			DeletionGracePeriodSeconds: m.GetDeletionGracePeriodSeconds(), Labels: m.GetLabels(),
			Annotations: m.GetAnnotations(), OwnerReferences: m.GetOwnerReferences(), Finalizers: m.GetFinalizers()}
		if text = write(rest); len(text) <= mostRest {
			return text, false
		}
		rest.Annotations = nil
		if text = write(rest); len(text) <= mostRest {
			return text, false
		}
	}
	m := MetaOf(obj)
	return write(&m), true
}

// contents returns the packed bytes. ok is false if they were let go.
func (b *body) contents() (c contents, ok bool) {
	if now := b.now.Load(); now != nil {
		return *now, true
	}
	return c, false
}

// used notes that somebody has opened the object. A cell without a body is never let go.
func (b *body) used() {
	if b != nil && !b.hot.Load() {
		b.hot.Store(true)
	}
}

// left notes that the store no longer has the cell. The store calls it when it shows the change,
// and not when a list or an event brings another version: reads have this one until then, and go on
// to have it if the list fails.
func (b *body) left() {
	if b == nil {
		return
	}
	l := b.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.old.Swap(true) {
		return
	}
	b.bytes.leave()
	if now := b.now.Load(); now != nil && l.Bytes > 0 {
		l.outliveLocked(b, int64(len(now.packed)))
	}
}

// addLocked counts the contents of b, and lets other objects go if there is no room.
func (l *PackLimit) addLocked(b *body) {
	n := int64(len(b.now.Load().packed))
	if len(l.bodies) >= 2*l.lived+256 {
		l.tidyLocked()
	}
	if !b.listed {
		l.bodies, b.listed = append(l.bodies, weak.Make(b)), true
	}
	if b.bytes.keep(n); l.Bytes <= 0 {
		return
	}
	if l.kept.Load() > l.most() {
		l.shrinkLocked(b)
	}
	if l.paced.Grown(n, l.Bytes) {
		runtime.AddCleanup(l, recent.Leave, l.Bytes)
	}
}

// outliveLocked adds b, which has n bytes, to the versions that have left their store, and bounds
// them. The collector frees most of them. Those that a late handler or a snapshot still has stay:
// without a bound, a handler that blocks while all objects change would keep all of them twice.
func (l *PackLimit) outliveLocked(b *body, n int64) {
	l.outlived, l.outBytes = append(l.outlived, weak.Make(b)), l.outBytes+n
	room := l.Bytes/16 + max(0, l.most()-l.kept.Load())
	if l.outBytes <= room && len(l.outlived) < cap(l.outlived) {
		return
	}
	var stay []weak.Pointer[body]
	l.outBytes = 0
	for _, w := range slices.Backward(l.outlived) {
		b := w.Value()
		if b == nil {
			continue
		}
		n := int64(len(b.now.Load().packed))
		if l.outBytes+n > room-room/4 { // leaves room for the next versions
			b.now.Store(nil)
			continue
		}
		stay, l.outBytes = append(stay, w), l.outBytes+n
	}
	slices.Reverse(stay)
	l.outlived = slices.Grow(stay, len(stay)+256) // the next sweep comes when this is full
}

// tidyLocked removes the bodies that are let go, replaced or collected, and returns the others.
func (l *PackLimit) tidyLocked() (all []*body) {
	kept := l.bodies[:0]
	for _, w := range l.bodies {
		switch b := w.Value(); {
		case b == nil:
		case b.now.Load() == nil || b.old.Load():
			b.listed = false
		default:
			all, kept = append(all, b), append(kept, w)
		}
	}
	clear(l.bodies[len(kept):])
	l.bodies, l.lived = kept, len(kept)
	return all
}

// shrinkLocked lets objects go until a sixteenth of the room is free, so that not every new object
// calls it. The largest go first. Those that somebody has opened lately are spared as long as there
// are others, and but goes last.
func (l *PackLimit) shrinkLocked(but *body) {
	all := l.tidyLocked()
	slices.SortFunc(all, func(a, b *body) int { return cmp.Compare(b.bytes.n.Load(), a.bytes.n.Load()) })
	target := l.most() - l.most()/16
	for _, spared := range []func(*body) bool{
		func(b *body) bool { return b == but || b.hot.Swap(false) },
		func(b *body) bool { return b == but },
		func(*body) bool { return false },
	} {
		for _, b := range all {
			if l.kept.Load() <= target {
				return
			}
			if b.now.Load() != nil && !spared(b) {
				l.dropLocked(b)
			}
		}
		target = l.most()
	}
}

// dropLocked lets b go.
func (l *PackLimit) dropLocked(b *body) {
	b.now.Store(nil)
	b.bytes.letGo()
}

// restore gives b its contents back after a fetch. sum is the sumOf their bytes.
func (l *PackLimit) restore(b *body, c contents, sum uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.old.Load() || b.now.Load() != nil {
		return
	}
	b.now.Store(&c)
	b.sum.Store(sum)
	b.used()
	l.addLocked(b)
}

// report reports err of a read that returns metadata alone.
func (l *PackLimit) report(err error) {
	l.failed.Add(1)
	if l.OnError != nil {
		l.OnError(err)
		return
	}
	slog.Default().Error("lw: an object that was let go could not be read", slog.Any("error", err))
}

// fetch asks the server for an object that was let go. If another goroutine has fetched it
// meanwhile, it makes no request.
func (pk *packer[T]) fetch(ctx context.Context, p *Packed[T]) (obj T, err error) {
	l := pk.limit
	failed := func(err error) error { return &Error{Op: opOpen, Key: KeyOf(p), UID: p.GetUID(), Err: err} }
	l.once.Do(func() { l.slots = make(chan struct{}, fetches) })
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return obj, failed(context.Cause(ctx))
	}
	defer func() { <-l.slots }()
	if last, ok := p.Peek(); ok {
		return last, nil
	}
	if c, ok := p.contents(); ok {
		return p.share(pk.open(p, c), true), nil
	}
	l.requests.Add(1)
	pk.source.requests.Add(1)
	var raw request.Raw
	var c contents
	var sum uint64
	found := false
	opts := metav1.ListOptions{FieldSelector: selectorOf(KeyOf(p)), ResourceVersion: p.GetResourceVersion(),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	// With a lender the decoder makes notes for the next version, as for every object in a store.
	ctx = request.WithLender(ctx, func(string, string) any { return nil })
	// A source with a field selector of its own may answer with more.
	ctx = request.WithWanted(ctx, func(namespace, name string) bool { return namespace == p.GetNamespace() && name == p.name })
	read := func(ctx context.Context) error {
		_, err := pk.h.List(request.WithRaw(ctx, &raw), opts, func(got T, err error) error {
			if err == nil && KeyOf(got) == KeyOf(p) && got.GetUID() == p.GetUID() {
				obj, found = got, true
				c, sum = pk.received(got, &raw), sumOf(raw.Data)
			}
			return err
		})
		return err
	}
	if ask := pk.ask.Load(); ask != nil {
		err = (*ask)(ctx, opts, read)
	} else {
		err = read(ctx)
	}
	switch {
	case apierrors.IsNotFound(err): // the collection is not found, which says nothing of its objects
		return obj, failed(errors.New(err.Error()))
	case err != nil:
		return obj, failed(err)
	case !found:
		l.gone.Add(1)
		pk.source.gone.Add(1)
		return obj, failed(apierrors.NewNotFound(schema.GroupResource{Resource: path.Base(pk.h.URL)}, p.name))
	case c.packed == "" || !sameVersion[Identified](obj, p): // it is newer
		return obj, nil
	}
	l.restore(p.how.body, c, sum)
	return p.share(obj, true), nil
}

// received finishes obj, and packs raw, from which it was decoded. The result is zero if it cannot
// be kept.
func (pk *packer[T]) received(obj T, raw *request.Raw) (c contents) {
	if pk.finish != nil {
		pk.finish(obj)
	}
	if raw.Data == nil || raw.Filled && !pk.remember(raw, &c.untyped) {
		return contents{}
	}
	var out []byte
	out, c.dict = pk.coder.Pack(nil, raw.Data)
	c.packed, c.size, c.encoding = string(out), uint32(len(raw.Data)), uint8(raw.Encoding)
	return c
}

// fetchForOpen is fetch for reads that return no error.
func (pk *packer[T]) fetchForOpen(p *Packed[T]) T {
	b := p.how.body
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	for pause := 100 * time.Millisecond; !b.old.Load(); pause = min(2*pause, 5*time.Second) {
		obj, err := pk.fetch(ctx, p)
		if err == nil {
			return obj
		}
		if apierrors.IsNotFound(err) {
			return pk.remnant(p, request.Gone)
		}
		if pace.Sleep(ctx, pause); ctx.Err() != nil {
			pk.source.failed.Add(1)
			b.limit.report(err)
			break
		}
	}
	return pk.remnant(p, request.LetGo)
}

// remnant returns the metadata that is left of p, at version, which says why there is no more.
func (pk *packer[T]) remnant(p *Packed[T], version string) T {
	b := p.how.body
	rest := strings.Replace(b.rest.packed, fmt.Sprintf(`"resourceVersion":%q`, p.GetResourceVersion()),
		fmt.Sprintf(`"resourceVersion":%q`, version), 1)
	return pk.open(p, asJSON([]byte(rest), b.rest.untyped))
}

// written returns the JSON of obj, which was decoded and so can be encoded.
func (pk *packer[T]) written(obj T) []byte {
	data, err := json.Marshal(obj)
	if err != nil {
		panic(cannotPack(obj, err).Error())
	}
	return data
}
