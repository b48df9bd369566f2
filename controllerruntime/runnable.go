package controllerruntime

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Runner is an lw.Informer of any type, or anything else that runs until its context is done.
type Runner interface {
	Run(ctx context.Context) error
}

// Runnable returns what a manager runs the informers with:
//
//	err := mgr.Add(controllerruntime.Runnable(pods, nodes))
//
// They run from the manager's start to its end, also while another process is the leader, so that
// they are in step when this one becomes it. If one of them returns an error, the others end, and
// the manager stops with that error: an informer does so only if no retry can help.
func Runnable(runners ...Runner) manager.Runnable {
	return runnable(runners)
}

type runnable []Runner

// Start runs all runners until ctx is done.
func (r runnable) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	var failed sync.Once
	var first error
	for _, one := range r {
		running.Go(func() {
			if err := one.Run(ctx); err != nil {
				failed.Do(func() { first = err })
				cancel(err)
			}
		})
	}
	running.Wait()
	return first
}

// NeedLeaderElection tells the manager not to wait until it is the leader.
func (r runnable) NeedLeaderElection() bool { return false }
