// Package interfaces is a golden program: see ../README.md.
package interfaces

import (
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

type printer interface {
	print(w io.Writer, s *corev1.PodSpec)
}

type plain struct{}

func (plain) print(w io.Writer, s *corev1.PodSpec) { fmt.Fprintln(w, s.NodeName) } // want "spec.nodeName"

type fancy struct{ last *corev1.PodSpec }

func (f *fancy) print(w io.Writer, s *corev1.PodSpec) {
	f.last = s
	fmt.Fprintln(w, f.last.Hostname) // want "spec.hostname"
}

type spec corev1.PodSpec

func (s *spec) host() bool { return s.HostNetwork } // want "spec.hostNetwork"

type hoster interface{ host() bool }

// Run calls through interfaces of its own, and method values.
func Run(w io.Writer, pods []*corev1.Pod) {
	ps := []printer{plain{}, &fancy{}}
	for i, p := range pods {
		ps[i%2].print(w, &p.Spec)
		var h hoster = (*spec)(&p.Spec)
		fmt.Fprintln(w, h.host())
		v := viewer{p.Status.Conditions}
		f := v.count
		fmt.Fprintln(w, f())
		g := (*viewer).first
		fmt.Fprintln(w, g(&v))
		var err error = &bad{p.Status}
		var b *bad
		if errors.As(err, &b) {
			fmt.Fprintln(w, b.status.Reason) // want "status.reason"
		}
		fmt.Fprintln(w, err)
	}
}

type viewer struct{ conditions []corev1.PodCondition }

func (v viewer) count() int { return len(v.conditions) }

func (v *viewer) first() string {
	for _, c := range v.conditions {
		return string(c.Type) // want "status.conditions.type"
	}
	return ""
}

type bad struct{ status corev1.PodStatus }

func (b *bad) Error() string { return b.status.Message } // want "status.message"
