package simulate

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/go-lw/lw/internal/verify/rig"
)

// TestActors has each actor under the name that reports and plans use.
func TestActors(t *testing.T) {
	want := map[string]string{
		"pods": "Pods", "jobs": "Jobs", "replicasets": "ReplicaSets", "deployments": "Deployments",
		"statefulsets": "StatefulSets", "endpoints": "Endpoints", "nodes": "Nodes", "claims": "Claims",
	}
	got := map[string]string{}
	for _, a := range (Actors{Pods, Jobs, ReplicaSets, Deployments, StatefulSets, Endpoints, Nodes, Claims}) {
		name := runtime.FuncForPC(reflect.ValueOf(a.Act).Pointer()).Name()
		got[a.Name] = name[strings.LastIndexByte(name, '.')+1:]
	}
	rig.Same(t, "what the actors do", want, got)
}
