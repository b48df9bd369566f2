package kinds

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

// A refusing source has each request fail.
type refusing func() error

func (f refusing) List(context.Context, metav1.ListOptions, func(*lw.Meta, error) error) (metav1.ListMeta, error) {
	return metav1.ListMeta{}, f()
}

func (f refusing) Watch(context.Context, metav1.ListOptions, func(lw.WatchEvent[*lw.Meta]) error) error {
	return f()
}

// An informer that ends while it fails leaves nobody behind whom the catalog calls.
func TestNobodyListensAfterTheEnd(t *testing.T) {
	for name, refusal := range map[string]error{"of its context": errors.New("down"), "by itself": lw.ErrPermanent} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, n := New("http://nowhere", nil), Name{Group: "example.com", Version: "v1", Kind: "Widget"}
				c.mu.Lock()
				e := c.entryLocked(n)
				e.state = State{Served: true, Known: true, stand: served, kind: n.Kind}
				c.mu.Unlock()
				listening := func() int {
					c.mu.Lock()
					defer c.mu.Unlock()
					return len(e.followed)
				}
				var during int
				src := refusing(func() error { during = listening(); return refusal })
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				inf := lw.NewInformer(Source(c, n, &SourceOptions[*lw.Meta]{Make: func(State) lw.Source[*lw.Meta] { return src }}), nil)
				ended := make(chan error, 1)
				go func() { ended <- inf.Run(ctx) }()
				time.Sleep(time.Minute)
				if !errors.Is(refusal, lw.ErrPermanent) {
					cancel()
				}
				if err := <-ended; !errors.Is(refusal, lw.ErrPermanent) && err != nil {
					t.Error(err)
				}
				if after := listening(); during == 0 || after != 0 {
					t.Errorf("%d listened, and %d do after the end", during, after)
				}
			})
		})
	}
}
