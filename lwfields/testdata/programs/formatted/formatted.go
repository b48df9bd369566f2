// Package formatted is a golden program: see ../README.md.
package formatted

import (
	"encoding/json"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// Run formats.
func Run(w io.Writer, pods []*corev1.Pod) {
	for _, p := range pods {
		fmt.Fprintf(w, "%T %s\n", p, p.Name)
		fmt.Fprintf(w, "%v\n", p.Status.Conditions) // want "status.conditions"
		fmt.Fprintln(w, p.Spec.SecurityContext)     // want "spec.securityContext"
		a := any(p.Spec.Tolerations)
		fmt.Fprint(w, "tolerations: ", a, "\n")                    // want "spec.tolerations"
		fmt.Fprintln(w, row{&p.Spec.Hostname, p.Spec.HostAliases}) // want "spec.hostname"
		b, _ := json.Marshal(p.Spec.Volumes)                       // want "spec.volumes"
		fmt.Fprintln(w, len(b))
		list(w, "containers: %v\n", p.Spec.InitContainers)
	}
}

type row struct {
	name    *string
	aliases []corev1.HostAlias
}

func (r row) String() string { return fmt.Sprint(*r.name, r.aliases) } // want "spec.hostAliases"

func list(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, format, args...) // want "spec.initContainers"
}
