package main

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Pod has the fields of a pod that this program uses. A small type of your own saves the memory
// of the others; *corev1.Pod works as well.
type Pod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		NodeName string `json:"nodeName,omitempty"`
	} `json:"spec"`
	Status PodStatus `json:"status"`
}

// A PodStatus is what the node says of a pod.
type PodStatus struct {
	Phase      string      `json:"phase,omitempty"`
	PodIP      string      `json:"podIP,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// A Condition is one of several things that may be true of a pod.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// Ready reports whether the pod takes requests: it says so itself, and is not on its way out.
func (p *Pod) Ready() bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c Condition) bool {
		return c.Type == "Ready" && c.Status == "True"
	})
}

// A Service has the fields of a service that this program uses.
type Service struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Selector map[string]string `json:"selector,omitempty"`
	} `json:"spec"`
}
