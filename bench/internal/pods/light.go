// Package pods makes the objects of the benchmarks.
package pods

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// Namespaces is the number of namespaces of the pods, however many pods there are.
	Namespaces = 100
	// Nodes is the number of nodes of the pods.
	Nodes = 1000
	// FirstVersion is the resource version of the first pod; that of pod i is i more. So all
	// versions have the same number of digits.
	FirstVersion = 1_000_000_000
)

// Light returns n pods that need little more memory than the Pod struct, because they share what it
// points to. They are for benchmarks of what happens after decoding.
func Light(n int) []*corev1.Pod {
	list := make([]*corev1.Pod, n)
	for i := range list {
		list[i] = light(i)
	}
	return list
}

var (
	containers = []corev1.Container{{Name: "app", Image: "registry.example.com/app:1.2.3"}}
	labelSets  = func() []map[string]string {
		sets := make([]map[string]string, 50)
		for i := range sets {
			sets[i] = map[string]string{"app": fmt.Sprintf("app-%d", i), "tier": "backend"}
		}
		return sets
	}()
)

func light(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       fmt.Sprintf("namespace-%02d", i%Namespaces),
			Name:            fmt.Sprintf("app-6d4b75cb6d-%07d", i),
			UID:             types.UID(fmt.Sprintf("5f2c1f5e-8f0b-4a3e-9d5c-%012d", i)),
			ResourceVersion: Version(i),
			Labels:          labelSets[i%len(labelSets)],
		},
		Spec:   corev1.PodSpec{NodeName: fmt.Sprintf("node-%03d", i/Namespaces%Nodes), Containers: containers},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&0xff, i&0xff)},
	}
}

// Version returns the resource version of the i-th write.
func Version(i int) string { return strconv.Itoa(FirstVersion + i) }

// Next returns n new versions of the pods of list, in turn. The first has the resource version of
// write number first, the second that of the write after it, and so on.
func Next(list []*corev1.Pod, n, first int) []*corev1.Pod {
	next := make([]*corev1.Pod, n)
	for i := range next {
		next[i] = Touch(list[i%len(list)], first+i)
	}
	return next
}

// Touch returns a copy of pod with the resource version of the i-th write.
func Touch(pod *corev1.Pod, i int) *corev1.Pod {
	p := new(corev1.Pod)
	*p = *pod
	p.ResourceVersion = Version(i)
	return p
}

// Again returns copies of the pods, as if the same list had been decoded again.
func Again(list []*corev1.Pod) []*corev1.Pod {
	again := make([]*corev1.Pod, len(list))
	for i, pod := range list {
		p := new(corev1.Pod)
		*p = *pod
		again[i] = p
	}
	return again
}
