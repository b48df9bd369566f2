package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/verify/oracle"
)

// commands are what a history is made of. A command draws all that it needs before it does
// anything: what a draw ends, when a history is shrunk, must not be half done.
func (w *world) commands() map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){}
	for name, c := range map[string]struct {
		weight int
		do     func(*rapid.T)
	}{
		"put":        {4, w.doPut},
		"transact":   {2, w.doTransact},
		"relabel":    {1, w.doRelabel},
		"delete":     {2, w.doDelete},
		"recreate":   {2, w.doRecreate},
		"bulk":       {1, w.doBulk},
		"spoil":      {1, w.doSpoil},
		"touch":      {1, w.doTouch},
		"compact":    {1, w.doCompact},
		"bookmark":   {1, func(*rapid.T) { w.server.line().Bookmark() }},
		"disconnect": {1, func(*rapid.T) { w.server.line().Disconnect() }},
		"gap":        {2, w.doGap},
		"restore":    {1, w.doRestore},
		"overtake":   {1, w.doOvertake},
		"outage":     {1, w.doOutage},
		"fault":      {6, w.doFault},
		"time":       {3, w.doTime},
		"join":       {2, w.doJoin},
		"events":     {1, w.doEvents},
		"leave":      {1, w.doLeave},
		"block":      {2, w.doBlock},
		"index":      {1, w.doIndex},
		"hold":       {1, w.doHold},
		"iterate":    {1, w.doIterate},
		"write":      {1, w.doReadYourWrite},
		"sync":       {1, w.doSync},
		"restart":    {1, w.doRestart},
		"graph wait": {1, w.doGraphWait},
		"tell":       {4, w.doTell},
		"tell late":  {1, w.doTellLate},
		"tell other": {1, w.doTellPhantom},
		"tell gone":  {2, w.doTellDeleted},
		"late":       {2, w.doLate},
	} {
		if name == "overtake" && roamerOf(w.server) != nil {
			continue // a relay that has not found out yet would answer that it has the same history
		}
		for i := range c.weight {
			all[fmt.Sprintf("%s%.*s", name, i, "''''''")] = func(rt *rapid.T) {
				c.do(rt)
				w.settled()
			}
		}
	}
	all[""] = func(*rapid.T) { w.look() }
	return all
}

func drawPart(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(rt, "name")
}

func drawGroup(rt *rapid.T) string { return rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "group") }

// drawPartSize draws 0 to 3, and now and then what the transform leaves out.
func drawPartSize(rt *rapid.T) int {
	return rapid.SampledFrom([]int{0, 1, 2, 3, sizeLeftOut}).Draw(rt, "size")
}

func (w *world) doPut(rt *rapid.T) {
	name, group, size := drawPart(rt), drawGroup(rt), drawPartSize(rt)
	w.put(name, group, size)
}

func (w *world) doRelabel(rt *rapid.T) {
	name := drawPart(rt)
	if p := w.last[partKey(name)]; p != nil {
		group := "x"
		if p.Group == "x" {
			group = "y"
		}
		w.put(name, group, p.Size)
	}
}

func (w *world) doDelete(rt *rapid.T) { w.remove(drawPart(rt)) }

func (w *world) doRecreate(rt *rapid.T) {
	name, group, size := drawPart(rt), drawGroup(rt), drawPartSize(rt)
	w.remove(name)
	w.put(name, group, size)
}

// doBulk writes a lot at once. The most of it is more than a handler is told one by one when it is
// behind. The copy follows it as it is written, or finds all of it at the end.
func (w *world) doBulk(rt *rapid.T) {
	sizes := []int{3, 10, 40}
	if _, ok := w.server.(*direct); ok {
		sizes = append(sizes, 1200)
	}
	name, n := drawPart(rt), rapid.SampledFrom(sizes).Draw(rt, "writes")
	follow := n > 1000 && rapid.Bool().Draw(rt, "follow")
	if n > 1000 {
		w.flood = true
		for _, l := range w.told {
			if !l.every {
				l.o.Falls()
			}
		}
	}
	for i := range n {
		w.put(name, "x", i%4)
		if follow && i%200 == 0 {
			synctest.Wait()
		}
	}
}

// doSpoil writes an object that cannot be decoded or transformed.
func (w *world) doSpoil(rt *rapid.T) {
	name := drawPart(rt)
	_, overHTTP := w.server.(*web)
	switch {
	case overHTTP && (!w.turns || rapid.Bool().Draw(rt, "broken")):
		w.put(name, "x", sizeBroken)
	case w.turns:
		w.put(name, "x", sizeBad)
	}
}

func (w *world) doTouch(rt *rapid.T) { w.touch(rapid.Uint64Range(1, 3).Draw(rt, "versions")) }

func (w *world) doCompact(rt *rapid.T) {
	back := rapid.Uint64Range(0, 3).Draw(rt, "back")
	now := w.server.line().Version()
	w.server.line().Compact(now - min(back, now))
}

// doGap is what a watch cannot see: writes whose history is gone before the copy is back.
func (w *world) doGap(rt *rapid.T) {
	what := rapid.SampledFrom([]string{"put", "delete", "recreate"}).Draw(rt, "what")
	name, group, size := drawPart(rt), drawGroup(rt), drawPartSize(rt)
	w.server.line().Disconnect()
	switch what {
	case "put":
		w.put(name, group, size)
	case "delete":
		w.remove(name)
	case "recreate":
		w.remove(name)
		w.put(name, group, size)
	}
	w.age()
}

// doRestore is a server that goes back to a backup, while the copy is up to date or is not. Nothing
// is written until the copy has found out: from then on the versions that it has seen mean
// something else, which nobody could tell it.
func (w *world) doRestore(rt *rapid.T) {
	back, early := rapid.Uint64Range(1, 8).Draw(rt, "back"), rapid.Bool().Draw(rt, "early")
	if !early || w.inf.Status().Ahead > 0 { // nobody could know that what it was told is lost
		w.settle()
	}
	w.rewind(back)
	w.settle()
}

// doOvertake is a server that is restored from a backup and is past the copy's position when the
// copy finds it again.
func (w *world) doOvertake(rt *rapid.T) {
	back, past := rapid.Uint64Range(1, 8).Draw(rt, "back"), rapid.Uint64Range(0, 3).Draw(rt, "past")
	newest, gone := drawPart(rt), drawPart(rt)
	forget := rapid.IntRange(0, 2).Draw(rt, "forget") == 2
	var writes []func(*overtaking)
	for range rapid.IntRange(0, 6).Draw(rt, "writes") {
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "new", "newer"}).Draw(rt, "name")
		write := rapid.SampledFrom([]func(*overtaking, string){(*overtaking).put, (*overtaking).put, (*overtaking).recreate,
			(*overtaking).remove}).Draw(rt, "write")
		writes = append(writes, func(o *overtaking) { write(o, name) })
	}
	w.remove(newest)
	w.put(newest, "x", 1)
	w.remove(gone) // most often the last change is a deletion, of which nobody can be asked
	w.settle()
	w.overtake(back, past, func(o *overtaking) {
		for _, write := range writes {
			write(o)
		}
		if forget {
			o.forget()
		}
	})
	w.settle()
}

// rewind takes the server back by so many versions, if it still has that state. A copy that roams
// reaches nobody then until the relays have found out. One that has not would send it the changes
// of the history before, from a version that both histories have, and nobody could tell.
func (w *world) rewind(back uint64) {
	if r := roamerOf(w.server); r != nil {
		r.cutOff()
		defer func() {
			w.server.clear()
			w.down = false
			time.Sleep(calm)
			r.join()
		}()
	}
	w.log.Rewinds(func() uint64 {
		now := w.server.line().Version()
		version := now - min(back, now-1)
		if version == now || w.server.line().Rewind(version) != nil {
			return 0
		}
		w.reload()
		return version
	})
}

// reload reads what the server has after it went back.
func (w *world) reload() {
	clear(w.last)
	w.old = nil
	switch s := w.server.(type) {
	case *direct:
		page, err := s.parts.StateAt(s.lines.Version())
		must(err)
		for _, obj := range page {
			w.last[obj.Key] = handOut(obj, obj.Version)
		}
	case *web:
		objs, err := s.parts().StateAt(s.server.Line.Version())
		must(err)
		for _, obj := range objs {
			p := newPart(obj.Key.Name, obj.Labels["group"], 0)
			if json.Unmarshal(obj.JSON, &p) != nil {
				p.Size = sizeBroken
			}
			p.UID, p.ResourceVersion = obj.UID, listopts.FormatVersion(obj.Version)
			w.last[obj.Key] = p
		}
	}
}

// doOutage begins an outage that lasts until the next one of these commands, or until the faults
// end.
func (w *world) doOutage(*rapid.T) {
	if w.down = !w.down; !w.down {
		w.server.clear()
		return
	}
	w.server.down()
	w.server.line().Disconnect()
}

func (w *world) doFault(rt *rapid.T) {
	faults := proofFaults
	if s, overHTTP := w.server.(*web); overHTTP {
		faults = slices.Concat(faults, s.over.faults())
	}
	var can []int
	for i, f := range faults {
		if _, overHTTP := w.server.(*web); overHTTP && f.web != nil || !overHTTP && f.direct != nil {
			can = append(can, i)
		}
	}
	f := faults[can[uniform(rt, len(can))]]
	n := rapid.SampledFrom([]int{1, 2, 5}).Draw(rt, f.name)
	w.injected = append(w.injected, f.id)
	switch s := w.server.(type) {
	case *direct:
		f.direct(w, s, n)
	case *web:
		f.web(w, s.server, n)
	}
}

// uniform draws a number below n, which is at most 128, each as often as the others: rapid prefers
// small numbers.
func uniform(rt *rapid.T, n int) (i int) {
	for _, bit := range rapid.SliceOfN(rapid.Bool(), 7, 7).Draw(rt, "number") {
		i *= 2
		if bit {
			i++
		}
	}
	return i % n
}

func (w *world) doTime(rt *rapid.T) {
	time.Sleep(rapid.SampledFrom([]time.Duration{
		time.Millisecond, time.Second, 31 * time.Second, 4 * time.Minute,
	}).Draw(rt, "time"))
}

func (w *world) doJoin(rt *rapid.T) {
	var o oracle.Handler
	if rapid.Bool().Draw(rt, "filter") {
		o.Filter = func(i oracle.Item) bool { return i.Content[len(i.Content)-1]%2 == 0 }
	}
	o.Resync = rapid.SampledFrom([]time.Duration{0, 7 * time.Second, time.Minute}).Draw(rt, "resync")
	every := rapid.Bool().Draw(rt, "every update")
	o.Lossless = every || !w.flood
	kind := rapid.SampledFrom([]string{"plain", "slow", "panics", "leaves", "busy"}).Draw(rt, "kind")
	blocked := rapid.Bool().Draw(rt, "blocked")
	l := w.listen(o)
	l.every = every
	switch kind {
	case "slow":
		l.slow = 30 * time.Millisecond
	case "panics":
		l.panics = 3
	case "leaves":
		l.leave = 4
	case "busy":
		l.busy = true
	}
	if blocked {
		l.block()
	}
	h := l.handler()
	h.EveryUpdate, h.Resync = every, o.Resync
	if o.Filter != nil {
		h.Filter = func(p *Part) bool { return o.Filter(*describe(p)) }
	}
	// The handler may use its registration as soon as it is called.
	l.block()
	w.register(l, h)
	if !blocked {
		l.open()
	}
}

func (w *world) doEvents(*rapid.T) {
	l := w.listen(oracle.Handler{Lossless: !w.flood, Loop: true})
	l.done = make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	go l.follow(ctx)
	if w.seq {
		synctest.Wait()
	}
	l.o.Registered()
}

func (w *world) pick(rt *rapid.T) (int, *listening) {
	if len(w.told) < 2 {
		return 0, nil
	}
	i := rapid.IntRange(1, len(w.told)-1).Draw(rt, "handler") // the first stays
	return i, w.told[i]
}

func (w *world) doLeave(rt *rapid.T) {
	i, l := w.pick(rt)
	if l == nil {
		return
	}
	if l.reg == nil {
		l.stop()
		l.open()
		within(l.done, "a loop over Events to end")
		l.o.Removed(false)
	} else {
		l.reg.Remove()
		l.o.Removed(!w.seq)
		l.open()
		within(l.reg.Done(), "a handler to be done")
	}
	w.told = append(w.told[:i:i], w.told[i+1:]...)
}

func (w *world) doBlock(rt *rapid.T) {
	_, l := w.pick(rt)
	switch {
	case l == nil:
	case l.blocked():
		l.open()
	default:
		l.block()
	}
}

// doIndex makes an index of a copy that is at work.
func (w *world) doIndex(*rapid.T) {
	if len(w.late) < 3 {
		w.late = append(w.late, lw.NewIndex(w.inf, func(p *Part) int { return p.Size % 2 }))
	}
}

func (w *world) doHold(*rapid.T) {
	w.held = append(w.held, heldParts{fmt.Sprintf("held snapshot %d", len(w.held)+1), w.copy, w.inf.Store().Snapshot()})
}

// doIterate begins a loop over the copy, lets a write happen in the middle of it, and ends it early
// or not.
func (w *world) doIterate(rt *rapid.T) {
	name, size, early := drawPart(rt), drawPartSize(rt), rapid.Bool().Draw(rt, "early")
	call := w.log.Tick()
	version := w.inf.Store().ResourceVersion()
	var items []oracle.Item
	n := 0
	for p := range w.inf.Store().All() {
		items = append(items, *describe(p))
		if n++; n == 1 {
			w.put(name, "x", size)
			synctest.Wait()
			if early {
				return
			}
		}
	}
	w.log.Reads(oracle.Read{
		Session: fmt.Sprintf("a loop at %d", call), Copy: w.copy, Call: call, What: "a loop", Version: version, Lower: !w.seq,
		Items: items,
	})
}

// doReadYourWrite writes, and waits in the background until the copy shows it.
func (w *world) doReadYourWrite(rt *rapid.T) {
	name, size, limit := drawPart(rt), drawPartSize(rt),
		rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(rt, "limit")
	w.put(name, "x", size)
	version := w.server.line().Version()
	epoch, inf, number := w.log.Epoch(), w.inf, w.copy
	w.waiting.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		call, at := w.log.Tick(), time.Now()
		err := inf.WaitForResourceVersion(ctx, listopts.FormatVersion(version))
		w.log.Waits(oracle.Wait{
			Copy: number, Who: "a writer", Version: version, Epoch: epoch, Call: call, Err: err, Took: time.Since(at),
			Limit: limit,
		})
	})
}

// doSync waits in the background for the copy and its handlers.
func (w *world) doSync(rt *rapid.T) {
	limit := rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(rt, "limit")
	inf, number := w.inf, w.copy
	wait := func(who string, s lw.Syncer, o *oracle.Handler) {
		w.waiting.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			call, at := w.log.Tick(), time.Now()
			err := s.WaitForSync(ctx)
			w.log.Waits(oracle.Wait{Copy: number, Who: who, Sync: o == nil, Handler: o, Call: call, Err: err,
				Took: time.Since(at), Limit: limit})
		})
	}
	wait("the informer", inf, nil)
	for _, l := range w.told {
		if l.reg != nil {
			wait(l.o.Name, l.reg, l.o)
		}
	}
}

// doRestart ends the copy, in whatever state it is, and begins another one.
func (w *world) doRestart(*rapid.T) {
	w.server.clear()
	w.down = false
	w.stop()
	w.start()
}
