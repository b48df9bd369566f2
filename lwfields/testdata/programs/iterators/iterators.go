// Package iterators is a golden program: see ../README.md.
package iterators

import (
	"fmt"
	"io"
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// Run ranges over functions.
func Run(w io.Writer, pods []*corev1.Pod) {
	for c := range containers(pods) {
		if c.Image == "x" { // want "spec.containers.image"
			continue
		}
		fmt.Fprintln(w, c.Name) // want "spec.containers.name"
	}
	next, stop := iter.Pull(func(yield func(*corev1.PodStatus) bool) {
		for _, p := range pods {
			if !yield(&p.Status) {
				return
			}
		}
	})
	defer stop()
	for {
		s, ok := next()
		if !ok {
			return
		}
		fmt.Fprintln(w, s.Phase) // want "status.phase"
	}
}

func containers(pods []*corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, p := range pods {
			for i := range p.Spec.Containers {
				if !yield(&p.Spec.Containers[i]) {
					return
				}
			}
		}
	}
}
