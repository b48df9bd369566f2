package etcd

import (
	"bytes"
	"context"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/request"
)

// A fact is what was seen of one key: that it was last changed at a revision, to a value.
type fact struct {
	path     []byte
	modified int64 // 0: the key was gone
	sum      uint64
}

func (f *fact) set(e *entry) {
	f.path, f.modified, f.sum = append(f.path[:0], e.path...), e.modified, maphash.Bytes(seed, e.value)
}

var seed = maphash.MakeSeed()

// A witness is what was seen last of the keys at a position: those that changed last, the newest
// first. It tells whether a server has the history that was read. Revisions alone do not: a server
// that was restored from a backup soon has them again. There are several keys because the newest
// may be deleted. That a key is gone is a poor fact, since it also is where it never was.
type witness struct {
	facts [4]fact
	n     int // of facts
}

// see adds what e says.
func (w *witness) see(e *entry) {
	for i := range w.n {
		if f := &w.facts[i]; bytes.Equal(f.path, e.path) {
			if f.modified <= e.modified {
				w.remove(i)
				break
			}
			return
		}
	}
	at := 0
	for at < w.n && w.facts[at].modified > e.modified {
		at++
	}
	if at == len(w.facts) {
		return
	}
	if w.n < len(w.facts) {
		w.n++
	}
	last := w.facts[w.n-1] // its memory is for the new one
	copy(w.facts[at+1:w.n], w.facts[at:])
	w.facts[at] = last
	w.facts[at].set(e)
}

// gone says that the key at path was deleted.
func (w *witness) gone(path []byte) {
	for i := range w.n {
		if bytes.Equal(w.facts[i].path, path) {
			w.remove(i)
			break
		}
	}
	if w.n == 0 {
		f := &w.facts[0]
		f.path, f.modified, f.sum = append(f.path[:0], path...), 0, 0
		w.n = 1
	}
}

// index returns the index of the fact about the key at path; -1: there is none.
func (w *witness) index(path []byte) int {
	return slices.IndexFunc(w.facts[:w.n], func(f fact) bool { return bytes.Equal(f.path, path) })
}

// remove removes a fact, and keeps its memory behind the others.
func (w *witness) remove(i int) {
	f := w.facts[i]
	copy(w.facts[i:], w.facts[i+1:w.n])
	w.n--
	w.facts[w.n] = f
}

// among returns a copy of w with the facts about keys of s.
func (w *witness) among(s *selection) (out witness) {
	for _, f := range w.facts[:w.n] {
		if s.contains(string(f.path)) {
			f.path = bytes.Clone(f.path)
			out.facts[out.n] = f
			out.n++
		}
	}
	return out
}

// A note is the witness of a position where a watch may begin: at the end of a list, or of a watch.
type note struct {
	position int64
	witness
}

// maxNotes is how many notes are kept of those who list and watch by themselves, without a
// reflector. Who watches from a position is not known then: a note holds for whoever is at it.
const maxNotes = 256

// A memo is the note of one reflector, which is at one position.
type memo struct {
	mu   sync.Mutex
	note // guarded by mu
}

// A following is what a collection knows of those who follow it.
type following struct {
	mu     sync.Mutex
	loose  []note              // of those without a memo, oldest first; guarded by mu
	pulses map[*pulse]struct{} // those of the open watches; guarded by mu
}

func newFollowing() *following { return &following{pulses: map[*pulse]struct{}{}} }

// memoOf returns the memo of the reflector that asks, or nil.
func (f *following) memoOf(ctx context.Context) *memo {
	return request.Recall(ctx, f, func() *memo { return new(memo) })
}

// listed notes what a list, or a page of one that is continued, has shown at a position.
func (f *following) listed(ctx context.Context, position int64, w *witness, continued bool) {
	if m := f.memoOf(ctx); m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if continued && m.position == position {
			m.merge(w)
		} else {
			m.note = note{position, *w}
		}
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.looseLocked(position)
	if continued && i >= 0 {
		f.loose[i].merge(w)
	} else {
		f.noteLocked(i, note{position, *w})
	}
}

// merge adds what was seen at the same position. A page may have been read twice: a key of which
// there were two facts would stay when it is gone.
func (w *witness) merge(other *witness) {
	for _, f := range other.facts[:other.n] {
		if w.index(f.path) >= 0 {
			continue
		}
		for i := range w.facts {
			if i == w.n {
				w.facts[i], w.n = f, w.n+1
				break
			}
			if f.modified > w.facts[i].modified {
				w.facts[i], f = f, w.facts[i]
			}
		}
	}
}

// watched notes what a watch has shown up to a position.
func (f *following) watched(ctx context.Context, position int64, w *witness) {
	if m := f.memoOf(ctx); m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.note = note{position, *w}
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noteLocked(f.looseLocked(position), note{position, *w})
}

// looseLocked returns the index of a position in loose; -1: it is not there.
func (f *following) looseLocked(position int64) int {
	return slices.IndexFunc(f.loose, func(n note) bool { return n.position == position })
}

func (f *following) noteLocked(i int, n note) {
	if i >= 0 {
		f.loose[i] = n
		return
	}
	if f.loose = append(f.loose, n); len(f.loose) > maxNotes {
		f.loose = slices.Delete(f.loose, 0, 1)
	}
}

// noted returns the witness of a position, of the keys of s. It is empty if there is none.
func (f *following) noted(ctx context.Context, position int64, s *selection) witness {
	if m := f.memoOf(ctx); m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.position != position {
			return witness{}
		}
		return m.among(s)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.looseLocked(position); i >= 0 {
		return f.loose[i].among(s)
	}
	return witness{}
}

// testify asks the cluster whether it has the history in which position was read: whether the newest
// key of w is as it was. Without a fact it is asked whether it has reached the position. The read is
// linearizable, so a member that lags catches up first. The error is rewound, Expired if the
// position was compacted, or that of the request.
func (c *Collection[T]) testify(ctx context.Context, position int64, w *witness) error {
	var was fact
	var opts []clientv3.OpOption
	if w.n > 0 {
		was = w.facts[0]
	} else {
		was.path, opts = []byte(c.prefix), append(opts, clientv3.WithCountOnly())
	}
	resp, err := c.reads.get(ctx, string(was.path), append(opts, clientv3.WithRev(position))...)
	if rpctypes.Error(err) == rpctypes.ErrFutureRev && ctx.Err() == nil {
		return rewound(position, 0, "the server has not reached revision %d, which was read", position)
	}
	if err != nil {
		return c.explain(ctx, err)
	}
	var is fact
	for _, kv := range resp.Kvs {
		e := entryOf(kv)
		is.set(&e)
	}
	if w.n == 0 || is.modified == was.modified && is.sum == was.sum {
		return nil
	}
	before, now := "was gone", "is gone"
	if was.modified > 0 {
		before = "was of revision " + formatVersion(was.modified)
	}
	switch {
	case is.modified == was.modified:
		now = "has another value"
	case is.modified > 0:
		now = "is of revision " + formatVersion(is.modified)
	}
	return rewound(position, resp.Header.Revision, "the server has another history: at revision %d %s %s, and now it %s", position, was.path, before, now)
}

// had is the Had of [lw.SourceHints].
func (c *Collection[T]) had(ctx context.Context, obj lw.Meta, version string) (bool, error) {
	position, err := parseVersion(version)
	if err != nil {
		return false, badRequest("%v", err)
	}
	resp, err := c.reads.get(ctx, c.path(obj.Key()), clientv3.WithRev(position))
	if err != nil {
		return false, c.readError(ctx, err, position)
	}
	if len(resp.Kvs) == 0 {
		return false, nil
	}
	e := entryOf(resp.Kvs[0])
	if formatVersion(e.modified) != obj.ResourceVersion {
		return false, nil
	}
	if obj.UID == "" || obj.UID == madeUID(e.created) {
		return true, nil
	}
	is, err := c.object(&e)
	return err == nil && is.GetUID() == obj.UID, nil
}

func formatVersion(revision int64) string { return strconv.FormatInt(revision, 10) }

// parseVersion returns a version as a revision; 0 for "" and "0".
func parseVersion(version string) (int64, error) {
	v, err := listopts.ParseVersion(version)
	return int64(min(v, 1<<63-1)), err
}
