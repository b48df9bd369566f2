// Package direct is a golden program: see ../README.md.
package direct

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// Run prints fields of pods.
func Run(w io.Writer, pods []*corev1.Pod) {
	for _, p := range pods {
		fmt.Fprintln(w, p.Name, p.Spec.NodeName)     // want "spec.nodeName"
		fmt.Fprintln(w, p.Status.Phase == "Running") // want "status.phase"
		fmt.Fprintln(w, p.Labels["app"])             // want "metadata.labels"
		p.Spec.Hostname = "written, and not read"
		if p.Spec.TerminationGracePeriodSeconds != nil { // want "spec.terminationGracePeriodSeconds?"
			fmt.Fprintln(w, "has a period")
		}
	}
}
