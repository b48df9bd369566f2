package recent

import (
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// aboveLimit is how much Go's runtime may take above all limits. The text of the
	// program is not counted, and takes another 30 MiB or so.
	aboveLimit = 8 << 20
	// leastGarbage is how much garbage there may be in any case. With less, a program that has more
	// live than the limits would do nothing but collect.
	leastGarbage = 24 << 20
	// paceStep is how much is packed until the ceiling is looked at again, and how much it changes at
	// least: to set it stops the program for a moment.
	paceStep = 4 << 20
)

// ceiling is the memory limit of Go's runtime, as far as this package has set it.
var ceiling struct {
	mu     sync.Mutex
	limits int64 // the sum of those that have joined; guarded by mu, as that below
	set    int64 // 0: nobody has set it
}

// A Pacing is what one limit on the bytes of a cache does for the memory limit of Go's runtime. It
// is not safe for concurrent use. The zero value is ready.
type Pacing struct {
	joined bool
	since  int64 // bytes that were packed since it looked last
}

// Grown is called when n bytes more are kept under a limit. It reports true the first time: then
// Leave is to be called with limit when nobody has the limit any more.
func (p *Pacing) Grown(n, limit int64) (joined bool) {
	p.since += n
	if p.joined && p.since < paceStep {
		return false
	}
	p.since = 0
	ceiling.mu.Lock()
	defer ceiling.mu.Unlock()
	if joined = !p.joined; joined {
		p.joined = true
		ceiling.limits += limit
	}
	setCeilingLocked()
	return joined
}

// Leave takes back what a limit has done.
func Leave(limit int64) {
	ceiling.mu.Lock()
	defer ceiling.mu.Unlock()
	ceiling.limits -= limit
	setCeilingLocked()
}

// setCeilingLocked sets the memory limit of the runtime, unless somebody else has.
func setCeilingLocked() {
	now := debug.SetMemoryLimit(-1)
	if os.Getenv("GOMEMLIMIT") != "" || now != math.MaxInt64 && now != ceiling.set {
		return
	}
	want := int64(math.MaxInt64)
	if ceiling.limits > 0 {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		want = max(ceiling.limits+aboveLimit, int64(live[0].Value.Uint64())+leastGarbage)
		if now != math.MaxInt64 && want < now+paceStep && want > now-paceStep {
			return
		}
	}
	ceiling.set = want
	debug.SetMemoryLimit(want)
}
