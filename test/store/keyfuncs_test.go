package store_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
)

// The key functions yield what the object has, and stop where the loop does.
func TestKeyFuncs(t *testing.T) {
	owned := partial("a", map[string]string{"app": "web"})
	owned.OwnerReferences = []metav1.OwnerReference{{UID: "u1"}, {UID: "u2"}}
	if got := lw.Namespace(owned); got != "ns" {
		t.Errorf("namespace %q", got)
	}
	if diff := cmp.Diff([]types.UID{"u1", "u2"}, slices.Collect(lw.OwnerUIDs(owned))); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	for uid := range lw.OwnerUIDs(owned) {
		if uid != "u1" {
			t.Errorf("%s after the loop has ended", uid)
		}
		break
	}
	all := []*metav1.PartialObjectMetadata{partial("b", nil), owned, partial("c", map[string]string{"app": "db"}), partial("d", owned.Labels)}
	var got []string
	web := lw.Select(slices.Values(all), labels.SelectorFromSet(labels.Set{"app": "web"}))
	for o := range web {
		got = append(got, o.Name)
	}
	if diff := cmp.Diff([]string{"a", "d"}, got); diff != "" {
		t.Errorf("selected (-want +got):\n%s", diff)
	}
	for o := range web {
		if o.Name != "a" {
			t.Errorf("%s after the loop has ended", o.Name)
		}
		break
	}
}
