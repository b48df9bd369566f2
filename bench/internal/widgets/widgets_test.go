package widgets

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw/internal/verify/rig"
)

// The goals are stated for a custom resource of this size.
func TestSize(t *testing.T) {
	for _, i := range []int{0, 17, 4711} {
		for name, w := range map[string]*unstructured.Unstructured{"new": New(i), "reconciled": Reconciled(i)} {
			b := rig.Must[[]byte](t)(json.Marshal(w))
			t.Logf("widget %d, %s: %d bytes of JSON", i, name, len(b))
			if n := len(b); n < 2250 || n > 2450 {
				t.Errorf("widget %d, %s, has %d bytes of JSON, want about 2.3 KiB", i, name, n)
			}
		}
	}
}

// Reconciled changes the status and the managed fields' time, and nothing else.
func TestReconciled(t *testing.T) {
	before, after := New(17), Reconciled(17)
	if cmp.Equal(before.Object["status"], after.Object["status"]) || cmp.Equal(before.GetManagedFields(),
		after.GetManagedFields()) {
		t.Error("the status or the managed fields are the same")
	}
	after.Object["status"] = before.Object["status"]
	after.SetManagedFields(before.GetManagedFields())
	before.SetManagedFields(before.GetManagedFields())
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("another field differs (-want +got):\n%s", d)
	}
}
