package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// putOp is the write of a thing within a transaction.
func putOp(prefix string, obj *thing) clientv3.Op {
	value, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	return clientv3.OpPut(prefix+obj.Namespace+"/"+obj.Name, string(value))
}

// TestTransactions changes two or more objects at one revision, so that all have the same number,
// and looks at snapshots, at an index and at what a graph derives meanwhile: none shows a part.
// With LW_TXN_SNAPSHOTS=10000000 it looks at so many.
func TestTransactions(t *testing.T) {
	want := int64(300_000)
	if n, err := strconv.ParseInt(os.Getenv("LW_TXN_SNAPSHOTS"), 10, 64); err == nil {
		want = n
	}
	client, prefix, things := begin(t)
	f := follow(t, things, prefix)
	byNumber := lw.NewIndex(f.Informer, func(o *thing) int { return o.N })
	var looks, halves, written atomic.Int64
	looking, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		defer stop()
		ctx := within(t, 10*time.Minute)
		for i := 1; looks.Load() < want || i < 500; i++ {
			ops := []clientv3.Op{putOp(prefix, newThing("ns", "a", i)), putOp(prefix, newThing("ns", "b", i))}
			if i%7 == 0 {
				ops = append(ops, clientv3.OpDelete(prefix+"ns/c"))
			} else {
				ops = append(ops, putOp(prefix, newThing("ns", "c", i)))
			}
			if rand.IntN(3) == 0 { // something else between them
				ops = append(ops, clientv3.OpPut(prefix+"ns/aa", `{"n":-1}`))
			}
			if _, err := client.Txn(ctx).Then(ops...).Commit(); err != nil {
				t.Error(err)
				return
			}
			written.Store(int64(i))
		}
	})
	for range 2 {
		all.Go(func() {
			for looking.Err() == nil {
				for range 100 {
					looks.Add(1)
					snapshot := f.Store().Snapshot()
					a, _ := snapshot.Get(lw.Key{Namespace: "ns", Name: "a"})
					b, _ := snapshot.Get(lw.Key{Namespace: "ns", Name: "b"})
					c, _ := snapshot.Get(lw.Key{Namespace: "ns", Name: "c"})
					switch {
					case (a == nil) != (b == nil), a != nil && a.N != b.N, a != nil && a.N%7 != 0 && (c == nil || c.N != a.N), a != nil && a.N%7 == 0 && c != nil:
						halves.Add(1)
					}
					if a == nil {
						continue
					}
					whole := 3
					if a.N%7 == 0 {
						whole = 2
					}
					if n := byNumber.Len(a.N); n != whole && n != 0 {
						halves.Add(1)
					}
				}
			}
		})
	}
	all.Wait()
	f.caughtUp(t, client)
	t.Logf("%d snapshots of %d transactions", looks.Load(), written.Load())
	if n := halves.Load(); n > 0 {
		t.Errorf("%d of %d snapshots show a part of a transaction", n, looks.Load())
	}
}

// TestLargeTransaction has 10,000 changes at one revision: one message, and one change of the
// store.
func TestLargeTransaction(t *testing.T) {
	const n = 10_000
	client := dialLarge(t, startServer(t, func(cfg *embed.Config) { cfg.MaxTxnOps, cfg.MaxRequestBytes = n, 64<<20 }).endpoint)
	prefix := newPrefix()
	things := collect(t, client, prefix, nil)
	f := follow(t, things, prefix)
	var parts atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var looking sync.WaitGroup
	looking.Go(func() {
		for ctx.Err() == nil {
			if l := f.Store().Len(); l != 0 && l != n {
				parts.Add(1)
			}
		}
	})
	var ops []clientv3.Op
	for i := range n {
		obj := newThing("ns", fmt.Sprintf("n%05d", i), i)
		obj.Text = fmt.Sprintf("%01000d", i)
		ops = append(ops, putOp(prefix, obj))
	}
	noErr(t, second(client.Txn(within(t, time.Minute)).Then(ops...).Commit()))
	f.caughtUp(t, client)
	noErr(t, second(client.Delete(within(t, time.Minute), prefix, clientv3.WithPrefix())))
	f.caughtUp(t, client)
	cancel()
	looking.Wait()
	if parts.Load() > 0 {
		t.Errorf("%d looks at a part of the transaction", parts.Load())
	}
	if s := f.Status(); rig.Relists(s) != 0 || s.Failed != 0 {
		t.Errorf("%d relists, %d failed requests", rig.Relists(s), s.Failed)
	}
}
