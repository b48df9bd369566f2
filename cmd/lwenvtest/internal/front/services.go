package front

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/go-lw/lw/lwtest"
)

// addresses gives Services their cluster IPs and node ports. What a Service that is gone had is
// given again once the range is used up, when the objects of the server say what is in use.
type addresses struct {
	cidr netip.Prefix
	list func() iter.Seq[*corev1.Service]

	mu    sync.Mutex // guards the fields below
	ips   map[netip.Addr]bool
	ports map[int32]bool
	next  netip.Addr
	port  int32
}

const firstNodePort, lastNodePort = 30000, 32767

func (a *addresses) begin(cidr netip.Prefix, list func() iter.Seq[*corev1.Service]) error {
	if !cidr.IsValid() {
		cidr = netip.MustParsePrefix("10.0.0.0/24")
	}
	a.cidr, a.list = cidr.Masked(), list
	a.next, a.port = a.first(), firstNodePort
	if !a.cidr.Contains(a.next) {
		return fmt.Errorf("service-cluster-ip-range: %s has no address for a Service", cidr)
	}
	a.ips, a.ports = map[netip.Addr]bool{}, map[int32]bool{}
	return nil
}

// first is the address of the Service kubernetes.
func (a *addresses) first() netip.Addr { return a.cidr.Addr().Next() }

// family is that of the range. A server has one.
func (a *addresses) family() corev1.IPFamily {
	if a.cidr.Addr().Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// admit sets what a Service that is created or changed lacks. A dry run may take an address, which
// is free again when the range is used up.
func (a *addresses) admit(_ context.Context, w lwtest.Admission) error {
	svc, ok := w.Object.(*corev1.Service)
	if !ok || w.Subresource != "" {
		return nil
	}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		svc.Spec.InternalTrafficPolicy = nil
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old, _ := w.Old.(*corev1.Service)
	if old != nil && svc.Spec.ClusterIP == "" {
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = old.Spec.ClusterIP, old.Spec.ClusterIPs
	}
	if err := a.addressLocked(svc, old); err != nil {
		return err
	}
	if len(svc.Spec.ClusterIPs) == 0 {
		svc.Spec.ClusterIPs = []string{svc.Spec.ClusterIP}
	}
	if svc.Spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		svc.Spec.IPFamilyPolicy = &policy
	}
	if len(svc.Spec.IPFamilies) == 0 {
		svc.Spec.IPFamilies = []corev1.IPFamily{a.family()}
	}
	if t := svc.Spec.Type; t == corev1.ServiceTypeNodePort || t == corev1.ServiceTypeLoadBalancer {
		return a.portsLocked(svc, old)
	}
	return nil
}

func (a *addresses) addressLocked(svc, old *corev1.Service) error {
	switch ip, err := netip.ParseAddr(svc.Spec.ClusterIP); {
	case svc.Spec.ClusterIP == corev1.ClusterIPNone:
	case svc.Spec.ClusterIP == "":
		for again := false; ; again = true {
			for ; a.cidr.Contains(a.next); a.next = a.next.Next() {
				if !a.ips[a.next] {
					a.ips[a.next] = true
					svc.Spec.ClusterIP = a.next.String()
					return nil
				}
			}
			if again {
				return apierrors.NewInternalError(errors.New("failed to allocate a serviceIP: range is full"))
			}
			a.refreshLocked()
		}
	case old != nil && old.Spec.ClusterIP == svc.Spec.ClusterIP:
	case err != nil || !a.cidr.Contains(ip):
		return a.refuse(svc, "spec.clusterIPs", svc.Spec.ClusterIP, fmt.Sprintf("failed to allocate IP %s: the provided IP (%s) is not in the valid range. "+
			"The range of valid IPs is %s", svc.Spec.ClusterIP, svc.Spec.ClusterIP, a.cidr))
	default:
		if a.ips[ip] {
			a.refreshLocked()
		}
		if a.ips[ip] {
			return a.refuse(svc, "spec.clusterIPs", svc.Spec.ClusterIP, fmt.Sprintf("failed to allocate IP %s: provided IP is already allocated", ip))
		}
		a.ips[ip] = true
	}
	return nil
}

func (a *addresses) portsLocked(svc, old *corev1.Service) error {
	had := map[int32]int32{} // node ports, by port
	if old != nil {
		for _, p := range old.Spec.Ports {
			had[p.Port] = p.NodePort
		}
	}
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		if p.NodePort == 0 {
			p.NodePort = had[p.Port]
		}
		if p.NodePort != 0 {
			a.ports[p.NodePort] = true
			continue
		}
		for again := false; p.NodePort == 0; again = true {
			for ; a.port <= lastNodePort && p.NodePort == 0; a.port++ {
				if !a.ports[a.port] {
					a.ports[a.port] = true
					p.NodePort = a.port
				}
			}
			if p.NodePort == 0 && again {
				return apierrors.NewInternalError(errors.New("failed to allocate a nodePort: range is full"))
			}
			if p.NodePort == 0 {
				a.refreshLocked()
			}
		}
	}
	return nil
}

// refreshLocked takes what is in use from the objects, and begins anew.
func (a *addresses) refreshLocked() {
	clear(a.ips)
	clear(a.ports)
	a.next, a.port = a.first(), firstNodePort
	for svc := range a.list() {
		if ip, err := netip.ParseAddr(svc.Spec.ClusterIP); err == nil {
			a.ips[ip] = true
		}
		for _, p := range svc.Spec.Ports {
			a.ports[p.NodePort] = true
		}
	}
}

func (a *addresses) refuse(svc *corev1.Service, path, value, why string) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), svc.Name,
		field.ErrorList{field.Invalid(field.NewPath(path), value, why)})
}
