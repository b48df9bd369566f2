package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/history"
)

// A Resource is a kind of objects that a server serves.
type Resource struct {
	Group    string // "" for the core group
	Version  string // default: v1
	Resource string // the plural in the path
	Kind     string
	// Cluster: the objects have no namespace.
	Cluster bool
	// Custom: the items of a JSON list carry their kind and apiVersion, as those of a custom resource do and those of a
	// built-in one do not.
	Custom bool
	// Fields are the paths that field selectors may use beside metadata.name and metadata.namespace: spec.nodeName. They are
	// not in the metadata.
	Fields []string
	// Proto returns the protobuf message of an object that is given as JSON; see [Proto]. Nil: no protobuf but for partial
	// metadata, as for a custom resource.
	Proto func(object []byte) ([]byte, error)
}

// Proto returns a [Resource]'s Proto for a generated type: Proto[corev1.Pod]().
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

// A Collection is the objects of one [Resource] on a server. Its methods are what the HTTP interface does, without the way there.
type Collection struct {
	Resource Resource
	history  *history.Collection[*content]
}

// URL returns the path of the collection, of one namespace where it is not empty.
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

// Create adds an object, which is JSON ([]byte) or encodes to it. The server sets UID, resourceVersion, creationTimestamp and
// generation, and a name from generateName. Its errors are those of an API server: AlreadyExists, Invalid, BadRequest.
func (c *Collection) Create(obj any) (Object, error) {
	in, _, err := c.decode(obj)
	if err != nil {
		return Object{}, err
	}
	return c.public(c.create(in))
}

// Update replaces an object. It fails with NotFound, and with Conflict where obj carries another resourceVersion or UID than
// the server's object. An update that changes nothing makes no version.
func (c *Collection) Update(obj any) (Object, error) {
	in, version, err := c.decode(obj)
	if err != nil {
		return Object{}, err
	}
	return c.public(c.update(in, version))
}

// Delete removes an object, and returns it with the version of the deletion. It fails with NotFound.
func (c *Collection) Delete(key types.NamespacedName) (Object, error) {
	last, version, err := c.history.Delete(key, history.Preconditions{})
	if err != nil {
		return Object{}, err
	}
	return c.object(last, version)
}

// Get returns the current object of key. It fails with NotFound.
func (c *Collection) Get(key types.NamespacedName) (Object, error) {
	return c.public(c.history.Get(key))
}

// StateAt returns the objects of a version in the order of their keys: the truth that a client is compared with. It fails with
// Expired where that version is compacted.
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

// Compact forgets the states before version, of this collection alone; see [history.Line.Compact] for the whole server.
func (c *Collection) Compact(version uint64) { c.history.Compact(version) }

// Disconnect ends the open watches of this collection cleanly.
func (c *Collection) Disconnect() { c.history.Disconnect() }

func (c *Collection) public(obj *stored, err error) (Object, error) {
	if err != nil {
		return Object{}, err
	}
	return c.object(obj, obj.Version)
}

func (c *Collection) object(obj *stored, version uint64) (Object, error) {
	data, err := c.Resource.encode(obj, version, fullJSON)
	return Object{Key: obj.Key, UID: obj.UID, Version: version, Labels: obj.Labels, JSON: data}, err
}

// decode returns an object to write, and the resource version that it carries.
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
	in := stored{
		Key:    types.NamespacedName{Namespace: value.meta.Namespace, Name: value.meta.Name},
		UID:    uid,
		Labels: value.meta.Labels,
		Value:  value,
	}
	if len(c.Resource.Fields) > 0 {
		in.Fields = fieldsOf(value, c.Resource.Fields)
	}
	return in, rv, nil
}

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
		out, err := c.history.Create(in)
		if generated && apierrors.IsAlreadyExists(err) {
			in.Key.Name = ""
			continue
		}
		return out, err
	}
}

// suffix is what the server adds to a generateName.
func suffix() string {
	return strconv.FormatUint(1<<25+rand.Uint64N(1<<29), 32)[:5]
}

// update writes in where the stored object has its version, or any version where that is 0.
func (c *Collection) update(in stored, version uint64) (*stored, error) {
	if err := c.check(in); err != nil {
		return nil, err
	}
	for {
		old, err := c.history.Get(in.Key)
		if err != nil {
			return nil, err
		}
		// What the server set is not the client's to change; the generation counts the changes beside metadata and status.
		value := &content{meta: in.Value.meta, rest: in.Value.rest, status: in.Value.status}
		value.meta.CreationTimestamp = old.Value.meta.CreationTimestamp
		value.meta.Generation = old.Value.meta.Generation
		if string(value.rest) != string(old.Value.rest) {
			value.meta.Generation++
		}
		next := in
		next.Value = value
		pre := history.Preconditions{Version: version}
		if version == 0 {
			pre.Version = old.Version // or the generation would not be that of what is replaced
		}
		out, err := c.history.Update(next, pre)
		if version == 0 && apierrors.IsConflict(err) && (in.UID == "" || in.UID == old.UID) {
			continue
		}
		return out, err
	}
}

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

func (c *Collection) invalid(name, field, msg string) error {
	err := apierrors.NewInvalid(c.Resource.groupKind(), name, nil)
	err.ErrStatus.Message += field + ": " + msg
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: field, Message: msg}}
	return err
}

// fieldsOf takes the members at paths such as spec.nodeName out of a content. What is not there is the empty string.
func fieldsOf(c *content, paths []string) map[string]string {
	object := append(append([]byte("{"), bytes.TrimPrefix(append(c.rest[:len(c.rest):len(c.rest)], c.status...), []byte(","))...), '}')
	out := make(map[string]string, len(paths))
	for _, path := range paths {
		out[path] = fieldOf(object, strings.Split(path, "."))
	}
	return out
}

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
