package registry_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	. "github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/rig"
)

// Whatever a client sends: what is stored is under the key of the path, once, and decodes the same
// for all; a dry run stores nothing; nothing panics.
func FuzzWrites(f *testing.F) {
	for _, body := range []string{
		`{"metadata":{"name":"a"},"size":1}`, `null`, `{"metadata":null}`, `[]`, `7`, `{"metadata":{"name":"a","namespace":"other","Namespace":"ns"}}`,
		`{"meta\u0064ata":{"name":"b"}}`, `{"metadata":{"name":"a"},"metadata":{"name":"b"}}`, `{apiVersion: example.io/v1, kind: Thing, metadata: {name: a}}`,
		`[{"op":"replace","path":"/metadata/name","value":"b"}]`, `[{"op":"copy","from":"","path":"/x"}]`, `{"metadata":{"finalizers":["x.io/y"]}}`, `{"status":{"a":[1e3,{}]}}`,
		"\xa1\x68metadata\xa1\x64name\x61a", `{"spec":{"replicas":1}}`, `{"propagationPolicy":"Orphan"}`, "k8s\x00\n\x00\x12\x05\n\x03\n\x01a",
		`[{"op":"add","path":"/x","value":{"a":1,  "a":2}}]`,
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
		mustCreate(t, m, `{"metadata":{"name":"a"},"size":1,"spec":{"replicas":1}}`)
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
			rig.OK(t, json.Unmarshal(data, &meta))
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
