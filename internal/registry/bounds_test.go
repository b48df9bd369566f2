package registry_test

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"

	. "github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/rig"
)

// bound is how much the engine may allocate for a body, most of it one after the other.
func bound(body string) uint64 { return 8<<20 + 1000*uint64(len(body)) }

// allocations returns how many bytes were allocated so far.
func allocations() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// Whatever a body has, the engine allocates no more than so many times its size.
func TestBounds(t *testing.T) {
	const head = `{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":"a"},`
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	list := func(n int, item string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, item+",", i)
		}
		return "[" + strings.TrimSuffix(b.String(), ",") + "]"
	}
	laughs := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	merge, apply, jsonPatch := "application/merge-patch+json", "application/apply-patch+yaml", "application/json-patch+json"
	for _, c := range []struct {
		name string
		req  Request
	}{
		{"deep", Request{Verb: Create, Body: []byte(head + `"spec":` + deep(3000) + "}")}},
		{"deeper", Request{Verb: Create, Body: []byte(head + `"spec":` + deep(200_000) + "}")}},
		{"deep lists", Request{Verb: Create, Body: []byte(head + `"spec":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}")}},
		{"deep yaml", Request{Verb: Create, ContentType: "application/yaml", Body: []byte(strings.Repeat("[", 100_000))}},
		{"deep merge", Request{Verb: Patch, ContentType: merge, Key: named("a"), Body: []byte(`{"spec":` + deep(3000) + "}")}},
		{"deep apply", Request{Verb: Patch, ContentType: apply, Key: named("a"), Body: []byte(head + `"spec":` + deep(2000) + "}")}},
		{"long apply", Request{Verb: Patch, ContentType: apply, Key: named("a"), Body: []byte(head + `"spec":` + list(10_000, `{"name":"n%d"}`) + "}")}},
		{"many tags", Request{Verb: Patch, ContentType: apply, Key: named("a"), Body: []byte(head + `"tags":` + list(5_000, `"n%d"`) + "}")}},
		{"many names", Request{Verb: Create, Body: []byte(head + `"spec":{` + strings.Trim(list(10_000, `"n%d":1`), "[]") + "}}")}},
		{"laughs", Request{Verb: Create, ContentType: "application/yaml", Body: []byte(laughs)}},
		{"laughing apply", Request{Verb: Patch, ContentType: apply, Key: named("a"), Body: []byte(laughs)}},
		{"copies", Request{Verb: Patch, ContentType: jsonPatch, Key: named("a"), Body: []byte(list(9000, `{"op":"copy","from":"","path":"/x%d"}`))}},
		{"adds", Request{Verb: Patch, ContentType: jsonPatch, Key: named("a"), Body: []byte(list(3000, `{"op":"add","path":"/spec/%d","value":1}`))}},
		{"far moves", Request{Verb: Patch, ContentType: jsonPatch, Key: named("a"), Body: []byte(list(3000, `{"op":"add","path":"/spec/0","value":%d}`))}},
		{"strategic", Request{Verb: Patch, ContentType: "application/strategic-merge-patch+json", Key: named("a"), Body: []byte(`{"tags":` + list(3000, `"n%d"`) + "}")}},
		{"cbor", Request{Verb: Create, ContentType: "application/cbor", Body: []byte(strings.Repeat("\x81", 100_000))}},
		{"long cbor", Request{Verb: Create, ContentType: "application/cbor", Body: []byte("\x9b\x00\x00\x00\x00\xff\xff\xff\xff")}},
		{"protobuf", Request{Verb: Update, Key: named("a"), Subresource: SubScale, ContentType: "application/vnd.kubernetes.protobuf", Body: []byte("k8s\x00\x12\xff\xff\xff\xff\x07")}},
	} {
		for _, of := range []string{"anything", "a type", "a schema"} {
			k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Managed: true, Scale: &Scale{Replicas: ".size", StatusReplicas: ".size"}}
			switch of {
			case "a type":
				k.Type = typeOf[*Full](t)
			case "a schema":
				rig.OK(t, k.SetSchema([]byte(`{"type":"object","properties":{"spec":{},"size":{}}}`)))
			}
			m := newMemory(k)
			mustCreate(t, m, head+`"size":1,"spec":[]}`)
			c.req.Query = url.Values{"fieldManager": {"m"}}
			if c.req.ContentType == apply {
				c.req.Query.Set("force", "true")
			} else if c.req.Verb == Create {
				c.req.Body = []byte(strings.Replace(string(c.req.Body), `"name":"a"`, `"name":"b"`, 1))
			}
			before := allocations()
			_, _, err := do(m, c.req)
			if n := allocations() - before; n > bound(string(c.req.Body)) {
				t.Errorf("%s of %s: %d bytes were allocated for a body of %d: %.100v", c.name, of, n, len(c.req.Body), err)
			}
		}
	}
}
