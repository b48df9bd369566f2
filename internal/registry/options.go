package registry

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// options are those of a write that is no deletion.
type options struct {
	manager    string
	validation string // of fields: Strict, Ignore, or else Warn
	force      bool   // of an apply
}

// parseOptions reads the options of a create, an update or a patch.
func parseOptions(req *Request) (options, error) {
	q := req.Query
	o := metav1.PatchOptions{DryRun: q["dryRun"], FieldManager: q.Get("fieldManager"), FieldValidation: q.Get("fieldValidation")}
	if q.Has("force") {
		force := flag(q.Get("force"))
		o.Force = &force
	}
	kind, errs := "PatchOptions", field.ErrorList(nil)
	switch req.Verb {
	case Create:
		kind, errs = "CreateOptions", metavalidation.ValidateCreateOptions(&metav1.CreateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation})
	case Update:
		kind, errs = "UpdateOptions", metavalidation.ValidateUpdateOptions(&metav1.UpdateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation})
	default:
		errs = metavalidation.ValidatePatchOptions(&o, types.PatchType(mediaType(req.ContentType)))
	}
	if len(errs) > 0 {
		return options{}, invalidOptions(kind, errs)
	}
	out := options{manager: o.FieldManager, validation: o.FieldValidation, force: o.Force != nil && *o.Force}
	if out.manager == "" {
		out.manager = managerOf(req.UserAgent)
	}
	return out, nil
}

func invalidOptions(kind string, errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// flag is a bool of a query as apimachinery reads it.
func flag(value string) bool { return !strings.EqualFold(value, "false") && value != "0" }

// managerOf returns the field manager of a client that names none: the beginning of its User-Agent.
func managerOf(userAgent string) string {
	name, _, _ := strings.Cut(userAgent, "/")
	var b strings.Builder
	for _, r := range name {
		if !unicode.IsPrint(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > metavalidation.FieldManagerMaxLength {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// ParseDeleteOptions reads the options of a deletion: those of the body, or, if there is none,
// those of the query. A dry run may be asked for in either.
func ParseDeleteOptions(query url.Values, contentType string, body []byte) (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{}
	if len(body) > 0 {
		if err := decodeDeleteOptions(contentType, body, o); err != nil {
			return nil, err
		}
		o.DryRun = append(o.DryRun, query["dryRun"]...)
	} else {
		o.DryRun = query["dryRun"]
		uid, version := types.UID(query.Get("uid")), query.Get("resourceVersion")
		if uid != "" {
			o.Preconditions = &metav1.Preconditions{UID: &uid}
		}
		if version != "" {
			o.Preconditions = cmp.Or(o.Preconditions, &metav1.Preconditions{})
			o.Preconditions.ResourceVersion = &version
		}
		if query.Has("gracePeriodSeconds") {
			n, err := strconv.ParseInt(query.Get("gracePeriodSeconds"), 10, 64)
			if err != nil {
				return nil, badRequest("gracePeriodSeconds: %v", err)
			}
			o.GracePeriodSeconds = &n
		}
		if query.Has("orphanDependents") {
			orphan := flag(query.Get("orphanDependents"))
			//lint:ignore SA1019 older clients send it
			o.OrphanDependents = &orphan
		}
		if query.Has("propagationPolicy") {
			policy := metav1.DeletionPropagation(query.Get("propagationPolicy"))
			o.PropagationPolicy = &policy
		}
	}
	if errs := metavalidation.ValidateDeleteOptions(o); len(errs) > 0 {
		return nil, invalidOptions("DeleteOptions", errs)
	}
	return o, nil
}
