// Package informers is a golden program: see ../README.md.
package informers

import (
	"context"
	"fmt"

	"github.com/go-lw/lw"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Follow uses lw.
func Follow(ctx context.Context, source *lw.HTTP[*corev1.Pod], sel labels.Selector) error {
	pods := lw.NewInformer(source, nil)
	byNode := lw.NewIndex(pods, func(p *corev1.Pod) string { return p.Spec.NodeName }) // want "spec.nodeName"
	pods.AddHandler(lw.Handler[*corev1.Pod]{
		Add: func(p *corev1.Pod) { fmt.Println(p.Status.Phase) }, // want "status.phase"
	})
	for p := range byNode.Lookup("a") {
		fmt.Println(p.Name, lw.KeyOf(p), p.Spec.Hostname) // want "spec.hostname"
	}
	for p := range pods.Store().All() {
		if sel.Matches(labels.Set(p.Labels)) { // want "metadata.labels"
			fmt.Println(p.Status.PodIP) // want "status.podIP"
		}
	}
	return pods.Run(ctx)
}
