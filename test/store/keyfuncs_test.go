package store_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// OwnerUIDs yields what the object has, and stops where the loop does.
func TestOwnerUIDs(t *testing.T) {
	owned := partial("a", map[string]string{"app": "web"})
	owned.OwnerReferences = []metav1.OwnerReference{{UID: "u1"}, {UID: "u2"}}
	rig.Same(t, "owners", []types.UID{"u1", "u2"}, slices.Collect(lw.OwnerUIDs(owned)))
	for uid := range lw.OwnerUIDs(owned) {
		if uid != "u1" {
			t.Errorf("%s after the loop has ended", uid)
		}
		break
	}
}
