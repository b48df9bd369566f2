// Package helper is a golden program: see ../README.md.
package helper

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// Run reads through functions and methods.
func Run(w io.Writer, pods []*corev1.Pod) {
	for _, p := range pods {
		node(w, &p.Spec)
		s := state{w: w, status: p.Status}
		s.print()
		print(w, generic(p.Spec.Tolerations))
	}
}

func node(w io.Writer, spec *corev1.PodSpec) {
	fmt.Fprintln(w, spec.NodeName) // want "spec.nodeName"
}

type state struct {
	w      io.Writer
	status corev1.PodStatus
}

func (s *state) print() {
	fmt.Fprintln(s.w, s.status.HostIP) // want "status.hostIP"
}

func generic[T any](of []T) (first T) {
	if len(of) > 0 {
		return of[0]
	}
	return first
}

func print(w io.Writer, t corev1.Toleration) {
	fmt.Fprintln(w, t.Key) // want "spec.tolerations.key"
}
