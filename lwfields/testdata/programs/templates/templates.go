// Package templates is a golden program: see ../README.md.
package templates

import (
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Run reads a Deployment, whose template is a pod's and is no pod.
func Run(w io.Writer, pods []*corev1.Pod) {
	for _, p := range pods {
		d := deployment(p.Name)
		fmt.Fprintln(w, d.Spec.Template.Spec.Hostname, d.Spec.Template.Labels)
		for _, c := range d.Spec.Template.Spec.Containers {
			fmt.Fprintln(w, c.Image)
		}
		fmt.Fprintln(w, p.Spec.NodeName) // want "spec.nodeName"
	}
}

func deployment(name string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Name = name
	d.Spec.Template.Spec.Hostname = name
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: name, Image: "x"}}
	return d
}
