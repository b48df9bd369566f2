package clientgo

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw"
)

// maxWaitingErrors is how many failures wait for a handler that is slow. Later ones are not
// reported. An informer makes at most 60 requests a minute, so only a handler that hangs gets
// there.
const maxWaitingErrors = 64

// An errorReporter calls the WatchErrorHandler, in a goroutine of its own: the default one sleeps,
// and must not hold up the goroutine that reads from the server.
type errorReporter struct {
	handler   cache.WatchErrorHandlerWithContext // never nil
	reflector *cache.Reflector                   // for the handler's parameter; never run
	waiting   chan *lw.Error
}

func newErrorReporter(example runtime.Object, description string) *errorReporter {
	var none cache.ListWatch
	return &errorReporter{
		handler: cache.DefaultWatchErrorHandler,
		reflector: cache.NewReflectorWithOptions(&none, example, cache.NewStore(cache.MetaNamespaceKeyFunc), cache.ReflectorOptions{
			Name: nameOf(example, description), TypeDescription: description,
		}),
		waiting: make(chan *lw.Error, maxWaitingErrors),
	}
}

// report is lw.Options.OnError. A changed object crashes the program, as with client-go's detector.
func (r *errorReporter) report(err error) {
	e, ok := errors.AsType[*lw.Error](err)
	if !ok {
		e = &lw.Error{Err: err}
	}
	if e.Op == "mutation" {
		panic(e)
	}
	select {
	case r.waiting <- e:
	default:
	}
}

// run starts the goroutine. The function that it returns ends it, after what waits is reported, or
// at once if ctx is done.
func (r *errorReporter) run(ctx context.Context) (end func()) {
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case e := <-r.waiting:
				r.handle(ctx, e)
			case <-stop:
				r.handleRest(ctx)
				return
			}
		}
	})
	return func() { close(stop); running.Wait() }
}

// handleRest reports what waits. Nothing more comes.
func (r *errorReporter) handleRest(ctx context.Context) {
	for {
		select {
		case e := <-r.waiting:
			r.handle(ctx, e)
		default:
			return
		}
	}
}

// handle reports e: a failed request to the handler, what is wrong with an object to client-go's
// ErrorHandlers. A request that is made again at once, in this or another form, is only logged, as
// client-go does: it calls its handlers for failures after which there is a pause.
func (r *errorReporter) handle(ctx context.Context, e *lw.Error) {
	if ctx.Err() != nil {
		return
	}
	defer utilruntime.HandleCrashWithContext(ctx)
	switch request := e.Op == "list" || e.Op == "stream" || e.Op == "watch"; {
	case !request:
		utilruntime.HandleErrorWithContext(ctx, e, "An object cannot be used")
	case e.Failures > 0:
		r.handler(ctx, r.reflector, e.Err)
	case e.Op == "stream":
		klog.FromContext(ctx).V(4).Info("The list could not be streamed, and is requested as a whole", "informer", e.Informer, "err", e.Err)
	default:
		klog.FromContext(ctx).Info("A watch has ended with an error, and is resumed", "informer", e.Informer, "err", e.Err)
	}
}
