// Package ignored is a golden program: see ../README.md.
package ignored

import (
	corev1 "k8s.io/api/core/v1"
)

// Strip is an old transform function, which keeps what it knows: the tests ignore this package.
func Strip(obj any) (any, error) {
	if p, ok := obj.(*corev1.Pod); ok {
		return &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: corev1.PodSpec{NodeName: p.Spec.NodeName}}, nil
	}
	return obj, nil
}

// want nothing
