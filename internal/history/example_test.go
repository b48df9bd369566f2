package history

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Collections of one line share its versions.
func ExampleLine() {
	line := NewLine()
	pods := NewCollection(line, Options[string]{Resource: schema.GroupResource{Resource: "pods"}})
	nodes := NewCollection(line, Options[string]{Resource: schema.GroupResource{Resource: "nodes"}})
	pods.Create(Object[string]{Key: types.NamespacedName{Namespace: "ns", Name: "p"}, Value: "a pod"})
	nodes.Create(Object[string]{Key: types.NamespacedName{Name: "n"}, Value: "a node"})
	for version := uint64(1); version <= line.Version(); version++ {
		p, _ := pods.StateAt(version)
		n, _ := nodes.StateAt(version)
		fmt.Println(version, len(p), len(n))
	}
	// Output:
	// 1 0 0
	// 2 1 0
	// 3 1 1
}
