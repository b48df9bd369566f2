package decode

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds checks that all objects of one source are of one kind and one API group, over all its
// responses. A server, or a proxy before it, may answer with something else, and JSON of another
// kind decodes without an error. The methods may be called by any goroutine.
type Kinds struct {
	// want is the kind that the objects must have; "" means that of the last whole list, and of the
	// first object before there is one. wantFrom says in an error who asked for it.
	want     string
	wantFrom string
	// partial says that the objects are metadata only. Servers may call their kind
	// PartialObjectMetadata instead of, say, Pod.
	partial bool

	// mu guards the fields below.
	mu sync.Mutex
	// kind is that of the objects, as the responses so far tell it, if want is empty.
	kind string
	// group is the API group of the first response that says one; nil before. It is a pointer
	// because "" is the core group. The version is not compared here: a server may change it
	// between responses.
	group *string
}

// KindOf returns the kind of objects of type typ, a pointer. It is the name of a struct that embeds
// metav1.TypeMeta, as runtime.Scheme.AddKnownTypes takes it. The first letter becomes a capital
// one, which every kind has. KindOf returns "" for a type that does not say its kind: one without a
// TypeMeta, one with type parameters, and metav1.PartialObjectMetadata.
func KindOf(typ reflect.Type) string {
	t := typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := t.Name()
	if t.Kind() != reflect.Struct || name == "" || strings.Contains(name, "[") || typ == partialObject {
		return ""
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous && f.Type == reflect.TypeFor[metav1.TypeMeta]() {
			first, n := utf8.DecodeRuneInString(name)
			return string(unicode.ToUpper(first)) + name[n:]
		}
	}
	return ""
}

// partialKind is the kind of objects of which a server sends only the metadata.
const partialKind = "PartialObjectMetadata"

var partialObject = reflect.TypeFor[*metav1.PartialObjectMetadata]()

// NewKinds returns the Kinds of a source of objects of type typ. kind is the kind that the user has
// set, or "" for the one that the type says.
func NewKinds(typ reflect.Type, kind string) *Kinds {
	k := &Kinds{want: kind, wantFrom: "HTTP.Kind", partial: typ == partialObject}
	if kind == "" {
		k.want = KindOf(typ)
		k.wantFrom = fmt.Sprintf("the kind of %v; set HTTP.Kind if it is called otherwise", typ)
	}
	return k
}

// A KindError says that a response has objects of another kind than the source.
type KindError struct {
	Want, Got string
	// Why says where Want comes from.
	Why string
}

func (e *KindError) Error() string {
	return fmt.Sprintf("want %.100s (%s), got %.100s", e.Want, e.Why, e.Got)
}

// Given reports whether the type or the user says of which kind the objects are.
func (k *Kinds) Given() bool { return k.want != "" }

// OfList returns the Kinds that check a list that is about to be read. Where nobody said which kind
// it must be of, it may be of another one than before: a resource's definition may have been deleted
// and made again. Its objects must still be of one kind.
func (k *Kinds) OfList() *Kinds {
	if k.want != "" {
		return k
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return &Kinds{partial: k.partial, group: k.group}
}

// Take makes k check what comes next by what list, which OfList has returned, has learned from a
// list that is whole. An empty one of a custom resource tells no kind, and there is none to keep to.
func (k *Kinds) Take(list *Kinds) {
	if list == k {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kind = list.kind
	if k.group == nil {
		k.group = list.group
	}
}

// Object checks the kind of an object. An empty kind or apiVersion says nothing. An apiVersion
// without a group, such as "v1", is one of the core group.
func (k *Kinds) Object(kind, apiVersion string) error {
	if kind == "" || k.partial && kind == partialKind {
		return nil
	}
	return k.check(kind, apiVersion, kind, "")
}

// List checks the kind of a list that is called as its objects, with "List" behind it. A list of
// kind List may have objects of any kind.
func (k *Kinds) List(kind, apiVersion string) error {
	of := strings.TrimSuffix(kind, "List")
	if of == "" || k.partial && of == partialKind {
		return nil
	}
	return k.check(of, apiVersion, kind, "a list of ")
}

// check compares kind and group with those wanted, and remembers them if they are the first. got is
// the kind as the response says it, and list is put before the wanted one, both for the error.
func (k *Kinds) check(kind, apiVersion, got, list string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	want, why := k.want, k.wantFrom
	if want == "" {
		want, why = k.kind, "as before"
	}
	if want != "" && kind != want {
		return &KindError{Want: list + want, Why: why, Got: got}
	}
	if apiVersion != "" {
		gv, _ := schema.ParseGroupVersion(apiVersion)
		if k.group == nil {
			// The clone keeps a few bytes alive instead of the string that it is part of.
			group := strings.Clone(gv.Group)
			k.group = &group
		} else if *k.group != gv.Group {
			return &KindError{
				Want: fmt.Sprintf("%s%s of API group %q", list, cmp.Or(want, "objects"), *k.group), Why: "as before", Got: fmt.Sprintf("%.100s of %q", got, gv.Group),
			}
		}
	}
	// What a list of custom resources is called proves nothing to the objects behind it.
	if k.want == "" && (list == "" || !isCustom(apiVersion)) {
		k.kind = kind
	}
	return nil
}

// Known returns the kind of the objects, as far as it is known; else "".
func (k *Kinds) Known() string {
	if k.want != "" {
		return k.want
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kind
}

// isCustom reports whether apiVersion is of a group that a CustomResourceDefinition may have. These
// have a dot, and built-in groups may have one as well.
func isCustom(apiVersion string) bool {
	group, _, grouped := strings.Cut(apiVersion, "/")
	return grouped && strings.Contains(group, ".")
}

// checkKind checks the kind of an object. It mostly is that of the object before, and then it takes
// no lock.
func (d *Decoder) checkKind(id *Ident) error {
	if id.Kind == "" || id.Kind == d.lastKind && id.APIVersion == d.lastVersion {
		return nil
	}
	if err := d.expected.Object(id.Kind, id.APIVersion); err != nil {
		return err
	}
	d.lastKind, d.lastVersion = id.Kind, id.APIVersion
	return nil
}
