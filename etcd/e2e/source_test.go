package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/lwtest"
)

// TestSource checks the collection with random histories on a real etcd: selectors, compaction,
// connections that are closed, and a writer on another prefix.
func TestSource(t *testing.T) {
	s := startServer(t)
	for name, scoped := range map[string]bool{"namespaced": false, "cluster": true} {
		t.Run(name, func(t *testing.T) { lwtest.Source(t, func() lwtest.Subject[*thing] { return subject(t, s, scoped) }) })
	}
}

// subject returns a collection that nobody else uses.
func subject(t testing.TB, s *server, scoped bool) lwtest.Subject[*thing] {
	ctx := context.Background()
	prefix := newPrefix()
	var mu sync.Mutex
	var client *clientv3.Client // guarded by mu
	var things *etcd.Collection[*thing]
	connect := func() {
		mu.Lock()
		defer mu.Unlock()
		if client != nil {
			client.Close()
		}
		var err error
		if client, err = newClient(s.endpoint); err != nil {
			panic(err)
		}
		if things, err = etcd.New(client, prefix, &etcd.Options[*thing]{ClusterScoped: scoped}); err != nil {
			panic(err)
		}
	}
	connect()
	now := func() (*clientv3.Client, *etcd.Collection[*thing]) {
		mu.Lock()
		defer mu.Unlock()
		return client, things
	}
	other := func() { // somebody else writes elsewhere
		c, _ := now()
		if _, err := c.Put(ctx, "/e2e/other", fmt.Sprint(prefix)); err != nil {
			panic(err)
		}
	}
	sub := lwtest.Subject[*thing]{
		Source: func() lw.Source[*thing] { _, c := now(); return c },
		Object: func(key lw.Key, n int) *thing {
			o := newThing(key.Namespace, key.Name, n)
			o.Labels = map[string]string{"parity": fmt.Sprint(n % 2)}
			return o
		},
		Create: func(obj *thing) (*thing, error) { other(); _, c := now(); return c.Create(ctx, obj) },
		Update: func(obj *thing) (*thing, error) { other(); _, c := now(); return c.Update(ctx, obj) },
		Delete: func(key lw.Key) error { _, c := now(); _, err := c.Delete(ctx, key, ""); return err },
		Transact: func(puts []*thing, gone []lw.Key) (stored []*thing, version string, err error) {
			c, all := now()
			var ops []clientv3.Op
			for _, obj := range puts {
				op := putOp(prefix, obj)
				if scoped {
					op = clientv3.OpPut(prefix+obj.Name, string(op.ValueBytes()))
				}
				ops = append(ops, op)
			}
			for _, key := range gone {
				path := prefix + key.Namespace + "/" + key.Name
				if scoped {
					path = prefix + key.Name
				}
				ops = append(ops, clientv3.OpDelete(path))
			}
			resp, err := c.Txn(ctx).Then(ops...).Commit()
			if err != nil {
				return nil, "", err
			}
			for _, obj := range puts {
				is, err := all.Get(ctx, obj.Key())
				if err != nil {
					return nil, "", err
				}
				stored = append(stored, is)
			}
			return stored, fmt.Sprint(resp.Header.Revision), nil
		},
		Compact: func() {
			c, _ := now()
			resp, err := c.Get(ctx, "x")
			if err == nil {
				_, err = c.Compact(ctx, resp.Header.Revision, clientv3.WithCompactPhysical())
			}
			if err != nil && err.Error() != "etcdserver: mvcc: required revision has been compacted" {
				panic(err)
			}
		},
		Disconnect: connect,
		Bookmark:   func() { _, c := now(); c.Hints().Progress() },
		Close:      func() { c, _ := now(); c.Close() },
		// A real server, or this process, may stand still for longer than 5 s on a busy machine.
		Patience: 2 * time.Minute,
		Selectors: []lwtest.Selector[*thing]{
			{Labels: "parity=0", Matches: func(o *thing) bool { return o.Labels["parity"] == "0" }},
			{Fields: "metadata.name=one", Matches: func(o *thing) bool { return o.Name == "one" }},
			{Fields: "metadata.name!=one", Labels: "parity!=0", Matches: func(o *thing) bool { return o.Name != "one" && o.Labels["parity"] != "0" }},
		},
	}
	if scoped {
		sub.Keys = []lw.Key{{Name: "one"}, {Name: "two"}, {Name: "three"}}
	} else {
		sub.Selectors = append(sub.Selectors,
			lwtest.Selector[*thing]{Fields: "metadata.namespace=lwtest-a", Matches: func(o *thing) bool { return o.Namespace == "lwtest-a" }},
			lwtest.Selector[*thing]{Fields: "metadata.namespace=lwtest-b,metadata.name=one", Matches: func(o *thing) bool { return o.Namespace == "lwtest-b" && o.Name == "one" }})
	}
	return sub
}
