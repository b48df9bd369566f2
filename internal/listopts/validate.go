package listopts

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var matches = [...]metav1.ResourceVersionMatch{metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan}

// ValidateList rejects the combinations of options that a server rejects for a list, as
// [InvalidOptions]. It does not look at selectors, tokens or the form of the version.
func ValidateList(opts metav1.ListOptions) error {
	var errs field.ErrorList
	path := field.NewPath("resourceVersionMatch")
	if match := opts.ResourceVersionMatch; match != "" {
		if opts.ResourceVersion == "" {
			errs = append(errs, field.Forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
		}
		if opts.Continue != "" {
			errs = append(errs, field.Forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
		}
		if !slices.Contains(matches[:], match) {
			errs = append(errs, field.NotSupported(path, match, append(matches[:], "")))
		}
		if match == metav1.ResourceVersionMatchExact && opts.ResourceVersion == "0" {
			errs = append(errs, field.Forbidden(path, `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`))
		}
	}
	if opts.SendInitialEvents != nil {
		errs = append(errs, field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for list"))
	}
	return InvalidOptions(errs)
}

// ValidateWatch is [ValidateList] for a watch.
func ValidateWatch(opts metav1.ListOptions) error {
	var errs field.ErrorList
	path := field.NewPath("resourceVersionMatch")
	match := opts.ResourceVersionMatch
	if opts.SendInitialEvents != nil && match != metav1.ResourceVersionMatchNotOlderThan {
		errs = append(errs, field.Forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
	}
	if match != "" {
		if opts.SendInitialEvents == nil {
			errs = append(errs, field.Forbidden(path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
		}
		if match != metav1.ResourceVersionMatchNotOlderThan {
			errs = append(errs, field.NotSupported(path, match, matches[1:]))
		}
		if opts.Continue != "" {
			errs = append(errs, field.Forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
		}
	}
	return InvalidOptions(errs)
}
