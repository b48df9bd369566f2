package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

// reconcile makes the pages of one Website what its spec says. It is called again when the Website
// or one of its pages changes, and after an error.
//
// It reads its own writes: after a write it waits until the store shows the result. Without that,
// the next call might see an old store and do the work once more.
func (c *Controller) reconcile(ctx context.Context, key lw.Key) error {
	site, ok := c.sites.Store().Get(key)
	switch {
	case !ok:
		return nil
	case site.DeletionTimestamp != nil:
		return c.finalize(ctx, site)
	case !slices.Contains(site.Finalizers, finalizer):
		// Before the first page, or a deletion might come in between. The update of the Website
		// enqueues it again.
		return c.update(ctx, site.withFinalizer(true))
	}

	extra := map[string]*corev1.ConfigMap{}
	for page := range c.byOwner.Lookup(site.UID) {
		extra[page.Name] = page
	}
	client := c.pageClient.ConfigMaps(site.Namespace)
	var written *corev1.ConfigMap
	for _, name := range slices.Sorted(maps.Keys(site.Spec.Pages)) {
		want := newPage(site, name)
		have, ok := extra[want.Name]
		delete(extra, want.Name)
		var err error
		switch {
		case !ok:
			written, err = client.Create(ctx, want, metav1.CreateOptions{})
		case have.DeletionTimestamp != nil:
			continue // it is created again when it is gone
		case !maps.Equal(have.Data, want.Data):
			update := have.DeepCopy()
			update.Data = want.Data
			written, err = client.Update(ctx, update, metav1.UpdateOptions{})
		}
		if err != nil {
			return fmt.Errorf("page %s: %w", want.Name, err)
		}
	}
	if written != nil {
		// All writes of one resource have rising versions, so the last one will do.
		if err := c.pages.WaitForResourceVersion(ctx, written.ResourceVersion); err != nil {
			return err
		}
	}
	if err := c.remove(ctx, slices.Collect(maps.Values(extra))); err != nil {
		return err
	}

	status := WebsiteStatus{ObservedGeneration: site.Generation, Pages: len(site.Spec.Pages)}
	if status == site.Status {
		return nil
	}
	site = site.DeepCopy()
	site.Status = status
	site, err := c.siteClient.in(site.Namespace).UpdateStatus(ctx, site, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return c.sites.WaitForResourceVersion(ctx, site.ResourceVersion)
}

// finalize removes the pages of a Website that is being deleted, and then lets it go. The garbage
// collector would remove them too, but after the Website. A finalizer is for what must happen
// before, and for what is outside of the cluster.
func (c *Controller) finalize(ctx context.Context, site *Website) error {
	if !slices.Contains(site.Finalizers, finalizer) {
		return nil
	}
	// The store has every page that this controller has created, since it has waited for each.
	if pages := c.byOwner.List(site.UID); len(pages) > 0 {
		return c.remove(ctx, pages) // when the last one is gone, its handler enqueues the Website
	}
	return c.update(ctx, site.withFinalizer(false))
}

// remove deletes pages. It does not wait until they are gone.
func (c *Controller) remove(ctx context.Context, pages []*corev1.ConfigMap) error {
	var errs []error
	for _, page := range pages {
		if page.DeletionTimestamp != nil {
			continue
		}
		// This page, and not one that somebody has created under its name.
		only := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(page.UID))}
		err := c.pageClient.ConfigMaps(page.Namespace).Delete(ctx, page.Name, only)
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("page %s: %w", page.Name, err))
		}
	}
	return errors.Join(errs...)
}

// update writes a Website, and waits until the store shows it.
func (c *Controller) update(ctx context.Context, site *Website) error {
	site, err := c.siteClient.in(site.Namespace).Update(ctx, site, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	return c.sites.WaitForResourceVersion(ctx, site.ResourceVersion)
}

// newPage returns the ConfigMap of one page of a Website.
func newPage(site *Website, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       site.Namespace,
			Name:            site.Name + "-" + name,
			Labels:          map[string]string{managed: site.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(site, websiteKind)},
		},
		Data: map[string]string{"index.html": site.Spec.Pages[name]},
	}
}
