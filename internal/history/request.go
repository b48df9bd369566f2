package history

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/go-lw/lw/internal/shard"
)

// ParseVersion returns a resource version as a number. "" and "0" are both 0.
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

// FormatVersion returns a version as a string, as metadata.resourceVersion has it.
func FormatVersion(version uint64) string { return strconv.FormatUint(version, 10) }

// A filter selects the objects of a collection that a request is about.
type filter[V any] struct {
	namespace string          // "": all
	labels    labels.Selector // nil: all
	fields    fields.Selector // nil: all
	shard     *shard.Selector // nil: all
}

// newFilter parses the selectors of a request. Its errors are BadRequest, except that a real server
// has no reason for the error of a shard selector.
func (c *Collection[V]) newFilter(namespace string, opts metav1.ListOptions) (filter[V], error) {
	f := filter[V]{namespace: namespace}
	if opts.LabelSelector != "" {
		sel, err := labels.Parse(opts.LabelSelector)
		if err != nil {
			return f, apierrors.NewBadRequest(fmt.Sprintf("unable to parse label selector %q: %v", opts.LabelSelector, err))
		}
		f.labels = sel
	}
	if opts.FieldSelector != "" {
		sel, err := fields.ParseSelector(opts.FieldSelector)
		if err != nil {
			return f, apierrors.NewBadRequest(fmt.Sprintf("unable to parse field selector %q: %v", opts.FieldSelector, err))
		}
		for _, req := range sel.Requirements() {
			if req.Field != fieldName && req.Field != fieldNamespace && !slices.Contains(c.opts.Fields, req.Field) {
				return f, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", req.Field))
			}
		}
		f.fields = sel
	}
	if opts.ShardSelector != "" {
		sel, err := shard.Parse(opts.ShardSelector)
		if err != nil {
			return f, errWithoutReason(fmt.Errorf("invalid shard selector: %w", err))
		}
		f.shard = sel
	}
	return f, nil
}

const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// selects reports whether the filter has a selector. A namespace is not one.
func (f filter[V]) selects() bool { return f.labels != nil || f.fields != nil || f.shard != nil }

// matches reports whether the filter selects obj. It is false for nil.
func (f filter[V]) matches(obj *Object[V]) bool {
	return obj != nil &&
		(f.namespace == "" || f.namespace == obj.Key.Namespace) &&
		(f.labels == nil || f.labels.Matches(labels.Set(obj.Labels))) &&
		(f.fields == nil || f.fields.Matches(objectFields[V]{obj})) &&
		(f.shard == nil || f.shard.Matches(string(obj.UID), obj.Key.Namespace))
}

// objectFields lets a field selector read the fields of an object.
type objectFields[V any] struct{ obj *Object[V] }

func (o objectFields[V]) Has(name string) bool {
	_, ok := o.obj.Fields[name]
	return ok || name == fieldName || name == fieldNamespace
}

func (o objectFields[V]) Get(name string) string {
	switch name {
	case fieldName:
		return o.obj.Key.Name
	case fieldNamespace:
		return o.obj.Key.Namespace
	}
	return o.obj.Fields[name]
}

// validateList rejects the combinations of options that a server rejects for a list.
func validateList(opts metav1.ListOptions) error {
	var errs field.ErrorList
	path := field.NewPath("resourceVersionMatch")
	if match := opts.ResourceVersionMatch; match != "" {
		if opts.ResourceVersion == "" {
			errs = append(errs, field.Forbidden(path, "it needs a resourceVersion"))
		}
		if opts.Continue != "" {
			errs = append(errs, field.Forbidden(path, "it cannot be used with continue"))
		}
		if !slices.Contains(matches, match) {
			errs = append(errs, field.NotSupported(path, match, matches))
		}
		if match == metav1.ResourceVersionMatchExact && opts.ResourceVersion == "0" {
			errs = append(errs, field.Forbidden(path, `Exact needs another resourceVersion than "0"`))
		}
	}
	if opts.SendInitialEvents != nil {
		errs = append(errs, field.Forbidden(field.NewPath("sendInitialEvents"), "it is for a watch"))
	}
	if len(errs) > 0 {
		return errInvalidOptions(errs)
	}
	return nil
}

// validateWatch rejects the combinations of options that a server rejects for a watch.
func validateWatch(opts metav1.ListOptions) error {
	var errs field.ErrorList
	path := field.NewPath("resourceVersionMatch")
	match := opts.ResourceVersionMatch
	if opts.SendInitialEvents != nil && match != metav1.ResourceVersionMatchNotOlderThan {
		errs = append(errs, field.Forbidden(path, "sendInitialEvents needs NotOlderThan"))
	}
	if match != "" {
		if opts.SendInitialEvents == nil {
			errs = append(errs, field.Forbidden(path, "a watch needs sendInitialEvents with it"))
		}
		if match != metav1.ResourceVersionMatchNotOlderThan {
			errs = append(errs, field.NotSupported(path, match, matches[1:]))
		}
		if opts.Continue != "" {
			errs = append(errs, field.Forbidden(path, "it cannot be used with continue"))
		}
	}
	if len(errs) > 0 {
		return errInvalidOptions(errs)
	}
	return nil
}

var matches = []metav1.ResourceVersionMatch{metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan}

// A token says where the next page of a list begins. A client must not look into it, but real
// servers use this form, and so do we. Start is the path of the last object of the page before,
// with a zero byte after it, which makes it the first path that may follow.
type token struct {
	API     string `json:"v"`
	Version int64  `json:"rv"`
	Start   string `json:"start"`
}

// inconsistent is the version of a token whose next page shows the state that is current when the
// page is asked for.
const inconsistent = -1

const tokenAPI = "meta.k8s.io/v1"

func (t token) encode() string {
	t.API = tokenAPI
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // cannot happen: it has two strings and a number
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func decodeToken(s string) (token, error) {
	var t token
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err == nil && (t.API != tokenAPI || t.Version == 0 || t.Version < inconsistent || t.Start == "") {
		err = fmt.Errorf("no token of this server")
	}
	if err != nil {
		return t, apierrors.NewBadRequest(fmt.Sprintf("continue key is not valid: %v", err))
	}
	return t, nil
}
