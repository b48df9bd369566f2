package e2e

import (
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd/internal/suite"
	"github.com/go-lw/lw/lwtest"
)

// TestSource checks the collection with random histories on a real etcd: selectors, compaction,
// connections that are closed, and a writer on another prefix.
func TestSource(t *testing.T) {
	s := startServer(t)
	connect := func() *clientv3.Client {
		client, err := newClient(s.endpoint)
		if err != nil {
			panic(err)
		}
		return client
	}
	for name, scoped := range map[string]bool{"namespaced": false, "cluster": true} {
		t.Run(name, func(t *testing.T) {
			lwtest.Source(t, func() lwtest.Subject[*thing] {
				return suite.Subject(connect, newPrefix(), scoped, func(key lw.Key, n int) *thing {
					o := newThing(key.Namespace, key.Name, n)
					o.Labels = map[string]string{"parity": fmt.Sprint(n % 2)}
					return o
				})
			})
		})
	}
}
