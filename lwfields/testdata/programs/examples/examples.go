// Package examples is a golden program: see ../README.md.
package examples

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type store struct {
	expected any
	objects  map[string]any
}

func newStore(expected any) *store { return &store{expected, map[string]any{}} }

func (s *store) add(obj metav1.Object) {
	if s.expected == nil {
		fmt.Println("expected", s.expected)
	}
	s.objects[obj.GetName()] = obj
}

// Run has example objects, of which nothing is read.
func Run(w io.Writer, pods []*corev1.Pod) {
	s := newStore(&corev1.Pod{})
	fmt.Fprintln(w, "expected", s.expected)
	for _, p := range pods {
		s.add(p)
		fmt.Fprintln(w, s.objects[p.Name].(*corev1.Pod).Spec.NodeName) // want "spec.nodeName"
	}
}
