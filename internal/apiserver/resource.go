package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/history"
)

// A Resource describes the objects of one kind that a server serves.
type Resource struct {
	Group    string // "" for the core group
	Version  string // default: v1
	Resource string // the plural, as in the path
	Kind     string
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
	// Proto returns the protobuf message of an object that is given as JSON; see [Proto]. nil: the
	// resource has protobuf for partial metadata only, as a custom resource.
	Proto func(object []byte) ([]byte, error)
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

func (r *Resource) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: r.Group, Kind: r.Kind}
}

// A Collection is the objects of one [Resource] on a server. Its methods do what HTTP requests do,
// without HTTP. It is safe for concurrent use.
type Collection struct {
	Resource Resource
	history  *history.Collection[*content]
	served   atomic.Bool // see [Server.SetServed]
}

// URL returns the path of the collection, or of one namespace in it if namespace is not empty.
func (c *Collection) URL(namespace string) string {
	base := "/apis/" + c.Resource.Group
	if c.Resource.Group == "" {
		base = "/api"
	}
	base += "/" + c.Resource.Version
	if namespace != "" {
		base += "/namespaces/" + namespace
	}
	return base + "/" + c.Resource.Resource
}

// Create adds an object, which is JSON ([]byte) or can be encoded as JSON. The server sets UID,
// resourceVersion, creationTimestamp and generation, and makes a name from generateName. Errors are
// those of an API server: AlreadyExists, Invalid, BadRequest.
func (c *Collection) Create(obj any) (Object, error) {
	in, _, err := c.decode(obj)
	if err != nil {
		return Object{}, err
	}
	return c.public(c.create(in))
}

// Update replaces an object. It fails with NotFound, and with Conflict if obj has a resourceVersion
// or a UID that is not that of the server's object. An update that changes nothing makes no
// version.
func (c *Collection) Update(obj any) (Object, error) {
	in, version, err := c.decode(obj)
	if err != nil {
		return Object{}, err
	}
	return c.public(c.update(in, version, wholeObject))
}

// Delete removes an object. It returns the object with the version of the deletion. An object with
// finalizers stays until an update takes the last one away, and is returned with its
// deletionTimestamp. Delete fails with NotFound.
func (c *Collection) Delete(key types.NamespacedName) (Object, error) {
	obj, version, _, err := c.remove(key, history.Preconditions{})
	if err != nil {
		return Object{}, err
	}
	return c.object(obj, version)
}

// Get returns the current object of key, or the error NotFound.
func (c *Collection) Get(key types.NamespacedName) (Object, error) {
	return c.public(c.history.Get(key))
}

// StateAt returns the objects at a version in the order of their paths. Tests compare clients with
// it. Its errors are those of [history.Collection.StateAt].
func (c *Collection) StateAt(version uint64) ([]Object, error) {
	state, err := c.history.StateAt(version)
	if err != nil {
		return nil, err
	}
	out := make([]Object, len(state))
	for i, obj := range state {
		if out[i], err = c.object(obj, obj.Version); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Compact forgets the states before version in this collection alone. [history.Line.Compact] does
// so for the whole server.
func (c *Collection) Compact(version uint64) { c.history.Compact(version) }

// Disconnect ends the open watches of this collection, cleanly.
func (c *Collection) Disconnect() { c.history.Disconnect() }

// public returns a result of the history as an Object.
func (c *Collection) public(obj *stored, err error) (Object, error) {
	if err != nil {
		return Object{}, err
	}
	return c.object(obj, obj.Version)
}

// object returns obj as an Object with the given version.
func (c *Collection) object(obj *stored, version uint64) (Object, error) {
	data, err := c.Resource.encode(obj, version, fullJSON)
	return Object{Key: obj.Key, UID: obj.UID, Version: version, Labels: obj.Labels, JSON: data}, err
}

// decode returns the object to write that obj describes, and the resource version in it, 0 if there
// is none.
func (c *Collection) decode(obj any) (stored, uint64, error) {
	data, ok := obj.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(obj); err != nil {
			return stored{}, 0, apierrors.NewBadRequest(fmt.Sprintf("apiserver: %T has no JSON: %v", obj, err))
		}
	}
	value, uid, version, err := c.Resource.parse(data)
	if err != nil {
		return stored{}, 0, apierrors.NewBadRequest(fmt.Sprintf("the object provided cannot be decoded as %s: %v", c.Resource.Kind, err))
	}
	var rv uint64
	if version != "" {
		if rv, err = strconv.ParseUint(version, 10, 64); err != nil || rv == 0 {
			return stored{}, 0, c.invalid(value.meta.Name, "metadata.resourceVersion", fmt.Sprintf("Invalid value: %q", version))
		}
	}
	in := stored{Key: types.NamespacedName{Namespace: value.meta.Namespace, Name: value.meta.Name}, UID: uid}
	c.fill(&in, value)
	return in, rv, nil
}

// fill sets the value of obj, with the labels and fields in it that selectors see.
func (c *Collection) fill(obj *stored, value *content) {
	obj.Value, obj.Labels = value, value.meta.Labels
	if len(c.Resource.Fields) > 0 {
		obj.Fields = fieldsOf(value, c.Resource.Fields)
	}
}

// create stores in, with the fields that a server sets.
func (c *Collection) create(in stored) (*stored, error) {
	meta := &in.Value.meta
	for {
		generated := in.Key.Name == "" && meta.GenerateName != ""
		if generated {
			meta.Name = meta.GenerateName + suffix()
			in.Key.Name = meta.Name
		}
		if err := c.check(in); err != nil {
			return nil, err
		}
		meta.CreationTimestamp = metav1.NewTime(time.Now().UTC().Truncate(time.Second))
		meta.Generation = 1
		meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds = nil, nil
		out, err := c.history.Create(in)
		if generated && apierrors.IsAlreadyExists(err) {
			in.Key.Name = ""
			continue
		}
		return out, err
	}
}

// suffix returns five random characters, which the server appends to a generateName.
func suffix() string {
	return strconv.FormatUint(1<<25+rand.Uint64N(1<<29), 32)[:5]
}

// update replaces a part of the stored object by that of in, if the stored object still has the
// given version. 0 means any version. An object that is being deleted is gone with its last
// finalizer, and is returned as it would be without it.
func (c *Collection) update(in stored, version uint64, change part) (*stored, error) {
	if err := c.check(in); err != nil {
		return nil, err
	}
	for {
		old, err := c.history.Get(in.Key)
		if err != nil {
			return nil, err
		}
		// A client cannot change what the server has set. The generation counts the changes to
		// anything but metadata and status.
		value := change(old.Value, in.Value)
		value.meta.CreationTimestamp = old.Value.meta.CreationTimestamp
		value.meta.DeletionTimestamp = old.Value.meta.DeletionTimestamp
		value.meta.DeletionGracePeriodSeconds = old.Value.meta.DeletionGracePeriodSeconds
		value.meta.Generation = old.Value.meta.Generation
		if string(value.rest) != string(old.Value.rest) {
			value.meta.Generation++
		}
		if err := c.checkFinalizers(old.Value, value); err != nil {
			return nil, err
		}
		next := in
		c.fill(&next, value)
		pre := history.Preconditions{Version: version}
		if version == 0 {
			// Otherwise the generation might be computed from another object than in replaces.
			pre.Version = old.Version
		}
		var out *stored
		if value.meta.DeletionTimestamp != nil && len(value.meta.Finalizers) == 0 {
			pre.UID = in.UID
			_, _, err = c.history.Delete(in.Key, pre)
			next.UID, next.Version = old.UID, old.Version
			out = &next
		} else {
			out, err = c.history.Update(next, pre)
		}
		if version == 0 && apierrors.IsConflict(err) && (in.UID == "" || in.UID == old.UID) {
			continue
		}
		return out, err
	}
}

// check rejects an object whose name or namespace is not possible.
func (c *Collection) check(in stored) error {
	switch {
	case in.Key.Name == "":
		return c.invalid("", "metadata.name", "Required value: name or generateName is required")
	case strings.ContainsAny(in.Key.Name, "/%"):
		return c.invalid(in.Key.Name, "metadata.name", fmt.Sprintf("Invalid value: %q: may not contain '/' or '%%'", in.Key.Name))
	case !c.Resource.Cluster && in.Key.Namespace == "":
		return apierrors.NewBadRequest("an empty namespace may not be set during creation")
	case c.Resource.Cluster && in.Key.Namespace != "":
		return apierrors.NewBadRequest("namespace may not be set on an object of the cluster's scope")
	}
	return nil
}

// invalid is the answer to an object with a bad field: Invalid, with the field as its cause.
func (c *Collection) invalid(name, field, msg string) error {
	err := apierrors.NewInvalid(c.Resource.groupKind(), name, nil)
	err.ErrStatus.Message += field + ": " + msg
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: field, Message: msg}}
	return err
}

// fieldsOf returns the members of a content at paths such as spec.nodeName. A member that is not
// there is the empty string.
func fieldsOf(c *content, paths []string) map[string]string {
	object := append(append([]byte("{"), bytes.TrimPrefix(append(c.rest[:len(c.rest):len(c.rest)], c.status...), []byte(","))...), '}')
	out := make(map[string]string, len(paths))
	for _, path := range paths {
		out[path] = fieldOf(object, strings.Split(path, "."))
	}
	return out
}

// fieldOf returns the member at a path within a value: strings without quotes, anything else as
// JSON.
func fieldOf(value []byte, path []string) string {
	if len(path) == 0 {
		var s string
		if json.Unmarshal(value, &s) == nil {
			return s
		}
		return string(value)
	}
	if value[0] != '{' {
		return ""
	}
	for name, member := range members(value) {
		if string(name) == `"`+path[0]+`"` {
			return fieldOf(member, path[1:])
		}
	}
	return ""
}
