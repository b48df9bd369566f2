package rows

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/bench/internal/pods"
)

// stores has the same pods in a store of client-go and in one of lw.
type stores struct {
	pods     []*corev1.Pod
	clientGo cache.Indexer
	lister   corelisters.PodLister
	lw       *lw.Indexer[*corev1.Pod]
	byNS     *lw.Index[string, *corev1.Pod]
	keys     []lw.Key
	strings  []string // the keys in client-go's form
}

const (
	byNode = "node"
	byApp  = "app"
	byIP   = "ip"
)

// indexers returns the first n of client-go's index functions: by namespace, node, label and
// address.
func indexers(n int) cache.Indexers {
	all := []struct {
		name string
		fn   cache.IndexFunc
	}{
		{cache.NamespaceIndex, cache.MetaNamespaceIndexFunc},
		{byNode, func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }},
		{byApp, func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Labels["app"]}, nil }},
		{byIP, func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Status.PodIP}, nil }},
	}
	m := cache.Indexers{}
	for _, ix := range all[:n] {
		m[ix.name] = ix.fn
	}
	return m
}

// index adds n indexes by the same values to x. It returns the one by namespace, or nil if n is 0.
func index(x lw.Indexed[*corev1.Pod], n int) (byNS *lw.Index[string, *corev1.Pod]) {
	if n > 0 {
		byNS = lw.NewIndex(x, (*corev1.Pod).GetNamespace)
	}
	if n > 1 {
		lw.NewIndex(x, func(p *corev1.Pod) string { return p.Spec.NodeName })
	}
	if n > 2 {
		lw.NewIndex(x, func(p *corev1.Pod) string { return p.Labels["app"] })
	}
	if n > 3 {
		lw.NewIndex(x, func(p *corev1.Pod) string { return p.Status.PodIP })
	}
	return byNS
}

// newStores fills both stores by Replace. keys and strings are in random order. They share no
// memory with the objects, like keys that come from a work queue.
func newStores(objects []*corev1.Pod, indexes int) *stores {
	s := &stores{pods: objects, clientGo: cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers(indexes)),
		lw: lw.NewIndexer[*corev1.Pod]()}
	s.byNS = index(s.lw, indexes)
	s.lister = corelisters.NewPodLister(s.clientGo)
	if err := s.clientGo.Replace(boxed(objects), pods.Version(len(objects))); err != nil {
		panic("rows: " + err.Error())
	}
	s.lw.Replace(objects, pods.Version(len(objects)))
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(len(objects)) {
		ns, name := []byte(objects[i].Namespace), []byte(objects[i].Name)
		s.keys = append(s.keys, lw.Key{Namespace: string(ns), Name: string(name)})
		s.strings = append(s.strings, string(ns)+"/"+string(name))
	}
	return s
}

// boxed returns objects as client-go's stores take them. It is not measured, because client-go's
// reflector has them in this form already.
func boxed(objects []*corev1.Pod) []any {
	all := make([]any, len(objects))
	for i, obj := range objects {
		all[i] = obj
	}
	return all
}

// timed returns a side that calls op for about 50 ms, and returns the cost of one call. The number
// of calls is found in the first round; all rounds make the same number.
func timed(name string, op func(i int)) compare.Side {
	n := 0
	return compare.Side{Name: name, Measure: func() compare.Sample {
		for try := 1; n == 0; try *= 4 {
			start := measure.CPU()
			for i := range try {
				op(i)
			}
			if used := measure.CPU() - start; used > 5*time.Millisecond {
				n = max(1, int(float64(try)*float64(50*time.Millisecond)/float64(used)))
				// Run once without measuring: the kernel's work for memory that is used for the
				// first time belongs to no side.
				run(n, op)
			}
		}
		return run(n, op).Sample(n)
	}}
}

func run(n int, op func(i int)) measure.Usage {
	return measure.Do(func() {
		for i := range n {
			op(i)
		}
	})
}

func short(n int) string {
	if n >= 1_000_000 {
		return fmt.Sprintf("%dM", n/1_000_000)
	}
	if n >= 1000 {
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

func check(ok bool, what string) {
	if !ok {
		panic("rows: " + what)
	}
}
