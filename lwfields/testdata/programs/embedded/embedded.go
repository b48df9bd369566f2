// Package embedded is a golden program: see ../README.md.
package embedded

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

type wrapped struct {
	*corev1.Pod
	seen int
}

func (w wrapped) node() string { return w.Spec.NodeName } // want "spec.nodeName"

// MyPod is a type of its own with the fields of a Pod.
type MyPod corev1.Pod

// Run embeds, converts and copies.
func Run(w io.Writer, pods []*corev1.Pod) {
	for _, p := range pods {
		x := wrapped{p, 1}
		fmt.Fprintln(w, x.node(), x.seen)
		fmt.Fprintln(w, x.GetLabels()) // want "metadata.labels"
		my := (*MyPod)(p)
		fmt.Fprintln(w, my.Spec.Hostname) // want "spec.hostname"
		value := *p
		fmt.Fprintln(w, value.Status.Phase) // want "status.phase"
		part := value.Spec
		fmt.Fprintln(w, part.Subdomain) // want "spec.subdomain"
		var named interface{ GetAnnotations() map[string]string } = x
		fmt.Fprintln(w, named.GetAnnotations()) // want "metadata.annotations"
	}
}
