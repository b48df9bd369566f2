package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/verify/oracle"
)

// An answer is what the server has answered to a write or a get, for the copy to be told of.
type answer struct {
	part    *Part
	version uint64
}

// Told is part of [lw.Teller].
func (r *recorded) Told(obj lw.Identified) (*Part, bool, error) {
	p, stays, err := r.src.(lw.Teller[*Part]).Told(obj)
	if err == nil && stays && r.transform {
		r.log.Gives(p)
	}
	return p, stays, err
}

// Told copies, as a source does that has no encoding.
func (d *direct) Told(obj lw.Identified) (*Part, bool, error) {
	p := *obj.(*Part)
	return &p, true, nil
}

// isReflectors reports whether a list is one of the reflector's own steps, and not the question for
// the server's version after a deletion of which the copy was told.
func (r *recorded) isReflectors(ctx context.Context) bool {
	return !request.IsProbe(ctx) || request.Recall(ctx, r, func() *int { return new(int) }) != nil
}

// arrive returns when an event has arrived, or the error of ctx.
func (r *recorded) arrive(ctx context.Context) error {
	if late := time.Duration(r.late.Load()); late > 0 {
		select {
		case <-time.After(late):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// lateness is by how much events are late, in nanoseconds.
type lateness = atomic.Int64

// answers returns the present state of an object as a client gets it, or nil.
func (w *world) answers(name string) *answer {
	p := w.last[partKey(name)]
	if p == nil || p.Size == sizeBroken {
		return nil
	}
	own := *p
	if s, ok := w.server.(*web); ok {
		obj, err := s.parts().Get(partKey(name))
		must(err)
		own = Part{}
		must(json.Unmarshal(obj.JSON, &own))
		own.ResourceVersion = listopts.FormatVersion(obj.Version)
	}
	a := &answer{part: &own}
	if _, err := fmt.Sscan(p.ResourceVersion, &a.version); err != nil {
		panic(err)
	}
	return a
}

// tell tells the copy of an answer. What it was told of belongs to the client, which changes it
// then.
func (w *world) tell(a *answer, phantom bool) {
	own := *a.part
	is := w.expect(&own, a.version)
	if is.Bad { // an error, unless it is no news
		_ = w.inf.Tell(&own)
		return
	}
	end := w.log.Tells(oracle.Tell{Copy: w.copy, Key: is.Key, Version: a.version, Item: is.Item, Phantom: phantom})
	if err := w.inf.Tell(&own); err != nil {
		panic(fmt.Sprintf("Tell: %v", err))
	}
	end()
	own.Size, own.Labels, own.UID = 1000, nil, "changed"
}

// doTell writes or reads an object, and tells the copy of the answer.
func (w *world) doTell(rt *rapid.T) {
	name, group, size := drawPart(rt), drawGroup(rt), drawPartSize(rt)
	what := rapid.SampledFrom([]string{"put", "same", "get", "recreate", "twice", "overwritten"}).Draw(rt, "what")
	switch what {
	case "put", "twice", "overwritten":
		w.put(name, group, size)
	case "recreate":
		w.remove(name)
		w.put(name, group, size)
	case "same": // a write that changes nothing
		if a := w.answers(name); a != nil {
			w.put(name, a.part.Group, a.part.Size)
		}
	}
	a := w.answers(name)
	if what == "overwritten" { // by somebody else, before the answer has come
		w.put(name, group, (size+1)%4)
	}
	if a == nil {
		return
	}
	w.tell(a, false)
	w.old = append(w.old, a)
	if what == "twice" {
		w.put(name, group, (size+1)%4)
		w.tell(w.answers(name), false)
	}
}

// doTellLate tells the copy of an answer that was on the way for a while.
func (w *world) doTellLate(rt *rapid.T) {
	if len(w.old) > 0 {
		w.tell(w.old[rapid.IntRange(0, len(w.old)-1).Draw(rt, "answer")], false)
	}
}

// doTellPhantom tells the copy of a write by which an object comes into no collection of the
// copy's: the server selects by what the copy does not know.
func (w *world) doTellPhantom(rt *rapid.T) {
	w.tellPhantom(drawPart(rt), drawGroup(rt), rapid.IntRange(0, 3).Draw(rt, "size"))
}

func (w *world) tellPhantom(name, group string, size int) {
	a := &answer{part: newPart("other-"+name, group, size)}
	w.touch(1)
	a.version = w.server.line().Version()
	a.part.UID, a.part.ResourceVersion = "phantom", fmt.Sprint(a.version)
	w.tell(a, true)
}

// doTellDeleted deletes an object, and tells the copy, with the version of the deletion or without.
func (w *world) doTellDeleted(rt *rapid.T) {
	name, exact := drawPart(rt), rapid.Bool().Draw(rt, "exact")
	again, toldAgain := rapid.Bool().Draw(rt, "again"), rapid.Bool().Draw(rt, "told again")
	w.tellDeleted(name, exact, again)
	if again && toldAgain && w.answers(name) != nil {
		w.tell(w.answers(name), false)
	}
}

// tellDeleted deletes an object, perhaps makes another one, and tells the copy of the deletion.
func (w *world) tellDeleted(name string, exact, again bool) {
	a := w.answers(name)
	if a == nil {
		return
	}
	w.remove(name)
	t := oracle.Tell{Copy: w.copy, Key: partKey(name), Version: w.server.line().Version(), Loose: !exact}
	version := ""
	if exact {
		version = fmt.Sprint(t.Version)
	}
	if again {
		w.put(name, "x", 2)
	}
	end := w.log.Tells(t)
	if err := w.inf.TellDeleted(t.Key, a.part.UID, version); err != nil {
		panic(fmt.Sprintf("TellDeleted: %v", err))
	}
	end()
}

// doLate has each event arrive that much later, from now on.
func (w *world) doLate(rt *rapid.T) {
	w.lateBy.Store(int64(rapid.SampledFrom([]time.Duration{0, time.Second, 20 * time.Second}).Draw(rt, "late")))
}
