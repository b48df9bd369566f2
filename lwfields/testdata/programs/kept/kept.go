// Package kept is a golden program: see ../README.md.
package kept

import (
	"container/list"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
)

var objects sync.Map

// Run puts parts into containers of the library, and takes them out.
func Run(w io.Writer, pods []*corev1.Pod) {
	queue := list.New()
	var last atomic.Value
	var current atomic.Pointer[corev1.PodSpec]
	for _, p := range pods {
		objects.Store(p.Name, p.Spec)
		queue.PushBack(&p.Status)
		last.Store(p.Spec.Volumes)
		current.Store(&p.Spec)
		ctx := context.WithValue(context.Background(), key{}, p.Spec.Tolerations)
		read(ctx, w)
		once := sync.OnceValue(func() *corev1.PodStatus { return &p.Status })
		fmt.Fprintln(w, once().Message)          // want "status.message"
		fmt.Fprintln(w, current.Load().Hostname) // want "spec.hostname"
		if s, ok := objects.Load(p.Name); ok {
			fmt.Fprintln(w, s.(corev1.PodSpec).NodeName) // want "spec.nodeName"
		}
	}
	for e := queue.Front(); e != nil; e = e.Next() {
		fmt.Fprintln(w, e.Value.(*corev1.PodStatus).Phase) // want "status.phase"
	}
	if vs, ok := last.Load().([]corev1.Volume); ok {
		for _, v := range vs {
			fmt.Fprintln(w, v.Name) // want "spec.volumes.name"
		}
	}
	n := 0
	objects.Range(func(_, v any) bool {
		if v.(corev1.PodSpec).HostNetwork { // want "spec.hostNetwork"
			n++
		}
		return true
	})
	fmt.Fprintln(w, n)
	objects.Clear()
}

type key struct{}

func read(ctx context.Context, w io.Writer) {
	for _, t := range ctx.Value(key{}).([]corev1.Toleration) {
		fmt.Fprintln(w, t.Key) // want "spec.tolerations.key"
	}
}
