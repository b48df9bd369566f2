package history

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// The errors have the reasons, codes and causes of a real server, because clients decide by them.

func (c *Collection[V]) errNotFound(key types.NamespacedName) error {
	return apierrors.NewNotFound(c.opts.Resource, key.Name)
}

func (c *Collection[V]) errConflictVersion(key types.NamespacedName, want, got uint64) error {
	return apierrors.NewConflict(c.opts.Resource, key.Name,
		fmt.Errorf("the object has been modified: it is at resource version %d, not %d; apply the changes to that", got, want))
}

func (c *Collection[V]) errConflictUID(key types.NamespacedName, want, got types.UID) error {
	return apierrors.NewConflict(c.opts.Resource, key.Name,
		fmt.Errorf("precondition failed: the object's UID is %s, not %s", got, want))
}
