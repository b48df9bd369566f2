package registry_test

import (
	"context"
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
		"patch":               {Request{Verb: Patch, ContentType: merge, Body: []byte(`{"x":2}`)}, putY, `200 {"x":2,"y":1}`},
		"patch of a version":  {Request{Verb: Patch, ContentType: merge, Body: []byte(`{"metadata":{"resourceVersion":"1"},"x":2}`)}, putY, `409 `},
		"patch of what goes":  {Request{Verb: Patch, ContentType: merge, Body: []byte(`{"x":2}`)}, remove, `404 `},
		"apply of what goes":  {Request{Verb: Patch, ContentType: apply, Query: url.Values{"fieldManager": {"m"}}, Body: []byte(`{apiVersion: example.io/v1, kind: Thing, metadata: {name: a}, x: 3}`)}, remove, `201 {"x":3}`},
		"update":              {Request{Verb: Update, Body: []byte(`{"metadata":{"name":"a"},"x":2}`)}, putY, `200 {"x":2}`},
		"update of a version": {Request{Verb: Update, Body: []byte(`{"metadata":{"name":"a","resourceVersion":"1"},"x":2}`)}, putY, `409 `},
		"delete":              {Request{Verb: Delete}, func(m *memory) { other(m, `{"metadata":{"finalizers":["x.io/y"]}}`) }, `200 {}`},
		"delete of a version": {Request{Verb: Delete, Body: []byte(`{"preconditions":{"resourceVersion":"1"}}`)}, putY, `409 `},
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
		w := rig.Must[*Write](t)(m.kind.Prepare(Request{Verb: Create, Key: types.NamespacedName{Namespace: "ns"}, Body: []byte(body)}))
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
