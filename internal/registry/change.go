package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/go-lw/lw/internal/registry/values"
	"github.com/go-lw/lw/internal/wire"
)

// fresh returns the object that was sent, which the caller may change.
func (w *Write) fresh() (*Object, error) {
	o := *w.sent
	if w.attempts > 1 || w.kind.Default != nil || w.kind.Mutate != nil {
		// What an earlier attempt was given belongs to the functions of the user.
		o.Meta = *o.Meta.DeepCopy()
		if w.kind.Type != nil {
			again, _, err := w.kind.object(w.kind.AppendJSON(nil, &o), false)
			if err == nil && len(o.Meta.ManagedFields) == 0 { // JSON leaves out an empty list, which resets
				again.Meta.ManagedFields = o.Meta.ManagedFields
			}
			return again, err
		}
	}
	return &o, nil
}

// create decides about a POST.
func (w *Write) create(ctx context.Context, old *Object) (Outcome, error) {
	o, err := w.fresh()
	if err != nil {
		return Outcome{}, err
	}
	if err := w.checkNamespace(o); err != nil {
		return Outcome{}, err
	}
	if w.kind.Review {
		return w.review(ctx, o)
	}
	version := o.Meta.ResourceVersion
	if o.Meta.Name == "" && o.Meta.GenerateName != "" {
		o.Meta.Name = generated(o.Meta.GenerateName)
	}
	out, err := w.insert(ctx, o)
	if err == nil && version != "" && version != "0" && !w.DryRun { // it is the store that refuses it
		return Outcome{}, badRequest("resourceVersion should not be set on objects to be created")
	}
	if err == nil && old != nil {
		exists := apierrors.NewAlreadyExists(w.kind.GroupResource(), o.Meta.Name)
		if old.Meta.DeletionTimestamp != nil {
			return Outcome{}, w.kind.deleting(exists)
		}
		return Outcome{}, exists
	}
	return out, err
}

// review decides about a question.
func (w *Write) review(ctx context.Context, o *Object) (Outcome, error) {
	err := w.defaults(ctx, o, nil)
	if err == nil {
		err = w.kind.give(o)
	}
	if err == nil {
		err = w.validate(ctx, o, nil, nil)
	}
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Object: o, Code: http.StatusCreated}, nil
}

// generated returns a name for a generateName: five characters more, of those that make no words.
func generated(prefix string) string {
	const letters, longest = "bcdfghjklmnpqrstvwxz2456789", 63
	b := []byte(prefix[:min(len(prefix), longest-5)])
	for range 5 {
		b = append(b, letters[rand.IntN(len(letters))])
	}
	return string(b)
}

func now() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }

// insert decides about an object that is not stored yet.
func (w *Write) insert(ctx context.Context, o *Object) (Outcome, error) {
	k, m := w.kind, &o.Meta
	if err := w.checkLength(o); err != nil {
		return Outcome{}, err
	}
	if err := w.checkHome(m); err != nil {
		return Outcome{}, err
	}
	m.ResourceVersion, m.DeletionTimestamp, m.DeletionGracePeriodSeconds = "", nil, nil
	if !w.req.Whole {
		m.UID = ""
	}
	if m.CreationTimestamp = now(); k.counts() {
		m.Generation = 1
	}
	if k.Status && !k.CreateStatus && !w.req.Whole && o.Status != nil {
		if err := k.withoutStatus(o); err != nil {
			return Outcome{}, err
		}
	}
	if k.Ends {
		if err := k.begin(o); err != nil {
			return Outcome{}, err
		}
	}
	w.dedupOwners(m)
	if err := w.defaults(ctx, o, nil); err != nil {
		return Outcome{}, err
	}
	if w.req.Verb != Patch { // an apply has done so
		if err := w.manage(nil, o); err != nil {
			return Outcome{}, err
		}
	}
	wrong := append(w.checkMeta(m, nil), w.checkFinalizers(m)...)
	if len(wrong) == 0 {
		w.warnOfFinalizers(m.Finalizers, nil)
	}
	if err := k.give(o); err != nil {
		return Outcome{}, err
	}
	if err := w.validate(ctx, o, nil, wrong); err != nil {
		return Outcome{}, err
	}
	return Outcome{Action: Insert, Object: o, Code: http.StatusCreated}, nil
}

// update decides about a PUT or a PATCH.
func (w *Write) update(ctx context.Context, old *Object) (Outcome, error) {
	o, err := w.changed(ctx, old)
	if err != nil {
		return Outcome{}, err
	}
	if old == nil { // it is an apply, or an update that creates
		return w.insert(ctx, o)
	}
	return w.replace(ctx, o, old)
}

// changed returns the object that the request wants in the place of old.
func (w *Write) changed(ctx context.Context, old *Object) (*Object, error) {
	if w.req.Verb == Patch {
		return w.patched(ctx, old)
	}
	created := old == nil && w.req.Subresource == "" && !w.req.Whole && createdByUpdates.Has(w.kind.GroupResource().String())
	if old == nil && !created {
		return nil, apierrors.NewNotFound(w.kind.GroupResource(), w.req.Key.Name)
	}
	o, err := w.fresh()
	if err != nil {
		return nil, err
	}
	if created {
		return o, w.creates(ctx, o)
	}
	if uid := o.Meta.UID; uid != "" && uid != old.Meta.UID {
		return nil, w.conflict(fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v", uid, old.Meta.UID))
	}
	return o, nil
}

// creates refuses to create the object of a PUT if it is to replace one, or the client may not.
func (w *Write) creates(ctx context.Context, o *Object) error {
	if o.Meta.UID != "" {
		return w.conflict(fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", o.Meta.UID))
	}
	if w.req.MayCreate != nil {
		return w.req.MayCreate(ctx)
	}
	return nil
}

func (w *Write) conflict(err error) error {
	return apierrors.NewConflict(w.kind.GroupResource(), w.req.Key.Name, err)
}

var errOutdated = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// checkVersion refuses an update of an older object.
func (w *Write) checkVersion(o, old *Object) error {
	at := field.NewPath("metadata").Child("resourceVersion")
	version := o.Meta.ResourceVersion
	n, err := strconv.ParseUint(version, 10, 64)
	switch {
	case version != "" && err != nil:
		return w.kind.invalid(w.req.Key.Name, field.ErrorList{field.Invalid(at, version, err.Error())})
	case n == 0 && w.kind.Versioned && !w.req.Whole:
		return apierrors.NewInvalid(schema.GroupKind{Group: w.kind.Group, Kind: w.kind.Plural}, w.req.Key.Name, field.ErrorList{field.Invalid(at, 0, "must be specified for an update")})
	case n == 0:
		return nil
	}
	if version != old.Meta.ResourceVersion {
		return w.conflict(errOutdated)
	}
	return nil
}

// replace decides about o in the place of old.
func (w *Write) replace(ctx context.Context, o, old *Object) (Outcome, error) {
	k, m, was := w.kind, &o.Meta, &old.Meta
	if err := w.checkVersion(o, old); err != nil {
		return Outcome{}, err
	}
	if err := w.checkLength(o); err != nil {
		return Outcome{}, err
	}
	w.dedupOwners(m)
	managed := m.ManagedFields
	if err := w.defaults(ctx, o, old); err != nil {
		return Outcome{}, err
	}
	if len(managed) == 0 { // what a function returns has lost an empty list, which resets
		m.ManagedFields = managed
	}
	applied := w.isApply()
	if !applied {
		if err := w.manage(old, o); err != nil {
			return Outcome{}, err
		}
	}
	if err := w.merge(o, old); err != nil {
		return Outcome{}, err
	}
	w.carry(o, old)
	wrong := w.checkMeta(m, was)
	if len(wrong) == 0 {
		w.warnOfFinalizers(m.Finalizers, was.Finalizers)
	}
	unchanged := same(o, old)
	if unchanged {
		m.ManagedFields = was.ManagedFields
	}
	if err := k.give(o); err != nil {
		return Outcome{}, err
	}
	if err := w.validate(ctx, o, old, wrong); err != nil {
		return Outcome{}, err
	}
	out := Outcome{Action: Replace, Object: o, Code: http.StatusOK}
	switch {
	case len(m.Finalizers) == 0 && !k.held(o) && was.DeletionTimestamp != nil && (was.DeletionGracePeriodSeconds == nil || *was.DeletionGracePeriodSeconds == 0):
		out.Action = Remove
	case unchanged && !old.Outdated:
		out.Action, out.Object = Nothing, old
	}
	return out, nil
}

// carry takes from old what a client cannot change in o: what the server decides, and with a write
// to the status all but that, else the status. Of most built-in kinds a write to the status changes
// metadata as well, as kube-apiserver's strategies let it; a Deployment keeps its labels then, a Pod
// its owners.
func (w *Write) carry(o, old *Object) {
	k, m, was := w.kind, &o.Meta, &old.Meta
	m.ResourceVersion = was.ResourceVersion
	switch {
	case w.req.Subresource == SubStatus:
		sent := *m
		o.Meta, o.Body, o.Value = *was, old.Body, nil
		m.ManagedFields = sent.ManagedFields
		if resource := k.GroupResource().String(); k.Native && !statusAlone.Has(resource) {
			m.Annotations, m.Finalizers = sent.Annotations, sent.Finalizers
			if resource != "deployments.apps" {
				m.Labels = sent.Labels
			}
			if resource != "pods" {
				m.OwnerReferences = sent.OwnerReferences
			}
		}
	case k.Status && !w.req.Whole && (w.req.Subresource == "" || k.part(w.req.Subresource) == nil):
		if !equalStatus(o, old) {
			o.Status, o.Value = old.Status, nil
		}
	}
	m.Generation, m.CreationTimestamp = was.Generation, was.CreationTimestamp
	if m.UID == "" {
		m.UID = was.UID
	}
	if was.DeletionTimestamp != nil {
		m.DeletionTimestamp = was.DeletionTimestamp
	}
	if m.DeletionGracePeriodSeconds == nil {
		m.DeletionGracePeriodSeconds = was.DeletionGracePeriodSeconds
	}
	if !w.byServer() && k.newGeneration(o, old) {
		m.Generation++
	}
}

// checkLength refuses an object that a client could not send as JSON: by another format, a patch or
// what its Type adds a short request may want one.
func (w *Write) checkLength(o *Object) error {
	if len(o.Body)+len(o.Status) > wire.MaxBody && !w.req.Whole {
		return wire.TooLarge()
	}
	return nil
}

// checkMeta returns what is wrong with the metadata of an object that is to replace one with the
// metadata old, or nil. The server's own program may use any name that a path can hold, and any
// label.
func (w *Write) checkMeta(m, old *metav1.ObjectMeta) (errs field.ErrorList) {
	at, names := field.NewPath("metadata"), w.kind.nameErrors
	if old != nil {
		names = func(string, bool) []string { return nil } // it is the same name
	} else if w.req.Whole {
		names = func(name string, _ bool) []string { return content.IsPathSegmentName(name) }
	}
	checked := *m
	if w.req.Whole {
		checked.Labels, checked.Annotations, checked.Finalizers, checked.OwnerReferences, checked.ManagedFields = nil, nil, nil, nil, nil
		if !w.kind.Cluster && m.Namespace != "" {
			checked.Namespace = "any"
		}
	}
	errs = validation.ValidateObjectMetaAccessor(&checked, !w.kind.Cluster, names, at)
	if old == nil {
		return errs
	}
	was := *old
	if was.Namespace = checked.Namespace; w.req.Whole {
		checked.Finalizers = m.Finalizers
	}
	for _, err := range validation.ValidateObjectMetaAccessorUpdate(&checked, &was, at) {
		// Both of apimachinery's checks find some errors.
		if !slices.ContainsFunc(errs, func(e *field.Error) bool { return e.Error() == err.Error() }) {
			errs = append(errs, err)
		}
	}
	return errs
}

// checkFinalizers returns what is wrong with the finalizers of a new object of a built-in kind.
// Other kinds are warned of them. Definitions and APIServices, which have servers of their own
// within kube-apiserver, are neither.
func (w *Write) checkFinalizers(m *metav1.ObjectMeta) (errs field.ErrorList) {
	if w.req.Whole || !BuiltIn(w.kind.Group) || slices.Contains(definingGroups, w.kind.Group) {
		return nil
	}
	for i, f := range m.Finalizers {
		if !strings.Contains(f, "/") && !slices.Contains(standardFinalizers, f) {
			at := field.NewPath("metadata", "finalizers").Index(i)
			errs = append(errs, field.Invalid(at, f, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

var definingGroups = []string{"apiextensions.k8s.io", "apiregistration.k8s.io"}

var standardFinalizers = []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, "kubernetes"}

// defaults lets the user's functions fill in what the client has left out, and change what they
// like.
func (w *Write) defaults(ctx context.Context, o, old *Object) error {
	k := w.kind
	if k.Default != nil {
		if err := k.give(o); err != nil {
			return err
		}
		if err := k.Default(o); err != nil {
			return k.refused(o.Meta.Name, err)
		}
		if k.Type != nil && !k.Type.opaque {
			if err := k.renew(o); err != nil {
				return err
			}
		}
	}
	if k.Mutate == nil || w.req.Admitted {
		return nil
	}
	if err := k.give(o); err != nil {
		return err
	}
	if err := k.Mutate(ctx, w.admission(o, old)); err != nil {
		return k.refused(o.Meta.Name, err)
	}
	return nil
}

// validate checks the values and the scale, and asks the user's functions. wrong is what is wrong
// with the metadata of o. o is nil for a deletion.
func (w *Write) validate(ctx context.Context, o, old *Object, wrong field.ErrorList) error {
	wrong, asked, err := w.checkValues(o, old, wrong)
	if err != nil {
		return err
	}
	if len(wrong) > 0 && !asked {
		return w.kind.invalid(o.Meta.Name, wrong)
	}
	return w.ask(ctx, o, old, wrong)
}

// ask asks the user's functions about an object whose errors wrong do not hide what these say.
func (w *Write) ask(ctx context.Context, o, old *Object, wrong field.ErrorList) (err error) {
	if len(wrong) > 0 {
		ctx = values.WithWrong(ctx, wrong)
	}
	if w.kind.Validate != nil {
		err = w.kind.Validate(ctx, o, old)
	}
	if err == nil && w.kind.Admit != nil && !w.req.Admitted {
		err = w.kind.Admit(ctx, w.admission(o, old))
	}
	if err == nil && o != nil && !w.kind.hasValues() {
		if errs := w.kind.checkScale(o); len(errs) > 0 { // last: what the functions say of the same is clearer
			return w.kind.invalid(o.Meta.Name, errs)
		}
	}
	if len(wrong) > 0 {
		err = besides(wrong, err)
	}
	if err == nil {
		return nil
	}
	if o == nil {
		o = old
	}
	return w.kind.refused(o.Meta.Name, err)
}

// hasValues reports whether the Kind was given a schema of its values.
func (k *Kind) hasValues() bool { return k.schema != nil && k.schema.values != nil }

// checkValues returns wrong, and what is wrong with an object by the schema that the Kind was given.
// asked says that its rules are asked all the same.
func (w *Write) checkValues(o, old *Object, wrong field.ErrorList) (all field.ErrorList, asked bool, err error) {
	k := w.kind
	if o == nil || !k.hasValues() {
		return wrong, false, nil
	}
	object, err := k.content(o)
	if err != nil {
		return nil, false, err
	}
	var was map[string]any
	if old != nil {
		before, err := k.content(old)
		if err != nil {
			return nil, false, err
		}
		was = before.Object
	}
	all = append(wrong, k.schema.values.Check(object.Object, was, w.req.Subresource == SubStatus)...)
	all, asked = k.schema.values.Rules(append(all, k.checkScale(o)...))
	return all, asked, nil
}

// dedupOwners leaves the first owner reference of each UID.
func (w *Write) dedupOwners(m *metav1.ObjectMeta) {
	if len(m.OwnerReferences) < 2 {
		return
	}
	var refs []metav1.OwnerReference
	var twice []string
	seen := map[types.UID]bool{}
	for _, ref := range m.OwnerReferences {
		if seen[ref.UID] {
			twice = append(twice, string(ref.UID))
		} else {
			refs = append(refs, ref)
		}
		seen[ref.UID] = true
	}
	if twice != nil {
		m.OwnerReferences = refs
		w.warn([]error{fmt.Errorf(".metadata.ownerReferences contains duplicate entries; API server dedups owner references, duplicate UID(s) observed: %s", strings.Join(twice, ", "))})
	}
}

// warnOfFinalizers warns of new finalizers whose names say nothing of whose they are.
func (w *Write) warnOfFinalizers(finalizers, old []string) {
	for _, f := range finalizers {
		if !slices.Contains(old, f) && !strings.Contains(f, "/") && !slices.Contains(standardFinalizers, f) {
			w.warn([]error{fmt.Errorf("metadata.finalizers: %q: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers", f)})
		}
	}
}

// admission returns what the admission of the user is asked about.
func (w *Write) admission(o, old *Object) *Admission {
	a := &Admission{
		Verb: Update, Subresource: w.req.Subresource, Object: o, Old: old, Name: w.req.Key.Name, UserAgent: w.req.UserAgent, DryRun: w.DryRun,
		Warn: func(text string) { w.warn([]error{errors.New(text)}) },
	}
	q := w.req.Query
	manager, validation := q.Get("fieldManager"), q.Get("fieldValidation")
	meta := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{Kind: kind, APIVersion: metav1.SchemeGroupVersion.String()}
	}
	switch {
	case o == nil:
		a.Verb = Delete
		options := *w.delete
		options.TypeMeta = meta("DeleteOptions")
		a.Options = &options
	case old == nil:
		a.Verb = Create
		a.Options = &metav1.CreateOptions{TypeMeta: meta("CreateOptions"), DryRun: q["dryRun"], FieldManager: manager, FieldValidation: validation}
		if w.req.Verb == Create {
			a.Name = w.sent.Meta.Name
		}
	default:
		a.Options = &metav1.UpdateOptions{TypeMeta: meta("UpdateOptions"), DryRun: q["dryRun"], FieldManager: manager, FieldValidation: validation}
	}
	return a
}

// Open returns a copy of an object for a function of the user's: a value of the Kind's Type, or an
// unstructured one. It returns nil for nil.
func (k *Kind) Open(o *Object) (runtime.Object, error) {
	if o == nil {
		return nil, nil
	}
	if k.Type == nil {
		return k.content(o)
	}
	value, _, err := k.Type.decode(k.AppendJSON(nil, o), false)
	if err != nil {
		return nil, err
	}
	obj, ok := value.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("registry: %T is no runtime.Object", value)
	}
	return obj, nil
}

// Close makes o what the user's function has made of the object that Open has returned. The name
// and the namespace stay; an object that is not stored yet may be given a UID.
func (k *Kind) Close(o *Object, obj runtime.Object, create bool) error {
	m := o.Meta
	var next *Object
	var err error
	if u, ok := obj.(*unstructured.Unstructured); ok {
		var data []byte
		if data, err = json.Marshal(u.Object); err == nil {
			next, err = k.Parse(data)
		}
	} else {
		next, err = k.ValueOf(obj)
	}
	if err != nil {
		return err
	}
	if given, ok := obj.(metav1.Object); ok && create {
		m.UID = given.GetUID()
	}
	next.keepIdentity(&m)
	*o = *next
	return nil
}
