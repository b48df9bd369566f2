package derive

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

// The sides.
const (
	byHand = "hand"  // maps, see [hand]
	graph  = "graph" // a LeftJoin and a GroupBy of the pods
	slim   = "slim"  // the same, of a Derive of the pods that has only what they need
)

// sources are what a follower follows.
type sources struct {
	pods     lw.Source[*corev1.Pod]
	services []*corev1.Service
}

// results are the handlers of a side, one of each collection. old or new is nil if there is none.
type results struct {
	endpoints func(old, new *Endpoints)
	load      func(old, new *NodeLoad)
}

// A follower is a side that runs: the informers, and what keeps the results.
type follower struct {
	pods     *lw.Informer[*corev1.Pod]
	services *lw.Informer[*corev1.Service]
	run      []func(context.Context) error

	sync func(context.Context) error // waits until the handlers of the results were told of the first state
	// upTo waits until the results show all changes of the pods up to a version, so that their
	// handlers are told of a later change after them.
	upTo    func(ctx context.Context, version string) error
	content func() (map[lw.Key]*Endpoints, map[string]*NodeLoad)

	ctx    context.Context
	cancel context.CancelFunc
	ended  chan error
}

// newFollower returns a follower with informers that do not run yet.
func newFollower(src sources) *follower {
	opts := &lw.Options{OnError: func(err error) { panic("derive: " + err.Error()) }}
	f := &follower{
		pods:     lw.NewInformer(src.pods, opts),
		services: lw.NewInformer(fixed(src.services), opts),
	}
	f.run = []func(context.Context) error{f.pods.Run, f.services.Run}
	// A benchmark that hangs must fail.
	f.ctx, f.cancel = context.WithTimeout(context.Background(), 5*time.Minute)
	return f
}

func (f *follower) start() {
	f.ended = make(chan error, len(f.run))
	for _, run := range f.run {
		go func() { f.ended <- run(f.ctx) }()
	}
}

// stop returns when all goroutines have ended.
func (f *follower) stop() {
	f.cancel()
	for range f.run {
		must(<-f.ended)
	}
}

// fixed is a source of objects that never change.
type fixed []*corev1.Service

func (f fixed) List(_ context.Context, _ metav1.ListOptions, yield func(*corev1.Service, error) error) (metav1.ListMeta,
	error) {
	for _, obj := range f {
		if err := yield(obj, nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: "1"}, nil
}

func (f fixed) Watch(ctx context.Context, _ metav1.ListOptions, _ func(lw.WatchEvent[*corev1.Service]) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func (f fixed) Hints() lw.SourceHints { return lw.SourceHints{NoStream: true} }

func must(err error) {
	if err != nil {
		panic("derive: " + err.Error())
	}
}
