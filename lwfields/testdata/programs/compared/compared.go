// Package compared is a golden program: see ../README.md.
package compared

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// Run compares structs.
func Run(w io.Writer, pods []*corev1.Pod) {
	seen := map[corev1.ContainerPort]bool{}
	boxes := map[any]bool{}
	for _, p := range pods {
		for _, c := range p.Spec.Containers {
			for _, port := range c.Ports {
				fmt.Fprintln(w, port == corev1.ContainerPort{}) // want "spec.containers.ports"
				seen[port] = true                               // want "spec.containers.ports"
			}
			for _, e := range c.VolumeDevices {
				boxes[e] = true // want "spec.containers.volumeDevices"
			}
		}
		for _, r := range p.Spec.ReadinessGates {
			var x, y any = r, corev1.PodReadinessGate{}
			fmt.Fprintln(w, x == y) // want "spec.readinessGates"
		}
	}
	fmt.Fprintln(w, len(seen), len(boxes))
}
