package proof

import (
	"context"
	"io"
	"slices"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/verify/oracle"
)

// A partWrite is one write of a transaction.
type partWrite struct {
	name, group string
	size        int
	gone        bool // the object is deleted, if there is one
}

// transact makes all writes at one version, and returns it. Objects that do not change keep theirs.
func (d *direct) transact(puts []*Part, gone []lw.Key) uint64 {
	var writes []history.Write[*Part]
	for _, p := range puts {
		writes = append(writes, history.Write[*Part]{Object: history.Object[*Part]{Key: lw.KeyOf(p), Labels: p.Labels,
			Value: p}})
	}
	for _, key := range gone {
		writes = append(writes, history.Write[*Part]{Object: history.Object[*Part]{Key: key}, Delete: true})
	}
	version, err := d.parts.Transact(writes...)
	must(err)
	return version
}

// pauseAmid makes each watch pause between two events of one version, as one does whose connection
// is slow.
func (d *direct) pauseAmid(pause time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.amid = pause
}

func (d *direct) waitAmid(ctx context.Context) {
	d.mu.Lock()
	pause := d.amid
	d.mu.Unlock()
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// tornFault is a watch that ends amid the events of one version.
const tornFault = "F59"

// doTransact writes several objects at one version. Most often the events arrive with pauses: then
// what is shown meanwhile must be the state before, and the watch may end before the last of them.
// Only a server of function calls has transactions.
func (w *world) doTransact(rt *rapid.T) {
	d, ok := w.server.(*direct)
	if !ok {
		return
	}
	var writes []partWrite
	for range rapid.IntRange(2, 4).Draw(rt, "writes") {
		write := partWrite{name: drawPart(rt), group: drawGroup(rt), size: drawPartSize(rt),
			gone: rapid.IntRange(0, 3).Draw(rt, "gone") == 3}
		if !slices.ContainsFunc(writes, func(other partWrite) bool { return other.name == write.name }) {
			writes = append(writes, write)
		}
	}
	pauses := rapid.IntRange(0, 3).Draw(rt, "pauses") > 0
	end := rapid.SampledFrom([]error{nil, io.EOF, io.ErrUnexpectedEOF}).Draw(rt, "end")
	if !pauses {
		w.transact(d, writes)
		return
	}
	if w.seq {
		synctest.Wait() // else the pauses could be of an earlier transaction
	}
	d.pauseAmid(time.Second)
	defer d.pauseAmid(0)
	w.transact(d, writes)
	time.Sleep(time.Second / 2)
	w.look()
	if end != nil {
		w.injected = append(w.injected, tornFault)
		d.poke(directPoke{err: end})
		w.look()
	}
	time.Sleep(time.Duration(len(writes)) * time.Second)
}

// transact makes all writes at one version.
func (w *world) transact(d *direct, writes []partWrite) {
	w.transacted.Store(true)
	w.log.Writes(func() (out []oracle.Write) {
		var puts []*Part
		var gone []lw.Key
		for _, write := range writes {
			key := partKey(write.name)
			switch {
			case !write.gone:
				puts = append(puts, newPart(write.name, write.group, write.size))
			case w.last[key] != nil:
				gone = append(gone, key)
			}
		}
		version := d.transact(puts, gone)
		for _, key := range gone {
			delete(w.last, key)
			out = append(out, oracle.Write{Version: version, Key: key})
		}
		for _, p := range puts {
			key := lw.KeyOf(p)
			is, err := d.parts.Get(key)
			must(err)
			if before := w.last[key]; before != nil && before.ResourceVersion == listopts.FormatVersion(is.Version) {
				continue
			}
			own := *p // the other one is the server's
			own.UID, own.ResourceVersion = is.UID, listopts.FormatVersion(is.Version)
			w.last[key] = &own
			out = append(out, w.expect(&own, version))
		}
		return out
	})
}
