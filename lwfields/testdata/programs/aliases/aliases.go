// Package aliases is a golden program: see ../README.md.
package aliases

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// Run stores through one pointer and reads through another.
func Run(w io.Writer, pods []*corev1.Pod) {
	for _, p := range pods {
		var spec corev1.PodSpec
		alias := &spec
		fill(alias, p)
		fmt.Fprintln(w, spec.NodeName) // want "spec.nodeName"

		list := make([]corev1.Container, 1)
		same := list
		if len(p.Spec.Containers) > 0 {
			same[0] = p.Spec.Containers[0]
		}
		fmt.Fprintln(w, list[0].Name) // want "spec.containers.name"

		box := &holder{}
		put(box, &p.Status)
		fmt.Fprintln(w, box.get().Message) // want "status.message"

		copied := make([]corev1.Volume, len(p.Spec.Volumes))
		copy(copied, p.Spec.Volumes)
		for _, v := range copied {
			fmt.Fprintln(w, v.Name) // want "spec.volumes.name"
		}

		grown := append([]corev1.Toleration(nil), p.Spec.Tolerations...)
		for i := range grown {
			fmt.Fprintln(w, grown[i].Value) // want "spec.tolerations.value"
		}

		shared := make([]corev1.Volume, 1)
		h := &lists{volumes: shared, byName: map[string][]corev1.EphemeralContainer{}}
		if len(p.Spec.Volumes) > 0 {
			h.volumes[0] = p.Spec.Volumes[0]
		}
		fmt.Fprintln(w, shared[0].Secret != nil) // want "spec.volumes.secret?"

		inner := make([]corev1.EphemeralContainer, 1)
		h.byName["a"] = inner
		if len(p.Spec.EphemeralContainers) > 0 {
			h.byName["a"][0] = p.Spec.EphemeralContainers[0]
		}
		fmt.Fprintln(w, inner[0].TargetContainerName) // want "spec.ephemeralContainers.targetContainerName"

		a := make([]corev1.Container, 0, 4)
		b := append(a, corev1.Container{})
		_ = append(a, p.Spec.InitContainers...)
		fmt.Fprintln(w, b[0].Image) // want "spec.initContainers.image"
	}
}

func fill(to *corev1.PodSpec, from *corev1.Pod) { *to = from.Spec }

type lists struct {
	volumes []corev1.Volume
	byName  map[string][]corev1.EphemeralContainer
}

type holder struct{ status any }

func put(h *holder, s *corev1.PodStatus) { h.status = s }

func (h *holder) get() *corev1.PodStatus { return h.status.(*corev1.PodStatus) }
