// Package writes is a golden program: see ../README.md.
package writes

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Write writes cached objects, which have only some fields, and objects of its own.
func Write(ctx context.Context, c client.Client, set kubernetes.Interface, lister listers.PodLister) error {
	pod, err := lister.Pods("a").Get("b")
	if err != nil {
		return err
	}
	copied := pod.DeepCopy()
	copied.Labels = map[string]string{"a": "b"}
	if err := c.Update(ctx, copied); err != nil { // want "ALL"
		return err
	}
	if _, err := set.CoreV1().Pods("a").UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil { // want "ALL"
		return err
	}
	if err := c.Patch(ctx, copied, client.MergeFrom(pod)); err != nil { // want "ALL"
		return err
	}
	if err := c.Delete(ctx, pod); err != nil {
		return err
	}

	fresh := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
	if err := c.Create(ctx, fresh); err != nil { // want "spec.volumes"
		return err
	}
	built := build("x")
	if err := controllerutil.SetControllerReference(pod, built, c.Scheme()); err != nil { // want "metadata.ownerReferences"
		return err
	}
	if err := create(ctx, c, built); err != nil {
		return err
	}
	// What is copied into an object of one's own is written with it.
	other := build("y")
	other.Spec.Volumes = pod.Spec.Volumes
	if err := c.Create(ctx, other); err != nil { // want "spec.volumes"
		return err
	}
	now, err := set.CoreV1().Pods("a").Get(ctx, "b", metav1.GetOptions{})
	if err != nil {
		return err
	}
	now.Spec.NodeName = "n"
	// The memory of fields is one for all pods, so this counts as well.
	_, err = set.CoreV1().Pods("a").Update(ctx, now, metav1.UpdateOptions{}) // want "spec.volumes"
	return err
}

func build(name string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Name = name
	return p
}

func create(ctx context.Context, c client.Client, p *corev1.Pod) error { return c.Create(ctx, p) } // want "spec.volumes"
