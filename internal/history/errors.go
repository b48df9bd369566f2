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

// errTooOld is the answer for a version that was compacted: 410, with the reason Expired.
func errTooOld(version, oldest uint64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, oldest))
}

// errTooLarge is the answer for a version that the line has not reached: a Timeout that asks the
// client to try again after a second. The cause tells it from other timeouts.
func errTooLarge(version, now uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, now), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}

// errExpiredToken has a token with which the client can go on at the same key. The rest of the list
// then shows the current state, so the pages are of two states.
func errExpiredToken(start string) error {
	err := apierrors.NewResourceExpired("the continue token is too old for a consistent list: start again without it, " +
		"or go on with the token of this response, which shows what is left as it is now")
	err.ErrStatus.ListMeta.Continue = token{Version: inconsistent, Start: start}.encode()
	return err
}

// errInvalidOptions is the answer to a combination of options that is not allowed.
func errInvalidOptions(errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
}

// errWithoutReason is the answer to a watch whose resource version is not a number, and to a shard
// selector that does not parse. A real server does not call them bad requests.
func errWithoutReason(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Message: err.Error(),
	}}
}
