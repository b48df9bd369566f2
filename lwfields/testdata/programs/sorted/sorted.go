// Package sorted is a golden program: see ../README.md.
package sorted

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

type byName []corev1.Container

func (b byName) Len() int           { return len(b) }
func (b byName) Less(i, j int) bool { return b[i].Name < b[j].Name } // want "spec.containers.name"
func (b byName) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

// Run sorts and searches.
func Run(w io.Writer, pods []*corev1.Pod) {
	sort.Slice(pods, func(i, j int) bool { return pods[i].Spec.NodeName < pods[j].Spec.NodeName }) // want "spec.nodeName"
	for _, p := range pods {
		sort.Sort(byName(p.Spec.Containers))
		if len(p.Spec.Containers) > 0 {
			fmt.Fprintln(w, p.Name, p.Spec.Containers[0].Image) // want "spec.containers.image"
		}
		slices.SortFunc(p.Spec.Volumes, func(a, b corev1.Volume) int {
			return strings.Compare(a.Name, b.Name) // want "spec.volumes.name"
		})
		i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == "Ready" // want "status.conditions.type"
		})
		if i >= 0 {
			fmt.Fprintln(w, p.Status.Conditions[i].Status) // want "status.conditions.status"
		}
		for c := range slices.Values(p.Spec.InitContainers) {
			fmt.Fprintln(w, c.Image) // want "spec.initContainers.image"
		}
		fmt.Fprintln(w, ptr.Deref(p.Spec.Priority, 1))                                               // want "spec.priority"
		if s := ptr.Deref(p.Spec.SecurityContext, corev1.PodSecurityContext{}); s.RunAsUser != nil { // want "spec.securityContext.runAsUser?"
			fmt.Fprintln(w, "user")
		}
	}
}
