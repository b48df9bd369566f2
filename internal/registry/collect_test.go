package registry_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	. "github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/verify/rig"
)

// owned is an object as a word: its name, its finalizer after a !, which also says that it is being
// deleted, and the UIDs of its owners after a <; one that blocks its owner has a +.
func owned(k *Kind, word string) *metav1.ObjectMeta {
	word, owners, _ := strings.Cut(word, "<")
	name, finalizer, deleting := strings.Cut(word, "!")
	m := &metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "1"}
	if k.Cluster {
		m.Namespace = ""
	}
	if deleting {
		now := metav1.Now()
		m.DeletionTimestamp, m.Finalizers = &now, []string{finalizer}
	}
	for _, owner := range strings.Fields(owners) {
		uid, block := strings.CutSuffix(owner, "+")
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "example.io/v1", Kind: "Thing",
			Name: uid, UID: types.UID(uid), BlockOwnerDeletion: &block})
	}
	return m
}

// first returns the first step that there is.
func first(c *Collector) (step Step, ok bool) {
	for _, uid := range c.Take() {
		if step, ok = c.Step(uid); ok {
			break
		}
	}
	return step, ok
}

func TestCollectSteps(t *testing.T) {
	k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing"}
	cluster := &Kind{Group: "example.io", Version: "v1", Plural: "crowns", Kind: "Crown", Cluster: true}
	for _, c := range []struct{ objects, want string }{
		{"a, b<a", ""},
		{"b<a", "delete things ns/b Background"},
		{"a, c<a b", "patch things ns/c"},
		{"a!foregroundDeletion, b<a+", "delete things ns/b Background"},
		{"a!foregroundDeletion, b<a", "patch things ns/a"},
		{"a!foregroundDeletion, b!x.io/y<a+", ""},
		{"a!foregroundDeletion, z, b<a+ z", "patch things ns/b"},
		{"a!foregroundDeletion, b<a+, c<b+", "delete things ns/b Foreground"},
		{"a!foregroundDeletion, b!foregroundDeletion<a+, c<b+", "delete things ns/c Background"},
		{"a!foregroundDeletion, b!foregroundDeletion<a+", "patch things ns/b"},
		{"a!orphan, b<a", "patch things ns/b"},
		{"a!orphan", "patch things ns/a"},
		{"a!orphan, b!x.io/y<a", "patch things ns/b"},
		{"a!orphan, b<a gone", "patch things ns/b"},
		{"a!foregroundDeletion, b<a+ a", "delete things ns/b Background"},
		{"a!x.io/y, b<a", ""},
		{"b!x.io/y<a", ""},
		{"a<a", ""},
		{"crown:b<a, a", ""}, // a namespaced object owns none of the cluster: nobody knows whether it is there
		{"crown:b, a<b", "delete things ns/a Background"},
	} {
		all := NewCollector(k, cluster)
		for _, word := range strings.Split(c.objects, ", ") {
			if name, ok := strings.CutPrefix(word, "crown:"); ok {
				all.Set(cluster, owned(cluster, name))
			} else {
				all.Set(k, owned(k, word))
			}
		}
		got := ""
		if step, ok := first(all); ok {
			got = step.String()
			if o := step.Request.Options; o != nil {
				got += " " + string(*o.PropagationPolicy)
			}
			rig.Must[*Write](t)(step.Kind.Prepare(step.Request))
		}
		rig.Same(t, c.objects, c.want, strings.ReplaceAll(got, "crowns b", "crowns /b"))
	}
	const gone = "delete things ns/b"
	for _, c := range []struct {
		want   string
		change func(ref *metav1.OwnerReference, owner *metav1.ObjectMeta)
	}{
		{"", func(*metav1.OwnerReference, *metav1.ObjectMeta) {}},
		{gone, func(_ *metav1.OwnerReference, owner *metav1.ObjectMeta) { owner.Namespace = "other" }},
		{gone, func(ref *metav1.OwnerReference, _ *metav1.ObjectMeta) { ref.Name = "c" }},
		{gone, func(ref *metav1.OwnerReference, _ *metav1.ObjectMeta) { ref.Kind = "Crown" }},
		{gone, func(ref *metav1.OwnerReference, _ *metav1.ObjectMeta) { ref.UID = "c" }},
		{"", func(ref *metav1.OwnerReference, _ *metav1.ObjectMeta) { ref.APIVersion = "example.io/v2" }},
	} {
		all, owner, b := NewCollector(k, cluster), owned(k, "a"), owned(k, "b<a")
		c.change(&b.OwnerReferences[0], owner)
		all.Set(k, b)
		all.Set(k, owner)
		got := ""
		if step, ok := first(all); ok {
			got = step.String()
			if p := step.Request.Options.Preconditions; *p.UID != "b" || *p.ResourceVersion != "1" {
				t.Errorf("the preconditions are %v", p)
			}
		}
		rig.Same(t, fmt.Sprint(b.OwnerReferences, " of ", owner.Namespace), c.want, got)
	}
	foreign := owned(k, "b<a")
	foreign.OwnerReferences[0].APIVersion = "other.io/v1"
	all := NewCollector(k)
	all.Set(k, foreign)
	if step, ok := first(all); ok {
		t.Errorf("of an owner that nobody knows: %s", step)
	}
}

// A deletion ends, whoever owns whom.
func TestCollectEnds(t *testing.T) {
	things := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing"}
	crowns := &Kind{Group: "example.io", Version: "v1", Plural: "crowns", Kind: "Crown", Cluster: true}
	for _, c := range []struct{ objects, policy, deleted, want string }{
		{"a<b+, b<a+", "Foreground", "a", ""},
		{"a<b+, b<a+", "Foreground", "a b", ""},
		{"a<b+, b<a+", "Background", "a", ""},
		{"a<b+, b<a+", "Orphan", "a", "b"},
		{"a<b, b<a+", "Foreground", "a", ""},
		{"a<c+, b<a+, c<b+", "Foreground", "a", ""},
		{"a<c+, b<a+, c<b+", "Foreground", "b c a", ""},
		{"a<a+", "Foreground", "a", ""},
		{"a<a+", "Orphan", "a", ""},
		{"a<b+, b<a+ c+, c<b+, d<c+", "Foreground", "a", "b<c+ c<b+ d<c+"}, // as two that own each other do
		{"z, a<b+, b<a+ z+", "Foreground", "a", "b<z+ z"},
		{"z, a<b+ z+, b<a+", "Foreground", "a", "z"},
		{"a<b+, b<a+, c!x.io/held<b+", "Foreground", "a", "a<b b<a+ c<b+"}, // nothing goes before what it owns
		{"crown:c<a+, a", "Foreground", "a", "c<a+"},
		{"crown:c<a+, a", "Orphan", "a", "c"},
		{"b<a+unknown, a", "Foreground", "a", "b<a+"},
		{"b<a+unknown, a", "Orphan", "a", "b"},
	} {
		what := fmt.Sprint(c.objects, ": ", c.policy, " of ", c.deleted)
		stores := map[*Kind]*memory{things: newMemory(things), crowns: newMemory(crowns)}
		for _, word := range strings.Split(c.objects, ", ") {
			k := things
			word, cluster := strings.CutPrefix(word, "crown:")
			if cluster {
				k = crowns
			}
			word, unknown := strings.CutSuffix(word, "unknown")
			m := owned(k, word)
			m.DeletionTimestamp = nil
			for i := range m.OwnerReferences {
				if unknown {
					m.OwnerReferences[i].Kind = "Unknown"
				}
			}
			stores[k].put(&Object{Meta: *m, Body: []byte("{}")})
		}
		policy := metav1.DeletionPropagation(c.policy)
		for _, name := range strings.Fields(c.deleted) {
			must(t, stores[things], Request{Verb: Delete, Key: named(name),
				Options: &metav1.DeleteOptions{PropagationPolicy: &policy}})
		}
		for n := 0; ; n++ {
			all := NewCollector(things, crowns)
			for k, m := range stores {
				for _, key := range slices.SortedFunc(maps.Keys(m.objects),
					func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) }) {
					all.Set(k, &m.objects[key].Meta)
				}
			}
			step, ok := first(all)
			if !ok {
				break
			}
			must(t, stores[step.Kind], step.Request)
			if n > 30 {
				t.Fatalf("%s: still %s", what, step)
			}
		}
		var left []string
		for _, m := range stores {
			for _, o := range m.objects {
				word := o.Meta.Name
				for i, ref := range o.Meta.OwnerReferences {
					word += map[bool]string{true: "<", false: ","}[i == 0] + ref.Name +
						map[bool]string{true: "+"}[*ref.BlockOwnerDeletion]
				}
				left = append(left, word)
			}
		}
		slices.Sort(left)
		rig.Same(t, what, c.want, strings.Join(left, " "))
	}
}

// What a step says is said once: what becomes of the object later does not change it.
func TestStepIsFixed(t *testing.T) {
	k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing"}
	for _, objects := range []string{"b<a", "a!foregroundDeletion, b<a+", "a!foregroundDeletion, b<a+, c<b+",
		"a!orphan, b<a"} {
		all := NewCollector(k)
		for _, word := range strings.Split(objects, ", ") {
			all.Set(k, owned(k, word))
		}
		step, ok := all.Step("b")
		if !ok {
			t.Fatalf("%s: no step", objects)
		}
		before := fmt.Sprintf("%s %v", step.Request.Body, step.Request.Options.String())
		now := owned(k, "b")
		now.ResourceVersion = "2"
		all.Set(k, now)
		rig.Same(t, objects, before, fmt.Sprintf("%s %v", step.Request.Body, step.Request.Options.String()))
	}
}

// The options of a deletion come in each format, and from the query if there is no body.
func TestDeleteOptions(t *testing.T) {
	foreground := metav1.DeletePropagationForeground
	message := rig.Must[[]byte](t)((&metav1.DeleteOptions{PropagationPolicy: &foreground}).Marshal())
	item := rig.Must[[]byte](t)(cbor.Marshal(map[string]any{"propagationPolicy": "Foreground"}))
	for _, c := range []struct{ query, contentType, body, want string }{
		{"propagationPolicy=Foreground", "", "", "Foreground []"},
		{"propagationPolicy=Orphan", "", `{"propagationPolicy":"Foreground"}`, "Foreground []"},
		{"dryRun=All", "application/json", `{"propagationPolicy":"Foreground"}`, "Foreground [All]"},
		{"", "application/yaml", "propagationPolicy: Foreground", "Foreground []"},
		{"", "application/cbor", string(item), "Foreground []"},
		{"", "application/vnd.kubernetes.protobuf", "k8s\x00\n\x00\x12" + string(rune(len(message))) + string(message),
			"Foreground []"},
		{"", "application/vnd.kubernetes.protobuf", string(message), "error"},
		{"", "application/json", `{"kind":"Pod"}`, "error"},
	} {
		query := rig.Must[url.Values](t)(url.ParseQuery(c.query))
		got := "error"
		if o, err := ParseDeleteOptions(query, c.contentType, []byte(c.body)); err == nil {
			got = fmt.Sprint(*o.PropagationPolicy, " ", o.DryRun)
		}
		rig.Same(t, fmt.Sprintf("%s %q", c.contentType, c.body), c.want, got)
	}
}

// The options of an Eviction come in each format, too, and its name must be the Pod's.
func TestEvictionOptions(t *testing.T) {
	options := rig.Must[[]byte](t)((&metav1.DeleteOptions{GracePeriodSeconds: new(int64(7)),
		DryRun: []string{metav1.DryRunAll}}).Marshal())
	meta := rig.Must[[]byte](t)((&metav1.ObjectMeta{Name: "a"}).Marshal())
	field := func(number rune, value []byte) string {
		return string(number<<3|2) + string(rune(len(value))) + string(value)
	}
	message := func(raw string) string {
		return "k8s\x00" + string(rig.Must[[]byte](t)((&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "policy/v1",
			Kind: "Eviction"}, Raw: []byte(raw)}).Marshal()))
	}
	content := map[string]any{"metadata": map[string]any{"name": "a"},
		"deleteOptions": map[string]any{"gracePeriodSeconds": 7, "dryRun": []any{"All"}}}
	for _, c := range []struct{ contentType, body, want string }{
		{"application/json", string(rig.Must[[]byte](t)(json.Marshal(content))), "7 [All]"},
		{"application/yaml", "metadata: {name: a}\ndeleteOptions: {gracePeriodSeconds: 7, dryRun: [All]}", "7 [All]"},
		{"application/cbor", string(rig.Must[[]byte](t)(cbor.Marshal(content))), "7 [All]"},
		{"application/vnd.kubernetes.protobuf", message(field(1, meta) + field(2, options)), "7 [All]"},
		{"application/vnd.kubernetes.protobuf", message(field(1, meta)), "none []"},
		{"application/vnd.kubernetes.protobuf", message(field(2, options)), "400"}, // without a name
		{"application/vnd.kubernetes.protobuf", message(field(1, meta) + field(2, []byte("\xff"))), "400"},
	} {
		o, err := ParseEviction("a", nil, c.contentType, []byte(c.body))
		got := "400"
		if err == nil {
			got = "none"
			if o.GracePeriodSeconds != nil {
				got = fmt.Sprint(*o.GracePeriodSeconds)
			}
			got += fmt.Sprint(" ", o.DryRun)
		} else if !apierrors.IsBadRequest(err) {
			got = err.Error()
		}
		rig.Same(t, fmt.Sprintf("%s %q", c.contentType, c.body), c.want, got)
	}
}

// A Collector that is told of changes knows as much as one that is told of what there is then, and
// what it does ends.
func TestCollectorOfChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing"}
		told, all := NewCollector(k), map[types.UID]*metav1.ObjectMeta{}
		due := map[types.UID]bool{}
		name := rapid.SampledFrom(strings.Fields("a b c d e"))
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			word := name.Draw(t, "name")
			if n := rapid.IntRange(0, 5).Draw(t, "kind"); n == 0 {
				told.Remove(types.UID(word))
				delete(all, types.UID(word))
			} else {
				word += []string{"", "", "!orphan", "!foregroundDeletion", "!x.io/y"}[n-1]
				for i, o := range rapid.SliceOfN(name, 0, 3).Draw(t, "owners") {
					word += map[bool]string{true: "<", false: " "}[i == 0] + o + rapid.SampledFrom([]string{"", "+"}).Draw(t, "block")
				}
				m := owned(k, word)
				all[m.UID] = m
				told.Set(k, m)
			}
			for _, uid := range told.Take() {
				due[uid] = true
			}
			fresh := NewCollector(k)
			for _, m := range all {
				fresh.Set(k, m)
			}
			for uid := range all {
				got, ok := told.Step(uid)
				want, should := fresh.Step(uid)
				if diff := cmp.Diff(want.Request, got.Request); ok != should || diff != "" {
					t.Fatalf("%s: %v, want %v: %s", uid, ok, should, diff)
				}
				if ok && !due[uid] {
					t.Fatalf("nobody is told of %s", got)
				}
				due[uid] = ok
			}
		}
	})
}
