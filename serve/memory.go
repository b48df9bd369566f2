package serve

import (
	"context"
	"errors"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
)

// ServeMemory serves m as r, until ctx is done: an API server without etcd. Beside what [Serve]
// answers, clients can create objects, replace and delete them. There is no patch, no apply, no
// subresource and no conversion of versions.
//
// The resource versions are those of m, and what m has compacted is expired here too. A write is
// answered when m has it; a list of the newest state that is asked for after it shows it.
func ServeMemory[T lw.Object](ctx context.Context, h *Handler, m *lw.Memory[T], r Resource[T]) error {
	res, err := resourceOf(r)
	if err != nil {
		return err
	}
	inf := lw.NewInformer(m, &lw.Options{Name: r.Name, Logger: h.opts.Logger, OnError: h.opts.OnError})
	s := newServed(h, res, r.History)
	s.writes = &memoryWriter[T]{m, res, r}
	s.floor = func() uint64 {
		oldest, _ := listopts.ParseVersion(m.Oldest())
		return oldest
	}
	if r.Fresh != FreshHere {
		s.catchUp = func(context.Context) (string, error) { return m.ResourceVersion(), nil }
	}
	// The informer ends after follow, so that what ends follow is ctx.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(running) }()
	err = follow(ctx, h, inf, s)
	cancel()
	if ran := <-ended; !errors.Is(ran, context.Canceled) {
		err = errors.Join(err, ran)
	}
	return err
}
