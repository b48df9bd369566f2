package apiserver

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An answer is a list or a stream on its way to the client: units that pass through the filters of a fault. It belongs to the
// goroutine of its request.
type answer struct {
	codec
	ctx     context.Context
	body    *body
	stream  bool
	filters []filter

	offered int    // units that came from the server
	items   int    // items that were written
	sent    []Unit // the last maxSent, oldest first
	held    []held
	message []byte // of a protobuf list, which is written when it is whole

	// Guarded by Server.mu.
	pending []UnitEffect // what Interrupt asks for
	wake    context.CancelFunc
}

// A filter is what a fault does to some of an answer's units.
type filter struct {
	match func(n int, u Unit) bool
	do    []UnitEffect
}

// held is a unit that waits for others to go first.
type held struct {
	unit Unit
	left int
}

// maxSent is how far back Replay can go.
const maxSent = 32

// An ending is how an answer ends otherwise than it should.
type ending string

const (
	endCut   ending = "the stream is cut between two units"
	endBreak ending = "the connection is broken in the middle of a unit"
	endStall ending = "nothing more is sent"
)

func (e ending) Error() string { return "apiserver: " + string(e) }

func (x *exchange) answer(f format, stream bool) *answer {
	return &answer{
		codec:   codec{&x.collection.Resource, f},
		ctx:     x.r.Context(),
		body:    newBody(x.w, x.r, f.contentType(stream)),
		stream:  stream,
		filters: x.filters,
	}
}

// open is the moment before the first unit.
func (a *answer) open() error { return a.filter(Start, Unit{none: true}) }

// send passes a unit on through the filters.
func (a *answer) send(u Unit) error {
	n := a.offered
	a.offered++
	return a.filter(n, u)
}

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

func (a *answer) apply(do []UnitEffect, u *Unit) error {
	for _, effect := range do {
		if err := effect(a, u); err != nil {
			return err
		}
	}
	return nil
}

// put writes a unit, and those after it that have waited for it.
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
	for i := range a.held {
		if a.held[i].left--; a.held[i].left > 0 {
			continue
		}
		h := a.held[i].unit
		a.held = append(a.held[:i:i], a.held[i+1:]...)
		h.Version = max(h.Version, u.Version) // a bookmark that came later would say as much
		return a.put(h)
	}
	return nil
}

func (a *answer) encode(u Unit) error {
	switch {
	case a.stream:
		return a.body.write(func(b []byte) ([]byte, error) { return a.appendFrame(b, u) })
	case a.format.proto():
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

// half writes the first half of a unit.
func (a *answer) half(u Unit) error {
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

// begin writes what comes before a list's items, and returns what comes after them.
func (a *answer) begin(meta metav1.ListMeta) (tail []byte, err error) {
	head, tail, err := a.listHead(meta)
	if err != nil {
		return nil, err
	}
	if a.format.proto() {
		a.message = head
		return nil, nil
	}
	return tail, a.raw(head)
}

func (a *answer) raw(data []byte) error {
	return a.body.write(func(b []byte) ([]byte, error) { return append(b, data...), nil })
}

// finish ends the answer: as it should for nil, after which tail is still written.
func (a *answer) finish(err error, tail []byte) error {
	if !a.stream && a.format.proto() {
		apiVersion, kind := a.kind()
		const missing = 64
		if err == nil {
			tail = appendEnvelope(nil, apiVersion, kind+"List", a.message)
		} else {
			// The envelope promises more than there will be.
			whole := appendEnvelope(nil, apiVersion, kind+"List", append(a.message, make([]byte, missing)...))
			if err := a.raw(whole[:len(whole)-missing]); err != nil {
				return err
			}
		}
	}
	switch err {
	case nil:
		if err := a.raw(tail); err != nil {
			return err
		}
		return a.body.close()
	case endCut:
		return a.body.close()
	case endBreak:
		_ = a.body.flush() // the client may have gone first
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
