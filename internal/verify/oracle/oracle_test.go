package oracle

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ref is an object in memory.
type ref struct{ now Item }

func key(name string) Key { return Key{Namespace: "ns", Name: name} }

// item is a version of an object; its UID is that of its name's first incarnation unless uid is
// given.
func item(name string, version uint64, uid ...string) *Item {
	i := Item{Key: key(name), UID: types.UID("uid-" + name), Version: version, Content: fmt.Sprint("v", version)}
	if len(uid) > 0 {
		i.UID = types.UID(uid[0])
	}
	r := &ref{}
	i.Ref = r
	r.now = i
	return &i
}

func now(r any) Item { return r.(*ref).now }

// run is a history by hand.
type run struct {
	*Log
	at time.Time
}

// write records that versions were written, one after another.
func (r *run) write(all ...*Item) {
	for _, i := range all {
		w := *i
		w.Ref = nil
		r.Writes(func() []Write { return []Write{{Version: i.Version, Key: i.Key, Item: &w}} })
	}
}

func (r *run) spoil(name string, version uint64) {
	r.Writes(func() []Write { return []Write{{Version: version, Key: key(name), Bad: true}} })
}

func (r *run) remove(name string, version uint64) {
	r.Writes(func() []Write { return []Write{{Version: version, Key: key(name)}} })
}

func (r *run) rewind(version uint64) { r.Rewinds(func() uint64 { return version }) }

func items(all []*Item) (out []Item) {
	for _, i := range all {
		out = append(out, *i)
	}
	return out
}

func (r *run) read(session, version string, all ...*Item) {
	r.Reads(Read{Session: session, Copy: 1, Call: r.Tick(), What: "a read", Version: version, Items: items(all)})
}

// next reads a second copy, which began after the first.
func (r *run) next(version string, all ...*Item) {
	r.Reads(Read{Session: "n", Copy: 2, Call: r.Tick(), Version: version, Items: items(all)})
}

// overlapping returns a read that has begun.
func (r *run) overlapping(session, version string, all ...*Item) (end func()) {
	call := r.Tick()
	return func() {
		r.Reads(Read{Session: session, Copy: 1, Call: call, What: "a read", Version: version, Items: items(all)})
	}
}

func (r *run) handler(h Handler) *Handler {
	h.Name, h.Copy = fmt.Sprint("handler ", len(r.handlers)+1), 1
	out := r.Handlers(h)
	out.Registered()
	return out
}

func (r *run) tell(h *Handler, kind Kind, old, now *Item) {
	h.Calls(Call{Kind: kind, Old: old, New: now, At: r.at})()
}

// told returns a new handler that is told of changes, each from one version to the next; nil is
// none.
func (r *run) told(h Handler, calls ...[2]*Item) *Handler {
	out := r.handler(h)
	for _, c := range calls {
		r.tell(out, kindOf(c), c[0], c[1])
	}
	return out
}

func kindOf(c [2]*Item) Kind {
	switch {
	case c[0] == nil:
		return Add
	case c[1] == nil:
		return Delete
	}
	return Update
}

func (r *run) request(q Request, err error, events ...Event) {
	q.Copy, q.At = 1, r.at
	r.at = r.at.Add(time.Minute)
	rec := r.Requests(q)
	for _, e := range events {
		rec.Yields(e)
	}
	rec.Ends(func(q *Request) { q.Err = err })
}

func (r *run) list(version string) { r.request(Request{Verb: List, Listed: version}, nil) }
func (r *run) watch(from string, err error, versions ...string) {
	var events []Event
	for _, v := range versions {
		events = append(events, Event{Version: v})
	}
	r.request(Request{Verb: Watch, Version: from}, err, events...)
}

func (r *run) quiet(version string, all ...*Item) {
	r.Quiets(Quiet{Copy: 1, Items: items(all), Version: version, Synced: true, Most: 10})
}

var errBroken = errors.New("broken")

// A check is a history that keeps the promise id, and one that breaks it. good may be nil.
type check struct {
	id, name  string
	good, bad func(r *run)
}

// checks tests that Check tells the good histories from the bad ones.
func checks(t *testing.T, all []check) {
	for _, c := range all {
		t.Run(c.id+" "+c.name, func(t *testing.T) {
			if c.good != nil {
				r := &run{Log: New()}
				c.good(r)
				if got := r.Check(now).Violations; len(got) > 0 {
					t.Errorf("the good history: %v", got)
				}
			}
			r := &run{Log: New()}
			c.bad(r)
			if got := r.Check(now).Violations; !slices.ContainsFunc(got, func(v Violation) bool { return v.ID == c.id }) {
				t.Errorf("the bad history: %v, want %s", got, c.id)
			}
		})
	}
}
