// Package unsafely is a golden program: see ../README.md.
package unsafely

import (
	"fmt"
	"io"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
)

// Run looks behind Go.
func Run(w io.Writer, pods []*corev1.Pod) {
	for _, p := range pods {
		f := (*string)(unsafe.Pointer(&p.Spec.HostAliases)) // want "spec.hostAliases"
		fmt.Fprintln(w, f != nil)
	}
}
