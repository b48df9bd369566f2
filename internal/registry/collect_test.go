package registry_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"

	. "github.com/go-lw/lw/internal/registry"
)

// owned is an object as a word: its name, its finalizer after a !, which also says that it is being
// deleted, and the UIDs of its owners after a <; one that blocks its owner has a +.
func owned(k *Kind, word string) Owned {
	word, owners, _ := strings.Cut(word, "<")
	name, finalizer, deleting := strings.Cut(word, "!")
	o := &Object{Meta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "1"}, Body: []byte("{}")}
	if k.Cluster {
		o.Meta.Namespace = ""
	}
	if deleting {
		now := metav1.Now()
		o.Meta.DeletionTimestamp, o.Meta.Finalizers = &now, []string{finalizer}
	}
	for _, owner := range strings.Fields(owners) {
		uid, block := strings.CutSuffix(owner, "+")
		o.Meta.OwnerReferences = append(o.Meta.OwnerReferences, metav1.OwnerReference{APIVersion: "example.io/v1", Kind: "Thing", Name: uid, UID: types.UID(uid), BlockOwnerDeletion: &block})
	}
	return Owned{Kind: k, Object: o}
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
		{"a!x.io/y, b<a", ""},
		{"b!x.io/y<a", ""},
		{"a<a", ""},
		{"crown:b<a, a", "delete crowns /b Background"}, // a namespaced object owns none of the cluster
		{"crown:b, a<b", "delete things ns/a Background"},
	} {
		var all []Owned
		for _, word := range strings.Split(c.objects, ", ") {
			if name, ok := strings.CutPrefix(word, "crown:"); ok {
				all = append(all, owned(cluster, name))
			} else {
				all = append(all, owned(k, word))
			}
		}
		step, ok := Collect([]*Kind{k, cluster}, all)
		got := ""
		if ok {
			got = step.String()
			if o := step.Request.Options; o != nil {
				got += " " + string(*o.PropagationPolicy)
			}
			if _, err := step.Kind.Prepare(step.Request); err != nil {
				t.Errorf("%s: %v", c.objects, err)
			}
		}
		got = strings.ReplaceAll(got, "crowns b", "crowns /b")
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.objects, got, c.want)
		}
	}
	foreign := owned(k, "b<a")
	foreign.Object.Meta.OwnerReferences[0].APIVersion = "other.io/v1"
	if step, ok := Collect([]*Kind{k}, []Owned{foreign}); ok {
		t.Errorf("of an owner that nobody knows: %s", step)
	}
}

// The options of a deletion come in each format, and from the query if there is no body.
func TestDeleteOptions(t *testing.T) {
	foreground := metav1.DeletePropagationForeground
	in := &metav1.DeleteOptions{PropagationPolicy: &foreground}
	message, err := in.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	item, err := cbor.Marshal(map[string]any{"propagationPolicy": "Foreground"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ query, contentType, body, want string }{
		{"propagationPolicy=Foreground", "", "", "Foreground []"},
		{"propagationPolicy=Orphan", "", `{"propagationPolicy":"Foreground"}`, "Foreground []"},
		{"dryRun=All", "application/json", `{"propagationPolicy":"Foreground"}`, "Foreground [All]"},
		{"", "application/yaml", "propagationPolicy: Foreground", "Foreground []"},
		{"", "application/cbor", string(item), "Foreground []"},
		{"", "application/vnd.kubernetes.protobuf", "k8s\x00\n\x00\x12" + string(rune(len(message))) + string(message), "Foreground []"},
		{"", "application/vnd.kubernetes.protobuf", string(message), "error"},
		{"", "application/json", `{"kind":"Pod"}`, "error"},
	} {
		query, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		got := "error"
		if o, err := ParseDeleteOptions(query, c.contentType, []byte(c.body)); err == nil {
			got = fmt.Sprint(*o.PropagationPolicy, " ", o.DryRun)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %q (-want +got):\n%s", c.contentType, c.body, diff)
		}
	}
}
