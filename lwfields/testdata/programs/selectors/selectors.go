// Package selectors is a golden program: see ../README.md.
package selectors

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	listers "k8s.io/client-go/listers/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// List lists with selectors, which read labels, and without.
func List(ctx context.Context, pods listers.PodLister, nodes listers.NodeLister, c client.Client, l labels.Selector) error {
	if _, err := pods.Pods("a").List(l); err != nil { // want "metadata.labels"
		return err
	}
	if _, err := nodes.List(labels.Everything()); err != nil {
		return err
	}
	var services corev1.ServiceList
	if err := c.List(ctx, &services, client.InNamespace("a"), client.MatchingFields{"x": "y"}); err != nil {
		return err
	}
	if err := c.List(ctx, &services, &client.ListOptions{Namespace: "a"}); err != nil {
		return err
	}
	var maps corev1.ConfigMapList
	return c.List(ctx, &maps, client.MatchingLabels{"a": "b"}) // want "ConfigMap metadata.labels"
}

// types: k8s.io/api/core/v1.Pod k8s.io/api/core/v1.Node k8s.io/api/core/v1.Service k8s.io/api/core/v1.ConfigMap
