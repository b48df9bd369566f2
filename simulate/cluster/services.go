package cluster

//lint:file-ignore SA1019 Servers and controllers still have Endpoints.

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// Endpoints keep one Endpoints and one EndpointSlice for each Service with a selector: the
// addresses of its Pods that run, and which of them are ready.
func Endpoints(_ context.Context, s *lwtest.Server) (string, error) {
	for _, svc := range all[*corev1.Service](s, "services") {
		if len(svc.Spec.Selector) == 0 || svc.DeletionTimestamp != nil {
			continue
		}
		if did, err := syncService(s, svc); did != "" || err != nil {
			return did, err
		}
	}
	return "", nil
}

func syncService(s *lwtest.Server, svc *corev1.Service) (string, error) {
	var there, waiting []corev1.EndpointAddress
	var endpoints []discoveryv1.Endpoint
	for _, pod := range all[*corev1.Pod](s, "pods") {
		if pod.Namespace != svc.Namespace || pod.Status.PodIP == "" || ended(pod) ||
			!labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			continue
		}
		terminating := pod.DeletionTimestamp != nil
		is := ready(pod) && !terminating || svc.Spec.PublishNotReadyAddresses
		ref := &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
		address := corev1.EndpointAddress{IP: pod.Status.PodIP, NodeName: &pod.Spec.NodeName, TargetRef: ref}
		serving := ready(pod)
		endpoints = append(endpoints, discoveryv1.Endpoint{
			Addresses: []string{pod.Status.PodIP}, NodeName: &pod.Spec.NodeName, TargetRef: ref,
			Conditions: discoveryv1.EndpointConditions{Ready: &is, Serving: &serving, Terminating: &terminating},
		})
		if is {
			there = append(there, address)
		} else if !terminating {
			waiting = append(waiting, address)
		}
	}
	var ports []corev1.EndpointPort
	var slicePorts []discoveryv1.EndpointPort
	for _, p := range svc.Spec.Ports {
		number := p.TargetPort.IntVal
		if number == 0 {
			number = p.Port
		}
		ports = append(ports, corev1.EndpointPort{Name: p.Name, Port: number, Protocol: p.Protocol})
		slicePorts = append(slicePorts, discoveryv1.EndpointPort{Name: &p.Name, Port: &number, Protocol: &p.Protocol})
	}
	meta := metav1.ObjectMeta{Name: svc.Name, Namespace: svc.Namespace,
		Labels: map[string]string{corev1.IsHeadlessService: ""}}
	if svc.Spec.ClusterIP != corev1.ClusterIPNone {
		meta.Labels = nil
	}
	yes := true
	meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: svc.Name, UID: svc.UID,
		Controller: &yes, BlockOwnerDeletion: &yes}}
	old := &corev1.Endpoints{ObjectMeta: meta}
	if there != nil || waiting != nil {
		old.Subsets = []corev1.EndpointSubset{{Addresses: there, NotReadyAddresses: waiting, Ports: ports}}
	}
	did, err := keep(s, "endpoints", old, func(is *corev1.Endpoints) bool {
		if equality.Semantic.DeepEqual(is.Subsets, old.Subsets) {
			return false
		}
		is.Subsets = old.Subsets
		return true
	})
	if did != "" || err != nil {
		return did, err
	}
	meta.Name += "-" + suffix(svc.UID)
	meta.Labels = map[string]string{discoveryv1.LabelServiceName: svc.Name,
		discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: slicePorts}
	return keep(s, "endpointslices", slice, func(is *discoveryv1.EndpointSlice) bool {
		if equality.Semantic.DeepEqual(is.Endpoints, endpoints) && equality.Semantic.DeepEqual(is.Ports, slicePorts) {
			return false
		}
		is.Endpoints, is.Ports = endpoints, slicePorts
		return true
	})
}

// keep creates an object, or updates the one that is there if change changes it.
func keep[T lw.Object](s *lwtest.Server, plural string, obj T, change func(is T) bool) (string, error) {
	key := lw.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	is, err := lwtest.Objects[T](s, plural).Get(key)
	if err != nil {
		_, err := lwtest.Objects[T](s, plural).Create(obj)
		return done(fmt.Sprintf("%s %s are made", plural, key), err)
	}
	if !change(is) {
		return "", nil
	}
	return update(s, plural, is, fmt.Sprintf("%s %s have changed", plural, key))
}

// Nodes makes each Node ready, once.
func Nodes(_ context.Context, s *lwtest.Server) (string, error) {
	for _, n := range all[*corev1.Node](s, "nodes") {
		known := false
		for _, c := range n.Status.Conditions {
			known = known || c.Type == corev1.NodeReady
		}
		if n.DeletionTimestamp != nil || known {
			continue
		}
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now(),
			LastTransitionTime: now(),
		})
		return update(s, "nodes", n, fmt.Sprintf("node %s is ready", n.Name))
	}
	return "", nil
}

// Claims bind each PersistentVolumeClaim, to a volume that nobody sees.
func Claims(_ context.Context, s *lwtest.Server) (string, error) {
	for _, c := range all[*corev1.PersistentVolumeClaim](s, "persistentvolumeclaims") {
		if c.DeletionTimestamp != nil || c.Status.Phase == corev1.ClaimBound {
			continue
		}
		c.Spec.VolumeName = "pvc-" + string(c.UID)
		c.Status.Phase, c.Status.AccessModes, c.Status.Capacity = corev1.ClaimBound, c.Spec.AccessModes,
			c.Spec.Resources.Requests
		return update(s, "persistentvolumeclaims", c, fmt.Sprintf("claim %s is bound", keyOf(c)))
	}
	return "", nil
}
