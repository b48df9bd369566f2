package derive

import (
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw"
)

// Endpoints are the pods that a service selects, in the order of their names.
type Endpoints struct {
	lw.Meta
	Addresses []Address
}

// An Address is where a pod of a service is.
type Address struct {
	Pod, Node, IP string
	Ready         bool
}

// Equal reports whether e and o say the same of the same service.
func (e *Endpoints) Equal(o *Endpoints) bool {
	return e.Namespace == o.Namespace && e.Name == o.Name && e.UID == o.UID && slices.Equal(e.Addresses, o.Addresses)
}

// A NodeLoad is what runs on a node.
type NodeLoad struct {
	lw.Meta
	load
}

// load is how many pods there are, and how many of them are ready.
type load struct{ Pods, Ready int }

// plus returns l with n more pods, which are ready or not.
func (l load) plus(n int, ready bool) load {
	l.Pods += n
	if ready {
		l.Ready += n
	}
	return l
}

// Equal reports whether l and o say the same of the same node.
func (l *NodeLoad) Equal(o *NodeLoad) bool { return *l == *o }

// A backend has what Endpoints and NodeLoad need of a pod. It stands between the pods and them
// where heartbeats are to go no further.
type backend struct {
	lw.Meta
	labels   map[string]string
	node, ip string
	ready    bool
}

func newBackend(p *corev1.Pod) *backend {
	return &backend{
		Meta:   lw.Meta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		labels: p.Labels, node: p.Spec.NodeName, ip: p.Status.PodIP, ready: isReady(p),
	}
}

// Equal reports whether b and o are the same pod, with the same properties.
func (b *backend) Equal(o *backend) bool {
	return b.Meta == o.Meta && b.node == o.node && b.ip == o.ip && b.ready == o.ready && maps.Equal(b.labels, o.labels)
}

func (b *backend) address() Address {
	return Address{Pod: b.Name, Node: b.node, IP: b.ip, Ready: b.ready}
}

// AddressOf returns the address of a pod.
func AddressOf(p *corev1.Pod) Address {
	return Address{Pod: p.Name, Node: p.Spec.NodeName, IP: p.Status.PodIP, Ready: isReady(p)}
}

func isReady(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// A label is a pair of a label or selector in a namespace.
type label struct{ namespace, key, value string }

// pairOf returns one pair of the selector of a service: that of the key that comes first. A service
// without a selector has the zero label, which no pod has.
func pairOf(s *corev1.Service) (pair label) {
	for k, v := range s.Spec.Selector {
		if pair.key == "" || k < pair.key {
			pair = label{s.Namespace, k, v}
		}
	}
	return pair
}

// pairsOf yields the labels of an object in a namespace.
func pairsOf(namespace string, labels map[string]string) iter.Seq[label] {
	return func(yield func(label) bool) {
		for k, v := range labels {
			if !yield(label{namespace, k, v}) {
				return
			}
		}
	}
}

// selects reports whether an object in a namespace with these labels belongs to s.
func selects(s *corev1.Service, namespace string, labels map[string]string) bool {
	if s.Namespace != namespace || len(s.Spec.Selector) == 0 {
		return false
	}
	for k, v := range s.Spec.Selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// newEndpoints returns the endpoints of s, which has addresses.
func newEndpoints(s *corev1.Service, addresses []Address) *Endpoints {
	return &Endpoints{Meta: lw.Meta{Namespace: s.Namespace, Name: s.Name, UID: s.UID}, Addresses: addresses}
}

func newNodeLoad(node string, l load) *NodeLoad {
	return &NodeLoad{Meta: lw.Meta{Name: node}, load: l}
}
