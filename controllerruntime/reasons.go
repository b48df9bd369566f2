package controllerruntime

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw/clientgo"
)

// Explain returns a reconciler that does what r does, and may ask [Reasons] why it is called, if
// o.Reasons is set. The controller needs the queue that the result makes:
//
//	explained := controllerruntime.Explain(options, r)
//	err := ctrl.NewControllerManagedBy(mgr).For(&appsv1.Deployment{}).Owns(&corev1.Pod{}).
//		WithOptions(controller.Options{NewQueue: explained.NewQueue}).
//		Complete(explained)
//
// Explain panics if r is nil.
func Explain[R comparable](o Options, r reconcile.TypedReconciler[R]) *Explained[R] {
	if isNil(r) {
		panic("controllerruntime: Explain: nil reconciler")
	}
	return &Explained[R]{options: o, to: r}
}

// An Explained is the result of [Explain]. It is for one controller.
type Explained[R comparable] struct {
	// Queue makes the queue. Default: controller-runtime's queue with priorities.
	Queue func(controller string, limiter workqueue.TypedRateLimiter[R]) workqueue.TypedRateLimitingInterface[R]

	options Options
	to      reconcile.TypedReconciler[R]
	queue   *clientgo.ReasonsQueue[R] // nil: there are no reasons; set before Reconcile is called
}

// NewQueue is for the field of this name of controller.TypedOptions.
func (e *Explained[R]) NewQueue(name string, limiter workqueue.TypedRateLimiter[R]) workqueue.TypedRateLimitingInterface[R] {
	queue := e.Queue
	if queue == nil {
		queue = func(name string, limiter workqueue.TypedRateLimiter[R]) workqueue.TypedRateLimitingInterface[R] {
			return priorityqueue.New(name, func(o *priorityqueue.Opts[R]) { o.RateLimiter = limiter })
		}
	}
	inner := queue(name, limiter)
	if !e.options.Reasons {
		return inner
	}
	e.queue = clientgo.Reasons(inner, &clientgo.ReasonsOptions{Name: name, Board: e.options.board()})
	if of, ok := inner.(priorityqueue.PriorityQueue[R]); ok {
		return &reasonsQueue[R]{ReasonsQueue: e.queue, of: of}
	}
	return e.queue
}

type reasonsKey struct{}

// Reconcile calls the reconciler.
func (e *Explained[R]) Reconcile(ctx context.Context, request R) (reconcile.Result, error) {
	if e.queue == nil {
		return e.to.Reconcile(ctx, request)
	}
	ctx = context.WithValue(ctx, reasonsKey{}, func() clientgo.ReasonList { return e.queue.Of(request) })
	result, err := e.to.Reconcile(ctx, request)
	e.queue.Failed(request, err)
	return result, err
}

// Reasons returns why the reconciler runs that has got ctx, or one made of it; nil if it is none of
// [Explain], or has returned. It computes nothing that nobody reads, so it may be an attribute of a
// record that is not written:
//
//	log.FromContext(ctx).V(1).Info("reconciling", "reasons", controllerruntime.Reasons(ctx))
func Reasons(ctx context.Context) clientgo.ReasonList {
	if of, ok := ctx.Value(reasonsKey{}).(func() clientgo.ReasonList); ok {
		return of()
	}
	return nil
}

// A reasonsQueue is a ReasonsQueue of a queue with priorities.
type reasonsQueue[R comparable] struct {
	*clientgo.ReasonsQueue[R]
	of priorityqueue.PriorityQueue[R]
}

func (q *reasonsQueue[R]) AddWithOpts(o priorityqueue.AddOpts, requests ...R) {
	for _, r := range requests {
		q.Adding(r, o.After, o.RateLimited)
	}
	q.of.AddWithOpts(o, requests...)
}

func (q *reasonsQueue[R]) GetWithPriority() (request R, priority int, shutdown bool) {
	if request, priority, shutdown = q.of.GetWithPriority(); !shutdown {
		q.Taken(request)
	}
	return request, priority, shutdown
}
