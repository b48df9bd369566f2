package apiserver

import (
	"encoding/json"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/internal/registry"
)

// A Resource describes the objects of one kind that a server serves.
type Resource struct {
	Group    string // "" for the core group
	Version  string // default: v1
	Resource string // the plural, as in the path
	Kind     string
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
	// Grace leaves Pods to their kubelet when they are deleted; see podGrace.
	Grace bool
	// Extend gives the engine of writes what else it is to know of the resource. nil: nothing.
	Extend func(k *registry.Kind)
	// Schema is the OpenAPI schema of the objects; see [registry.Kind.SetSchema].
	Schema []byte
	// Versions are others in which the objects are served. Convert makes the JSON of an object that of
	// another version. nil: they differ by their apiVersion alone.
	Versions []string
	Convert  func(object []byte, version string) ([]byte, error)

	// Defines says that the objects are CustomResourceDefinitions, whose resources the server serves.
	Defines bool

	fromStored func(*registry.Object) (*registry.Object, error) // of one of the Versions
}

// versions makes k, a kind of one of the Versions, one whose objects are stored as those of stored.
func (r *Resource) versions(k, stored *registry.Kind) {
	between := func(from, to *registry.Kind) func(*registry.Object) (*registry.Object, error) {
		return func(o *registry.Object) (*registry.Object, error) {
			if r.Convert == nil {
				other := *o
				other.Value = nil
				return &other, nil
			}
			data, err := r.Convert(from.AppendJSON(nil, o), to.Version)
			if err != nil {
				return nil, apierrors.NewInternalError(fmt.Errorf("conversion of %s to %s: %w", o.Key(), to.Version, err))
			}
			out, err := to.Parse(data)
			if err == nil && (out.Key() != o.Key() || out.Meta.UID != o.Meta.UID) {
				err = apierrors.NewInternalError(fmt.Errorf("conversion of %s to %s: it has become %s", o.Key(), to.Version, out.Key()))
			}
			return out, err
		}
	}
	k.FromStored, k.ToStored = between(stored, k), between(k, stored)
	r.fromStored = k.FromStored
}

// eviction is the subresource of pods by which they are deleted.
const eviction = "eviction"

var pods = schema.GroupResource{Resource: "pods"}

// createdWithStatus are the resources whose objects keep the status that they are created with,
// although it is a subresource: kubelets register their nodes so. kube-apiserver empties that of
// all others, as it does for custom resources.
var createdWithStatus = map[schema.GroupResource]bool{
	{Resource: "nodes"}: true,
	{Group: "networking.k8s.io", Resource: "servicecidrs"}: true,
}

// kind returns what the engine of writes knows of the resource.
func (r *Resource) kind() *registry.Kind {
	k := &registry.Kind{
		Group: r.Group, Version: r.Version, Plural: r.Resource, Kind: r.Kind, Cluster: r.Cluster, Status: r.Status,
		CreateStatus: createdWithStatus[r.groupResource()], Scale: r.Scale, Managed: r.Managed, Versioned: r.Versioned, Type: r.Type,
		Native: registry.BuiltIn(r.Group),
	}
	if r.Grace {
		k.Grace = podGrace
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

// hasSub reports whether the resource has a subresource.
func (r *Resource) hasSub(name string) bool {
	return name == registry.SubStatus && r.Status || name == registry.SubScale && r.Scale != nil || name == eviction && r.groupResource() == pods
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
