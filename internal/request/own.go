package request

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// An Own is what is known of a write of this program beside the version that it has made.
type Own struct {
	Base    string // the version that it has changed, for which the server has checked it; "": unknown
	Manager string // the field manager
	Create  bool
}

type version struct {
	uid     types.UID
	version string // "": gone
}

// mostOwn is how many writes are remembered. What waits longer at a handler is told as any other
// change.
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

// Note notes that the program has made that version of an object; "": that it has deleted it.
func (o Own) Note(uid types.UID, v string) {
	if !OwnRemembered() {
		return
	}
	at := version{uid, v}
	own.mu.Lock()
	defer own.mu.Unlock()
	if _, ok := own.of[at]; ok {
		return
	}
	if own.of == nil {
		own.of = map[version]Own{}
	}
	if own.of[at] = o; len(own.order) < mostOwn {
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
	o, ok = own.of[version{uid, v}]
	return o, ok
}
