package registry_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	. "github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A Row is long where little is said of it.
type Row struct {
	Name, Description, Owner, Address string
	Sizes, Colors                     []string
}

// A Sheet has Rows.
type Sheet struct {
	Full
	Rows []Row `json:"rows,omitempty"`
}

// A short request makes no object that is longer than a body may be, and what it would be is not
// built before that is known.
func TestGrowth(t *testing.T) {
	const head = "kind: Thing\napiVersion: example.io/v1\nmetadata: {name: a}\n"
	text := strings.Repeat("x", 30_000)
	long := "big: &b " + text + "\nl:\n" + strings.Repeat("- *b\n", 400)
	escaped := "big: &b \"" + strings.Repeat(`\t`, 15_000) + "\"\nl:\n" + strings.Repeat("- *b\n", 400)
	nested := "a0: &a0 " + text + "\n"
	for i := range 3 {
		nested += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 8), i)
	}
	merged := "big: &b {" + text[:200] + ": " + text + "}\nl:\n" + strings.Repeat("- {<<: *b, y: 1}\n", 400)
	names := "big: &b " + text + "\nl:\n" + strings.Repeat("- {*b : 1}\n", 400)
	owners := head[:len(head)-2] + ", ownerReferences: [{apiVersion: v1, kind: &b " + text + ", name: n, uid: u}" +
		strings.Repeat(", {apiVersion: v1, kind: *b, name: n, uid: w}", 400) + "]}\n"
	nulls := rig.Must[[]byte](t)(cbor.Marshal(map[string]any{
		"kind": "Thing", "apiVersion": "example.io/v1", "metadata": map[string]any{"name": "a"}, "l": make([]any, 900_000),
	}))
	var copies []string
	for range 200 {
		copies = append(copies, `{"op":"copy","from":"/big","path":"/l/-"}`)
	}
	doubled := `{"op":"copy","from":"/l","path":"/l/-"}`
	rows := strings.Repeat(`{},`, 100_000) + `{}`
	free, sheets := things(t), things(t)
	free.Type, sheets.Type = nil, typeOf[*Sheet](t)
	const yaml, applyYAML, jsonPatch = "application/yaml", "application/apply-patch+yaml", "application/json-patch+json"
	for _, c := range []struct {
		what        string
		kind        *Kind
		verb        Verb
		contentType string
		body        string
	}{
		{"aliases", free, Create, yaml, head + long},
		{"aliases of escapes", free, Create, yaml, head + escaped},
		{"aliases of aliases", free, Create, yaml, head + nested},
		{"merged maps", free, Create, yaml, head + merged},
		{"names", free, Create, yaml, head + names},
		{"owners", free, Create, yaml, owners},
		{"aliases in an update", free, Update, yaml, head + long},
		{"aliases in an apply", free, Patch, applyYAML, head + long},
		{"aliases of aliases in an apply", free, Patch, applyYAML, head + nested},
		{"nulls in CBOR in an apply", free, Patch, "application/apply-patch+cbor", string(nulls)},
		{"nulls in CBOR", free, Create, "application/cbor", string(nulls)},
		{"copies", free, Patch, jsonPatch, "[" + strings.Join(copies, ",") + "]"},
		{"copies of copies", free, Patch, jsonPatch, "[" + strings.Join(copies[:20], ",") + "," + strings.Repeat(doubled+",",
			30) + doubled + "]"},
		{"what the type adds", sheets, Create, "application/json", `{"metadata":{"name":"a"},"rows":[` + rows + `]}`},
		{"what the type adds to an update", sheets, Update, "application/json", `{"metadata":{"name":"a"},"rows":[` +
			rows + `]}`},
		{"what the type adds to a merge patch", sheets, Patch, "application/merge-patch+json", `{"rows":[` + rows + `]}`},
		{"what the type adds to an apply", sheets, Patch, applyYAML, head + `rows: [` + rows + `]`},
	} {
		m := newMemory(c.kind)
		req := Request{Verb: c.verb, ContentType: c.contentType, Body: []byte(c.body)}
		if c.verb != Create {
			req.Key, req.Query = named("a"), map[string][]string{"fieldManager": {"m"}}
			mustCreate(t, m, `{"metadata":{"name":"a"},"big":"`+text+`","l":[]}`)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, _, err := do(m, req)
		runtime.ReadMemStats(&after)
		if got := said(c.kind, out, err); !strings.HasPrefix(got, "413 ") {
			t.Errorf("%s: %.200s", c.what, got)
		}
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 250 {
			t.Errorf("%s: a body of %d KiB takes %d MiB", c.what, len(req.Body)>>10, mib)
		}
	}
	m := newMemory(free)
	short := must(t, m, Request{Verb: Create, ContentType: yaml,
		Body: []byte(head + "a: &a {x: 1}\nb: *a\nc: [*a, {<<: *a, z: 2}]\nd: 'R+D * 2'\n")})
	rig.Same(t, "aliases that are short", `{"a":{"x":1},"b":{"x":1},"c":[{"x":1},{"x":1,"z":2}],"d":"R+D * 2"}`,
		string(short.Object.Body))
}
