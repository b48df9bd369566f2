// Package accessors is a golden program: see ../README.md.
package accessors

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// Run reads through interfaces.
func Run(w io.Writer, pods []*corev1.Pod) {
	for _, p := range pods {
		object(w, p)
		anything(w, p)
		fmt.Fprintln(w, metav1.HasAnnotation(p.ObjectMeta, "a")) // want "metadata.annotations"
		if o := metav1.GetControllerOf(p); o != nil {            // want "metadata.ownerReferences"
			fmt.Fprintln(w, o.UID)
		}
		fmt.Fprintln(w, p.GetObjectMeta().GetGeneration()) // want "metadata.generation"
		m, _ := meta.Accessor(p)
		fmt.Fprintln(w, m.GetName(), m.GetCreationTimestamp().Unix()) // want "metadata.creationTimestamp"
		fmt.Fprintln(w, klog.KObj(p))
	}
}

func object(w io.Writer, o metav1.Object) {
	fmt.Fprintln(w, o.GetName(), o.GetLabels()) // want "metadata.labels"
}

func anything(w io.Writer, x any) {
	switch x := x.(type) {
	case *corev1.Node:
		fmt.Fprintln(w, x.Spec.PodCIDR)
	case *corev1.Pod:
		fmt.Fprintln(w, x.Spec.NodeName) // want "spec.nodeName"
	case fmt.Stringer:
		fmt.Fprintln(w, x.String())
	}
}
