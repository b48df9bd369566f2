package apiserver

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/wire"
)

// An answer is a list or a stream on its way to the client: a series of units, which pass through
// the filters of the faults. It belongs to the goroutine of its request.
type answer struct {
	codec
	ctx     context.Context
	body    *body
	stream  bool
	filters []filter

	seen    int    // how many units the server has passed to send
	items   int    // how many items of a list were written
	sent    []Unit // the last units that were sent, at most maxSent, oldest first
	delayed []delayed
	meta    metav1.ListMeta // of a list
	message []byte          // the items of a list that is written as a whole, when all are there

	// Guarded by Server.mu.
	pending []UnitEffect // what Interrupt asks for
	wake    context.CancelFunc
}

// A filter is what a fault does to those units of an answer that match. n is the number of the
// unit, or Start.
type filter struct {
	match func(n int, u Unit) bool
	do    []UnitEffect
}

// Start is the place before the first unit. There is one even in an answer without units.
const Start = -1

// A delayed is a unit that is sent later.
type delayed struct {
	unit Unit
	left int // how many units go before it
}

// maxSent is how many units back Replay can reach.
const maxSent = 32

// An ending is the error of an answer that a fault ends early.
type ending string

const (
	endCut   ending = "the stream is cut between two units"
	endBreak ending = "the connection is broken in the middle of a unit"
	endStall ending = "nothing more is sent"
)

func (e ending) Error() string { return "apiserver: " + string(e) }

// open applies the filters for the moment before the first unit.
func (a *answer) open() error { return a.filter(Start, Unit{none: true}) }

// send passes a unit through the filters and sends what they leave.
func (a *answer) send(u Unit) error {
	n := a.seen
	a.seen++
	return a.filter(n, u)
}

// filter applies the filters that match to unit n, and sends it.
func (a *answer) filter(n int, u Unit) error {
	for _, f := range a.filters {
		if !f.match(n, u) {
			continue
		}
		if err := a.apply(f.do, &u); err != nil {
			return err
		}
	}
	return a.put(u)
}

// apply applies effects at u until one of them ends the answer, which its error says.
func (a *answer) apply(do []UnitEffect, u *Unit) error {
	for _, effect := range do {
		if err := effect(a, u); err != nil {
			return err
		}
	}
	return nil
}

// put sends a unit, and then the units that have waited for this one.
func (a *answer) put(u Unit) error {
	if u.none {
		return nil
	}
	if err := a.encode(u); err != nil {
		return err
	}
	if len(a.sent) == maxSent {
		a.sent = append(a.sent[:0], a.sent[maxSent/2:]...)
	}
	a.sent = append(a.sent, u)
	for i := range a.delayed {
		if a.delayed[i].left--; a.delayed[i].left > 0 {
			continue
		}
		h := a.delayed[i].unit
		a.delayed = append(a.delayed[:i:i], a.delayed[i+1:]...)
		h.Version = max(h.Version, u.Version) // as the bookmark would have if it came only now
		return a.put(h)
	}
	return nil
}

// encode writes a unit. A stream is written unit by unit, a JSON list item by item. A list whose
// length stands before it is gathered in message.
func (a *answer) encode(u Unit) error {
	switch {
	case a.stream:
		err := a.body.write(func(b []byte) ([]byte, error) { return a.appendFrame(b, u) })
		a.columns = true
		return err
	case whole(a.format):
		a.items++
		message, err := a.appendItem(a.message, u)
		if err != nil {
			return encodeError{err}
		}
		a.message = message
		return nil
	}
	return a.body.write(func(b []byte) ([]byte, error) {
		if a.items++; a.items > 1 {
			b = append(b, ',')
		}
		return a.appendItem(b, u)
	})
}

// writeHalf writes the first half of the bytes of a unit.
func (a *answer) writeHalf(u Unit) error {
	if u.none {
		return nil
	}
	add := a.appendItem
	if a.stream {
		add = a.appendFrame
	}
	b, err := add(nil, u)
	if err != nil {
		return err
	}
	u.Frame = b[:(len(b)+1)/2]
	return a.encode(u)
}

// begin writes what comes before the items of a list, and returns what comes after them.
func (a *answer) begin(meta metav1.ListMeta) (tail []byte, err error) {
	a.meta = meta
	if whole(a.format) {
		return nil, nil
	}
	return []byte(a.frames.ListTail()), a.writeBytes(a.frames.AppendListHead(nil, &meta, wire.Total{}))
}

// writeBytes writes data as it is.
func (a *answer) writeBytes(data []byte) error {
	return a.body.write(func(b []byte) ([]byte, error) { return append(b, data...), nil })
}

// finish ends the answer. If err is nil it writes tail and ends properly. If err is an ending it
// does what that says. It returns any other error.
func (a *answer) finish(err error, tail []byte) error {
	var list []byte // that is written as a whole
	switch {
	case a.stream:
	case a.format.Encoding == wire.CBOR:
		list = a.cborList(err == nil)
	case a.format.Encoding == wire.Protobuf:
		total := wire.Total{Items: a.items, Bytes: int64(len(a.message))}
		if err != nil {
			total.Bytes += 64 // The list was cut. Its envelope announces more bytes than will come.
		}
		list = append(a.frames.AppendListHead(nil, &a.meta, total), a.message...)
		tail = []byte(a.frames.ListTail())
	}
	if err := a.writeBytes(list); err != nil {
		return err
	}
	switch err {
	case nil:
		if err := a.writeBytes(tail); err != nil {
			return err
		}
		return a.body.close()
	case endCut:
		return a.body.close()
	case endBreak:
		_ = a.body.flush() // fails if the client has gone already
		panic(http.ErrAbortHandler)
	case endStall:
		if err := a.body.flush(); err != nil {
			return err
		}
		<-a.ctx.Done()
		return a.ctx.Err()
	}
	return err
}
