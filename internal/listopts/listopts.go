// Package listopts is what a server of the Kubernetes API understands of a list or a watch request:
// the options in its query, the combinations that are allowed, the objects that its selectors
// select, and the tokens with which a list goes on. It has the errors with which a server refuses,
// with the reasons, codes and causes that clients decide by.
//
// It knows no objects and no history, so every server can use it: a relay, a model of a server, and
// the collection in memory of a unit test.
package listopts

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ParseVersion returns a resource version as a number. "" and "0" are both 0. The error is no API
// status; see [ListVersion] and [WatchVersion].
func ParseVersion(resourceVersion string) (uint64, error) {
	if resourceVersion == "" || resourceVersion == "0" {
		return 0, nil
	}
	v, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil || resourceVersion[0] == '0' {
		return 0, fmt.Errorf("invalid resource version %q: not a decimal number", resourceVersion)
	}
	return v, nil
}

// ListVersion is ParseVersion for a request for a list or an object, whose error is BadRequest.
func ListVersion(resourceVersion string) (uint64, error) {
	v, err := ParseVersion(resourceVersion)
	if err != nil {
		err = apierrors.NewBadRequest("invalid resource version: " + invalidVersion(resourceVersion).Error())
	}
	return v, err
}

// WatchVersion is ParseVersion for a watch, whose error is one [WithoutReason].
func WatchVersion(resourceVersion string) (uint64, error) {
	v, err := ParseVersion(resourceVersion)
	if err != nil {
		err = WithoutReason(invalidVersion(resourceVersion))
	}
	return v, err
}

func invalidVersion(resourceVersion string) error {
	return field.Invalid(field.NewPath("resourceVersion"), resourceVersion, (&strconv.NumError{Func: "ParseUint", Num: resourceVersion, Err: strconv.ErrSyntax}).Error())
}

// FormatVersion returns a version as a string, as metadata.resourceVersion has it.
func FormatVersion(version uint64) string { return strconv.FormatUint(version, 10) }

// Parse returns the options that the query of a list or a watch has. It reads them as
// kube-apiserver does: of a parameter that is given twice it takes the first, it ignores those that
// it does not know, and a flag without a value is true. A number that is none is a BadRequest; the
// other options are returned with it, for a log. Whether the options may be combined is for
// [ValidateList] and [ValidateWatch].
func Parse(query url.Values) (metav1.ListOptions, error) {
	opts := metav1.ListOptions{
		LabelSelector:        query.Get("labelSelector"),
		FieldSelector:        query.Get("fieldSelector"),
		ShardSelector:        query.Get("shardSelector"),
		ResourceVersion:      query.Get("resourceVersion"),
		ResourceVersionMatch: metav1.ResourceVersionMatch(query.Get("resourceVersionMatch")),
		Continue:             query.Get("continue"),
		Watch:                flag(query, "watch"),
		AllowWatchBookmarks:  flag(query, "allowWatchBookmarks"),
	}
	if len(query["sendInitialEvents"]) > 0 {
		opts.SendInitialEvents = new(flag(query, "sendInitialEvents"))
	}
	limit, badLimit := number(query, "limit")
	if limit != nil {
		opts.Limit = *limit
	}
	var err error
	if opts.TimeoutSeconds, err = number(query, "timeoutSeconds"); err == nil {
		err = badLimit
	}
	return opts, err
}

// flag reads a parameter that is true or false. Any value is true but "0" and "false".
func flag(query url.Values, name string) bool {
	values := query[name]
	return len(values) > 0 && values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// number reads a parameter that is a number. It is nil if there is none.
func number(query url.Values, name string) (*int64, error) {
	values := query[name]
	if len(values) == 0 {
		return nil, nil
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return &n, nil
}

// Exact reports whether a list shows the state at the version of its options, and not one that is
// at least as new: with the match Exact, and by a legacy rule of the API with a limit and no match.
// It says nothing about a list with a token.
func Exact(opts metav1.ListOptions) bool {
	switch opts.ResourceVersionMatch {
	case metav1.ResourceVersionMatchExact:
		return true
	case "":
		return opts.Limit > 0 && opts.ResourceVersion != "" && opts.ResourceVersion != "0"
	}
	return false
}

// Limit returns how many items the answer to a list may have; 0 stands for all. Servers with a
// watch cache ignore the limit of a list at any version ("0").
func Limit(opts metav1.ListOptions) int64 {
	if opts.ResourceVersion == "0" && opts.Continue == "" {
		return 0
	}
	return max(opts.Limit, 0)
}
