package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/internal/registry"
)

// A Resource describes the objects of one kind that a server serves.
type Resource struct {
	Group    string // "" for the core group
	Version  string // default: v1
	Resource string // the plural, as in the path
	Kind     string
	// Singular is for discovery, as Categories are. Empty: the Kind in small letters.
	Singular   string
	Categories []string
	// ShortNames are for discovery. nil: those that Kubernetes has for the resource.
	ShortNames []string
	// Cluster is set if the objects have no namespace.
	Cluster bool
	// Custom is set for a custom resource. The items of its JSON lists have kind and apiVersion;
	// those of a built-in resource do not.
	Custom bool
	// Status is set if the status is a subresource: it can be changed at <object>/status alone, and
	// nothing else can be changed there.
	Status bool
	// Fields are the paths that field selectors may use, such as spec.nodeName, besides
	// metadata.name and metadata.namespace. Paths into the metadata do not work.
	Fields []string
	// Proto returns the protobuf message of an object that is given as JSON; see [Proto]. nil: that of
	// the Type, or the resource has protobuf for partial metadata only, as a custom resource.
	Proto func(object []byte) ([]byte, error)
	// Type is the Go type of the objects. nil: they are any JSON.
	Type *registry.Type
	// Scale says that the subresource scale exists. Managed says that managedFields are kept from the
	// creation of an object on, and Versioned that an update needs a resourceVersion.
	Scale              *registry.Scale
	Managed, Versioned bool
	// Grace leaves Pods to their kubelet when they are deleted; see podGrace. One that is gone at
	// once stays for Linger.
	Grace  bool
	Linger time.Duration
	// Ends says that the objects are Namespaces, which end as those of kube-apiserver do. Then a new
	// object of any other resource of the server needs its Namespace.
	Ends bool
	// Review says that the objects are not stored; see [registry.Kind].
	Review bool
	// Token makes the token that a request to the subresource token of a ServiceAccount is answered
	// with. nil: there is no such subresource.
	Token func(ctx context.Context, r *registry.TokenRequest) (string, error)
	// Extend gives the engine of writes what else it is to know of the resource. nil: nothing.
	Extend func(k *registry.Kind)
	// Table makes the table of one object: its columns, and the cells of its row. The object may have no
	// more than a kind and a version, for a table without rows. nil: the columns are the name and the
	// age.
	Table func(object []byte) (*metav1.Table, error)
	// Schema is the OpenAPI schema of the objects; see [registry.Kind.SetSchema].
	Schema []byte
	// Versions are others in which the objects are served. Convert makes the JSON of an object that of
	// another version. nil: they differ by their apiVersion alone. An error that is no Status is an
	// InternalError.
	Versions []string
	Convert  func(object []byte, version string) ([]byte, error)
	// Also are Resources that show the same objects, in another group or with a Type of their own.
	// Convert makes the JSON of an object theirs, too; see [registry.VersionFrom]. Their Fields are
	// other names of those of this Resource, in the same order.
	Also []Resource
	// ConvertManaged is Convert for managedFields; see [registry.Relate]. nil: Convert.
	ConvertManaged func(object []byte, version string) ([]byte, error)

	// Defines says that the objects are CustomResourceDefinitions, whose resources the server serves.
	// Define is given each of them as JSON, with the resource that is to be served, and may set
	// Extend, Convert, ConvertManaged and Table of that. nil: it is served as it is.
	Defines bool
	Define  func(definition []byte, r *Resource)

	own     *registry.Kind // by which the objects are shown
	selects []string       // of an Also: what its Fields are called where the objects are stored
}

// createdWithStatus are the resources whose objects keep the status that they are created with,
// although it is a subresource: kubelets register their nodes so. kube-apiserver empties that of
// all others, as it does for custom resources.
var createdWithStatus = map[schema.GroupResource]bool{
	{Resource: "nodes"}: true,
	{Group: "networking.k8s.io", Resource: "servicecidrs"}: true,
}

// cleanup is the finalizer of a definition that is deleted, until its objects are.
const cleanup = "customresourcecleanup.apiextensions.k8s.io"

// complete fills in what follows from the rest.
func (r *Resource) complete() {
	if r.Version == "" {
		r.Version = "v1"
	}
	if r.Proto == nil && r.Type.Protobuf() {
		r.Proto = r.Type.Message
	}
}

// rename makes the field selector of an Also that of the Resource whose objects it shows.
func (r *Resource) rename(o *metav1.ListOptions) error {
	if r.selects == nil || o.FieldSelector == "" {
		return nil
	}
	selector, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return nil // the history says what is wrong
	}
	selector, err = selector.Transform(func(field, value string) (string, string, error) {
		if i := slices.Index(r.Fields, field); i >= 0 {
			field = r.selects[i]
		} else if slices.Contains(r.selects, field) {
			return "", "", apierrors.NewBadRequest("field label not supported: " + field)
		}
		return field, value, nil
	})
	if err == nil {
		o.FieldSelector = selector.String()
	}
	return err
}

// kind returns what the engine of writes knows of the resource.
func (r *Resource) kind() *registry.Kind {
	k := &registry.Kind{
		Group: r.Group, Version: r.Version, Plural: r.Resource, Kind: r.Kind, Cluster: r.Cluster, Status: r.Status,
		CreateStatus: createdWithStatus[r.groupResource()], Scale: r.Scale, Managed: r.Managed, Versioned: r.Versioned, Type: r.Type,
		Native: registry.BuiltIn(r.Group), Ends: r.Ends, Review: r.Review,
	}
	if r.Defines {
		k.Cleanup = cleanup
	}
	if r.Grace {
		k.Grace, k.Linger = podGrace, r.Linger
	}
	if r.Schema != nil {
		if err := k.SetSchema(r.Schema); err != nil {
			panic(fmt.Sprintf("apiserver: New: %s: %v", r.Resource, err))
		}
	}
	if r.Group == "rbac.authorization.k8s.io" { // as system:node
		k.ValidateName = func(string, bool) []string { return nil }
	}
	if r.Extend != nil {
		r.Extend(k)
	}
	r.own = k
	return k
}

// podGrace leaves a Pod to its kubelet, as kube-apiserver does: one that is on a node and has not
// ended stays until a deletion with gracePeriodSeconds=0.
func podGrace(pod *registry.Object, asked *int64) int64 {
	phase := pod.Field("status.phase")
	if pod.Field("spec.nodeName") == "" || phase == "Succeeded" || phase == "Failed" {
		return 0
	}
	if asked != nil {
		return *asked
	}
	if n, err := strconv.ParseInt(pod.Field("spec.terminationGracePeriodSeconds"), 10, 64); err == nil {
		return n
	}
	return 30
}

// Proto returns the Proto of a [Resource] whose type is generated: Proto[corev1.Pod]().
func Proto[T any, P interface {
	*T
	Marshal() ([]byte, error)
}]() func(object []byte) ([]byte, error) {
	return func(object []byte) ([]byte, error) {
		obj := P(new(T))
		if err := json.Unmarshal(object, obj); err != nil {
			return nil, err
		}
		return obj.Marshal()
	}
}

func (r *Resource) apiVersion() string {
	return schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
}

func (r *Resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Resource}
}
