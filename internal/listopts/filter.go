package listopts

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/listopts/shard"
)

// The fields that every kind of object has.
const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// An Object is what a Filter reads of an object, beside its fields.
type Object struct {
	Namespace, Name string
	UID             types.UID
	Labels          map[string]string
}

// A Filter selects the objects that a request is about: those of its namespace that all of its
// selectors select. It does not change, and any goroutine may use it.
type Filter struct {
	namespace string // "": all
	selectors bool   // there is a selector
	labels    labels.Selector
	fields    []term
	shard     *shard.Selector // nil: all

	exactName, exactNamespace string // see Name and Namespace
}

// A term is one requirement of a field selector. All of them must hold. Filters have no
// fields.Selector, because that wants a value of an interface for each object.
type term struct {
	field, value string
	not          bool
}

// NewFilter parses the selectors of a request for one namespace, or for all if it is empty. known
// reports whether a field selector may use a field; metadata.name and metadata.namespace are always
// known. nil: there are no others. The errors are BadRequest.
func NewFilter(namespace string, opts metav1.ListOptions, known func(field string) bool) (*Filter, error) {
	f := &Filter{namespace: namespace, exactNamespace: namespace}
	if opts.LabelSelector != "" {
		sel, err := labels.Parse(opts.LabelSelector)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if !sel.Empty() {
			f.labels = sel
		}
	}
	if err := f.parseFields(opts.FieldSelector, known); err != nil {
		return nil, err
	}
	if opts.ShardSelector != "" {
		sel, err := shard.Parse(opts.ShardSelector)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid shard selector: %v", err))
		}
		f.shard = sel
	}
	f.selectors = f.labels != nil || len(f.fields) > 0 || f.shard != nil
	return f, nil
}

// RequiredName returns the name that the field selector of a request requires, as kube-apiserver
// tells its authorizer. It is "" if there is no such name, or if a selector cannot be parsed.
func RequiredName(opts metav1.ListOptions) string {
	if !strings.Contains(opts.FieldSelector, fieldName) {
		return ""
	}
	sel, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return ""
	}
	if _, err := labels.Parse(opts.LabelSelector); err != nil {
		return ""
	}
	name, _ := sel.RequiresExactMatch(fieldName)
	return name
}

// parseFields sets fields, and the name and the namespace that they require.
func (f *Filter) parseFields(selector string, known func(field string) bool) error {
	if selector == "" {
		return nil
	}
	sel, err := fields.ParseSelector(selector)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	for _, req := range sel.Requirements() {
		if req.Field != fieldName && req.Field != fieldNamespace && (known == nil || !known(req.Field)) {
			return apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", req.Field))
		}
		f.fields = append(f.fields, term{field: req.Field, value: req.Value, not: req.Operator == selection.NotEquals})
	}
	f.exactName, _ = sel.RequiresExactMatch(fieldName)
	if required, ok := sel.RequiresExactMatch(fieldNamespace); ok && f.namespace == "" {
		f.exactNamespace = required
	}
	return nil
}

// Matches reports whether the filter selects the object. field returns the value of one of its
// fields that are known beside metadata.name and metadata.namespace, or "" if it does not have it.
// It may be nil if no others are known. It is not kept, so a method value or a closure costs no
// allocation: that is why it is no part of the Object, whose labels an interface keeps.
func (f *Filter) Matches(o Object, field func(name string) string) bool {
	if f.namespace != "" && f.namespace != o.Namespace {
		return false
	}
	if !f.selectors {
		return true
	}
	for _, t := range f.fields {
		var value string
		switch {
		case t.field == fieldName:
			value = o.Name
		case t.field == fieldNamespace:
			value = o.Namespace
		case field != nil:
			value = field(t.field)
		}
		if (value == t.value) == t.not {
			return false
		}
	}
	return (f.labels == nil || f.labels.Matches(labels.Set(o.Labels))) &&
		(f.shard == nil || f.shard.Matches(string(o.UID), o.Namespace))
}

// Selects reports whether the filter has a selector. A namespace is not one. A server counts the
// items that remain after a page only without a selector.
func (f *Filter) Selects() bool { return f.selectors }

// Name returns the name that every selected object has, because the field selector requires it; or
// "" if there is no such name. So the objects need not be searched for it.
func (f *Filter) Name() string { return f.exactName }

// Namespace returns the namespace that every selected object is in: that of the request, or else
// the one that the field selector requires. It is "" if there is no such namespace.
func (f *Filter) Namespace() string { return f.exactNamespace }

// Shard returns the shard selector as a server that selects by it echoes it in the metadata of a
// list. It is nil if the request has none.
func (f *Filter) Shard() *metav1.ShardInfo {
	if f.shard == nil {
		return nil
	}
	return &metav1.ShardInfo{Selector: f.shard.String()}
}
