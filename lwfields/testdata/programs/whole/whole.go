// Package whole is a golden program: see ../README.md.
package whole

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Run needs everything, for several reasons.
func Run(w io.Writer, pods []*corev1.Pod) {
	for _, p := range pods {
		fmt.Fprintln(w, p.Spec.NodeName) // want "spec.nodeName"
		b, _ := json.Marshal(p)          // want "ALL"
		fmt.Fprintln(w, len(b))
		fmt.Fprintln(w, equality.Semantic.DeepEqual(p, pods[0]))                        // want "ALL"
		fmt.Fprintln(w, reflect.DeepEqual(p.Spec, pods[0].Spec))                        // want "spec"
		_ = template.Must(template.New("").Parse("{{.Spec.Hostname}}\n")).Execute(w, p) // want "ALL"
		fmt.Fprintln(w, holder{pod: p})                                                 // want "ALL"
		fmt.Fprintln(w, p.String() == "")                                               // want "ALL"
		slog.New(slog.NewTextHandler(w, nil)).Info("a pod", "pod", p)                   // want "ALL"
	}
}

type holder struct{ pod *corev1.Pod }
