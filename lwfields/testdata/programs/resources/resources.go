// Package resources is a golden program: see ../README.md.
package resources

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-helpers/resource"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// types: k8s.io/api/core/v1.Pod k8s.io/api/core/v1.Node

// Run asks for what pods need, and where they may be.
func Run(w io.Writer, pods []*corev1.Pod) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"app": "web"}}}
	var none events.EventRecorder
	for _, p := range pods {
		requests := resource.PodRequests(p, all)       // want "spec.containers.name" "spec.containers.resources" "spec.initContainers.name" "spec.initContainers.resources" "spec.initContainers.restartPolicy" "spec.resources" "spec.overhead" "status.containerStatuses.name" "status.containerStatuses.resources" "status.containerStatuses.allocatedResources" "status.initContainerStatuses.name" "status.initContainerStatuses.resources" "status.initContainerStatuses.allocatedResources" "status.conditions.type" "status.conditions.reason" "status.resources" "status.allocatedResources" "status.nodeAllocatableResourceClaimStatuses"
		limits := resource.PodLimits(p, all)           // want "spec.containers.name" "spec.containers.resources" "spec.initContainers.name" "spec.initContainers.resources" "spec.initContainers.restartPolicy" "spec.resources" "spec.overhead" "status.containerStatuses.name" "status.containerStatuses.resources" "status.containerStatuses.allocatedResources" "status.initContainerStatuses.name" "status.initContainerStatuses.resources" "status.initContainerStatuses.allocatedResources" "status.conditions.type" "status.conditions.reason" "status.resources" "status.allocatedResources" "status.nodeAllocatableResourceClaimStatuses"
		may := nodeaffinity.GetRequiredNodeAffinity(p) // want "spec.nodeSelector" "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
		fits, err := may.Match(node)
		fmt.Fprintln(w, requests, limits, fits, err)
		if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
			fmt.Fprintln(w, terms(node, a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution))
			may = nodeaffinity.NewRequiredNodeAffinity(p.Spec.NodeSelector, a) // want "spec.nodeSelector" "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
			fmt.Fprintln(w, place(may, node))
		}
		if none != nil {
			none.Eventf(p, nil, corev1.EventTypeNormal, "Seen", "Look", "a pod")
		}
	}
}

var all = resource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}

func terms(n *corev1.Node, s *corev1.NodeSelector) string {
	ok, err := scheduling.MatchNodeSelectorTerms(n, s) // want "Node metadata.labels" "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
	return fmt.Sprint(ok, err)
}

func place(may nodeaffinity.RequiredNodeAffinity, n *corev1.Node) string {
	ok, err := may.Match(n) // want "Node metadata.labels"
	return fmt.Sprint(ok, err)
}

// Place is what a controller does with the nodes of its cache.
func Place(n *corev1.Node) string {
	return terms(n, nil) + place(nodeaffinity.RequiredNodeAffinity{}, n)
}
