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
	// leastBody is how many packed bytes are worth to be let go: what stays of an object takes half a
	// kilobyte or so.
	leastBody = 2 << 10
	// mostRest bounds what stays, since annotations alone may have 256 KiB.
	mostRest = 16 << 10
	// fetches is how many objects are asked for at the same time. Each may have a megabyte, and takes
	// three times that until it is packed.
	fetches = 8
	// A read without an error waits so long for an object that cannot be read.
	openPatience = time.Minute
)

// A PackLimit bounds the memory of packed objects, of all sources whose [PackOptions] have it,
// however many objects others make, and however large. Above it the largest objects that nobody has
// opened of late keep their identity and their metadata alone, and a read of such an object asks
// the server for it: [Packed.Open] says how. Lists and indexes stay complete. The zero value has no
// limit.
//
// Three quarters of Bytes are for objects. The rest is for what is decoded of them, and for versions
// that have left the store while a late handler or a [Snapshot] still has them: where these do not
// fit, the oldest keep their metadata alone.
//
// Unless the program or GOMEMLIMIT has set a memory limit of Go's runtime, a PackLimit sets it, a
// little above Bytes or above what the program has live, so that garbage does not double the memory.
// It takes that back when nobody uses the PackLimit any more.
//
// The function of an index is called when an object comes, while it is there: it costs no request, and
// its values stay. It is called for objects of lists, too, that fail later, and once more for the same
// version if a relist has other bytes of it. Only an index that is added to a cache with objects opens
// them.
//
// An object of less than 2 KiB of packed bytes is never let go, since its metadata would take as
// much. A PackLimit must not be copied, and its fields not be changed after its first use.
type PackLimit struct {
	Bytes int64 // of all objects and what is decoded of them; 0: no limit
	// OnError is called with the error of a read that has no error of its own, of an object that the
	// server has not returned for a minute: in the goroutine of the read. Nil: slog.Default logs it.
	OnError func(error)

	packTotals
	requests, gone, failed atomic.Uint64
	once                   sync.Once
	slots                  chan struct{} // a fetch has one of them

	bodies   []weak.Pointer[body] // that may be let go, and some that were; guarded by mu, as those below
	lived    int                  // how many of bodies there were when it was tidied last
	outlived []weak.Pointer[body] // that have left their store, in this order; some are collected
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
	runtime.AddCleanup(pk, (*limitedSource).leave, pk.source) // no object is left, since each has pk
}

// most is how many packed bytes are kept.
func (l *PackLimit) most() int64 { return l.Bytes - l.Bytes/4 }

// A body has the packed bytes of one cell, which may be let go.
type body struct {
	limit *PackLimit
	now   atomic.Pointer[contents] // nil: it was let go
	rest  contents                 // what stays: JSON with the metadata
	bare  bool                     // what stays is no more than the identity
	sum   atomic.Uint64            // sumOf what was packed last
	memo  table.Memo               // of the indexes of the store that has the cell
	hot   atomic.Bool              // it was opened since the limit looked last
	old   atomic.Bool              // another version has its place
	bytes *counted
	// listed says that it is in limit.bodies. Guarded by limit.mu.
	listed bool
}

// newBody returns the body of a cell in the namespace ns, whose contents are packed of data.
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

// sumOf returns the hash of the bytes of an object: the same for an item of a list, which need not
// have its kind, as for the object of an event.
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

// restOf returns what is kept of obj when it is let go. bare says that there is no room for more
// than its identity.
func restOf(obj Identified) (text []byte, bare bool) {
	write := func(m any) []byte {
		data, _ := json.Marshal(map[string]any{"metadata": m}) // metadata can be written
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

// contents returns what is packed. ok is false if it was let go.
func (b *body) contents() (c contents, ok bool) {
	if now := b.now.Load(); now != nil {
		return *now, true
	}
	return c, false
}

// used notes that somebody has opened the object. A nil body is one that is never let go.
func (b *body) used() {
	if b != nil && !b.hot.Load() {
		b.hot.Store(true)
	}
}

// left notes that the store does not have the cell any more. Its list or event alone does not say
// so: until the store shows the change, or if a list fails, reads go on to have this version.
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

// addLocked counts a body that has contents, and lets others go if there is no room for it.
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

// outliveLocked bounds the versions that have left their store, of which b is one with n bytes more.
// Nobody reads them there, so only those whose cell a late handler or a snapshot has are not
// collected: without a bound, a handler that waits while all objects change would keep all twice.
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
		if l.outBytes+n > room-room/4 { // so that the next one has room
			b.now.Store(nil)
			continue
		}
		stay, l.outBytes = append(stay, w), l.outBytes+n
	}
	slices.Reverse(stay)
	l.outlived = slices.Grow(stay, len(stay)+256) // the next sweep is as many versions away
}

// tidyLocked forgets the bodies that are let go, replaced or collected, and returns the others.
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

// shrinkLocked lets objects go until there is a sixteenth of the room again, so that it is not
// called for each new object: the largest first, those that were opened of late last, and but at
// the very end.
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

// restore gives b its contents again, which were asked for; sum is that of their bytes.
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

// report reports a read that has returned metadata alone.
func (l *PackLimit) report(err error) {
	l.failed.Add(1)
	if l.OnError != nil {
		l.OnError(err)
		return
	}
	slog.Default().Error("lw: an object that was let go could not be read", slog.Any("error", err))
}

// fetch asks the server for an object that was let go.
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
	// As all objects of a store, this one has notes for the decoder of the next version: see lend.
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
	case apierrors.IsNotFound(err): // of the collection, which says nothing of its objects
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

// received returns the contents of obj, which was decoded from raw; zero if they cannot be kept.
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

// fetchForOpen is fetch for a read without an error.
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

// remnant returns what is left of p, at a version that says so.
func (pk *packer[T]) remnant(p *Packed[T], version string) T {
	b := p.how.body
	rest := strings.Replace(b.rest.packed, fmt.Sprintf(`"resourceVersion":%q`, p.GetResourceVersion()),
		fmt.Sprintf(`"resourceVersion":%q`, version), 1)
	return pk.open(p, asJSON([]byte(rest), b.rest.untyped))
}

// written returns the JSON of obj, which was decoded.
func (pk *packer[T]) written(obj T) []byte {
	data, err := json.Marshal(obj)
	if err != nil {
		panic(cannotPack(obj, err).Error())
	}
	return data
}
