// Package definitions makes a [lwtest.Server] serve what its CustomResourceDefinitions define as
// kube-apiserver does: it refuses a definition that kube-apiserver refuses, in its words, gives the
// objects the defaults of their schemas, checks them by the rules, and converts them between
// versions, by a webhook where a definition has one. All of this is done by
// k8s.io/apiextensions-apiserver, which is a part of kube-apiserver.
package definitions

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/webhook"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/crd"
)

// Options configure the definitions of a server.
type Options struct {
	// Services finds webhooks that are Services. Nil: they are found at the names that the DNS of a
	// cluster has for them.
	Services webhook.ServiceResolver
	// Admit is given each resource that is defined, with its defaults and rules, and returns it with
	// the admission of a server. It is called again when the definition has changed. Nil: there is no
	// admission but that.
	Admit func(lwtest.Resource) lwtest.Resource
}

// Resources returns customresourcedefinitions and apiservices, which have no admission yet.
func Resources(opts Options) ([]lwtest.Resource, error) {
	resolver := opts.Services
	if resolver == nil {
		resolver = webhook.NewDefaultServiceResolver()
	}
	own := func(r webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver { return r }
	converters, err := conversion.NewCRConverterFactory(resolver, own)
	if err != nil {
		return nil, fmt.Errorf("lwenvtest: definitions: %w", err)
	}
	all := lwtest.Definitions()
	r := &all[0]
	r.Type, r.Managed = &apiextensionsv1.CustomResourceDefinition{}, true
	r.Default, r.Validate = fill, check
	r.Define = func(definition *unstructured.Unstructured, r lwtest.Resource) lwtest.Resource {
		if k, err := newKind(definition, converters); err != nil {
			refuse := func(context.Context, lwtest.Admission) error { return failed(err) }
			r.Default, r.Validate = refuse, refuse // kube-apiserver has no such definition
		} else {
			r.Default, r.Validate, r.Table = k.fill, k.check, k.table
			r.Convert, r.ConvertManaged = k.convert, k.exchange
		}
		if opts.Admit != nil {
			r = opts.Admit(r)
		}
		return r
	}
	services := &all[1]
	services.Type, services.Managed, services.Status = &apiregistrationv1.APIService{}, true, true
	return all, nil
}

// fill gives a definition what its author has left out. A client must say which version it
// replaces.
func fill(_ context.Context, a lwtest.Admission) error {
	def := a.Object.(*apiextensionsv1.CustomResourceDefinition)
	if a.Verb == lwtest.Update && def.ResourceVersion == "" && a.UserAgent != "" {
		at := field.NewPath("metadata", "resourceVersion")
		return apierrors.NewInvalid(apiextensionsv1.Kind("customresourcedefinitions"), def.Name,
			field.ErrorList{field.Invalid(at, 0, "must be specified for an update")})
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(def)
	return nil
}

// check refuses a definition as kube-apiserver does. What a controller writes, and everybody whose
// write leaves the spec as it is, does not wait for the rules of the schemas to be compiled again.
func check(ctx context.Context, a lwtest.Admission) error {
	def, ok := a.Object.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil // it is deleted
	}
	old, _ := a.Old.(*apiextensionsv1.CustomResourceDefinition)
	if old != nil && a.Subresource == "" && reflect.DeepEqual(def.Spec, old.Spec) {
		return nil
	}
	errs, err := crd.Check(ctx, def, old)
	if err != nil {
		return failed(err)
	}
	return errs.ToAggregate()
}

// failed is the error of kube-apiserver for what is neither the client's fault nor foreseen.
func failed(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
	}}
}

// A kind is what one definition says of its objects.
type kind struct {
	versions  map[string]*crd.Version
	statuses  map[string]bool                // the versions whose status is a subresource
	tables    map[string]rest.TableConvertor // by version
	storage   string                         // the version that is stored
	converter runtime.ObjectConvertor
}

func newKind(definition *unstructured.Unstructured, converters *conversion.CRConverterFactory) (*kind, error) {
	def := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(definition.Object, def); err != nil {
		return nil, err
	}
	versions, err := crd.Versions(def)
	if err != nil {
		return nil, err
	}
	tables, statuses := map[string]rest.TableConvertor{}, map[string]bool{}
	for _, v := range def.Spec.Versions {
		statuses[v.Name] = v.Subresources != nil && v.Subresources.Status != nil
		columns := v.AdditionalPrinterColumns
		if len(columns) == 0 {
			columns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Age", Type: "date",
				Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], JSONPath: ".metadata.creationTimestamp"}}
		}
		if tables[v.Name], err = tableconvertor.New(columns); err != nil {
			return nil, err
		}
	}
	safe, _, err := converters.NewConverter(def)
	storage := slices.IndexFunc(def.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	return &kind{versions, statuses, tables, def.Spec.Versions[storage].Name, safe}, err
}

// of returns the content of an object, and its version.
func (k *kind) of(o runtime.Object) (map[string]any, *crd.Version, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, nil, fmt.Errorf("lwenvtest: definitions: %T is not unstructured", o)
	}
	v := k.versions[u.GroupVersionKind().Version]
	if v == nil {
		return nil, nil, fmt.Errorf("lwenvtest: definitions: %s has no version %s", u.GetKind(), u.GetAPIVersion())
	}
	return u.Object, v, nil
}

// fill fills in the defaults of the schema. An object that a client makes has the status that these
// give it, and none of a webhook that has changed it.
func (k *kind) fill(_ context.Context, a lwtest.Admission) error {
	obj, v, err := k.of(a.Object)
	if err != nil {
		return err
	}
	version := a.Object.GetObjectKind().GroupVersionKind().Version
	if a.Verb == lwtest.Create && a.Subresource == "" && a.UserAgent != "" && k.statuses[version] {
		delete(obj, "status")
	}
	v.Default(obj)
	return nil
}

// check checks an object whose values the server has checked.
func (k *kind) check(ctx context.Context, a lwtest.Admission) error {
	if a.Verb == lwtest.Delete {
		return nil
	}
	obj, v, err := k.of(a.Object)
	if err != nil {
		return err
	}
	var old map[string]any
	if a.Old != nil {
		if old, _, err = k.of(a.Old); err != nil {
			return err
		}
	}
	return v.Validate(ctx, obj, old).ToAggregate()
}

// table makes the table of an object.
func (k *kind) table(o runtime.Object) (*metav1.Table, error) {
	t := k.tables[o.GetObjectKind().GroupVersionKind().Version]
	if t == nil {
		return nil, fmt.Errorf("lwenvtest: definitions: no columns of %v", o.GetObjectKind().GroupVersionKind())
	}
	return t.ConvertToTable(context.Background(), o, nil)
}

// convert makes an object, which is given as it is stored or was sent, one of another version. As
// with kube-apiserver it has the defaults of the version that is stored, as they are by now, when
// it comes from there, and no others.
func (k *kind) convert(obj *unstructured.Unstructured, version string) error {
	if from := k.versions[obj.GroupVersionKind().Version]; from != nil {
		from.Prune(obj.Object)
		from.Default(obj.Object)
	}
	if obj.GroupVersionKind().Version == version {
		return nil
	}
	if err := k.exchange(obj, version); err != nil {
		return failed(err)
	}
	if into := k.versions[version]; into != nil {
		into.Prune(obj.Object)
		if version == k.storage {
			into.Default(obj.Object)
		}
	}
	return nil
}

// exchange makes an object one of another version, and leaves all else of it to the converter.
func (k *kind) exchange(obj *unstructured.Unstructured, version string) error {
	to := schema.GroupVersion{Group: obj.GroupVersionKind().Group, Version: version}
	out, err := k.converter.ConvertToVersion(obj, to)
	if err == nil {
		obj.Object = out.(*unstructured.Unstructured).Object
	}
	return err
}
