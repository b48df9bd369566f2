package lw_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// A service is an object of one's own: it embeds its identity.
type service struct {
	lw.Meta
	Port int
}

func newService(name, uid, version string, port int) *service {
	return &service{lw.Meta{Namespace: "shop", Name: name, UID: types.UID(uid), ResourceVersion: version}, port}
}

func ExampleFIFO() {
	q := lw.NewFIFO[*service]()
	c := q.Subscribe()
	defer c.Close()

	// A Reflector does this: lists, then events.
	q.Replace([]*service{newService("cart", "1", "10", 80), newService("pay", "2", "11", 80)}, "12")
	q.Apply(lw.WatchEvent[*service]{Type: watch.Modified, Object: newService("cart", "1", "13", 8080), ResourceVersion: "13"})
	q.Replace([]*service{newService("cart", "1", "13", 8080)}, "15")
	q.Close()

	for {
		deltas, err := c.Next(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, d := range deltas {
			fmt.Println(d.Cause, d.Type, d.Key(), d.Object().Port)
		}
	}
	// Output:
	// initial added shop/cart 80
	// initial added shop/pay 80
	// watch updated shop/cart 8080
	// relist deleted shop/pay 80
	// lw: stopped
}

// A consumer that is far behind is told what it has missed as one change an object.
func ExampleCursor_Next_slow() {
	q := lw.NewFIFO[*service]()
	c := q.Subscribe()
	defer c.Close()

	q.Replace([]*service{newService("cart", "1", "1", 0)}, "1")
	for port := 1; port <= 5000; port++ {
		version := fmt.Sprint(port + 1)
		q.Apply(lw.WatchEvent[*service]{Type: watch.Modified, Object: newService("cart", "1", version, port), ResourceVersion: version})
	}

	deltas, err := c.Next(context.Background())
	if err != nil {
		fmt.Println(err)
	}
	for _, d := range deltas {
		fmt.Println(d.Type, d.Key(), d.New.Port)
	}
	// Output:
	// added shop/cart 5000
}
