package lw

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A listCause is why a whole list is asked for.
type listCause int

const (
	listFirst listCause = iota // no whole list was taken over yet
	listExpired
	listGap
	listOlder
	listProtocol
	listUnreadable
	listFailing
	listUnversioned
)

// of returns the counter of c.
func (c listCause) of(all *ListCauses) *uint64 {
	switch c {
	case listExpired:
		return &all.Expired
	case listGap:
		return &all.Gap
	case listOlder:
		return &all.Older
	case listProtocol:
		return &all.Protocol
	case listUnreadable:
		return &all.Unreadable
	case listFailing:
		return &all.Failing
	case listUnversioned:
		return &all.Unversioned
	}
	return &all.First
}

// codeOf returns RequestCount.Code of a request that ended with err. What is no HTTP status is 0,
// so that a server cannot make up any number of codes.
func codeOf(err error) int {
	if err == nil || errors.Is(err, errUnverified) { // then the reflector itself has ended it
		return 200
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0
	}
	if code := int(status.Status().Code); code >= 100 && code < 600 {
		return code
	}
	return 0
}
