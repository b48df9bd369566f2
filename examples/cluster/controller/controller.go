package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
)

// A Controller makes ConfigMaps of the pages of Websites.
//
// It reads from informers and writes with clients. Handlers only say which Website is concerned:
// they add its key to a queue. A worker takes the key, looks at the stores and does what is
// missing, so it does not matter what has happened, how often, or in what order.
type Controller struct {
	log     *slog.Logger
	board   lw.Board // lists the informers while they run, and what the keys of queue run for
	group   lw.Group // runs the informers
	sites   *lw.Informer[*Website]
	pages   *lw.Informer[*corev1.ConfigMap]
	byOwner *lw.Index[types.UID, *corev1.ConfigMap]
	queue   *clientgo.ReasonsQueue[lw.Key]

	siteClient *websiteClient
	pageClient corev1client.ConfigMapsGetter
	lease      resourcelock.Interface
}

// managed is the label of the ConfigMaps that this controller makes.
const managed = "example.dev/website"

// New returns a controller of the Websites in namespace, or of all Websites if that is "".
func New(config *rest.Config, namespace string, log *slog.Logger) (*Controller, error) {
	siteSource, err := clientgo.HTTP[*Website](config, groupVersion.WithResource("websites"), namespace)
	if err != nil {
		return nil, err
	}
	pageSource, err := clientgo.HTTP[*corev1.ConfigMap](config, corev1.SchemeGroupVersion.WithResource("configmaps"), namespace)
	if err != nil {
		return nil, err
	}
	// Nobody reads them, and they are half of an object.
	siteSource.Drop, pageSource.Drop = []string{"metadata.managedFields"}, []string{"metadata.managedFields"}
	siteClient, err := newWebsiteClient(config)
	if err != nil {
		return nil, err
	}
	pageClient, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	leaseClient, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}

	c := &Controller{
		log:        log,
		siteClient: siteClient,
		pageClient: pageClient,
		lease: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "website-controller"},
			Client:     leaseClient,
			LockConfig: resourcelock.ResourceLockConfig{Identity: string(uuid.NewUUID())},
		},
	}
	c.queue = clientgo.Reasons(workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[lw.Key]()),
		&clientgo.ReasonsOptions{Name: "websites", Board: &c.board})
	c.sites = lw.NewInformer(siteSource, &lw.Options{Logger: log, Board: &c.board})
	// A cluster has many ConfigMaps. The selector leaves those of others on the server.
	c.pages = lw.NewInformer(lw.WithListOptions(pageSource, func(o *metav1.ListOptions) { o.LabelSelector = managed }),
		&lw.Options{Logger: log, Board: &c.board})
	c.byOwner = lw.NewIndex(c.pages, func(page *corev1.ConfigMap) types.UID {
		if owner := metav1.GetControllerOf(page); owner != nil {
			return owner.UID
		}
		return ""
	})
	// These handlers are three functions each, Add, Update and Delete, which do what their names
	// say. A handler of your own is an lw.Handler with those that you need.
	c.sites.AddHandler(clientgo.Enqueue[*Website](c.queue))
	c.pages.AddHandler(clientgo.EnqueueOwner[*corev1.ConfigMap](c.queue, websiteKind.GroupKind()))
	c.group.Add(c.sites)
	c.group.Add(c.pages)
	return c, nil
}

// errLost is the error of a Run that is not the leader any more.
var errLost = errors.New("the lease is lost")

// Run works until ctx is done, and then returns nil. Only one process at a time works, the one with
// the lease; the others follow the server, so that they can take over at once.
//
// Its parts stop in the order in which they need each other: the workers finish what they are
// doing, then the lease is given up, then the informers end. Call Run once.
func (c *Controller) Run(ctx context.Context) error {
	parent := ctx
	ctx, fail := context.WithCancelCause(klog.NewContext(ctx, logr.FromSlogHandler(c.log.Handler())))
	defer fail(nil)
	defer c.queue.ShutDown()
	var running sync.WaitGroup
	defer running.Wait()
	following, unfollow := context.WithCancel(context.WithoutCancel(ctx))
	defer unfollow()
	running.Go(func() {
		if err := c.group.Run(following); err != nil {
			fail(err)
		}
	})

	elected := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: c.lease, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { elected <- leading },
			OnStoppedLeading: func() { fail(errLost) },
		},
	})
	if err != nil {
		return err
	}
	candidate, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	running.Go(func() { elector.Run(candidate) })
	select {
	case leading := <-elected:
		if err := c.work(ctx, leading); err != nil {
			fail(err)
		}
	case <-ctx.Done():
	}
	resign() // not before the workers have ended: somebody else may begin now
	if parent.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// work reconciles until ctx is done. Reconciles that are running then go on, as long as the lease
// is ours.
func (c *Controller) work(ctx, leading context.Context) error {
	// A worker must not take a store that has not synced for a server without objects. The wait
	// lasts until the server answers: whatever a retry can mend is retried, and is in the log and
	// on the page of Debug meanwhile. What no retry can mend, such as a selector that does not
	// parse, ends the wait at once.
	if err := c.group.WaitForSync(ctx); err != nil {
		return err
	}
	c.log.Info("working", "websites", c.sites.Store().Len(), "pages", c.pages.Store().Len())
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			// A queue that is shut down still hands out what it has.
			for key, shutdown := c.queue.Get(); !shutdown && ctx.Err() == nil; key, shutdown = c.queue.Get() {
				c.process(leading, key)
			}
		})
	}
	workers.Wait()
	return nil
}

// process reconciles one Website, and sees to it that what fails is tried again.
func (c *Controller) process(ctx context.Context, key lw.Key) {
	defer c.queue.Done(key)
	// Waits for the informers have this deadline too.
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := c.reconcile(ctx, key)
	switch {
	case err == nil:
		c.queue.Forget(key)
		return
	case apierrors.IsConflict(err):
		// Somebody else has written the object after our informer has seen it. That is no fault.
	default:
		c.log.Error("reconcile", "website", key, "tries", c.queue.NumRequeues(key)+1, "error", err)
	}
	c.queue.AddRateLimited(key)
}

// Healthy returns nil if what the controller knows can be relied on. Otherwise the error says why
// not.
func (c *Controller) Healthy() error {
	var errs []error
	for _, s := range c.group.Status() {
		if err := s.Healthy(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}
