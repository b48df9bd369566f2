package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	kjson "sigs.k8s.io/json"
)

// fieldManager returns what keeps the managedFields of writes to a subresource; "": to the object.
func (k *Kind) fieldManager(subresource string) (*managedfields.FieldManager, error) {
	known, ok := k.managers.Load(subresource)
	if !ok {
		known, _ = k.managers.LoadOrStore(subresource, &manager{})
	}
	m := known.(*manager)
	m.once.Do(func() {
		lists, err := k.lists()
		if err != nil {
			m.err = err
			return
		}
		version := k.GroupVersion()
		var versions []string
		for _, other := range k.relatives() {
			if other == k && (k.Status || subresource == SubStatus) || other != k && other.Status && subresource == SubStatus {
				versions = append(versions, other.GroupVersion().String())
			}
		}
		filters := filtersOf(managedfields.NewDefaultCRDFieldManager, versions, subresource == SubStatus)
		if subresource != SubStatus && subresource != "" {
			filters = nil
		}
		c := conversion{k}
		m.value, m.err = managedfields.NewDefaultCRDFieldManager(lists, c, c, c, k.gvk(), version, subresource, filters)
	})
	return m.value, m.err
}

// filtersOf returns the last argument of a constructor of field managers, for managers of some
// versions: what a write cannot change, it does not manage. It leaves the status only, or all else.
//
// The types are those of structured-merge-diff, whose major version is 6 below apimachinery 0.38
// and 7 from there on. They are inferred: a name of one would fit one of the two only.
func filtersOf[Version ~string, Set fieldSet[S, Set], Filter interface{ Filter(Set) Set }, S any](
	_ func(managedfields.TypeConverter, runtime.ObjectConvertor, runtime.ObjectDefaulter, runtime.ObjectCreater, schema.GroupVersionKind, schema.GroupVersion, string, map[Version]Filter) (*managedfields.FieldManager, error),
	versions []string, onlyStatus bool,
) map[Version]Filter {
	status := Set(new(S))
	if err := status.FromJSON(strings.NewReader(`{"f:status":{}}`)); err != nil {
		panic(err) // it is a constant
	}
	filters := map[Version]Filter{}
	for _, version := range versions {
		filters[Version(version)] = any(statusFilter[S, Set]{status, onlyStatus}).(Filter)
	}
	return filters
}

// A fieldSet is a *fieldpath.Set.
type fieldSet[S, Set any] interface {
	*S
	FromJSON(r io.Reader) error
	Difference(Set) Set
	RecursiveDifference(Set) Set
}

// A statusFilter is a fieldpath.Filter.
type statusFilter[S any, Set fieldSet[S, Set]] struct {
	status Set
	only   bool
}

// Filter returns the fields in or below the status, or all others.
func (f statusFilter[S, Set]) Filter(fields Set) Set {
	others := fields.RecursiveDifference(f.status)
	if f.only {
		return fields.Difference(others)
	}
	return others
}

// A conversion is that between versions for managedFields. The Kind's own functions have filled in
// the defaults.
type conversion struct{ k *Kind }

func (conversion) Default(runtime.Object) {}

func (c conversion) New(schema.GroupVersionKind) (runtime.Object, error) { return c.k.live(nil) }

func (conversion) Convert(_, _, _ any) error {
	return fmt.Errorf("registry: no conversion into a value")
}

// ConvertToVersion leaves the version of a Kind without relatives, since its schema knows no other:
// the manager of an object whose version it does not know would be forgotten.
func (c conversion) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	version, ok := to.(schema.GroupVersion)
	if from := in.GetObjectKind().GroupVersionKind().GroupVersion(); c.k.family == nil || !ok || from == version {
		return in, nil
	}
	if !slices.ContainsFunc(c.k.family.kinds, func(k *Kind) bool { return k.GroupVersion() == version }) {
		if BuiltIn(c.k.Group) { // the managers of that version are forgotten then
			return nil, runtime.NewNotRegisteredErrForKind(c.k.Plural, version.WithKind(c.k.Kind))
		}
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", version)
	}
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("registry: no conversion of %T", in)
	}
	return c.k.family.converted(u, version)
}

func (conversion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// manage writes down in o what the request changes of old, which is nil for a creation.
func (w *Write) manage(old, o *Object) error {
	k, m := w.kind, &o.Meta
	switch {
	case w.unmanaged(old, o):
		if !w.req.Whole {
			m.ManagedFields = nil
		}
		return nil
	case w.byServer(): // kube-apiserver manages nothing then
		m.ManagedFields = old.Meta.ManagedFields
		return nil
	case old != nil && (len(m.ManagedFields) == 0 || slices.EqualFunc(m.ManagedFields, old.Meta.ManagedFields, sameEntry)) && sameFields(old, o):
		m.ManagedFields = old.Meta.ManagedFields
		return nil
	}
	manager, err := k.fieldManager(w.req.Subresource)
	if err != nil {
		return err
	}
	before, err := k.live(old)
	if err != nil {
		return err
	}
	after, err := k.content(o)
	if err != nil {
		return err
	}
	out, err := manager.Update(before, after, w.opts.manager)
	if err != nil {
		m.ManagedFields = nil // as kube-apiserver does: no write fails for that
		return nil
	}
	m.ManagedFields = out.(*unstructured.Unstructured).GetManagedFields()
	return nil
}

// unmanaged reports whether nobody manages the object after the write.
func (w *Write) unmanaged(old, o *Object) bool {
	sent := o.Meta.ManagedFields
	reset := len(sent) == 1 && sent[0] == metav1.ManagedFieldsEntry{}
	if BuiltIn(w.kind.Group) && sent != nil && len(sent) == 0 { // a custom resource loses an empty list as it is read
		reset = true
	}
	switch {
	case old == nil:
		return !w.kind.Managed
	case len(old.Meta.ManagedFields) > 0:
		return reset && w.req.Subresource == ""
	}
	// Whoever sends managers where nobody manages begins with them, but not by way of a subresource.
	return len(sent) == 0 || reset || w.req.Whole || w.req.Subresource != ""
}

// live returns old, or, if there is none, an object that has what the Kind's Type writes in any
// case: nobody manages that.
func (k *Kind) live(old *Object) (*unstructured.Unstructured, error) {
	if old == nil {
		old = &Object{Body: []byte("{}")}
		if err := k.withoutStatus(old); err != nil {
			return nil, err
		}
	}
	return k.content(old)
}

// sameFields reports whether a write changes nothing that has a manager.
func sameFields(old, o *Object) bool {
	a, b := &Object{Meta: o.Meta, Body: o.Body, Status: o.Status}, *old
	a.Meta.ManagedFields, a.Meta.UID, a.Meta.ResourceVersion, a.Meta.Generation = b.Meta.ManagedFields, b.Meta.UID, b.Meta.ResourceVersion, b.Meta.Generation
	a.Meta.CreationTimestamp, a.Meta.DeletionTimestamp, a.Meta.DeletionGracePeriodSeconds = b.Meta.CreationTimestamp, b.Meta.DeletionTimestamp, b.Meta.DeletionGracePeriodSeconds
	return same(a, &b)
}

// sameEntry compares entries apart from their times.
func sameEntry(a, b metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion && a.FieldsType == b.FieldsType &&
		a.Subresource == b.Subresource && string(mustJSON(a.FieldsV1)) == string(mustJSON(b.FieldsV1))
}

// applied returns what an apply makes of old, which is nil if it creates the object.
func (w *Write) applied(ctx context.Context, old *Object) (*Object, error) {
	k := w.kind
	manager, err := k.fieldManager(w.req.Subresource)
	if err != nil {
		return nil, err
	}
	live, err := k.live(old)
	if err != nil {
		return nil, err
	}
	if old == nil && w.req.Subresource != "" {
		return nil, apierrors.NewNotFound(k.GroupResource(), w.req.Key.Name)
	}
	if old == nil && w.req.MayCreate != nil {
		if err := w.req.MayCreate(ctx); err != nil {
			return nil, err
		}
	}
	patch := &unstructured.Unstructured{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(w.patch, &patch.Object); err != nil {
		return nil, badRequest("error decoding patch: %v", err)
	}
	result, err := manager.Apply(live, patch, w.opts.manager, w.opts.force)
	if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
		return nil, withoutReason(err)
	} else if err != nil {
		return nil, err
	}
	data, err := json.Marshal(result.(*unstructured.Unstructured).Object)
	if err != nil {
		return nil, err
	}
	strict := w.opts.validation != metav1.FieldValidationIgnore
	o, lost, err := k.object(data, strict)
	if err != nil {
		return nil, k.undecodable(data, err)
	}
	if strict {
		lost = append(lost, w.twice...)
	}
	if len(lost) > 0 && w.opts.validation == metav1.FieldValidationStrict {
		return nil, badRequest("error strict decoding YAML: %v", runtime.NewStrictDecodingError(lost))
	}
	w.warn(lost)
	if old == nil && o.Meta.UID != "" {
		return nil, w.conflict(fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", o.Meta.UID))
	}
	return o, w.checkName(o)
}
