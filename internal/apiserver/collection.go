package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/registry"
)

// A Collection is the objects of one [Resource] on a server. Its methods do what HTTP requests do,
// without HTTP. It is safe for concurrent use.
type Collection struct {
	Resource Resource
	kind     *registry.Kind
	storage  *Collection // in the version in which the objects are stored; it may be the Collection
	history  *history.Collection[*content]
	served   *atomic.Bool // see [Server.SetServed]; that of all versions, unless a definition has it
	closed   *atomic.Bool // set when no new objects are taken; nil: they always are
	wrote    func()       // is called after each write; nil: nobody
	home     func(namespace string) error
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

// Create adds an object, which is JSON ([]byte) or can be encoded as JSON. The server sets
// resourceVersion, creationTimestamp and generation, a UID unless there is one, and makes a name
// from generateName. Errors are those of an API server: AlreadyExists, Invalid, BadRequest.
func (c *Collection) Create(obj any) (Object, error) { return c.write(registry.Create, obj) }

// Update replaces an object, with its status. It fails with NotFound, and with Conflict if obj has
// a resourceVersion or a UID that is not that of the server's object. An update that changes
// nothing makes no version.
func (c *Collection) Update(obj any) (Object, error) { return c.write(registry.Update, obj) }

// Delete removes an object. It returns the object with the version of the deletion. An object with
// finalizers stays until an update takes the last one away, and is returned with its
// deletionTimestamp. No Pod waits for its kubelet. Delete fails with NotFound.
func (c *Collection) Delete(key types.NamespacedName) (Object, error) {
	return c.run(registry.Request{Verb: registry.Delete, Key: key, Options: metav1.NewDeleteOptions(0)})
}

// Get returns the current object of key, or the error NotFound.
func (c *Collection) Get(key types.NamespacedName) (Object, error) {
	obj, err := c.history.Get(key)
	if err != nil {
		return Object{}, err
	}
	return c.object(obj, obj.Version)
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

// ChangedSince reports whether the collection has changed after a version, or may have: it has
// forgotten.
func (c *Collection) ChangedSince(version uint64) bool {
	changes, err := c.history.Changes(version, c.history.Version())
	return err != nil || len(changes) > 0
}

// Compact forgets the states before version in this collection alone. [history.Line.Compact] does
// so for the whole server.
func (c *Collection) Compact(version uint64) { c.history.Compact(version) }

// Disconnect ends the open watches of this collection, cleanly.
func (c *Collection) Disconnect() { c.history.Disconnect() }

// SetServed stops or starts to serve the collection, as a server does whose custom resource
// definition is deleted and created again. When it stops, all objects are deleted, whatever
// finalizers they have, the watches see that and end, and requests get 404. Every collection is
// served at first. The methods of the Collection are not concerned.
func (c *Collection) SetServed(served bool) {
	if c.served.Swap(served) == served || served {
		return
	}
	all, err := c.history.List("", metav1.ListOptions{})
	if err != nil {
		panic(err) // cannot happen: there is no option that could be wrong
	}
	for _, obj := range all.Items {
		// An error says that somebody else has deleted it.
		_, _, _ = c.history.Delete(obj.Key, history.Preconditions{})
	}
	c.history.Finish()
}

// object returns obj as an Object with the given version.
func (c *Collection) object(obj *stored, version uint64) (Object, error) {
	obj, err := c.Resource.shown(obj)
	if err != nil {
		return Object{}, err
	}
	data, err := c.Resource.encode(obj, version, fullJSON)
	o := Object{Key: obj.Key, UID: obj.UID, Version: version, Labels: obj.Labels, JSON: data}
	if ShareDecoded.Load() {
		o.Decoded = &obj.Value.decoded
	}
	return o, err
}

// write creates or updates an object for the server's own program.
func (c *Collection) write(verb registry.Verb, obj any) (Object, error) {
	data, ok := obj.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(obj); err != nil {
			return Object{}, apierrors.NewBadRequest(fmt.Sprintf("apiserver: %T has no JSON: %v", obj, err))
		}
	}
	sent, err := c.kind.Parse(data)
	if err != nil {
		return Object{}, apierrors.NewBadRequest(fmt.Sprintf("the object provided cannot be decoded as %s: %v", c.Resource.Kind, err))
	}
	if namespaced := sent.Meta.Namespace != ""; namespaced == c.Resource.Cluster {
		return Object{}, apierrors.NewBadRequest(fmt.Sprintf("%s %q: the namespace is %q", c.Resource.Kind, sent.Meta.Name, sent.Meta.Namespace))
	}
	if verb == registry.Update && sent.Meta.Name == "" {
		return Object{}, apierrors.NewBadRequest(fmt.Sprintf("%s: the object has no name", c.Resource.Kind))
	}
	req := registry.Request{Verb: verb, Key: sent.Key(), Body: data, Whole: true}
	if verb == registry.Create {
		req.Key.Name = ""
	}
	return c.run(req)
}

func (c *Collection) run(req registry.Request) (Object, error) {
	w, err := c.kind.Prepare(req)
	if err != nil {
		return Object{}, err
	}
	out, err := w.Run(context.Background(), store{c})
	if err != nil {
		return Object{}, err
	}
	obj := storedOf(out.Object)
	return c.object(&obj, obj.Version)
}

// A store is a Collection as the engine of writes sees it.
type store struct{ *Collection }

// stored returns an object as the collection stores it.
func (s store) stored(o *registry.Object) (stored, error) {
	c := s.storage
	if c != s.Collection {
		var err error
		if o, err = c.Resource.convert(o, s.kind, c.kind); err != nil {
			return stored{}, err
		}
	}
	obj := storedOf(o)
	obj.Value.kind = c.kind
	if paths := c.Resource.Fields; len(paths) > 0 {
		obj.Fields = make(map[string]string, len(paths))
		for _, path := range paths {
			obj.Fields[path] = o.Field(path)
		}
	}
	return obj, nil
}

// object returns an object of the history as the collection shows it, with a version.
func (s store) object(obj *stored, version uint64) (*registry.Object, error) {
	obj, err := s.Resource.shown(obj)
	if err != nil {
		return nil, err
	}
	return objectOf(obj, version), nil
}

// Get implements [registry.Store].
func (s store) Get(_ context.Context, key types.NamespacedName) (*registry.Object, error) {
	obj, err := s.history.Get(key)
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	kind := obj.Value.kind
	o, err := s.object(obj, obj.Version)
	if err == nil {
		o.Outdated = kind != nil && kind.Version != s.storage.kind.Version
	}
	return o, err
}

// Home implements [registry.Housed].
func (s store) Home(namespace string) error { return s.home(namespace) }

// noted calls wrote after a write that has not failed.
func (s store) noted(err error) {
	if err == nil && s.wrote != nil {
		s.wrote()
	}
}

// Create implements [registry.Store].
func (s store) Create(_ context.Context, o *registry.Object) (*registry.Object, error) {
	if s.closed != nil && s.closed.Load() {
		return nil, apierrors.NewForbidden(s.Resource.groupResource(), o.Meta.Name,
			errors.New("create not allowed while custom resource definition is terminating"))
	}
	next, err := s.stored(o)
	if err != nil {
		return nil, err
	}
	obj, err := s.history.Create(next)
	s.noted(err)
	if err != nil {
		return nil, err
	}
	return s.object(obj, obj.Version)
}

// Replace implements [registry.Store].
func (s store) Replace(_ context.Context, o, old *registry.Object) (*registry.Object, error) {
	next, err := s.stored(o)
	if err != nil {
		return nil, err
	}
	obj, err := s.history.Update(next, history.Preconditions{UID: old.Meta.UID, Version: storedOf(old).Version})
	s.noted(err)
	if err != nil {
		return nil, err
	}
	return s.object(obj, obj.Version)
}

// Delete implements [registry.Store]. The version of the result is that of the deletion.
func (s store) Delete(_ context.Context, old *registry.Object) (*registry.Object, error) {
	last, version, err := s.history.Delete(old.Key(), history.Preconditions{UID: old.Meta.UID, Version: storedOf(old).Version})
	s.noted(err)
	if err != nil {
		return nil, err
	}
	return s.object(last, version)
}
