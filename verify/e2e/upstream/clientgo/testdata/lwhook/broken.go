package lwhook

import (
	"time"

	"k8s.io/client-go/tools/cache"
)

// A mute informer calls no handler.
type mute struct{ cache.SharedIndexInformer }

func (m mute) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return m.SharedIndexInformer.AddEventHandler(cache.ResourceEventHandlerFuncs{})
}

func (m mute) AddEventHandlerWithResyncPeriod(_ cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return m.SharedIndexInformer.AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, resync)
}

func (m mute) AddEventHandlerWithOptions(_ cache.ResourceEventHandler, opts cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return m.SharedIndexInformer.AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{}, opts)
}

// A forgetful informer has a store that nobody else sees: what is written to it is lost, and what
// the server has is not in it.
type forgetful struct{ cache.SharedIndexInformer }

func (f forgetful) GetStore() cache.Store { return f.GetIndexer() }

func (f forgetful) GetIndexer() cache.Indexer {
	indexers := f.SharedIndexInformer.GetIndexer().GetIndexers()
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)
}

// An undying informer calls no handler for an object that was deleted.
type undying struct{ cache.SharedIndexInformer }

// addsAndUpdates are the calls of a handler that an undying informer makes.
type addsAndUpdates struct{ cache.ResourceEventHandler }

func (addsAndUpdates) OnDelete(any) {}

func (u undying) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return u.SharedIndexInformer.AddEventHandler(addsAndUpdates{h})
}

func (u undying) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return u.SharedIndexInformer.AddEventHandlerWithResyncPeriod(addsAndUpdates{h}, resync)
}

func (u undying) AddEventHandlerWithOptions(h cache.ResourceEventHandler, opts cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return u.SharedIndexInformer.AddEventHandlerWithOptions(addsAndUpdates{h}, opts)
}
