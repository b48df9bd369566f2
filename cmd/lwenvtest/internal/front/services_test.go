package front

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

func service(name string, t corev1.ServiceType, ip string) *corev1.Service {
	svc := &corev1.Service{}
	svc.Namespace, svc.Name = "default", name
	svc.Spec.Type, svc.Spec.ClusterIP = t, ip
	if t == corev1.ServiceTypeExternalName {
		svc.Spec.ExternalName = "example.com"
	}
	svc.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 80, TargetPort: intstr.FromInt32(80)}}
	return svc
}

func TestAddresses(t *testing.T) {
	s, err := New(Options{Services: netip.MustParsePrefix("10.9.8.0/29")}) // .1 to .7 are addresses
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	services := lwtest.Objects[*corev1.Service](s.server, "services")
	create := func(name string, kind corev1.ServiceType, ip, want string) {
		t.Helper()
		svc, err := services.Create(service(name, kind, ip))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if svc.Spec.ClusterIP != want {
			t.Errorf("%s has %s, want %s", name, svc.Spec.ClusterIP, want)
		}
	}
	refused := func(name, ip, want string) {
		t.Helper()
		if _, err := services.Create(service(name, "", ip)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	kubernetes, err := services.Get(lw.Key{Namespace: "default", Name: "kubernetes"})
	if err != nil || kubernetes.Spec.ClusterIP != "10.9.8.1" {
		t.Errorf("kubernetes: %v %v", kubernetes, err)
	}
	create("headless", "", corev1.ClusterIPNone, corev1.ClusterIPNone)
	create("external", corev1.ServiceTypeExternalName, "", "")
	create("own", "", "10.9.8.3", "10.9.8.3")
	refused("twice", "10.9.8.3", "provided IP is already allocated")
	refused("outside", "10.9.9.1", "not in the valid range. The range of valid IPs is 10.9.8.0/29")
	for i, want := range []int{2, 4, 5, 6, 7} {
		create(fmt.Sprint("s", i), "", "", fmt.Sprint("10.9.8.", want))
	}
	refused("late", "", "range is full")
	for _, name := range []string{"s2", "s3"} {
		if err := services.Delete(lw.Key{Namespace: "default", Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	create("late", "", "", "10.9.8.5")

	node, err := services.Create(service("node", corev1.ServiceTypeNodePort, ""))
	if err != nil {
		t.Fatal(err)
	}
	if p := node.Spec.Ports[0].NodePort; p != firstNodePort {
		t.Errorf("node port %d", p)
	}
	node.Spec.Ports = append(service("", "", "").Spec.Ports, corev1.ServicePort{Name: "b", Port: 81, TargetPort: intstr.FromInt32(81)})
	if node, err = services.Update(node); err != nil {
		t.Fatal(err)
	}
	if p := node.Spec.Ports; p[0].NodePort != firstNodePort || p[1].NodePort != firstNodePort+1 {
		t.Errorf("node ports %+v", p)
	}
}

func TestNoRange(t *testing.T) {
	if _, err := New(Options{Services: netip.MustParsePrefix("10.0.0.1/32")}); err == nil || !strings.Contains(err.Error(), "has no address") {
		t.Error(err)
	}
}
