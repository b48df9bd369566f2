package main

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pod has the fields of a pod that this program uses. A small type of your own saves the memory of
// the other fields; *corev1.Pod works as well.
type Pod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		NodeName   string      `json:"nodeName,omitempty"`
		Containers []Container `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase,omitempty"`
		PodIP string `json:"podIP,omitempty"`
	} `json:"status"`
}

// Container has the fields of a container that this program uses.
type Container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// newPod returns pod number i, as it is when the scheduler has chosen a node for it.
func newPod(i int) *Pod {
	p := &Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	p.Namespace = []string{"shop", "billing", "search"}[i%3]
	p.Name = fmt.Sprintf("web-%05d", i)
	p.Labels = map[string]string{"app": "web", "tier": []string{"front", "back"}[i%2]}
	p.Spec.NodeName = fmt.Sprintf("node-%02d", i%20)
	p.Spec.Containers = []Container{{Name: "web", Image: "example.org/web:1.0"}}
	p.Status.Phase = "Pending"
	return p
}
