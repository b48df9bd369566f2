package simulate

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/go-lw/lw/internal/shard"
)

// A Kept is what an informer keeps of a pod, and what that costs it.
type Kept struct {
	Name     string
	Bytes    float64       // of heap, with the store
	SyncCPU  time.Duration // of an object in a streamed list
	EventCPU time.Duration
}

// KeptPods are the ways to keep pods of 5.0 KiB protobuf, as rows 5, 6, 9 and 31 of
// bench/results/README.md have measured them.
var KeptPods = []Kept{
	{Name: "the whole pod", Bytes: 13.5 * 1024, SyncCPU: 94100 * time.Nanosecond, EventCPU: 32900 * time.Nanosecond},
	{Name: "with `Share`", Bytes: 7.46 * 1024, SyncCPU: 94100 * time.Nanosecond, EventCPU: 34400 * time.Nanosecond},
	{Name: "a projection to four fields", Bytes: 331, SyncCPU: 8960 * time.Nanosecond, EventCPU: 10400 * time.Nanosecond},
}

// Hashes returns the hashes, by which lw.Shard divides, of n random UIDs. They are the same in each
// call.
func Hashes(n int) []uint64 {
	hashes := make([]uint64, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range hashes {
		// A UUID of version 4, as an API server makes it.
		hi, lo := rng.Uint64()&^0xf000|0x4000, rng.Uint64()&^(3<<62)|1<<63
		hashes[i] = shard.Hash(fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&(1<<48-1)))
	}
	return hashes
}

// Shares returns how many of the hashes each of the replicas has that divide them by lw.Shard.
func Shares(hashes []uint64, replicas int) []int {
	shares := make([]int, replicas)
	for _, hash := range hashes {
		// The ranges are equal, so this is the range or, where a bound was rounded, its neighbour.
		i, _ := bits.Mul64(hash, uint64(replicas))
		for !shard.Part(int(i), replicas).Contains(hash) {
			i++
		}
		shares[i]++
	}
	return shares
}

// A Load is what each of the replicas of a program needs, and the server with them.
type Load struct {
	Replicas int
	Heap     float64       // bytes of the replica that has the most objects
	Sync     time.Duration // CPU of one replica
	Cores    float64       // that events keep busy in one replica
	// The same for the server, for all replicas together.

	ServerSync  time.Duration
	ServerCores float64
}

// Sharded returns the load of replicas that divide objects. most is how many more than the mean the
// largest share has. selects says whether the server selects by the shard: if not, it sends
// everything to everyone, and each replica decodes everything and keeps its part.
func Sharded(m Model, k Kept, objects, events, replicas int, most float64, selects bool) Load {
	part, all := 1/float64(replicas), float64(objects)
	sent := 1.0 // of everything, to each replica
	if selects {
		sent = part
	}
	perReplica := func(cpu time.Duration) time.Duration { return time.Duration(all * sent * float64(cpu)) }
	return Load{
		Replicas:    replicas,
		Heap:        all * part * most * k.Bytes,
		Sync:        perReplica(k.SyncCPU),
		Cores:       float64(events) * sent * k.EventCPU.Seconds(),
		ServerSync:  perReplica(m.StreamCPU) * time.Duration(replicas),
		ServerCores: float64(events) * sent * float64(replicas) * m.EventCPU.Seconds(),
	}
}
