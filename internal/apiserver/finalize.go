package apiserver

import (
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/history"
)

// remove deletes the object of key, if pre holds. An object with finalizers stays, marked by a
// deletionTimestamp, until an update takes the last finalizer away. gone is false then, and obj is
// the marked object. Otherwise obj is the last state, and version that of the deletion.
func (c *Collection) remove(key types.NamespacedName, pre history.Preconditions) (obj *stored, version uint64, gone bool, err error) {
	for {
		old, err := c.history.Get(key)
		if err != nil {
			return nil, 0, false, err
		}
		at := pre
		if at.Version == 0 {
			// The finalizers that decide must be those of the object that is written.
			at.Version = old.Version
		}
		gone = len(old.Value.meta.Finalizers) == 0
		if gone {
			obj, version, err = c.history.Delete(key, at)
		} else if obj, err = c.history.Update(marked(old), at); err == nil {
			version = obj.Version
		}
		if pre.Version == 0 && apierrors.IsConflict(err) && (pre.UID == "" || pre.UID == old.UID) {
			continue
		}
		return obj, version, gone, err
	}
}

// marked returns old with a deletionTimestamp.
func marked(old *stored) stored {
	next := *old
	value := &content{meta: old.Value.meta, rest: old.Value.rest, status: old.Value.status}
	next.Value = value
	if value.meta.DeletionTimestamp == nil {
		now, grace := metav1.NewTime(time.Now().UTC().Truncate(time.Second)), int64(0)
		value.meta.DeletionTimestamp, value.meta.DeletionGracePeriodSeconds = &now, &grace
		value.meta.Generation++
	}
	return next
}

// checkFinalizers rejects an update that adds a finalizer to an object that is being deleted.
func (c *Collection) checkFinalizers(old, updated *content) error {
	if old.meta.DeletionTimestamp == nil {
		return nil
	}
	for _, f := range updated.meta.Finalizers {
		if !slices.Contains(old.meta.Finalizers, f) {
			return c.invalid(old.meta.Name, "metadata.finalizers",
				fmt.Sprintf("Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers %q", f))
		}
	}
	return nil
}
