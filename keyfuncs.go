package lw

import (
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Namespace returns the namespace of obj. It is a key function for [NewIndex]:
// NewIndex(pods, lw.Namespace[*corev1.Pod]).
func Namespace[T Object](obj T) string { return obj.GetNamespace() }

// OwnerUIDs yields the UIDs of the owners of obj. It is a key function for [NewMultiIndex]:
// NewMultiIndex(pods, lw.OwnerUIDs[*corev1.Pod]).
func OwnerUIDs[T metav1.Object](obj T) iter.Seq[types.UID] {
	return func(yield func(types.UID) bool) {
		for _, owner := range obj.GetOwnerReferences() {
			if !yield(owner.UID) {
				return
			}
		}
	}
}

// Select yields the objects of seq whose labels match sel.
func Select[T interface{ GetLabels() map[string]string }](seq iter.Seq[T], sel labels.Selector) iter.Seq[T] {
	return func(yield func(T) bool) {
		for obj := range seq {
			if sel.Matches(labels.Set(obj.GetLabels())) && !yield(obj) {
				return
			}
		}
	}
}
