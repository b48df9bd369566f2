package controllerruntime

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/request"
)

// NewClient returns a function that makes the client of a manager whose cache has the Options o. It
// fits the NewClient of manager.Options and of cluster.Options:
//
//	ctrl.Options{
//		NewCache:  controllerruntime.NewCacheWith(o),
//		NewClient: controllerruntime.NewClient(o),
//	}
//
// The client is controller-runtime's own. With o.TellWrites, its writes are told to the cache.
func NewClient(o Options) client.NewClientFunc {
	return func(config *rest.Config, opts client.Options) (client.Client, error) {
		if o.TellWrites && !off() {
			var err error
			if opts.HTTPClient, err = tellingClient(config, opts); err != nil {
				return nil, fmt.Errorf("controllerruntime: NewClient: %w", err)
			}
		}
		return client.New(config, opts)
	}
}

// An ownCache is a cache that has only a part of the objects, or that writes are told to.
type ownCache struct {
	cache.Cache
	told *http.Client // of the informers, made by clientgo.TellWrites; nil: no write is told
	part *part        // nil: the cache has all objects of a kind
}

// NeedLeaderElection keeps a manager to which the cache is added from waiting until it is the
// leader.
func (c *ownCache) NeedLeaderElection() bool { return false }

// tellingClient returns the HTTP client of a client whose writes are told to its cache.
func tellingClient(config *rest.Config, opts client.Options) (*http.Client, error) {
	if opts.Cache != nil {
		if of, ok := opts.Cache.Reader.(*ownCache); ok && of.told != nil {
			httpClient := opts.HTTPClient
			if httpClient == nil {
				var err error
				if httpClient, err = newHTTPClient(config); err != nil {
					return nil, err
				}
			}
			return clientgo.TellWrites(httpClient, of.told), nil
		}
	}
	return nil, errors.New("TellWrites: the cache of the client is none of NewCacheWith with TellWrites")
}

// NotTold returns a predicate that leaves out the events of the program's own writes, which
// Options.TellWrites or [clientgo.TellWrites] has told. A change of somebody else is never left
// out with them. So an event must be a single write of the program: it has created or deleted the
// object; or written a version that it names, as Update and an optimistic lock do; or, of any other
// patch, the managed fields of both versions say that only its field manager has changed something.
// What cannot be shown to be so is let through, as is what waits behind 16,384 other writes.
//
//	builder.ControllerManagedBy(mgr).
//		Owns(&corev1.ConfigMap{}, builder.WithPredicates(controllerruntime.NotTold()))
func NotTold() predicate.Predicate { return TypedNotTold[client.Object]() }

// TypedNotTold is like [NotTold], for a [Source] of objects of the type T.
func TypedNotTold[T lw.Object]() predicate.TypedPredicate[T] {
	request.RememberOwn()
	return predicate.TypedFuncs[T]{
		CreateFunc: func(e event.TypedCreateEvent[T]) bool {
			own, ok := request.OwnOf(e.Object.GetUID(), e.Object.GetResourceVersion())
			return !ok || !own.Create || e.IsInInitialList
		},
		UpdateFunc: func(e event.TypedUpdateEvent[T]) bool { return !isOwn(e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(e event.TypedDeleteEvent[T]) bool {
			_, ok := request.OwnOf(e.Object.GetUID(), "")
			return !ok
		},
	}
}

// isOwn reports whether nothing but writes of the program has made after of before.
func isOwn[T lw.Object](before, after T) bool {
	const most = 64 // writes that became one event
	version := after.GetResourceVersion()
	for range most {
		own, ok := request.OwnOf(after.GetUID(), version)
		switch {
		case !ok || version == before.GetResourceVersion():
			return false
		case own.Base == "":
			return version == after.GetResourceVersion() && changedBy(own.Manager, any(before), any(after))
		case own.Base == before.GetResourceVersion():
			return true
		}
		version = own.Base
	}
	return false
}

// changedBy reports whether the managed fields of two versions say that manager has changed
// something, and nobody else.
func changedBy(manager string, before, after any) bool {
	type managed interface {
		GetManagedFields() []metav1.ManagedFieldsEntry
	}
	old, ok := before.(managed)
	now, ok2 := after.(managed)
	if !ok || !ok2 || manager == "" {
		return false
	}
	was, is := old.GetManagedFields(), now.GetManagedFields()
	changed := false
	for _, pair := range [][2][]metav1.ManagedFieldsEntry{{is, was}, {was, is}} {
		for _, e := range pair[0] {
			if slices.ContainsFunc(pair[1], func(other metav1.ManagedFieldsEntry) bool { return reflect.DeepEqual(e, other) }) {
				continue
			}
			if e.Manager != manager {
				return false
			}
			changed = true
		}
	}
	return changed
}
