package etcd_test

import (
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/etcd/internal/fakeetcd"
	"github.com/go-lw/lw/etcd/internal/suite"
	"github.com/go-lw/lw/lwtest"
)

// TestSource checks the collection with random histories, as etcd/e2e does on a real server.
func TestSource(t *testing.T) {
	for name, scoped := range map[string]bool{"namespaced": false, "cluster": true} {
		t.Run(name, func(t *testing.T) {
			lwtest.Source(t, func() lwtest.Subject[*item] {
				s := fakeetcd.New(t)
				return suite.Subject(func() *clientv3.Client { return s.Dial(t) }, "/w/", scoped, numbered)
			})
		})
	}
}

// numbered returns an item of key with the parity of n as a label.
func numbered(key lw.Key, n int) *item {
	i := newItem(key.Name, n)
	i.Namespace, i.Labels = key.Namespace, map[string]string{"parity": fmt.Sprint(n % 2)}
	return i
}

// TestWritable checks the writes with random sequences, beside those of an lw.Memory.
func TestWritable(t *testing.T) {
	lwtest.Writable(t, func() (lw.Writable[*item], func()) {
		c, err := etcd.New[*item](fakeetcd.New(t).Client, "/w/", nil)
		if err != nil {
			panic(err)
		}
		return c, nil
	}, numbered, func(obj *item, n int) { obj.N = n })
}
