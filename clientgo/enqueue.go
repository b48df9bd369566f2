package clientgo

import (
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
)

// A Queue is what the handlers of this package add to: any queue of k8s.io/client-go/util/workqueue
// whose items are of type K.
type Queue[K comparable] interface{ Add(item K) }

// Enqueue returns a handler that adds the key of each object that was added, updated or deleted to
// queue. The result can be changed before it is added: a Filter makes it skip objects, a Resync
// makes it add all keys now and then.
//
//	pods.AddHandler(clientgo.Enqueue[*corev1.Pod](queue))
func Enqueue[T lw.Object](queue Queue[lw.Key]) lw.Handler[T] {
	if isNil(queue) {
		panic("clientgo: Enqueue: nil queue")
	}
	add := func(obj T) { queue.Add(lw.KeyOf(obj)) }
	return lw.Handler[T]{
		Name:   "Enqueue",
		Add:    add,
		Update: func(_, obj T) { add(obj) },
		Delete: add,
	}
}

// EnqueueOwner is like [Enqueue], but adds the key of the object's controller: of the owner whose
// reference has Controller set, if its kind is owner, in any version. An object without such an
// owner adds nothing. If an update changes the owner, the keys of both are added.
//
// The key has the namespace of the object, as that of an owner with a namespace has. The owner of
// a cluster-scoped kind needs [EnqueueMapped].
func EnqueueOwner[T interface {
	comparable
	metav1.Object
}](queue Queue[lw.Key], owner schema.GroupKind) lw.Handler[T] {
	if isNil(queue) {
		panic("clientgo: EnqueueOwner: nil queue")
	}
	return EnqueueMapped(queue, func(obj T) iter.Seq[lw.Key] {
		return func(yield func(lw.Key) bool) {
			ref := metav1.GetControllerOfNoCopy(obj)
			if ref == nil || ref.Kind != owner.Kind {
				return
			}
			if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != owner.Group {
				return
			}
			yield(lw.Key{Namespace: obj.GetNamespace(), Name: ref.Name})
		}
	})
}

// EnqueueMapped is like [Enqueue], but adds what keys yields for the object; nil yields nothing.
// For an update these are the keys of the old object and of the new one.
func EnqueueMapped[T lw.Object, K comparable](queue Queue[K], keys func(obj T) iter.Seq[K]) lw.Handler[T] {
	if isNil(queue) || keys == nil {
		panic("clientgo: EnqueueMapped: nil queue or function")
	}
	add := func(obj T) {
		if all := keys(obj); all != nil {
			all(func(key K) bool { queue.Add(key); return true })
		}
	}
	return lw.Handler[T]{
		Name: "Enqueue",
		Add:  add,
		Update: func(old, obj T) {
			if old != obj { // else it is a resync
				add(old)
			}
			add(obj)
		},
		Delete: add,
	}
}
