// Package containers is a golden program: see ../README.md.
package containers

import (
	"fmt"
	"io"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Run moves parts through channels, maps, slices and structs of its own.
func Run(w io.Writer, pods []*corev1.Pod) {
	specs := make(chan *corev1.PodSpec, len(pods))
	byName := map[string]corev1.PodStatus{}
	var all []corev1.Container
	var index [2][]*corev1.Volume
	for _, p := range pods {
		specs <- &p.Spec
		byName[p.Name] = p.Status
		all = append(all, p.Spec.Containers...)
		for i := range p.Spec.Volumes {
			index[i%2] = append(index[i%2], &p.Spec.Volumes[i])
		}
		keep(p)
	}
	close(specs)
	for s := range specs {
		fmt.Fprintln(w, s.NodeName) // want "spec.nodeName"
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		s := byName[name]
		fmt.Fprintln(w, s.Phase) // want "status.phase"
	}
	for _, c := range all {
		fmt.Fprintln(w, c.Image) // want "spec.containers.image"
	}
	for _, vs := range index {
		for _, v := range vs {
			fmt.Fprintln(w, v.Name) // want "spec.volumes.name"
		}
	}
	show(w)
}

type entry struct {
	conditions []corev1.PodCondition
	next       *entry
}

var first *entry

func keep(p *corev1.Pod) { first = &entry{p.Status.Conditions, first} }

func show(w io.Writer) {
	for e := first; e != nil; e = e.next {
		for _, c := range e.conditions {
			fmt.Fprintln(w, c.Type, c.Status) // want "status.conditions.type" "status.conditions.status"
		}
	}
	first = nil
}
