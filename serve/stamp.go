package serve

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// stamps makes the versions of a collection whose objects have none that mean anything outside of
// this process. A version is a time in microseconds, times 1024, plus the number of the replica. So
// the versions of a process that starts again are greater than those of before, and two replicas
// hardly ever make the same one. What else a process may be asked for, its history looks up.
type stamps struct {
	replica uint64
	now     func() time.Time
	last    uint64
}

const replicas = 1 << 10

// newStamps returns stamps for a replica, or for a random one if it is 0.
func newStamps(replica uint16) *stamps {
	s := &stamps{replica: uint64(replica) % replicas, now: time.Now}
	if replica == 0 {
		s.replica = 1 + rand.Uint64N(replicas-1)
	}
	return s
}

// next returns a version that is greater than all before it, also if the clock was set back. One
// goroutine at a time calls it.
func (s *stamps) next() uint64 {
	s.last = max(uint64(s.now().UnixMicro())*replicas+s.replica, s.last+replicas)
	return s.last
}

// madeUID returns the UID of an object without one, which was created at a version. Clients tell a
// new object from an old one of the same name by it.
func madeUID(path string, version uint64) types.UID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", version, path))
	sum[6] = sum[6]&0x0f | 0x80 // version 8 of RFC 9562: what it is made of is nobody's business
	sum[8] = sum[8]&0x3f | 0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}
