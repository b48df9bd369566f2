package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	. "github.com/go-lw/lw/internal/registry"
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
	if m.objects[o.Key()] != old {
		return nil, apierrors.NewConflict(m.kind.GroupResource(), o.Meta.Name, errors.New("raced"))
	}
	return m.put(o), nil
}

func (m *memory) Delete(_ context.Context, old *Object) (*Object, error) {
	m.wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects[old.Key()] != old {
		return nil, apierrors.NewConflict(m.kind.GroupResource(), old.Meta.Name, errors.New("raced"))
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
	out, err := TypeOf(reflect.TypeFor[T]())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func things(t testing.TB) *Kind {
	return &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Type: typeOf[*Full](t)}
}

// A typed object is what its type keeps, and its value is what the pieces say.
func TestTypes(t *testing.T) {
	bare, full := things(t), things(t)
	bare.Type, full.Status = typeOf[*Bare](t), true
	m := newMemory(bare)
	body := `{"metadata":{"name":"a","labels":{"l":"1"},"uid":"forged"},"size":3,"odd":1}`
	out, w, err := do(m, Request{Verb: Create, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`unknown field "metadata.labels"`, `unknown field "odd"`}, w.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if b := out.Object.Value.(*Bare); b.Size != 3 || b.Metadata.Name != "a" || b.Metadata.Namespace != "ns" || b.Metadata.UID == "forged" {
		t.Errorf("the value is %+v", b)
	}
	_, _, err = do(m, Request{Verb: Create, Query: url.Values{"fieldValidation": {"Strict"}}, Body: []byte(`{"metadata":{"name":"b","creationTimestamp":null,"generation":1},"Size":3}`)})
	if err == nil || !strings.Contains(err.Error(), `strict decoding error: unknown field "Size"`) {
		t.Errorf("strict: %v", err)
	}
	if _, _, err := do(m, Request{Verb: Delete, Key: named("a"), Query: url.Values{"propagationPolicy": {"Foreground"}}}); err == nil || !strings.Contains(err.Error(), "keeps no deletionTimestamp") {
		t.Errorf("a mark that is not kept: %v", err)
	}

	m = newMemory(full)
	if out, _, err = do(m, Request{Verb: Create, Body: []byte(`{"metadata":{"name":"a"},"size":1,"status":"up"}`)}); err != nil || out.Object.Value.(*Full).Status != "" {
		t.Errorf("created: %+v, %v", out.Object, err)
	}
	if out, _, err = do(m, Request{Verb: Patch, Subresource: SubStatus, Key: named("a"), ContentType: string(types.MergePatchType), Body: []byte(`{"size":9,"status":"up"}`)}); err != nil {
		t.Fatal(err)
	}
	if f := out.Object.Value.(*Full); f.Status != "up" || f.Size != 1 || f.Kind != "" || f.Name != "a" {
		t.Errorf("status: %+v", f)
	}
	if out, _, err = do(m, Request{Verb: Update, Key: named("a"), Body: []byte(`{"metadata":{"name":"a"},"tags":["x"],"status":"down"}`)}); err != nil {
		t.Fatal(err)
	}
	if f := out.Object.Value.(*Full); f.Status != "up" || f.Size != 0 || f.Generation != 2 || !reflect.DeepEqual(f.Tags, []string{"x"}) {
		t.Errorf("updated: %+v", f)
	}
	before := out.Object
	// An update that says the same in other words changes nothing.
	if out, _, err = do(m, Request{Verb: Update, Key: named("a"), Body: []byte(`{"tags":["x"],"size":0,"metadata":{"labels":{},"name":"a"}}`)}); err != nil || out.Object != before {
		t.Errorf("nothing: %+v, %v", out.Object, err)
	}
}

// An Odd object reads its names in any case, as encoding/json does.
type Odd struct{ Bare }

func (o *Odd) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &o.Bare) }
func (o *Odd) GetName() string                 { return o.Metadata.Name }
func (o *Odd) GetNamespace() string            { return o.Metadata.Namespace }

// A type that decodes itself cannot be led to another name than that of the request.
func TestNamesInAnyCase(t *testing.T) {
	k := things(t)
	k.Type = typeOf[*Odd](t)
	m := newMemory(k)
	for body, want := range map[string]string{
		`{"metadata":{"name":"a"},"size":1}`:                                       "201",
		`{"metadata":{"name":"b"},"Metadata":{"namespace":"other"},"size":1}`:      "400",
		`{"metadata":{"name":"c","namespace":"ns"},"metaData":{"name":"d"}}`:       "400",
		`{"metadata":{"name":"e"},"Metadata":{"name":"e","namespace":"ns"}}`:       "201",
		`{"metadata":{"name":"f"},"\u004detadata":{"name":"f","namespace":"ns2"}}`: "400",
	} {
		out, _, err := do(m, Request{Verb: Create, Body: []byte(body)})
		if got := said(k, out, err); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	for key, o := range m.objects {
		if v := o.Value.(*Odd); v.GetName() != key.Name || v.GetNamespace() != key.Namespace {
			t.Errorf("%s has %+v", key, v)
		}
	}
}

// The functions of the user fill in, refuse, and are not trusted not to panic.
func TestFunctions(t *testing.T) {
	k := things(t)
	k.Default = func(o *Object) error {
		f := o.Value.(*Full)
		if f.Size == 0 {
			f.Size = 5
		}
		if f.Size == 66 {
			panic("default")
		}
		f.Name, f.Namespace = "elsewhere", "other" // is not heard
		return nil
	}
	var seen []string
	k.Validate = func(_ context.Context, o, old *Object) error {
		show := func(o *Object) any {
			if o == nil {
				return nil
			}
			return o.Value.(*Full).Size
		}
		seen = append(seen, fmt.Sprint(show(old), " ", show(o)))
		switch {
		case o == nil && old.Value.(*Full).Size == 7:
			return apierrors.NewForbidden(schema.GroupResource{}, "a", errors.New("it is a seven"))
		case o == nil:
			return nil
		case o.Value.(*Full).Size == 13:
			return field.Invalid(field.NewPath("size"), 13, "unlucky")
		case o.Value.(*Full).Size == 14:
			return field.ErrorList{field.Required(field.NewPath("a"), ""), field.Required(field.NewPath("b"), "")}.ToAggregate()
		case o.Value.(*Full).Size == 15:
			return errors.New("plainly wrong")
		case o.Value.(*Full).Size == 16:
			var none *Full
			none.Size++
		}
		return nil
	}
	m := newMemory(k)
	merge := func(body string) Request {
		return Request{Verb: Patch, Key: named("a"), ContentType: string(types.MergePatchType), Body: []byte(body)}
	}
	for _, c := range []struct {
		req        Request
		want, seen string
	}{
		{Request{Verb: Create, Body: []byte(`{"metadata":{"name":"a"}}`)}, `201 {"size":5}`, "<nil> 5"},
		{Request{Verb: Create, Body: []byte(`{"metadata":{"name":"b"},"size":13}`)}, `422 Thing.example.io "b" is invalid: size: Invalid value: 13: unlucky`, "<nil> 13"},
		{merge(`{"size":14}`), `422 Thing.example.io "a" is invalid: [a: Required value, b: Required value]`, "5 14"},
		{merge(`{"size":15}`), `422 plainly wrong`, "5 15"},
		{merge(`{"size":16}`), `500 Internal error occurred: panic: runtime error: invalid memory address or nil pointer dereference`, "5 16"},
		{merge(`{"size":66}`), `500 Internal error occurred: panic: default`, ""},
		{merge(`{"size":null}`), `200 {"size":5}`, "5 5"},
		{merge(`{"size":7}`), `200 {"size":7}`, "5 7"},
		{Request{Verb: Delete, Key: named("a")}, `403 forbidden: it is a seven`, "7 <nil>"},
	} {
		seen = nil
		out, _, err := do(m, c.req)
		if got := said(k, out, err); !strings.Contains(got, strings.TrimPrefix(c.want, "403 ")) {
			t.Errorf("%s %s: %s, want %s", c.req.Verb, c.req.Body, got, c.want)
		}
		if got := strings.Join(seen, ", "); got != c.seen {
			t.Errorf("%s %s: validated %q, want %q", c.req.Verb, c.req.Body, got, c.seen)
		}
	}
	if len(m.objects) != 1 || m.objects[named("a")] == nil {
		t.Errorf("stored: %v", m.objects)
	}
}

// Objects are stored in one version and served in another.
func TestVersions(t *testing.T) {
	stored := things(t)
	served := &Kind{Group: "example.io", Version: "v2", Plural: "things", Kind: "Thing"}
	rename := func(from, to string, k *Kind) func(*Object) (*Object, error) {
		return func(o *Object) (*Object, error) {
			out := *o
			out.Body = []byte(strings.ReplaceAll(string(o.Body), from, to))
			if k.Type == nil {
				out.Value = nil
				return &out, nil
			}
			return k.Parse(k.AppendJSON(nil, &out))
		}
	}
	served.FromStored, served.ToStored = rename(`"size"`, `"length"`, served), rename(`"length"`, `"size"`, stored)
	m := newMemory(served)
	for _, c := range []struct {
		req           Request
		want, content string
	}{
		{Request{Verb: Create, Body: []byte(`{"apiVersion":"example.io/v2","metadata":{"name":"a"},"length":3}`)}, `201 {"length":3}`, `{"size":3}`},
		{Request{Verb: Patch, Key: named("a"), ContentType: string(types.JSONPatchType), Body: []byte(`[{"op":"test","path":"/length","value":3},{"op":"replace","path":"/length","value":4}]`)}, `200 {"length":4}`, `{"size":4}`},
		{Request{Verb: Update, Key: named("a"), Body: []byte(`{"metadata":{"name":"a"},"length":4}`)}, `200 {"length":4}`, `{"size":4}`},
		{Request{Verb: Delete, Key: named("a"), Query: url.Values{"orphanDependents": {"true"}}}, `200 {"length":4}`, `{"size":4}`},
	} {
		out, _, err := do(m, c.req)
		if got := said(served, out, err); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.req.Verb, c.req.Body, got, c.want)
		}
		if got := string(m.objects[named("a")].Body); got != c.content {
			t.Errorf("%s %s: stored %s, want %s", c.req.Verb, c.req.Body, got, c.content)
		}
	}
}

// A write that meets another one is decided again, about what is there then.
func TestRaces(t *testing.T) {
	k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing"}
	merge, apply := string(types.MergePatchType), string(types.ApplyYAMLPatchType)
	other := func(m *memory, body string) {
		if _, _, err := do(m, Request{Verb: Patch, Key: named("a"), ContentType: merge, Body: []byte(body)}); err != nil {
			t.Error(err)
		}
	}
	remove := func(m *memory) {
		if _, _, err := do(m, Request{Verb: Delete, Key: named("a")}); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		req  Request
		race func(m *memory)
		want string
	}{
		"patch":              {Request{Verb: Patch, ContentType: merge, Body: []byte(`{"x":2}`)}, func(m *memory) { other(m, `{"y":1}`) }, `200 {"x":2,"y":1}`},
		"patch of a version": {Request{Verb: Patch, ContentType: merge, Body: []byte(`{"metadata":{"resourceVersion":"1"},"x":2}`)}, func(m *memory) { other(m, `{"y":1}`) }, `409 `},
		"patch of what goes": {Request{Verb: Patch, ContentType: merge, Body: []byte(`{"x":2}`)}, remove, `404 `},
		"apply of what goes": {Request{Verb: Patch, ContentType: apply, Query: url.Values{"fieldManager": {"m"}}, Body: []byte(`{apiVersion: example.io/v1, kind: Thing, metadata: {name: a}, x: 3}`)}, remove, `201 {"x":3}`},
		"update":             {Request{Verb: Update, Body: []byte(`{"metadata":{"name":"a"},"x":2}`)}, func(m *memory) { other(m, `{"y":1}`) }, `200 {"x":2}`},
		"update of a version": {Request{Verb: Update, Body: []byte(`{"metadata":{"name":"a","resourceVersion":"1"},"x":2}`)}, func(m *memory) { other(m, `{"y":1}`) },
			`409 `},
		"delete":              {Request{Verb: Delete}, func(m *memory) { other(m, `{"metadata":{"finalizers":["x.io/y"]}}`) }, `200 {}`},
		"delete of a version": {Request{Verb: Delete, Body: []byte(`{"preconditions":{"resourceVersion":"1"}}`)}, func(m *memory) { other(m, `{"y":1}`) }, `409 `},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(k)
			if _, _, err := do(m, Request{Verb: Create, Body: []byte(`{"metadata":{"name":"a"}}`)}); err != nil {
				t.Fatal(err)
			}
			m.before, c.req.Key = func() { c.race(m) }, named("a")
			out, _, err := do(m, c.req)
			got := said(k, out, err)
			if strings.HasPrefix(got, "200 {\"y\"") {
				got = `200 {"x":2,"y":1}`
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	// A patch that always loses gives up; an update goes on until its context is done.
	always := &loser{memory: newMemory(k)}
	always.put(&Object{Meta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Body: []byte(`{}`)})
	for _, c := range []struct {
		req  Request
		want int
	}{
		{Request{Verb: Patch, ContentType: merge, Body: []byte(`{"x":2}`)}, 6},
		{Request{Verb: Update, Body: []byte(`{"metadata":{"name":"a"},"x":2}`)}, 50},
	} {
		always.n = 0
		c.req.Key = named("a")
		w, err := k.Prepare(c.req)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(ctx)
		always.cancel = cancel
		if _, err := w.Run(ctx, always); !apierrors.IsConflict(err) || always.n != c.want {
			t.Errorf("%s: %d attempts, %v; want %d", c.req.Verb, always.n, err, c.want)
		}
	}
}

// A loser conflicts with each write, and cancels the context of the fiftieth.
type loser struct {
	*memory
	n      int
	cancel func()
}

func (l *loser) Replace(_ context.Context, o, _ *Object) (*Object, error) {
	if l.n++; l.n == 50 {
		l.cancel()
	}
	return nil, apierrors.NewConflict(l.kind.GroupResource(), o.Meta.Name, errors.New("raced"))
}

// A generated name that is taken is replaced by another one, eight times.
func TestGeneratedNames(t *testing.T) {
	m := &full{memory: newMemory(&Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing"})}
	for _, free := range []int{1, 8, 9} {
		m.n, m.free = 0, free
		w, err := m.kind.Prepare(Request{Verb: Create, Key: types.NamespacedName{Namespace: "ns"}, Body: []byte(`{"metadata":{"generateName":"` + strings.Repeat("x", 62) + `"}}`)})
		if err != nil {
			t.Fatal(err)
		}
		out, err := w.Run(ctx, m)
		if taken := free == 9; taken != apierrors.IsAlreadyExists(err) || !taken && (err != nil || len(out.Object.Meta.Name) != 63) || m.n != min(free, 8) {
			t.Errorf("free at %d: %d attempts, %v, %v", free, m.n, out.Object, err)
		}
	}
}

type full struct {
	*memory
	n, free int
}

func (f *full) Create(ctx context.Context, o *Object) (*Object, error) {
	if f.n++; f.n < f.free {
		return nil, apierrors.NewAlreadyExists(f.kind.GroupResource(), o.Meta.Name)
	}
	return f.memory.Create(ctx, o)
}

// An object may stay for a while, which later requests make shorter and not longer.
func TestGrace(t *testing.T) {
	k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Grace: func(_ *Object, asked *int64) int64 {
		if asked == nil {
			return 30
		}
		return *asked
	}}
	m := newMemory(k)
	if _, _, err := do(m, Request{Verb: Create, Body: []byte(`{"metadata":{"name":"a"}}`)}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		seconds, want string
	}{{"", "30"}, {"60", "30"}, {"", "30"}, {"10", "10"}, {"-5", "1"}, {"0", "gone"}} {
		query := url.Values{}
		if c.seconds != "" {
			query.Set("gracePeriodSeconds", c.seconds)
		}
		out, _, err := do(m, Request{Verb: Delete, Key: named("a"), Query: query})
		if err != nil {
			t.Fatal(err)
		}
		got := "gone"
		if !out.Gone {
			got = fmt.Sprint(*m.objects[named("a")].Meta.DeletionGracePeriodSeconds)
		}
		if got != c.want {
			t.Errorf("asked for %q: %s, want %s", c.seconds, got, c.want)
		}
	}
}

// A grace period that is over is shortened to a second: somebody may still end the object.
func TestGraceIsOver(t *testing.T) {
	k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Grace: func(*Object, *int64) int64 { return -4 }}
	m := newMemory(k)
	past, thirty := metav1.NewTime(time.Now().Add(-time.Hour)), int64(30)
	m.objects[named("a")] = &Object{Meta: metav1.ObjectMeta{Name: "a", Namespace: "ns", DeletionTimestamp: &past, DeletionGracePeriodSeconds: &thirty}, Body: []byte("{}")}
	m.objects[named("b")] = &Object{Meta: metav1.ObjectMeta{Name: "b", Namespace: "ns"}, Body: []byte("{}")}
	for _, name := range []string{"a", "b"} { // of b a negative number of seconds is wanted
		if _, _, err := do(m, Request{Verb: Delete, Key: named(name), Query: url.Values{"gracePeriodSeconds": {"10"}}}); err != nil {
			t.Fatal(err)
		}
		meta := m.objects[named(name)].Meta
		if s := meta.DeletionGracePeriodSeconds; s == nil || *s != 1 || time.Since(meta.DeletionTimestamp.Time) > time.Minute {
			t.Errorf("%s: %v", name, meta)
		}
	}
}

// Who may not create does not create by an apply either.
func TestMayCreate(t *testing.T) {
	m := newMemory(&Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing"})
	req := Request{Verb: Patch, Key: named("a"), ContentType: string(types.ApplyYAMLPatchType), Query: url.Values{"fieldManager": {"m"}},
		Body: []byte(`{apiVersion: example.io/v1, kind: Thing, metadata: {name: a}}`)}
	req.MayCreate = func(context.Context) error {
		return apierrors.NewForbidden(m.kind.GroupResource(), "a", errors.New("no"))
	}
	if _, _, err := do(m, req); !apierrors.IsForbidden(err) || len(m.objects) != 0 {
		t.Errorf("%v, stored %v", err, m.objects)
	}
	req.MayCreate = nil
	if _, _, err := do(m, req); err != nil {
		t.Error(err)
	}
	req.MayCreate = func(context.Context) error { return errors.New("nobody asks") }
	if _, _, err := do(m, req); err != nil {
		t.Error(err)
	}
}

// Whatever a client sends: what is stored is under the key of the path, once, and decodes the same for
// all; a dry run stores nothing; nothing panics.
func FuzzWrites(f *testing.F) {
	for _, body := range []string{
		`{"metadata":{"name":"a"},"size":1}`, `null`, `{"metadata":null}`, `[]`, `7`, `{"metadata":{"name":"a","namespace":"other","Namespace":"ns"}}`,
		`{"meta\u0064ata":{"name":"b"}}`, `{"metadata":{"name":"a"},"metadata":{"name":"b"}}`, `{apiVersion: example.io/v1, kind: Thing, metadata: {name: a}}`,
		`[{"op":"replace","path":"/metadata/name","value":"b"}]`, `[{"op":"copy","from":"","path":"/x"}]`, `{"metadata":{"finalizers":["x.io/y"]}}`, `{"status":{"a":[1e3,{}]}}`,
		"\xa1\x68metadata\xa1\x64name\x61a", `{"spec":{"replicas":1}}`, `{"propagationPolicy":"Orphan"}`, "k8s\x00\n\x00\x12\x05\n\x03\n\x01a",
	} {
		for verb := range uint8(16) {
			f.Add(verb, uint8(len(body)), body, "fieldManager=m")
		}
	}
	verbs := []Request{
		{Verb: Create}, {Verb: Create, ContentType: "application/yaml"}, {Verb: Create, ContentType: "application/cbor"}, {Verb: Create, ContentType: "application/vnd.kubernetes.protobuf"},
		{Verb: Update, Key: named("a")}, {Verb: Update, Key: named("a"), Subresource: SubStatus}, {Verb: Update, Key: named("a"), Subresource: SubScale},
		{Verb: Patch, Key: named("a"), ContentType: string(types.JSONPatchType)}, {Verb: Patch, Key: named("a"), ContentType: string(types.MergePatchType)},
		{Verb: Patch, Key: named("a"), ContentType: string(types.StrategicMergePatchType)}, {Verb: Patch, Key: named("a"), ContentType: string(types.ApplyYAMLPatchType)},
		{Verb: Patch, Key: named("n"), ContentType: string(types.ApplyYAMLPatchType)}, {Verb: Patch, Key: named("a"), ContentType: string(types.ApplyCBORPatchType)},
		{Verb: Patch, Key: named("a"), ContentType: string(types.MergePatchType), Subresource: SubScale}, {Verb: Delete, Key: named("a")}, {Verb: Patch, Key: named("a"), ContentType: string(types.ApplyYAMLPatchType), Subresource: SubStatus},
	}
	f.Fuzz(func(t *testing.T, verb, typed uint8, body, query string) {
		k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Status: true, Managed: typed%2 == 0,
			Scale: &Scale{Replicas: ".spec.replicas", StatusReplicas: ".status.replicas", Selector: ".status.selector"}}
		switch typed % 3 {
		case 0:
			k.Type = typeOf[*Full](t)
		case 1:
			k.Type = typeOf[*metav1.PartialObjectMetadata](t)
		}
		m := newMemory(k)
		if _, _, err := do(m, Request{Verb: Create, Body: []byte(`{"metadata":{"name":"a"},"size":1,"spec":{"replicas":1}}`)}); err != nil {
			t.Fatal(err)
		}
		req := verbs[int(verb)%len(verbs)]
		req.Query, _ = url.ParseQuery(query)
		req.Body = []byte(body)
		before := m.version
		allocated := allocations()
		out, w, err := do(m, req)
		if n := allocations() - allocated; n > bound(body) {
			t.Errorf("%s %q: %d bytes are allocated", req.Verb, body, n)
		}
		if err != nil {
			var status *apierrors.StatusError
			if !errors.As(err, &status) || status.ErrStatus.Code < 400 || strings.Contains(err.Error(), "panic") {
				t.Errorf("%s %q: %v", req.Verb, body, err)
			}
		}
		if m.version != before && (err != nil || w.DryRun) {
			t.Errorf("%s %q: %v, and yet something is written", req.Verb, body, err)
		}
		if err == nil && out.Object != nil && req.Key.Name != "" && out.Object.Key() != named(req.Key.Name) {
			t.Errorf("%s %q: the answer is about %s", req.Verb, body, out.Object.Key())
		}
		for key, o := range m.objects {
			data := k.AppendJSON(nil, o)
			var meta metav1.PartialObjectMetadata
			if err := json.Unmarshal(data, &meta); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			if key.Namespace != "ns" || o.Key() != key || req.Verb != Create && key != named("a") && key != named(req.Key.Name) {
				t.Errorf("%s %q: stored under %s: %s", req.Verb, body, key, data)
			}
			again, err := k.Parse(data)
			if err != nil || again.Key() != key || string(k.AppendJSON(nil, again)) != string(data) {
				t.Errorf("%s is read as %v, %v", data, again, err)
			}
		}
	})
}

// A write of the status of a built-in resource may change annotations, an object without a status has
// an empty one where its type has, and a scale comes in protobuf, too.
func TestBuiltIn(t *testing.T) {
	type thing struct {
		Full
		Spec struct {
			Replicas int32 `json:"replicas,omitempty"`
		} `json:"spec"`
		Status struct {
			Replicas int32 `json:"replicas,omitempty"`
		} `json:"status"`
	}
	meta, err := (&metav1.ObjectMeta{Name: "a"}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	scale := "\n" + string(rune(len(meta))) + string(meta) + "\x12\x02\x08\x07"
	body := "k8s\x00\n\x00\x12" + string(rune(len(scale))) + scale
	const proto = "application/vnd.kubernetes.protobuf"
	for _, native := range []bool{false, true} {
		k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Type: typeOf[*thing](t), Status: true, Native: native,
			Scale: &Scale{Replicas: ".spec.replicas", StatusReplicas: ".status.replicas"}}
		m := newMemory(k)
		for _, c := range []struct {
			req  Request
			want string
		}{
			{Request{Verb: Create, Body: []byte(`{"metadata":{"name":"a"},"status":{"replicas":3}}`)}, `"spec":{},"status":{}`},
			{Request{Verb: Update, Key: named("a"), Subresource: SubStatus, Body: []byte(`{"metadata":{"name":"a","annotations":{"x":"y"},"labels":{"x":"y"}},"status":{"replicas":3}}`)}, `"status":{"replicas":3}`},
			{Request{Verb: Update, Key: named("a"), Subresource: SubScale, ContentType: proto, Body: []byte(body)}, `"spec":{"replicas":7}`},
			{Request{Verb: Update, Key: named("a"), Subresource: SubScale, ContentType: proto, Body: []byte(body[:len(body)-2])}, "BadRequest"},
		} {
			out, _, err := do(m, c.req)
			got := string(apierrors.ReasonForError(err))
			if err == nil {
				got = string(k.AppendJSON(nil, out.Object))
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%s: %s, %v; want %s", c.req.Body, got, err, c.want)
			}
		}
		o := m.objects[named("a")]
		if (o.Meta.Annotations != nil) != native || o.Meta.Labels != nil {
			t.Errorf("native: %t; annotations %v, labels %v", native, o.Meta.Annotations, o.Meta.Labels)
		}
	}
}
