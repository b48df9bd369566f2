package listopts

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TooOld is the answer for a version that is gone: 410, with the reason Expired. oldest is the
// oldest version that is left.
func TooOld(version, oldest uint64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, oldest))
}

// CauseReplaced is the type of a cause in the details of a 410: the version was of a history that
// the server no longer has, since it was restored from a backup. Versions of now may be equal to
// those of before, and mean something else.
const CauseReplaced metav1.CauseType = "HistoryReplaced"

// Replaced is the answer for a version of a history that the server no longer has. To clients that
// do not know CauseReplaced it is a 410 like that of TooOld.
func Replaced(version, oldest uint64) error {
	err := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d): the server's history was replaced since", version, oldest))
	err.ErrStatus.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{
		Type:    CauseReplaced,
		Message: "the server has another history than that of the resource version",
	}}}
	return err
}

// TooLarge is the answer for a version that the server has not reached: a Timeout that asks the
// client to try again after a second. The cause tells it from other timeouts.
func TooLarge(version, now uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, now), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}

// ExpiredToken is the answer for a token whose version is gone: 410, with a token with which the
// client can go on at the same start. The rest of the list then shows the current state, so the
// pages are of two states.
func ExpiredToken(start string) error {
	err := apierrors.NewResourceExpired("the continue token is too old for a consistent list: start again without it, " +
		"or go on with the token of this response, which shows what is left as it is now")
	err.ErrStatus.ListMeta.Continue = Token{Version: Inconsistent, Start: start}.Encode()
	return err
}

// InvalidOptions is the answer to a combination of options that is not allowed: 422, with the
// reason Invalid. It is nil if errs is empty.
func InvalidOptions(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
}

// WithoutReason is the answer to a watch whose resource version is not a number: 500, with the text
// of err. A real server does not call it a bad request.
func WithoutReason(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Message: err.Error(),
	}}
}
