// Package deepcopy is a golden program: see ../README.md.
package deepcopy

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Run reads copies.
func Run(w io.Writer, pods []*corev1.Pod) {
	for _, p := range pods {
		c := p.DeepCopy()
		fmt.Fprintln(w, c.Spec.NodeName) // want "spec.nodeName"
		s := p.Status.DeepCopy()
		fmt.Fprintln(w, s.Phase) // want "status.phase"
		var spec corev1.PodSpec
		p.Spec.DeepCopyInto(&spec)
		fmt.Fprintln(w, spec.Hostname) // want "spec.hostname"
		o := p.DeepCopyObject().(metav1.Object)
		fmt.Fprintln(w, o.GetFinalizers()) // want "metadata.finalizers"
	}
}
