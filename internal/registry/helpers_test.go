package registry_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	. "github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A memory is a Store.
type memory struct {
	kind    *Kind
	mu      sync.Mutex
	version int
	objects map[types.NamespacedName]*Object
	before  func() // runs before a write, without the lock
}

func newMemory(k *Kind) *memory { return &memory{kind: k, objects: map[types.NamespacedName]*Object{}} }

func (m *memory) Get(_ context.Context, key types.NamespacedName) (*Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects[key], nil
}

func (m *memory) put(o *Object) *Object {
	m.version++
	stored := *o
	stored.Meta.ResourceVersion = strconv.Itoa(m.version)
	if stored.Meta.UID == "" {
		stored.Meta.UID = types.UID(fmt.Sprint("uid-", m.version))
	}
	m.objects[o.Key()] = &stored
	return &stored
}

func (m *memory) wait() {
	if f := m.before; f != nil {
		m.before = nil
		f()
	}
}

func (m *memory) Create(_ context.Context, o *Object) (*Object, error) {
	m.wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects[o.Key()] != nil {
		return nil, apierrors.NewAlreadyExists(m.kind.GroupResource(), o.Meta.Name)
	}
	return m.put(o), nil
}

func (m *memory) Replace(_ context.Context, o, old *Object) (*Object, error) {
	m.wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.raced(old); err != nil {
		return nil, err
	}
	return m.put(o), nil
}

// raced is the error of a write of what is old no more.
func (m *memory) raced(old *Object) error {
	switch m.objects[old.Key()] {
	case old:
		return nil
	case nil:
		return apierrors.NewNotFound(m.kind.GroupResource(), old.Meta.Name)
	default:
		return apierrors.NewConflict(m.kind.GroupResource(), old.Meta.Name, errors.New("raced"))
	}
}

func (m *memory) Delete(_ context.Context, old *Object) (*Object, error) {
	m.wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.raced(old); err != nil {
		return nil, err
	}
	delete(m.objects, old.Key())
	return old, nil
}

var ctx = context.Background()

func do(m *memory, req Request) (Outcome, *Write, error) {
	if req.Key.Namespace == "" && !m.kind.Cluster {
		req.Key.Namespace = "ns"
	}
	w, err := m.kind.Prepare(req)
	if err != nil {
		return Outcome{}, nil, err
	}
	out, err := w.Run(ctx, m)
	return out, w, err
}

// must makes a write that has to succeed.
func must(t testing.TB, m *memory, req Request) Outcome {
	t.Helper()
	out, _, err := do(m, req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Verb, req.Body, err)
	}
	return out
}

// mustCreate is must for an object of JSON.
func mustCreate(t testing.TB, m *memory, body string) {
	t.Helper()
	must(t, m, Request{Verb: Create, Body: []byte(body)})
}

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// said says what became of a write: the JSON of the object, or the code and message of the error.
func said(k *Kind, out Outcome, err error) string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return fmt.Sprint(status.Status().Code, " ", strings.SplitN(status.Status().Message, "\n", 2)[0])
	} else if err != nil {
		return err.Error()
	}
	return fmt.Sprint(out.Code, " ", string(out.Object.Body), string(out.Object.Status))
}

// A Bare object keeps only what lw needs of the metadata.
type Bare struct {
	Metadata struct {
		Namespace       string    `json:"namespace,omitempty"`
		Name            string    `json:"name,omitempty"`
		UID             types.UID `json:"uid,omitempty"`
		ResourceVersion string    `json:"resourceVersion,omitempty"`
	} `json:"metadata"`
	Size int `json:"size,omitempty"`
}

// A Full object has all metadata.
type Full struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Size              int      `json:"size,omitempty"`
	Tags              []string `json:"tags,omitempty"`
	Status            string   `json:"status,omitempty"`
}

func typeOf[T any](t testing.TB) *Type {
	return rig.Must[*Type](t)(TypeOf(reflect.TypeFor[T]()))
}

func things(t testing.TB) *Kind {
	return &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Type: typeOf[*Full](t)}
}
