package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-lw/lw"
)

// Endpoints are where the pods of a service are, in the order of their names. They have the name of
// the service.
type Endpoints struct {
	lw.Meta
	Ready, NotReady []string // IPs
}

// Equal reports whether e and o say the same of one service.
func (e *Endpoints) Equal(o *Endpoints) bool {
	return e.Meta == o.Meta && slices.Equal(e.Ready, o.Ready) && slices.Equal(e.NotReady, o.NotReady)
}

func (e *Endpoints) String() string {
	s := fmt.Sprintf("service %s: %s", lw.KeyOf(e), strings.Join(e.Ready, " "))
	if len(e.NotReady) > 0 {
		s += fmt.Sprintf(" (not ready: %s)", strings.Join(e.NotReady, " "))
	}
	return s
}

// A Load is how many pods a node has. It has the name of the node.
type Load struct {
	lw.Meta
	Count
}

// A Count is a number of pods, and how many of them are ready.
type Count struct{ Pods, Ready int }

// Equal reports whether l and o say the same of one node.
func (l *Load) Equal(o *Load) bool { return *l == *o }

func (l *Load) String() string {
	return fmt.Sprintf("node %s: %d of %d pods ready", l.Name, l.Ready, l.Pods)
}

// A Backend is what endpoints and loads need of a pod.
type Backend struct {
	lw.Meta
	Labels   map[string]string
	Node, IP string
	Ready    bool
}

// Equal ends the changes of a pod that change nothing here, such as most of what a kubelet writes.
func (b *Backend) Equal(o *Backend) bool {
	return b.UID == o.UID && b.Node == o.Node && b.IP == o.IP && b.Ready == o.Ready && maps.Equal(b.Labels, o.Labels)
}

// A View keeps the endpoints of all services and the loads of all nodes, both of one state of the
// pods and services.
type View struct {
	Graph     *lw.Graph
	Pods      *lw.Informer[*Pod]
	Services  *lw.Informer[*Service]
	Endpoints *lw.Derived[*Endpoints]
	Loads     *lw.Derived[*Load]
}

// NewView returns a view of the API server at url. It shows nothing before Run. onError is told of
// every failure.
func NewView(url string, client *http.Client, onError func(error)) *View {
	opts := &lw.Options{OnError: onError}
	g := lw.NewGraph(&lw.GraphOptions{OnError: onError})
	pods := lw.NewInformer(&lw.HTTP[*Pod]{URL: url + "/api/v1/pods", Client: client}, opts)
	services := lw.NewInformer(&lw.HTTP[*Service]{URL: url + "/api/v1/services", Client: client}, opts)
	backends := lw.Derive(g, pods, backendOf)
	return &View{
		Graph: g, Pods: pods, Services: services,
		Endpoints: lw.LeftJoin(g, services, backends, lw.On[label, *Service, *Backend]{
			Left:  selectorPair,
			Right: labelPairs,
			Where: selects,
		}, endpointsOf),
		Loads: lw.GroupBy(g, backends,
			func(b *Backend) string { return b.Node },
			lw.Aggregate[*Backend, Count]{
				Add:    func(c Count, b *Backend) Count { return c.plus(b, 1) },
				Remove: func(c Count, b *Backend) Count { return c.plus(b, -1) },
			},
			func(node string, c Count) *Load { return &Load{lw.Meta{Name: node}, c} }),
	}
}

// Run keeps the view in step until ctx is done, and returns when everything has stopped. It returns
// an error at once if the server can never be followed.
func (v *View) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	runs := []func(context.Context) error{v.Pods.Run, v.Services.Run, v.Graph.Run}
	ended := make(chan error, len(runs))
	for _, run := range runs {
		go func() { ended <- run(ctx) }()
	}
	var err error
	for range runs {
		err = errors.Join(err, <-ended)
		stop() // one alone is of no use
	}
	return err
}

// backendOf leaves out pods that have no address yet, and those that have ended.
func backendOf(p *Pod) *Backend {
	if p.Status.PodIP == "" || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
		return nil
	}
	return &Backend{Meta: lw.MetaOf(p), Labels: p.Labels, Node: p.Spec.NodeName, IP: p.Status.PodIP, Ready: p.Ready()}
}

// endpointsOf returns the endpoints of a service with these pods.
func endpointsOf(s *Service, backends []*Backend) *Endpoints {
	e := &Endpoints{Meta: lw.Meta{Namespace: s.Namespace, Name: s.Name, UID: s.UID}}
	for _, b := range backends {
		if b.Ready {
			e.Ready = append(e.Ready, b.IP)
		} else {
			e.NotReady = append(e.NotReady, b.IP)
		}
	}
	return e
}

func (c Count) plus(b *Backend, n int) Count {
	c.Pods += n
	if b.Ready {
		c.Ready += n
	}
	return c
}

// A label is a pair of a selector or of the labels of an object, in its namespace.
type label struct{ namespace, key, value string }

// selectorPair yields one pair of the selector: all pods of the service have it. A service without
// a selector has none.
func selectorPair(s *Service) iter.Seq[label] {
	return func(yield func(label) bool) {
		if len(s.Spec.Selector) > 0 {
			key := slices.Min(slices.Collect(maps.Keys(s.Spec.Selector)))
			yield(label{s.Namespace, key, s.Spec.Selector[key]})
		}
	}
}

// labelPairs yields all pairs of the labels.
func labelPairs(b *Backend) iter.Seq[label] {
	return func(yield func(label) bool) {
		for k, v := range b.Labels {
			if !yield(label{b.Namespace, k, v}) {
				return
			}
		}
	}
}

// selects reports whether b has all pairs of the selector. The two share a pair, and so the
// namespace.
func selects(s *Service, b *Backend) bool {
	for k, v := range s.Spec.Selector {
		if b.Labels[k] != v {
			return false
		}
	}
	return true
}
