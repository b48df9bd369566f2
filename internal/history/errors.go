package history

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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

func errTooOld(version, oldest uint64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, oldest))
}

func errTooLarge(version, now uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, now), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}

// errExpiredToken carries a token that goes on at the same key in the state of now.
func errExpiredToken(start string) error {
	err := apierrors.NewResourceExpired("the continue token is too old for a consistent list: start again without it, " +
		"or go on with the token of this response, which shows what is left as it is now")
	err.ErrStatus.ListMeta.Continue = token{Version: inconsistent, Start: start}.encode()
	return err
}

func errInvalidOptions(errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
}

// errWatchVersion is a status without a reason, as a server answers a watch whose resource version is no number.
func errWatchVersion(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Message: err.Error(),
	}}
}
