package controllerruntime

import (
	"context"

	"golang.org/x/sync/errgroup"
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
	all, ctx := errgroup.WithContext(ctx)
	for _, one := range r {
		all.Go(func() error { return one.Run(ctx) })
	}
	return all.Wait()
}

// NeedLeaderElection keeps the manager from waiting until it is the leader.
func (r runnable) NeedLeaderElection() bool { return false }
