package registry

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// An Admission is a write that a server admits.
type Admission struct {
	Verb        Verb // what becomes of the object: an apply of a new one is a Create, a patch an Update
	Subresource string
	Object, Old *Object // Object is nil for a deletion, Old for a creation
	UserAgent   string
	DryRun      bool
}

func (w *Write) admission(o, old *Object) *Admission {
	a := &Admission{Verb: Update, Subresource: w.req.Subresource, Object: o, Old: old, UserAgent: w.req.UserAgent, DryRun: w.DryRun}
	switch {
	case o == nil:
		a.Verb = Delete
	case old == nil:
		a.Verb = Create
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

// Close makes o what the user's function has made of the object that Open has returned. The name and
// the namespace stay; an object that is not stored yet may be given a UID.
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
