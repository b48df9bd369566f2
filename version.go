package lw

import (
	"reflect"

	"github.com/go-lw/lw/internal/equal"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// This file has every rule about resource versions: which of two is older, and when two objects are
// the same. A server promises only that versions of one collection can be compared for equality.
// Versions that are decimal numbers without a leading zero also have an order, as of Kubernetes
// 1.35 (https://kep.k8s.io/5504). No order is assumed for any other version, such as "" or "0".

// A position is a resource version together with its number, so that each version is parsed once,
// however often it is compared.
type position struct {
	version string
	number  uint64 // decimal(version)
}

func positionAt(version string) position { return position{version, decimal(version)} }

// before reports whether p is older than q. If known is false, one of them has no order.
func (p position) before(q position) (older, known bool) {
	// The fast path: each event is compared, and nearly every version fits a word.
	if p.number != 0 && q.number != 0 {
		return p.number < q.number, true
	}
	c, err := resourceversion.CompareResourceVersion(p.version, q.version)
	return c < 0, err == nil
}

// after reports whether p is certainly newer than version.
func (p position) after(version string) bool {
	c, err := resourceversion.CompareResourceVersion(p.version, version)
	return err == nil && c > 0
}

// decimal returns version as a number. It returns 0 if version has no order or has more than 19
// digits.
func decimal(version string) (n uint64) {
	const fits = 19 // every number of 19 digits fits a uint64
	if version == "" || len(version) > fits || version[0] == '0' {
		return 0
	}
	for i := range len(version) {
		digit := version[i] - '0'
		if digit > 9 {
			return 0
		}
		n = 10*n + uint64(digit)
	}
	return n
}

// older reports whether a is certainly an older version than b.
func older[T Identified](a, b T) bool {
	c, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && c < 0
}

// notOlder reports whether b is not older than a, as far as their versions have an order.
func notOlder[T Identified](a, b T) bool { return !older(b, a) }

// sameVersion reports whether a and b say that they are the same version of the same object. Two
// objects without a resource version say nothing, so they are the same by this rule.
func sameVersion[T Identified](a, b T) bool {
	return a.GetResourceVersion() == b.GetResourceVersion() && a.GetUID() == b.GetUID()
}

// unchanged reports whether b is the version that a is. Two objects without a resource version
// count as different unless they are one object: otherwise a change would be lost if the source
// sets no versions.
func unchanged[T Identified](a, b T) bool {
	return equal.Same(a, b) || a.GetResourceVersion() != "" && sameVersion(a, b)
}

// sameContent is like unchanged, but compares the whole objects where equal versions prove nothing:
// if the objects have no versions, or if distrust is true. distrust means that equal versions may
// belong to different content, because the server went back in time or is a fake.
func sameContent[T Identified](a, b T, distrust bool) bool {
	if !distrust && unchanged(a, b) {
		return true
	}
	return equal.Same(a, b) || sameVersion(a, b) && reflect.DeepEqual(a, b)
}
