package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"

	. "github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/verify/conform"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A typed object is what its type keeps, and its value is what the pieces say.
func TestTypes(t *testing.T) {
	bare, full := things(t), things(t)
	bare.Type, full.Status = typeOf[*Bare](t), true
	m := newMemory(bare)
	body := `{"metadata":{"name":"a","labels":{"l":"1"},"uid":"forged"},"size":3,"odd":1}`
	out, w, err := do(m, Request{Verb: Create, Body: []byte(body)})
	rig.OK(t, err)
	rig.Same(t, "warnings", []string{`unknown field "metadata.labels"`, `unknown field "odd"`}, w.Warnings)
	if b := out.Object.Value.(*Bare); b.Size != 3 || b.Metadata.Name != "a" || b.Metadata.Namespace != "ns" ||
		b.Metadata.UID == "forged" {
		t.Errorf("the value is %+v", b)
	}
	_, _, err = do(m, Request{Verb: Create, Query: url.Values{"fieldValidation": {"Strict"}},
		Body: []byte(`{"metadata":{"name":"b","creationTimestamp":null,"generation":1},"Size":3}`)})
	if err == nil || !strings.Contains(err.Error(), `strict decoding error: unknown field "Size"`) {
		t.Errorf("strict: %v", err)
	}
	if _, _, err := do(m, Request{Verb: Delete, Key: named("a"),
		Query: url.Values{"propagationPolicy": {"Foreground"}}}); err == nil || !strings.Contains(err.Error(),
		"keeps no deletionTimestamp") {
		t.Errorf("a mark that is not kept: %v", err)
	}

	m = newMemory(full)
	if out, _, err = do(m, Request{Verb: Create,
		Body: []byte(`{"metadata":{"name":"a"},"size":1,"status":"up"}`)}); err != nil ||
		out.Object.Value.(*Full).Status != "" {
		t.Errorf("created: %+v, %v", out.Object, err)
	}
	out = must(t, m, Request{Verb: Patch, Subresource: SubStatus, Key: named("a"),
		ContentType: string(types.MergePatchType), Body: []byte(`{"size":9,"status":"up"}`)})
	if f := out.Object.Value.(*Full); f.Status != "up" || f.Size != 1 || f.Kind != "" || f.Name != "a" {
		t.Errorf("status: %+v", f)
	}
	out = must(t, m, Request{Verb: Update, Key: named("a"),
		Body: []byte(`{"metadata":{"name":"a"},"tags":["x"],"status":"down"}`)})
	if f := out.Object.Value.(*Full); f.Status != "up" || f.Size != 0 || f.Generation != 2 ||
		!reflect.DeepEqual(f.Tags, []string{"x"}) {
		t.Errorf("updated: %+v", f)
	}
	before := out.Object
	// An update that says the same in other words changes nothing.
	if out, _, err = do(m, Request{Verb: Update, Key: named("a"),
		Body: []byte(`{"tags":["x"],"size":0,"metadata":{"labels":{},"name":"a"}}`)}); err != nil || out.Object != before {
		t.Errorf("nothing: %+v, %v", out.Object, err)
	}
}

// An Odd object reads its names in any case, as encoding/json does.
type Odd struct{ Bare }

func (o *Odd) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &o.Bare) }

func (o *Odd) GetName() string { return o.Metadata.Name }

func (o *Odd) GetNamespace() string { return o.Metadata.Namespace }

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

// The functions never see an object under another name than that of the request.
func TestFunctionsOfNamesInAnyCase(t *testing.T) {
	for _, of := range []string{"Default", "Mutate"} {
		k, seen := things(t), []string(nil)
		k.Type = typeOf[*Odd](t)
		see := func(o *Object) { seen = append(seen, o.Value.(*Odd).GetName()) }
		if of == "Default" {
			k.Default = func(o *Object) error { see(o); return nil }
		} else {
			k.Mutate = func(_ context.Context, a *Admission) error { see(a.Object); return nil }
		}
		m := newMemory(k)
		out, _, err := do(m,
			Request{Verb: Create, Body: []byte(`{"metadata":{"name":"c","namespace":"ns"},"metaData":{"name":"d"}}`)})
		if got := said(k, out, err); !strings.HasPrefix(got, "400") || len(seen) > 0 {
			t.Errorf("%s: %s, and it saw %q", of, got, seen)
		}
		mustCreate(t, m, `{"metadata":{"name":"e"}}`)
		rig.Same(t, of, []string{"e"}, seen)
	}
}

// What a schema does not have is lost, and each form of a write says so where the client asks.
func TestUnknownFields(t *testing.T) {
	k := things(t)
	k.Type = nil
	rig.OK(t, k.SetSchema([]byte(`{"type":"object","properties":{"spec":{"type":"object"}}}`)))
	body := []byte(`{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"x":1}}`)
	for _, req := range []Request{
		{Verb: Create, Body: body},
		{Verb: Update, Key: named("a"), Body: body},
		{Verb: Patch, Key: named("a"), ContentType: string(types.MergePatchType), Body: body},
		{Verb: Patch, Key: named("a"), ContentType: string(types.ApplyYAMLPatchType), Body: body},
	} {
		for validation, want := range map[string][]string{"Ignore": nil, "Warn": {`unknown field "spec.x"`}, "Strict": nil} {
			m := newMemory(k)
			if req.Verb != Create {
				mustCreate(t, m, `{"metadata":{"name":"a"}}`)
			}
			req.Query = url.Values{"fieldManager": {"m"}, "fieldValidation": {validation}}
			what := fmt.Sprintf("%s %s %s", req.Verb, req.ContentType, validation)
			out, w, err := do(m, req)
			if got := said(k, out, err); strings.HasPrefix(got, "4") != (validation == "Strict") || err == nil &&
				strings.Contains(got, "x") {
				t.Errorf("%s: %s", what, got)
			}
			if w != nil { // else it is refused as it comes
				rig.Same(t, what, want, w.Warnings)
			}
		}
	}
}

// A write of the status of a built-in resource may change annotations, an object without a status
// has an empty one where its type has, and a scale comes in protobuf, too.
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
	meta := rig.Must[[]byte](t)((&metav1.ObjectMeta{Name: "a"}).Marshal())
	scale := "\n" + string(rune(len(meta))) + string(meta) + "\x12\x02\x08\x07"
	body := "k8s\x00\n\x00\x12" + string(rune(len(scale))) + scale
	const proto = "application/vnd.kubernetes.protobuf"
	for _, native := range []bool{false, true} {
		k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Type: typeOf[*thing](t), Status: true,
			Native: native,
			Scale:  &Scale{Replicas: ".spec.replicas", StatusReplicas: ".status.replicas"}}
		m := newMemory(k)
		for _, c := range []struct {
			req  Request
			want string
		}{
			{Request{Verb: Create, Body: []byte(`{"metadata":{"name":"a"},"status":{"replicas":3}}`)}, `"spec":{},"status":{}`},
			{Request{Verb: Update, Key: named("a"), Subresource: SubStatus,
				Body: []byte(`{"metadata":{"name":"a","annotations":{"x":"y"},"labels":{"x":"y"}},"status":{"replicas":3}}`)},
				`"status":{"replicas":3}`},
			{Request{Verb: Update, Key: named("a"), Subresource: SubScale, ContentType: proto, Body: []byte(body)},
				`"spec":{"replicas":7}`},
			{Request{Verb: Update, Key: named("a"), Subresource: SubScale, ContentType: proto, Body: []byte(body[:len(body)-2])},
				"BadRequest"},
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
		if (o.Meta.Annotations != nil) != native || (o.Meta.Labels != nil) != native {
			t.Errorf("native: %t; annotations %v, labels %v", native, o.Meta.Annotations, o.Meta.Labels)
		}
	}
}

// A body in protobuf says which kind it is of, or nothing, and an apply may come in CBOR.
func TestBinaryBodies(t *testing.T) {
	k := &Kind{Version: "v1", Plural: "pods", Kind: "Pod", Type: typeOf[*conform.Pod](t)}
	for of, want := range map[runtime.TypeMeta]string{
		{}: "201", {APIVersion: "v1", Kind: "Pod"}: "201", {APIVersion: "v1", Kind: "Node"}: "400",
		{APIVersion: "v2", Kind: "Pod"}: "400",
	} {
		body := rig.Must[[]byte](t)((&runtime.Unknown{TypeMeta: of, Raw: []byte(`{"metadata":{"name":"a"}}`)}).Marshal())
		out, _, err := do(newMemory(k), Request{Verb: Create, ContentType: runtime.ContentTypeProtobuf,
			Body: append([]byte("k8s\x00"), body...)})
		if got := said(k, out, err); !strings.HasPrefix(got, want) {
			t.Errorf("%v: %s, want %s", of, got, want)
		}
	}
	body := rig.Must[[]byte](t)(cbor.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"nodeName": "n"},
	}))
	out := must(t, newMemory(k), Request{Verb: Patch, Key: named("a"), ContentType: string(types.ApplyCBORPatchType),
		Query: url.Values{"fieldManager": {"m"}}, Body: body})
	if got := said(k, out, nil); !strings.Contains(got, `"nodeName":"n"`) {
		t.Error(got)
	}
}
