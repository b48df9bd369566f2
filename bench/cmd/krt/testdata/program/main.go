// The program that the command krt builds: rows 35 to 40 of the benchmarks, with Istio's krt in the
// place of maps by hand.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"

	"istio.io/istio/pkg/kube/krt"
	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/derive"
)

func main() {
	var cfg compare.Config
	if err := json.Unmarshal([]byte(os.Args[1]), &cfg); err != nil {
		panic(err)
	}
	cases := derive.Against("krt", plain, projected)
	if err := derive.Check(); err != nil {
		panic(err)
	}
	cfg.Log = os.Stderr
	if err := cfg.Measure(cases).Table(os.Stdout); err != nil {
		panic(err)
	}
}

// view says what endpoints and loads need of a T.
type view[T any] struct {
	namespace func(T) string
	labels    func(T) map[string]string
	address   func(T) derive.Address
}

func plain(p derive.Program) func(context.Context) error {
	pods, synced := podsOf(p)
	return start(p, pods, synced, view[*corev1.Pod]{
		namespace: (*corev1.Pod).GetNamespace, labels: (*corev1.Pod).GetLabels, address: derive.AddressOf,
	})
}

// A backend has what endpoints and loads need of a pod.
type backend struct {
	krt.Named
	labels  map[string]string
	address derive.Address
}

func (b *backend) GetLabels() map[string]string { return b.labels }

func (b *backend) Equals(o *backend) bool {
	return b.Named == o.Named && b.address == o.address && maps.Equal(b.labels, o.labels)
}

func projected(p derive.Program) func(context.Context) error {
	pods, synced := podsOf(p)
	backends := krt.NewCollection(pods, func(_ krt.HandlerContext, p *corev1.Pod) **backend {
		b := &backend{Named: krt.NewNamed(p), labels: p.Labels, address: derive.AddressOf(p)}
		return &b
	}, krt.WithStop(p.Context.Done()), krt.WithName("backends"))
	return start(p, backends, synced, view[*backend]{
		namespace: (*backend).GetNamespace, labels: (*backend).GetLabels,
		address: func(b *backend) derive.Address { return b.address },
	})
}

// podsOf returns the pods of an informer of lw, as a collection of krt.
func podsOf(p derive.Program) (krt.Collection[*corev1.Pod], func(context.Context) error) {
	s := &syncer{done: make(chan struct{})}
	pods := krt.NewStaticCollection[*corev1.Pod](s, nil, krt.WithStop(p.Context.Done()), krt.WithName("pods"))
	reg := p.Pods.AddHandler(lw.Handler[*corev1.Pod]{
		Add:    func(pod *corev1.Pod) { pods.UpdateObject(pod) },
		Update: func(_, pod *corev1.Pod) { pods.UpdateObject(pod) },
		Delete: func(pod *corev1.Pod) { pods.DeleteObject(krt.GetKey(pod)) },
		Synced: func() { close(s.done) },
	})
	return pods, reg.WaitForSync
}

type syncer struct{ done chan struct{} }

func (s *syncer) WaitUntilSynced(stop <-chan struct{}) bool {
	select {
	case <-s.done:
		return true
	case <-stop:
		return false
	}
}

func (s *syncer) HasSynced() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// label is a pair of a selector or of labels, in a namespace.
type label struct{ namespace, key, value string }

func (l label) String() string { return l.namespace + "/" + l.key + "=" + l.value }

type endpoints struct{ *derive.Endpoints }

func (e endpoints) ResourceName() string    { return e.Namespace + "/" + e.Name }
func (e endpoints) Equals(o endpoints) bool { return e.Endpoints.Equal(o.Endpoints) }

type load struct{ *derive.NodeLoad }

func (l load) ResourceName() string { return l.Name }
func (l load) Equals(o load) bool   { return l.NodeLoad.Equal(o.NodeLoad) }

// start derives the endpoints of each service, which finds its pods by an index of their labels,
// and the load of each node, by an index of the nodes.
func start[T any](p derive.Program, pods krt.Collection[T], podsSynced func(context.Context) error, v view[T]) func(context.Context) error {
	stop := krt.WithStop(p.Context.Done())
	services := krt.NewStaticCollection(nil, p.Services, stop, krt.WithName("services"))
	byLabel := krt.NewIndex(pods, "label", func(pod T) (pairs []label) {
		for key, value := range v.labels(pod) {
			pairs = append(pairs, label{v.namespace(pod), key, value})
		}
		return pairs
	})
	byNode := krt.NewIndex(pods, "node", func(pod T) []string { return []string{v.address(pod).Node} })

	es := krt.NewCollection(services, func(ctx krt.HandlerContext, s *corev1.Service) *endpoints {
		key := slices.Min(slices.Collect(maps.Keys(s.Spec.Selector)))
		of := krt.Fetch(ctx, pods, krt.FilterIndex(byLabel, label{s.Namespace, key, s.Spec.Selector[key]}), krt.FilterLabel(s.Spec.Selector))
		e := &derive.Endpoints{Meta: lw.Meta{Namespace: s.Namespace, Name: s.Name, UID: s.UID}, Addresses: make([]derive.Address, len(of))}
		for i, pod := range of {
			e.Addresses[i] = v.address(pod)
		}
		slices.SortFunc(e.Addresses, func(a, b derive.Address) int { return cmp.Compare(a.Pod, b.Pod) })
		return &endpoints{e}
	}, stop, krt.WithName("endpoints"))
	loads := krt.NewCollection(byNode.AsCollection(stop, krt.WithName("nodes")), func(_ krt.HandlerContext, node krt.IndexObject[string, T]) *load {
		l := &derive.NodeLoad{Meta: lw.Meta{Name: node.Key}}
		for _, pod := range node.Objects {
			l.Pods++
			if v.address(pod).Ready {
				l.Ready++
			}
		}
		return &load{l}
	}, stop, krt.WithName("loads"))

	registered := []krt.HandlerRegistration{
		es.Register(told(func(e endpoints) *derive.Endpoints { return e.Endpoints }, p.Endpoints)),
		loads.Register(told(func(l load) *derive.NodeLoad { return l.NodeLoad }, p.Load)),
	}
	return func(ctx context.Context) error {
		if err := podsSynced(ctx); err != nil {
			return err
		}
		for _, r := range registered {
			if !r.WaitUntilSynced(ctx.Done()) {
				return ctx.Err()
			}
		}
		return nil
	}
}

// told returns a handler of krt that tells f of the results.
func told[W, T any](result func(W) *T, f func(old, now *T)) func(krt.Event[W]) {
	of := func(w *W) *T {
		if w == nil {
			return nil
		}
		return result(*w)
	}
	return func(e krt.Event[W]) { f(of(e.Old), of(e.New)) }
}
