package request

import (
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"k8s.io/apimachinery/pkg/types"
)

// An Own is what is known of a write of this program beside the version that it has made.
type Own struct {
	Base    string // the version that it has changed, for which the server has checked it; "": unknown
	Manager string // the field manager
	Create  bool
	// by is to whom the write was told. When none of them runs, nobody asks for the write. It keeps
	// no store alive.
	by []weak.Pointer[Teller]
}

type version struct {
	uid     types.UID
	version string // "": gone
}

// mostOwn is how many writes are remembered. A call that waits longer is as for any other change.
const mostOwn = 16 << 10

// own are the last writes. They are of the process, as the caches that show them.
var own struct {
	wanted atomic.Bool
	mu     sync.Mutex
	of     map[version]Own // guarded by mu, as those below
	order  []version       // a ring of the keys of of
	next   int
}

// RememberOwn has writes be remembered from now on.
func RememberOwn() { own.wanted.Store(true) }

// OwnRemembered reports whether RememberOwn was called.
func OwnRemembered() bool { return own.wanted.Load() }

// Note notes that the program has made that version of an object, and tells by of it; "": that it
// has deleted it.
func (o Own) Note(uid types.UID, v string, by []*Teller) {
	if v != "" && v == o.Base {
		return // what changes nothing is somebody else's version
	}
	at := version{uid, v}
	for _, t := range by {
		o.by = append(o.by, weak.Make(t))
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	was, there := own.of[at]
	if there && was.lives() {
		return
	}
	if own.of == nil {
		own.of = map[version]Own{}
	}
	if own.of[at] = o; there {
		return
	}
	if len(own.order) < mostOwn {
		own.order = append(own.order, at)
		return
	}
	delete(own.of, own.order[own.next])
	own.order[own.next] = at
	own.next = (own.next + 1) % mostOwn
}

// OwnOf returns what is known of the write that has made that version, if the program has made it.
func OwnOf(uid types.UID, v string) (o Own, ok bool) {
	own.mu.Lock()
	defer own.mu.Unlock()
	o = own.of[version{uid, v}]
	return o, o.lives()
}

func (o *Own) lives() bool {
	return slices.ContainsFunc(o.by, func(by weak.Pointer[Teller]) bool {
		t := by.Value()
		return t != nil && !t.ended.Load()
	})
}
