package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	. "github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/verify/rig"
)

// Whatever a client sends: what is stored is under the key of the path, once, and decodes the same
// for all; a dry run stores nothing; nothing panics.
func FuzzWrites(f *testing.F) {
	for _, body := range []string{
		`{"metadata":{"name":"a"},"size":1}`, `null`, `{"metadata":null}`, `[]`, `7`,
		`{"metadata":{"name":"a","namespace":"other","Namespace":"ns"}}`,
		`{"meta\u0064ata":{"name":"b"}}`, `{"metadata":{"name":"a"},"metadata":{"name":"b"}}`,
		`{apiVersion: example.io/v1, kind: Thing, metadata: {name: a}}`,
		`[{"op":"replace","path":"/metadata/name","value":"b"}]`, `[{"op":"copy","from":"","path":"/x"}]`,
		`{"metadata":{"finalizers":["x.io/y"]}}`, `{"status":{"a":[1e3,{}]}}`,
		"\xa1\x68metadata\xa1\x64name\x61a", `{"spec":{"replicas":1}}`, `{"propagationPolicy":"Orphan"}`,
		"k8s\x00\n\x00\x12\x05\n\x03\n\x01a",
		`[{"op":"add","path":"/x","value":{"a":1,  "a":2}}]`,
	} {
		for verb := range uint8(16) {
			f.Add(verb, uint8(len(body)), body, "fieldManager=m")
		}
	}
	verbs := []Request{
		{Verb: Create}, {Verb: Create, ContentType: "application/yaml"}, {Verb: Create, ContentType: "application/cbor"},
		{Verb: Create, ContentType: "application/vnd.kubernetes.protobuf"},
		{Verb: Update, Key: named("a")}, {Verb: Update, Key: named("a"), Subresource: SubStatus},
		{Verb: Update, Key: named("a"), Subresource: SubScale},
		{Verb: Patch, Key: named("a"), ContentType: string(types.JSONPatchType)}, {Verb: Patch, Key: named("a"),
			ContentType: string(types.MergePatchType)},
		{Verb: Patch, Key: named("a"), ContentType: string(types.StrategicMergePatchType)}, {Verb: Patch, Key: named("a"),
			ContentType: string(types.ApplyYAMLPatchType)},
		{Verb: Patch, Key: named("n"), ContentType: string(types.ApplyYAMLPatchType)}, {Verb: Patch, Key: named("a"),
			ContentType: string(types.ApplyCBORPatchType)},
		{Verb: Patch, Key: named("a"), ContentType: string(types.MergePatchType), Subresource: SubScale},
		{Verb: Delete, Key: named("a")}, {Verb: Patch, Key: named("a"), ContentType: string(types.ApplyYAMLPatchType),
			Subresource: SubStatus},
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
	merge, apply, jsonPatch := "application/merge-patch+json", "application/apply-patch+yaml",
		"application/json-patch+json"
	for _, c := range []struct {
		name string
		req  Request
	}{
		{"deep", Request{Verb: Create, Body: []byte(head + `"spec":` + deep(3000) + "}")}},
		{"deeper", Request{Verb: Create, Body: []byte(head + `"spec":` + deep(200_000) + "}")}},
		{"deep lists", Request{Verb: Create, Body: []byte(head + `"spec":` + strings.Repeat("[", 9000) +
			strings.Repeat("]", 9000) + "}")}},
		{"deep yaml", Request{Verb: Create, ContentType: "application/yaml", Body: []byte(strings.Repeat("[", 100_000))}},
		{"deep merge", Request{Verb: Patch, ContentType: merge, Key: named("a"),
			Body: []byte(`{"spec":` + deep(3000) + "}")}},
		{"deep apply", Request{Verb: Patch, ContentType: apply, Key: named("a"),
			Body: []byte(head + `"spec":` + deep(2000) + "}")}},
		{"long apply", Request{Verb: Patch, ContentType: apply, Key: named("a"),
			Body: []byte(head + `"spec":` + list(10_000, `{"name":"n%d"}`) + "}")}},
		{"many tags", Request{Verb: Patch, ContentType: apply, Key: named("a"),
			Body: []byte(head + `"tags":` + list(5_000, `"n%d"`) + "}")}},
		{"many names", Request{Verb: Create, Body: []byte(head + `"spec":{` + strings.Trim(list(10_000, `"n%d":1`),
			"[]") + "}}")}},
		{"laughs", Request{Verb: Create, ContentType: "application/yaml", Body: []byte(laughs)}},
		{"laughing apply", Request{Verb: Patch, ContentType: apply, Key: named("a"), Body: []byte(laughs)}},
		{"copies", Request{Verb: Patch, ContentType: jsonPatch, Key: named("a"),
			Body: []byte(list(9000, `{"op":"copy","from":"","path":"/x%d"}`))}},
		{"adds", Request{Verb: Patch, ContentType: jsonPatch, Key: named("a"),
			Body: []byte(list(3000, `{"op":"add","path":"/spec/%d","value":1}`))}},
		{"far moves", Request{Verb: Patch, ContentType: jsonPatch, Key: named("a"),
			Body: []byte(list(3000, `{"op":"add","path":"/spec/0","value":%d}`))}},
		{"strategic", Request{Verb: Patch, ContentType: "application/strategic-merge-patch+json", Key: named("a"),
			Body: []byte(`{"tags":` + list(3000, `"n%d"`) + "}")}},
		{"cbor", Request{Verb: Create, ContentType: "application/cbor", Body: []byte(strings.Repeat("\x81", 100_000))}},
		{"long cbor", Request{Verb: Create, ContentType: "application/cbor",
			Body: []byte("\x9b\x00\x00\x00\x00\xff\xff\xff\xff")}},
		{"protobuf", Request{Verb: Update, Key: named("a"), Subresource: SubScale,
			ContentType: "application/vnd.kubernetes.protobuf", Body: []byte("k8s\x00\x12\xff\xff\xff\xff\x07")}},
	} {
		for _, of := range []string{"anything", "a type", "a schema"} {
			k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Managed: true,
				Scale: &Scale{Replicas: ".size", StatusReplicas: ".size"}}
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

// A strategic merge patch that cannot be applied is refused as kube-apiserver refuses it.
func TestStrategicPatchRefused(t *testing.T) {
	k := things(t)
	m := newMemory(k)
	mustCreate(t, m, `{"metadata":{"name":"a"}}`)
	for patch, want := range map[string]string{
		`{"$retainKeys":["tags"],"size":1}`: `400 invalid patch format of retainKeys`,
		`{"$retainKeys":"tags"}`:            `400 invalid patch format of retainKeys`,
		`[1]`:                               `400 error decoding patch`,
	} {
		out, _, err := do(m, Request{Verb: Patch, Key: named("a"), ContentType: string(types.StrategicMergePatchType), Body: []byte(patch)})
		if got := said(k, out, err); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", patch, got, want)
		}
	}
}

// A write that meets another one is decided again, about what is there then.
func TestRaces(t *testing.T) {
	k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing"}
	merge, apply := string(types.MergePatchType), string(types.ApplyYAMLPatchType)
	other := func(m *memory, body string) {
		must(t, m, Request{Verb: Patch, Key: named("a"), ContentType: merge, Body: []byte(body)})
	}
	putY := func(m *memory) { other(m, `{"y":1}`) }
	remove := func(m *memory) { must(t, m, Request{Verb: Delete, Key: named("a")}) }
	for name, c := range map[string]struct {
		req  Request
		race func(m *memory)
		want string
	}{
		"patch": {Request{Verb: Patch, ContentType: merge, Body: []byte(`{"x":2}`)}, putY, `200 {"x":2,"y":1}`},
		"patch of a version": {Request{Verb: Patch, ContentType: merge,
			Body: []byte(`{"metadata":{"resourceVersion":"1"},"x":2}`)}, putY, `409 `},
		"patch of what goes": {Request{Verb: Patch, ContentType: merge, Body: []byte(`{"x":2}`)}, remove, `404 `},
		"apply of what goes": {Request{Verb: Patch, ContentType: apply, Query: url.Values{"fieldManager": {"m"}},
			Body: []byte(`{apiVersion: example.io/v1, kind: Thing, metadata: {name: a}, x: 3}`)}, remove, `201 {"x":3}`},
		"update": {Request{Verb: Update, Body: []byte(`{"metadata":{"name":"a"},"x":2}`)}, putY, `200 {"x":2}`},
		"update of a version": {Request{Verb: Update, Body: []byte(`{"metadata":{"name":"a","resourceVersion":"1"},"x":2}`)},
			putY, `409 `},
		"delete": {Request{Verb: Delete}, func(m *memory) { other(m, `{"metadata":{"finalizers":["x.io/y"]}}`) },
			`200 {}`},
		"delete of a version": {Request{Verb: Delete, Body: []byte(`{"preconditions":{"resourceVersion":"1"}}`)},
			putY, `409 `},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(k)
			mustCreate(t, m, `{"metadata":{"name":"a"}}`)
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
		w := rig.Must[*Write](t)(k.Prepare(c.req))
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
		body := `{"metadata":{"generateName":"` + strings.Repeat("x", 62) + `"}}`
		req := Request{Verb: Create, Key: types.NamespacedName{Namespace: "ns"}, Body: []byte(body)}
		w := rig.Must[*Write](t)(m.kind.Prepare(req))
		out, err := w.Run(ctx, m)
		if taken := free == 9; taken != apierrors.IsAlreadyExists(err) || !taken &&
			(err != nil || len(out.Object.Meta.Name) != 63) || m.n != min(free, 8) {
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

// BenchmarkWrites is the engine's share of a write of an object of 2 KiB.
func BenchmarkWrites(b *testing.B) {
	content := func(name string, n int) string {
		var lines strings.Builder
		for i := range 20 {
			fmt.Fprintf(&lines,
				`{"name":"container-%d","image":"registry.example.io/team/app-%d:v%d","args":["--port","80%d"]},`, i, i, n, i)
		}
		return fmt.Sprintf(`{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":%q,"labels":{"app":"x","tier":"y"},"annotations":{"note":"some text"}},"size":%d,"tags":["a","b"],"items":[%s]}`,
			name, n, strings.TrimSuffix(lines.String(), ","))
	}
	two := [2]string{content("a", 1), content("a", 2)}
	type item struct {
		Name  string   `json:"name"`
		Image string   `json:"image"`
		Args  []string `json:"args"`
	}
	type thing struct {
		Full
		Items []item `json:"items"`
	}
	for kindName, typ := range map[string]*Type{"JSON": nil, "typed": typeOf[*thing](b)} {
		k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Type: typ}
		merge, apply := string(types.MergePatchType), string(types.ApplyYAMLPatchType)
		for _, w := range []struct {
			name string
			req  func(i int) Request
		}{
			{"create", func(i int) Request { return Request{Verb: Create, Body: []byte(content(fmt.Sprint("n", i), 1))} }},
			{"update", func(i int) Request { return Request{Verb: Update, Key: named("a"), Body: []byte(two[i%2])} }},
			{"merge patch", func(i int) Request {
				return Request{Verb: Patch, Key: named("a"), ContentType: merge, Body: fmt.Appendf(nil, `{"size":%d}`, i)}
			}},
			{"apply", func(i int) Request {
				return Request{Verb: Patch, Key: named("a"), ContentType: apply, Body: []byte(two[i%2]),
					Query: url.Values{"fieldManager": {"one"}, "force": {"true"}}}
			}},
			{"apply of two", func(i int) Request {
				return Request{Verb: Patch, Key: named("a"), ContentType: apply, Body: []byte(two[i/2%2]),
					Query: url.Values{"fieldManager": {[]string{"one", "two"}[i%2]}, "force": {"true"}}}
			}},
		} {
			b.Run(kindName+"/"+w.name, func(b *testing.B) {
				m := newMemory(k)
				mustCreate(b, m, two[0])
				b.ReportAllocs()
				b.SetBytes(int64(len(two[0])))
				for i := 0; b.Loop(); i++ {
					must(b, m, w.req(i+1))
				}
			})
		}
	}
}
