package lw

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What an error says, in the questions that the policy asks of it.
func TestErrorKinds(t *testing.T) {
	tooLarge := apierrors.NewTimeoutError("too large", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	type kinds struct{ lost, status, busy, refused, sure bool }
	for name, tc := range map[string]struct {
		err  error
		want kinds
	}{
		"network": {errors.New("reset"), kinds{}},
		"expired": {apierrors.NewResourceExpired("x"), kinds{lost: true, status: true}},
		//lint:ignore SA1019 Servers still answer with it.
		"gone":            {apierrors.NewGone("x"), kinds{lost: true, status: true}},
		"too large":       {tooLarge, kinds{lost: true, status: true}},
		"protocol":        {protocolErrorf("x"), kinds{lost: true}},
		"bad request":     {apierrors.NewBadRequest("x"), kinds{status: true, refused: true, sure: true}},
		"invalid":         {apierrors.NewInvalid(schema.GroupKind{}, "", nil), kinds{status: true, refused: true, sure: true}},
		"method":          {apierrors.NewMethodNotSupported(schema.GroupResource{}, "watch"), kinds{status: true, refused: true, sure: true}},
		"unauthorized":    {apierrors.NewUnauthorized("x"), kinds{status: true, refused: true}},
		"forbidden":       {apierrors.NewForbidden(schema.GroupResource{}, "", nil), kinds{status: true, refused: true}},
		"throttled":       {apierrors.NewTooManyRequests("x", 1), kinds{status: true, busy: true}},
		"internal":        {apierrors.NewInternalError(errors.New("x")), kinds{status: true}},
		"unavailable":     {apierrors.NewServiceUnavailable("x"), kinds{status: true, busy: true}},
		"request timeout": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 408}}, kinds{status: true}},
		"server timeout":  {apierrors.NewServerTimeout(schema.GroupResource{}, "list", 1), kinds{status: true, busy: true}},
		"wrapped status":  {fmt.Errorf("x: %w", apierrors.NewBadRequest("x")), kinds{status: true, refused: true, sure: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := kinds{lost: isLost(tc.err), status: isStatus(tc.err), busy: isBusy(tc.err)}
			got.refused, got.sure = isRefusal(tc.err)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(kinds{})); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRetryAfterSeconds(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want time.Duration
	}{
		"nothing":     {nil, 0},
		"network":     {errors.New("reset"), 0},
		"no advice":   {apierrors.NewInternalError(errors.New("x")), 0},
		"seconds":     {apierrors.NewTooManyRequests("x", 7), 7 * time.Second},
		"wrapped":     {fmt.Errorf("x: %w", apierrors.NewTooManyRequests("x", 7)), 7 * time.Second},
		"nonsense":    {apierrors.NewTooManyRequests("x", -7), 0},
		"a long time": {apierrors.NewTooManyRequests("x", 1e6), 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := retryAfter(tc.err); got != tc.want {
				t.Errorf("retryAfter = %v, want %v", got, tc.want)
			}
		})
	}
}
