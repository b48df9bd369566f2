package decode

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds holds the objects of one source to one kind, over all its responses. Its methods may be called by any goroutine.
type Kinds struct {
	want     string // the kind; "": that of what comes first
	wantFrom string // where want is from
	partial  bool   // the objects are metadata, which servers may give a kind of its own

	mu    sync.Mutex
	kind  string  // guarded by mu: that of what has come, where want is empty
	group *string // guarded by mu: the API group of what has come; nil: not known
}

// KindOf returns the kind of objects of type typ, a pointer: the name of a struct that embeds metav1.TypeMeta, as
// runtime.Scheme.AddKnownTypes takes it, with a capital letter, which every kind has. It returns "" for a type that does not
// tell: one without a TypeMeta, one with type parameters, and metadata of any kind.
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

const partialKind = "PartialObjectMetadata"

var partialObject = reflect.TypeFor[*metav1.PartialObjectMetadata]()

// NewKinds returns the Kinds of a source of objects of type typ, of which kind is the kind, or "" for the one that typ tells.
func NewKinds(typ reflect.Type, kind string) *Kinds {
	k := &Kinds{want: kind, wantFrom: "HTTP.Kind", partial: typ == partialObject}
	if kind == "" {
		k.want = KindOf(typ)
		k.wantFrom = fmt.Sprintf("the kind of %v; set HTTP.Kind if it is called otherwise", typ)
	}
	return k
}

// A KindError says that a response is about another kind of objects than the source.
type KindError struct {
	Want, Got string
	Why       string // where Want is from
}

func (e *KindError) Error() string {
	return fmt.Sprintf("want %.100s (%s), got %.100s", e.Want, e.Why, e.Got)
}

// object checks the kind of an object. A version without a group is of the core's; what is empty says nothing.
func (k *Kinds) object(kind, apiVersion string) error {
	if kind == "" || k.partial && kind == partialKind {
		return nil
	}
	return k.check(kind, apiVersion, kind, "")
}

// list checks the kind of a list. The one of type List may be of any kind.
func (k *Kinds) list(kind, apiVersion string) error {
	of := strings.TrimSuffix(kind, "List")
	if of == "" || k.partial && of == partialKind {
		return nil
	}
	return k.check(of, apiVersion, kind, "a list of ")
}

// check checks the kind of objects, of which got is what the response says.
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
			group := strings.Clone(gv.Group)
			k.group = &group
		} else if *k.group != gv.Group {
			return &KindError{
				Want: fmt.Sprintf("%s%s of API group %q", list, want, *k.group), Why: "as before", Got: fmt.Sprintf("%.100s of %q", got, gv.Group),
			}
		}
	}
	if k.want == "" {
		k.kind = kind
	}
	return nil
}

// sameKind checks the kind of an object, which is mostly that of the one before.
func (d *Decoder) checkKind(id *Ident) error {
	if id.Kind == "" || id.Kind == d.lastKind && id.APIVersion == d.lastVersion {
		return nil
	}
	if err := d.opts.Kinds.object(id.Kind, id.APIVersion); err != nil {
		return err
	}
	d.lastKind, d.lastVersion = id.Kind, id.APIVersion
	return nil
}
