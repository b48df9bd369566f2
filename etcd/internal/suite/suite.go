// Package suite has what the tests of package etcd, on a server in memory, and those of etcd/e2e,
// on a real one, have in common.
package suite

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/lwtest"
)

// Object is an object of which the encoding is that of encoding/json.
type Object interface {
	lw.Object
	GetLabels() map[string]string
}

// Subject returns a collection for [lwtest.Source] below a prefix that nobody else uses. object
// returns an object of key with the label parity, which is n modulo 2. connect returns a new
// client. Everything that fails panics.
func Subject[T Object](connect func() *clientv3.Client, prefix string, scoped bool, object func(key lw.Key, n int) T) lwtest.Subject[T] {
	ctx := context.Background()
	var mu sync.Mutex
	var client *clientv3.Client // guarded by mu
	var all *etcd.Collection[T] // guarded by mu
	reconnect := func() {
		mu.Lock()
		defer mu.Unlock()
		if client != nil {
			client.Close()
		}
		var err error
		client = connect()
		if all, err = etcd.New(client, prefix, &etcd.Options[T]{ClusterScoped: scoped}); err != nil {
			panic(err)
		}
	}
	reconnect()
	now := func() (*clientv3.Client, *etcd.Collection[T]) {
		mu.Lock()
		defer mu.Unlock()
		return client, all
	}
	path := func(key lw.Key) string {
		if scoped {
			return prefix + key.Name
		}
		return prefix + key.Namespace + "/" + key.Name
	}
	other := func() { // somebody else writes elsewhere
		c, _ := now()
		if _, err := c.Put(ctx, "/other", prefix); err != nil {
			panic(err)
		}
	}
	parity := func(o T) string { return o.GetLabels()["parity"] }
	sub := lwtest.Subject[T]{
		Source: func() lw.Source[T] { _, c := now(); return c },
		Object: object,
		Create: func(obj T) (T, error) { other(); _, c := now(); return c.Create(ctx, obj) },
		Update: func(obj T) (T, error) { other(); _, c := now(); return c.Update(ctx, obj) },
		Delete: func(key lw.Key) error { _, c := now(); _, err := c.Delete(ctx, key, ""); return err },
		Transact: func(puts []T, gone []lw.Key) (stored []T, version string, err error) {
			c, all := now()
			var ops []clientv3.Op
			for _, obj := range puts {
				value, err := json.Marshal(obj)
				if err != nil {
					return nil, "", err
				}
				ops = append(ops, clientv3.OpPut(path(lw.KeyOf(obj)), string(value)))
			}
			for _, key := range gone {
				ops = append(ops, clientv3.OpDelete(path(key)))
			}
			resp, err := c.Txn(ctx).Then(ops...).Commit()
			if err != nil {
				return nil, "", err
			}
			for _, obj := range puts {
				is, err := all.Get(ctx, lw.KeyOf(obj))
				if err != nil {
					return nil, "", err
				}
				stored = append(stored, is)
			}
			return stored, strconv.FormatInt(resp.Header.Revision, 10), nil
		},
		Compact: func() {
			c, _ := now()
			resp, err := c.Get(ctx, "x")
			if err == nil {
				_, err = c.Compact(ctx, resp.Header.Revision, clientv3.WithCompactPhysical())
			}
			if err != nil && rpctypes.Error(err) != rpctypes.ErrCompacted {
				panic(err)
			}
		},
		Disconnect: reconnect,
		Bookmark:   func() { _, c := now(); c.Hints().Progress() },
		Close:      func() { c, _ := now(); c.Close() },
		// A real server, or this process, may stand still for longer than 5 s on a busy machine.
		Patience: 2 * time.Minute,
		Selectors: []lwtest.Selector[T]{
			{Labels: "parity=0", Matches: func(o T) bool { return parity(o) == "0" }},
			{Fields: "metadata.name=one", Matches: func(o T) bool { return o.GetName() == "one" }},
			{Fields: "metadata.name!=one", Labels: "parity!=0", Matches: func(o T) bool { return o.GetName() != "one" && parity(o) != "0" }},
		},
	}
	if scoped {
		sub.Keys = []lw.Key{{Name: "one"}, {Name: "two"}, {Name: "three"}}
	} else {
		sub.Selectors = append(sub.Selectors,
			lwtest.Selector[T]{Fields: "metadata.namespace=lwtest-a", Matches: func(o T) bool { return o.GetNamespace() == "lwtest-a" }},
			lwtest.Selector[T]{Fields: "metadata.namespace=lwtest-b,metadata.name=one", Matches: func(o T) bool { return o.GetNamespace() == "lwtest-b" && o.GetName() == "one" }})
	}
	return sub
}
