package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/wire"
)

// A Resource says how a collection looks from outside.
type Resource[T lw.Object] struct {
	Group, Version string // Group is empty for the core group. Default of Version: v1
	Name           string // the plural, as in paths
	Kind           string // Default: the name of T
	Singular       string // Default: Kind in lower case
	ShortNames     []string
	Cluster        bool // the objects have no namespace

	// Fields are what a field selector may use beside metadata.name and metadata.namespace. They
	// are called in the goroutine of Serve, once for each version of an object. A panic counts as an
	// error of the object: whoever would get it gets an error, and so does who selects by a field.
	Fields map[string]func(obj T) string
	// Columns are those of tables, between NAME and AGE.
	Columns []Column[T]
	// Encode replaces the encoding of T by encoding/json. It returns one JSON object. It is called
	// once for each version of an object that anybody asks for, by any goroutine. Its panic counts
	// as an error, and so does that of a Column.
	Encode func(obj T) ([]byte, error)
	// History bounds what is kept to resume watches, to read past states and to go on with lists.
	History HistoryLimits
	// Fresh says how a request for the newest state is answered. Default: FreshUpstream for an
	// Informer, FreshHere for all others.
	Fresh Freshness
	// Replica tells the versions of this process from those of others that serve the same derived
	// collection. It is less than 1024. Default: random.
	Replica uint16

	// The rest is of the writes that [ServeStore] takes.

	// Status makes /status a resource of its own: writes there change the member status alone, and all
	// others leave it as it is.
	Status bool
	// Scale makes /scale one. nil: there is none.
	Scale *Scale
	// Managed has managedFields kept from the creation of an object on, as kube-apiserver does. Else
	// they are kept from the first apply on.
	Managed bool
	// Versioned refuses an update without a resourceVersion, as that of a custom resource.
	Versioned bool
	// Schema is an OpenAPI schema of T in JSON or YAML, as a CustomResourceDefinition has it. It says
	// how lists merge, what kubectl explains and, of a T that decodes itself, such as
	// *unstructured.Unstructured, which fields there are: others are pruned, and warned of or refused.
	// It checks the values of each write, as a CustomResourceDefinition does, but for its rules in
	// CEL: what an update leaves as it was may stay wrong. nil: what the fields of T say.
	Schema []byte
	// Default fills in what a client has left out of obj. It may change nothing else.
	Default func(obj T) error
	// Validate refuses a write by an error: an APIStatus is sent as it is, and any other is Invalid
	// with the causes of a field.ErrorList. obj is zero for a deletion, old for a creation. What it
	// has seen is what is replaced. Its panic is an error of the request, as that of Default.
	Validate func(ctx context.Context, obj, old T) error
	// ValidateName returns what is wrong with a name, or with the beginning of one. Default: a name is
	// a DNS subdomain.
	ValidateName func(name string, prefix bool) []string
}

// A Scale says where an object has the numbers of its scale, by paths such as .spec.replicas.
type Scale struct {
	Replicas       string // that are wanted
	StatusReplicas string // that there are
	Selector       string // the label selector of what is counted, as a string; may be empty
}

// A Column is a column of the tables that kubectl shows.
type Column[T lw.Object] struct {
	Name        string
	Type        string // of OpenAPI: string, integer, number or boolean. Default: string
	Description string
	Wide        bool // only with -o wide
	Value       func(obj T) Cell
}

// A Cell is the content of a table's cell: a string, a bool, an int64 or a float64.
type Cell struct{ value any }

// Text returns a cell with a string.
func Text(s string) Cell { return Cell{s} }

// Int returns a cell with a whole number.
func Int[N ~int | ~int32 | ~int64](n N) Cell { return Cell{int64(n)} }

// Bool returns a cell with a truth value.
func Bool(b bool) Cell { return Cell{b} }

// A Freshness says how a request for the newest state is answered.
type Freshness int

const (
	// FreshDefault is FreshUpstream for an Informer, FreshHere for all others.
	FreshDefault Freshness = iota
	// FreshUpstream asks the informer's server how new it is, and answers when the collection is as
	// new; see [lw.Informer.CatchUp].
	FreshUpstream
	// FreshHere answers with what is here.
	FreshHere
)

// A resource is a Resource without its type parameter.
type resource struct {
	group, version, name, kind, singular string
	shortNames                           []string
	cluster                              bool
	fieldNames                           []string // sorted
	fields                               []func(obj any) string
	columns                              []column
	encode                               func(obj any, e wire.Encoding) ([]byte, error)
	labels                               func(obj any) map[string]string
	proto                                bool // encode knows protobuf
	raw                                  bool // the objects are of the type Object
}

type column struct {
	name, typ, description string
	wide                   bool
	value                  func(obj any) any
}

// A labelGetter is an object that has labels.
type labelGetter interface{ GetLabels() map[string]string }

// resourceOf checks r and returns it without its type.
func resourceOf[T lw.Object](r Resource[T]) (*resource, error) {
	t := reflect.TypeFor[T]()
	kind := r.Kind
	if kind == "" {
		kind = t.String()
		if t.Kind() == reflect.Pointer {
			kind = t.Elem().Name()
		}
	}
	out := &resource{
		group: r.Group, version: cmp.Or(r.Version, "v1"), name: r.Name, kind: kind,
		singular: cmp.Or(r.Singular, strings.ToLower(kind)), shortNames: r.ShortNames, cluster: r.Cluster,
	}
	switch {
	case r.Name == "":
		return nil, errors.New("serve: a Resource without a Name")
	case strings.ToLower(r.Name) != r.Name || strings.ContainsAny(r.Name, "/ "):
		return nil, fmt.Errorf("serve: %q cannot be the Name of a Resource: it is a plural in lower case", r.Name)
	case kind == "" || t == reflect.TypeFor[*Object]() && r.Kind == "":
		return nil, fmt.Errorf("serve: %s: a Resource without a Kind", r.Name)
	case r.Replica >= replicas:
		return nil, fmt.Errorf("serve: %s: Replica is %d, and must be less than %d", r.Name, r.Replica, replicas)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		f := r.Fields[name]
		if f == nil {
			return nil, fmt.Errorf("serve: %s: no function for the field %s", r.Name, name)
		}
		out.fieldNames = append(out.fieldNames, name)
		out.fields = append(out.fields, func(obj any) string { return f(obj.(T)) })
	}
	for _, c := range r.Columns {
		if c.Name == "" || c.Value == nil {
			return nil, fmt.Errorf("serve: %s: a Column without a Name or a Value", r.Name)
		}
		out.columns = append(out.columns, column{
			c.Name, cmp.Or(c.Type, "string"), c.Description, c.Wide, func(obj any) any { return c.Value(obj.(T)).value },
		})
	}
	if t.Implements(reflect.TypeFor[labelGetter]()) {
		out.labels = func(obj any) map[string]string { return obj.(labelGetter).GetLabels() }
	}
	out.raw = t == reflect.TypeFor[*Object]()
	out.proto = t.Implements(reflect.TypeFor[interface{ Marshal() ([]byte, error) }]()) && r.Encode == nil
	out.encode = func(obj any, e wire.Encoding) ([]byte, error) {
		if e == wire.Protobuf {
			return obj.(interface{ Marshal() ([]byte, error) }).Marshal()
		}
		if r.Encode != nil {
			return r.Encode(obj.(T))
		}
		return json.Marshal(obj)
	}
	return out, nil
}

// apiVersion returns the group and version as objects have them.
func (r *resource) apiVersion() string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}

// item returns an object as an item.
func (r *resource) item(obj any, key lw.Key, uid types.UID, version uint64) *item {
	i := &item{path: listopts.Path(key), version: version, uid: uid, obj: obj}
	if r.labels != nil {
		if err := r.setLabels(i); err != nil {
			i.failed = &failure{fmt.Errorf("labels: %w", err), true}
		}
	}
	if len(r.fields) > 0 {
		if err := r.setFields(i); err != nil {
			i.failed = &failure{fmt.Errorf("fields: %w", err), i.failed != nil}
		}
	}
	return i
}

func (r *resource) setLabels(i *item) (err error) {
	defer recovered(&err)
	i.labels = r.labels(i.obj)
	return nil
}

func (r *resource) setFields(i *item) (err error) {
	defer recovered(&err)
	i.fields = make([]string, len(r.fields))
	for n, f := range r.fields {
		i.fields[n] = f(i.obj)
	}
	return nil
}

func isStatus(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}

// recovered makes a panic of a function of the user's an error. Some of them run in goroutines that
// serve many clients.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
	}
}

// columnDefinitions returns the columns of tables.
func (r *resource) columnDefinitions() []metav1.TableColumnDefinition {
	var between []metav1.TableColumnDefinition
	for _, c := range r.columns {
		def := metav1.TableColumnDefinition{Name: c.name, Type: c.typ, Description: c.description}
		if c.wide {
			def.Priority = 1
		}
		between = append(between, def)
	}
	return wire.Columns(between...)
}

func (r *resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.group, Resource: r.name}
}

// named returns an error of a store, which guesses what its objects are called, with their name and
// group.
func (r *resource) named(err error) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil {
		return err
	}
	renamed := *status.ErrStatus.DeepCopy()
	d := renamed.Details
	guess := schema.GroupResource{Group: d.Group, Resource: d.Kind}
	renamed.Message = strings.Replace(renamed.Message, fmt.Sprintf("%s %q", guess.String(), d.Name),
		fmt.Sprintf("%s %q", r.groupResource().String(), d.Name), 1)
	d.Group, d.Kind = r.group, r.name
	return &apierrors.StatusError{ErrStatus: renamed}
}

func (r *resource) knows(field string) bool { return slices.Contains(r.fieldNames, field) }
