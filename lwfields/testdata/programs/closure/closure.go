// Package closure is a golden program: see ../README.md.
package closure

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// Run reads in closures, and in functions that variables hold.
func Run(w io.Writer, pods []*corev1.Pod) {
	for _, p := range pods {
		spec := p.Spec
		show := func() {
			fmt.Fprintln(w, spec.NodeName) // want "spec.nodeName"
		}
		show()
		var status corev1.PodStatus
		set := func() { status = p.Status }
		set()
		fmt.Fprintln(w, status.PodIP) // want "status.podIP"
		f := hostname
		if len(p.Name)%2 == 0 {
			f = subdomain
		}
		fmt.Fprintln(w, f(&p.Spec))
		fmt.Fprintln(w, byName["sched"](p.Spec))
		func(c []corev1.Container) {
			defer func() {
				for _, c := range c {
					fmt.Fprintln(w, c.Image) // want "spec.containers.image"
				}
			}()
		}(p.Spec.Containers)
	}
}

func hostname(s *corev1.PodSpec) string  { return s.Hostname }  // want "spec.hostname"
func subdomain(s *corev1.PodSpec) string { return s.Subdomain } // want "spec.subdomain"

var byName = map[string]func(corev1.PodSpec) string{
	"sched": func(s corev1.PodSpec) string { return s.SchedulerName }, // want "spec.schedulerName"
}
