package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	. "github.com/go-lw/lw/internal/registry"
)

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
	must(t, m, req)
	req.MayCreate = func(context.Context) error { return errors.New("nobody asks") }
	must(t, m, req)
}
