// Package presence is a golden program: see ../README.md.
package presence

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// Run asks what is there, and how many.
func Run(w io.Writer, pods []*corev1.Pod) {
	for _, p := range pods {
		fmt.Fprintln(w, len(p.Spec.Containers))              // want "spec.containers?"
		fmt.Fprintln(w, p.Spec.SecurityContext != nil)       // want "spec.securityContext?"
		fmt.Fprintln(w, len(p.Status.Conditions) > 2)        // want "status.conditions?"
		fmt.Fprintln(w, len(p.Labels), p.Annotations == nil) // want "metadata.labels?" "metadata.annotations?"
		fmt.Fprintln(w, len(p.Spec.NodeName))                // want "spec.nodeName"
		for i := range p.Spec.Volumes {                      // want "spec.volumes?"
			fmt.Fprintln(w, i)
		}
		if p.Spec.Affinity != nil && p.Spec.Affinity.NodeAffinity != nil { // want "spec.affinity.nodeAffinity?"
			fmt.Fprintln(w, "affinity")
		}
		if p.DeletionTimestamp != nil {
			fmt.Fprintln(w, "deleted")
		}
		if p.DeletionTimestamp.IsZero() { // want "metadata.deletionTimestamp"
			fmt.Fprintln(w, "not deleted")
		}
	}
}
