package registry_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/verify/rig"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The functions of the user fill in, refuse, and are not trusted not to panic.
func TestFunctions(t *testing.T) {
	k := things(t)
	k.Default = func(o *Object) error {
		f := o.Value.(*Full)
		f.Size = cmp.Or(f.Size, 5)
		if f.Size == 66 {
			panic("default")
		}
		f.Name, f.Namespace = "elsewhere", "other" // is not heard
		return nil
	}
	var seen []string
	k.Validate = func(_ context.Context, o, old *Object) error {
		size := func(o *Object) any {
			if o == nil {
				return nil
			}
			return o.Value.(*Full).Size
		}
		seen = append(seen, fmt.Sprint(size(old), " ", size(o)))
		switch size(o) {
		case nil:
			if size(old) == 7 {
				return apierrors.NewForbidden(schema.GroupResource{}, "a", errors.New("it is a seven"))
			}
		case 13:
			return field.Invalid(field.NewPath("size"), 13, "unlucky")
		case 14:
			return field.ErrorList{field.Required(field.NewPath("a"), ""), field.Required(field.NewPath("b"), "")}.ToAggregate()
		case 15:
			return errors.New("plainly wrong")
		case 17:
			return utilerrors.NewAggregate([]error{field.Required(field.NewPath("a"), ""), errors.New("plainly wrong")})
		case 18:
			return errors.Join(field.Required(field.NewPath("a"), ""),
				fmt.Errorf("as b: %w", field.Required(field.NewPath("b"), "")), errors.New("plainly wrong"))
		case 16:
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
		{Request{Verb: Create, Body: []byte(`{"metadata":{"name":"b"},"size":13}`)},
			`422 Thing.example.io "b" is invalid: size: Invalid value: 13: unlucky`, "<nil> 13"},
		// It is the store that refuses a version.
		{Request{Verb: Create, Body: []byte(`{"metadata":{"name":"b","resourceVersion":"1"},"size":13}`)},
			`422 Thing.example.io "b" is invalid: size: Invalid value: 13: unlucky`, "<nil> 13"},
		{Request{Verb: Create, Body: []byte(`{"metadata":{"name":"a","resourceVersion":"1"}}`)},
			`400 resourceVersion should not be set on objects to be created`, "<nil> 5"},
		{merge(`{"size":14}`), `422 Thing.example.io "a" is invalid: [a: Required value, b: Required value]`, "5 14"},
		{merge(`{"size":15}`), `422 plainly wrong`, "5 15"},
		{merge(`{"size":17}`),
			`422 Thing.example.io "a" is invalid: [a: Required value, <nil>: Internal error: plainly wrong]`, "5 17"},
		{merge(`{"size":18}`), `422 Thing.example.io "a" is invalid: [a: Required value, b: Required value, <nil>: Internal error: plainly wrong]`, "5 18"},
		{merge(`{"size":16}`),
			`500 Internal error occurred: panic: runtime error: invalid memory address or nil pointer dereference`, "5 16"},
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
		rig.Same(t, fmt.Sprintf("%s %s: validated", c.req.Verb, c.req.Body), c.seen, strings.Join(seen, ", "))
	}
	if len(m.objects) != 1 || m.objects[named("a")] == nil {
		t.Errorf("stored: %v", m.objects)
	}
}

// An empty list of managers resets them, also where functions see the object in between.
func TestFunctionsKeepAReset(t *testing.T) {
	for _, of := range []string{"", "Default", "Default of no type", "Mutate"} {
		k := things(t)
		k.Group, k.Managed = "apps", true // an empty list of a custom resource is lost before
		switch of {
		case "Default":
			k.Default = func(*Object) error { return nil }
		case "Default of no type":
			k.Type, k.Default = nil, func(*Object) error { return nil }
		case "Mutate":
			k.Type = nil // its objects are unstructured
			k.Mutate = func(_ context.Context, a *Admission) error {
				obj, err := k.Open(a.Object)
				if err == nil {
					err = k.Close(a.Object, obj, false)
				}
				return err
			}
		}
		m := newMemory(k)
		mustCreate(t, m, `{"metadata":{"name":"a"},"size":1}`)
		if m.objects[named("a")].Meta.ManagedFields == nil {
			t.Errorf("%s: nobody manages what was created", of)
		}
		must(t, m, Request{Verb: Update, Key: named("a"),
			Body: []byte(`{"metadata":{"name":"a","managedFields":[]},"size":2}`)})
		if got := m.objects[named("a")].Meta.ManagedFields; got != nil {
			t.Errorf("%s: after a reset: %v", of, got)
		}
	}
}

// An object that nobody manages gets the managers that a client sends, but by no subresource.
func TestManagersAreSent(t *testing.T) {
	const sent = `{"metadata":{"name":"a","managedFields":[{"manager":"m","operation":"Update","apiVersion":"example.io/v1",` +
		`"fieldsType":"FieldsV1","fieldsV1":{"f:size":{}}}]},"size":1}`
	m := newMemory(&Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Status: true})
	mustCreate(t, m, `{"metadata":{"name":"a"},"size":1}`)
	for _, c := range []struct {
		subresource string
		want        int
	}{{SubStatus, 0}, {"", 1}} {
		must(t, m, Request{Verb: Update, Key: named("a"), Subresource: c.subresource, Body: []byte(sent)})
		rig.Same(t, "managers by "+c.subresource, c.want, len(m.objects[named("a")].Meta.ManagedFields))
	}
}

// Who may not create does not create by an apply either.
func TestMayCreate(t *testing.T) {
	m := newMemory(&Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing"})
	req := Request{Verb: Patch, Key: named("a"), ContentType: string(types.ApplyYAMLPatchType),
		Query: url.Values{"fieldManager": {"m"}},
		Body:  []byte(`{apiVersion: example.io/v1, kind: Thing, metadata: {name: a}}`)}
	req.MayCreate = func(context.Context) error {
		return apierrors.NewForbidden(m.kind.GroupResource(), "a", errors.New("no"))
	}
	if _, _, err := do(m, req); !apierrors.IsForbidden(err) || len(m.objects) != 0 {
		t.Errorf("%v, stored %v", err, m.objects)
	}
	req.MayCreate = nil
	must(t, m, req)
	req.MayCreate = func(context.Context) error { return errors.New("nobody asks") }
	must(t, m, req)
}

// An object may stay for a while, which later requests make shorter and not longer.
func TestGrace(t *testing.T) {
	k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing",
		Grace: func(_ *Object, asked *int64) int64 {
			if asked == nil {
				return 30
			}
			return *asked
		}}
	m := newMemory(k)
	mustCreate(t, m, `{"metadata":{"name":"a"}}`)
	for _, c := range []struct {
		seconds, want string
	}{{"", "30"}, {"60", "30"}, {"", "30"}, {"10", "10"}, {"-5", "1"}, {"0", "gone"}} {
		query := url.Values{}
		if c.seconds != "" {
			query.Set("gracePeriodSeconds", c.seconds)
		}
		out := must(t, m, Request{Verb: Delete, Key: named("a"), Query: query})
		got := "gone"
		if !out.Gone {
			got = fmt.Sprint(*m.objects[named("a")].Meta.DeletionGracePeriodSeconds)
		}
		rig.Same(t, "asked for "+c.seconds, c.want, got)
	}
}

// A grace period that is over is shortened to a second: somebody may still end the object.
func TestGraceIsOver(t *testing.T) {
	k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing",
		Grace: func(*Object, *int64) int64 { return -4 }}
	m := newMemory(k)
	past, thirty := metav1.NewTime(time.Now().Add(-time.Hour)), int64(30)
	m.objects[named("a")] = &Object{Meta: metav1.ObjectMeta{Name: "a", Namespace: "ns", DeletionTimestamp: &past,
		DeletionGracePeriodSeconds: &thirty}, Body: []byte("{}")}
	m.objects[named("b")] = &Object{Meta: metav1.ObjectMeta{Name: "b", Namespace: "ns"}, Body: []byte("{}")}
	for _, name := range []string{"a", "b"} { // of b a negative number of seconds is wanted
		must(t, m, Request{Verb: Delete, Key: named(name), Query: url.Values{"gracePeriodSeconds": {"10"}}})
		meta := m.objects[named(name)].Meta
		if s := meta.DeletionGracePeriodSeconds; s == nil || *s != 1 ||
			time.Since(meta.DeletionTimestamp.Time) > time.Minute {
			t.Errorf("%s: %v", name, meta)
		}
	}
}

// An object that stays for no second is seen as one that is being deleted before it is gone, also
// if somebody else changes or removes it in between.
func TestGraceOfNone(t *testing.T) {
	for name, meanwhile := range map[string]func(m *memory){
		"alone":   func(*memory) {},
		"changed": func(m *memory) { m.put(m.objects[named("a")]) },
		"removed": func(m *memory) { delete(m.objects, named("a")) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(&Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing",
				Grace: func(*Object, *int64) int64 { return 0 }})
			mustCreate(t, m, `{"metadata":{"name":"a"}}`)
			var seen *Object
			m.before = func() { // the mark
				m.before = func() { // the removal
					seen = m.objects[named("a")]
					meanwhile(m)
				}
			}
			out, _, err := do(m, Request{Verb: Delete, Key: named("a")})
			if err != nil || !out.Gone || m.objects[named("a")] != nil {
				t.Fatalf("%+v, %v", out, err)
			}
			for _, o := range []*Object{seen, out.Object} {
				if o == nil || o.Meta.DeletionTimestamp == nil || o.Meta.DeletionGracePeriodSeconds == nil ||
					*o.Meta.DeletionGracePeriodSeconds != 0 {
					t.Errorf("%+v", o)
				}
			}
		})
	}
}
