package proof

import (
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/oracle"
)

// An overtaking is a server that was restored from a backup while nobody could reach it, and is
// written to until it is past the copy's position. No version tells the copy of it then: only what
// the server had at the position does.
//
// Not even that would tell if the newest object of the copy were at the position in both histories.
// So it is always newer than the backup, and put does not give it its version once more. The same
// holds for the newest object of the server, which is that of a relay: it also has the objects that
// the copy cannot use. All other versions may come a second time, with other content.
type overtaking struct {
	w      *world
	newest oracle.Item // of the objects that the copy can use
	relays oracle.Item // the newest of the server's objects
	size   int

	forgotten bool
}

// overtake restores the server from a backup that is so many versions older than the newest object
// of the copy, which must have caught up. Then rewrite writes, and the server's version moves until
// it is so far past the one that it had. Without an object or such a backup nothing happens.
func (w *world) overtake(back, past uint64, rewrite func(*overtaking)) (done bool) {
	o := &overtaking{w: w}
	aside := w.inf.Status().SetAside
	for _, p := range w.inf.Store().List() {
		if item := describe(p); aside[lw.KeyOf(p)] == nil && item.Version > o.newest.Version {
			o.newest = *item
		}
	}
	for key, p := range w.last {
		if version, err := oracle.ParseVersion(p.ResourceVersion); err == nil && version > o.relays.Version {
			o.relays = oracle.Item{Key: key, Version: version}
		}
	}
	line := w.server.line()
	was, epoch, moment := line.Version(), w.log.Epoch(), w.log.Tick()
	w.server.down()
	line.Disconnect()
	time.Sleep(time.Minute)
	if o.newest.Version > 0 {
		w.rewind(was - o.newest.Version + back)
	}
	if done = w.log.Epoch() > epoch; done {
		w.restored = moment
		rewrite(o)
		if now := line.Version(); now < was+past {
			w.touch(was + past - now)
		}
		if o.forgotten {
			w.age()
			w.restored = 0
		}
	}
	w.server.clear()
	return done
}

// put writes an object as nobody else writes one.
func (o *overtaking) put(name string) {
	for range 2 { // the second one may be next then
		for _, item := range []oracle.Item{o.newest, o.relays} {
			if o.w.server.line().Version()+1 == item.Version && partKey(name) == item.Key {
				o.w.touch(1)
			}
		}
	}
	o.size++
	o.w.put(name, "x", 4+o.size%3)
}

func (o *overtaking) recreate(name string) {
	o.w.remove(name)
	o.put(name)
}

func (o *overtaking) remove(name string) { o.w.remove(name) }

// forget has the server forget what was written so far, so that it cannot say what it had at the
// position. The copy may then find out by its list, or not; it must have what the server has.
func (o *overtaking) forget() { o.forgotten = true }
