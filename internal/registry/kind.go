// Package registry is the engine of writes: a [Request] and the stored object, or its absence, give
// the object to store, the deletion, or the error that kube-apiserver answers with. It knows no
// HTTP and no store. A [Kind] says what the objects are, [Kind.Prepare] reads a request once, and
// [Write.Next] decides about it for one state of the store. [Write.Run] repeats that until a
// [Store] takes the decision.
//
// https://kubernetes.io/docs/reference/using-api/api-concepts/ describes the requests.
package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Kind is the objects of one resource in one version. It must not be copied or changed once it is
// in use, and then may be used by any goroutine.
type Kind struct {
	Group, Version string // Group is empty for the core group
	Plural, Kind   string
	Cluster        bool // the objects have no namespace

	// Status says that the status is a subresource: it changes at /status alone, and nothing else
	// changes there. CreateStatus says that an object keeps the status that it is created with
	// nevertheless, as a Node does.
	Status, CreateStatus bool
	// Native says that a write of the status may change metadata, too, as with most resources that
	// are built in.
	Native bool
	// Scale says that the subresource scale exists, and where its numbers are.
	Scale *Scale
	// Managed says that managedFields are kept from the creation of an object on, as kube-apiserver
	// does. Otherwise they are kept from the first apply on.
	Managed bool
	// Versioned says that the objects are treated as custom resources: an update without a
	// resourceVersion is refused, and a status that is no subresource counts in the generation.
	Versioned bool
	// Type is the Go type of the objects, which prunes what it does not know. nil: any JSON object.
	Type *Type
	// ValidateName returns what is wrong with a name, or with the beginning of one. A name that no
	// path can hold is refused in any case. nil: a name is a DNS subdomain.
	ValidateName func(name string, prefix bool) []string
	// Grace returns how many seconds the object stays after a request to delete it, which asks for
	// that many if asked is not nil. nil: none.
	Grace func(obj *Object, asked *int64) int64
	// Linger is how long an object that Grace gives no second stays nevertheless, marked as
	// deleted.
	Linger time.Duration

	// Ends says that the objects are Namespaces, which end as those of kube-apiserver: they have a
	// finalizer in their spec, and a deleted one is Terminating until a write to /finalize takes it
	// away.
	Ends bool

	// Cleanup is the finalizer that a DELETE adds, for whoever cleans up behind the object. Empty: none.
	Cleanup string

	// Review says that the objects are questions, such as SubjectAccessReviews: one that is created is
	// answered with what Mutate makes of it, and not stored. It needs no name.
	Review bool

	// The functions of the user may change the object that they are given first, and no other. A
	// panic is an error of the request.
	Default func(obj *Object) error
	// Validate refuses a write by an error. old is nil for a creation, obj is nil for a deletion. An
	// error that is a Status is answered as it is, a field.ErrorList or any other one as Invalid.
	Validate func(ctx context.Context, obj, old *Object) error
	// Mutate and Admit are the admission of a server: after Default and after Validate they change
	// the object of a write, and refuse the write by an error. nil: there is none.
	Mutate, Admit func(ctx context.Context, a *Admission) error

	schema   *given   // nil: what the Type says, or nothing; see SetSchema
	family   *family  // nil: there is no other version, or none is known; see Relate
	managers sync.Map // *manager by the subresource of a write; see manage.go
}

// A Verb is what a request wants.
type Verb string

const (
	Create Verb = "create"
	Update Verb = "update"
	Patch  Verb = "patch"
	Delete Verb = "delete"
)

// An Admission is a write that a server admits.
type Admission struct {
	Verb        Verb // what becomes of the object: an apply of a new one is a Create, a patch an Update
	Subresource string
	Object, Old *Object // Object is nil for a deletion, Old for a creation
	// Name is that of the request: empty for a creation whose name is generated.
	Name      string
	UserAgent string
	DryRun    bool
	// Options are the CreateOptions, UpdateOptions or DeleteOptions of the request.
	Options runtime.Object
	// Warn adds a warning to the answer.
	Warn func(text string)
}

type manager struct {
	once  sync.Once
	value *managedfields.FieldManager
	err   error
}

// A Scale says where an object has the numbers of its scale, by paths such as .spec.replicas, as a
// CustomResourceDefinition does.
type Scale struct {
	Replicas       string // that are wanted
	StatusReplicas string // that there are
	Selector       string // the label selector of the pods, as a string; may be empty
}

// The subresources that a Kind may have.
const (
	SubStatus = "status"
	SubScale  = "scale"
)

// GroupVersion returns the group and version of the Kind.
func (k *Kind) GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: k.Group, Version: k.Version}
}

func (k *Kind) gvk() schema.GroupVersionKind { return k.GroupVersion().WithKind(k.Kind) }

// GroupResource returns what errors call the resource.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Plural}
}

// invalid is the error of an object whose fields are wrong.
func (k *Kind) invalid(name string, errs field.ErrorList) error {
	return apierrors.NewInvalid(k.gvk().GroupKind(), name, errs)
}

// refused is the answer to what a function of the user's has refused.
func (k *Kind) refused(name string, err error) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return err
	}
	causes := causesOf(err)
	out := apierrors.NewInvalid(k.gvk().GroupKind(), name, causes)
	if causes == nil {
		out.ErrStatus.Message = err.Error()
		// Without a cause kubectl says nothing but that the object is invalid.
		out.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Message: err.Error()}}
	}
	return out
}

// causesOf returns the field errors of err, and with one of them each part of err that has none.
func causesOf(err error) (all field.ErrorList) {
	var parts []error
	switch e := err.(type) {
	case *field.Error:
		return field.ErrorList{e}
	case interface{ Errors() []error }: // of field.ErrorList.ToAggregate
		parts = e.Errors()
	case interface{ Unwrap() []error }: // of errors.Join
		parts = e.Unwrap()
	case interface{ Unwrap() error }:
		return causesOf(e.Unwrap())
	}
	found := false
	for _, part := range parts {
		causes := causesOf(part)
		if found = found || causes != nil; causes == nil {
			causes = field.ErrorList{field.InternalError(nil, part)}
		}
		all = append(all, causes...)
	}
	if !found {
		return nil
	}
	return all
}

// besides returns err with those of the errors wrong that it does not have. What is no error of a
// field counts alone.
func besides(wrong field.ErrorList, err error) error {
	said := causesOf(err)
	if err != nil && said == nil {
		return err
	}
	for _, one := range wrong {
		if !slices.ContainsFunc(said, func(e *field.Error) bool { return e.Error() == one.Error() }) {
			said = append(said, one)
		}
	}
	return said.ToAggregate()
}

func badRequest(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}

// nameErrors says what is wrong with a name, in the way that apimachinery's validation wants.
func (k *Kind) nameErrors(name string, prefix bool) []string {
	segment, valid := content.IsPathSegmentName, k.ValidateName
	if prefix {
		segment = content.IsPathSegmentPrefix
	}
	if valid == nil {
		valid = validation.NameIsDNSSubdomain
	}
	return append(valid(name, prefix), segment(name)...)
}
