package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// demo keeps a view of a server in memory, lets things happen, and shows each time what has become
// of the endpoints and the loads. It returns nil if they were always right.
func demo(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	out = &shared{w: out}
	w, err := newWorld()
	if err != nil {
		return err
	}
	defer w.Close()
	v := NewView(w.URL(), w.Client(), func(err error) { fmt.Fprintln(out, "  ", err) })
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- v.Run(running) }()
	if err := v.Graph.WaitForSync(ctx); err != nil {
		return err
	}
	for i, step := range steps {
		before := v.Graph.Status().Steps
		if err := step.do(w); err != nil {
			return err
		}
		if err := w.waitFor(ctx, v); err != nil {
			return err
		}
		fmt.Fprintln(out, step.what)
		if i > 0 && v.Graph.Status().Steps == before {
			fmt.Fprintln(out, "   nothing has changed here")
			continue
		}
		if err := w.show(v, out); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	stop()
	return <-ended
}

// steps are what happens.
var steps = []struct {
	what string
	do   func(w *world) error
}{
	{"two services and six pods on three nodes:", func(*world) error { return nil }},
	{"the nodes say that all is as it was:", func(w *world) error {
		for _, p := range slices.Collect(w.pods.All()) {
			p.Status.Conditions[0].Message = "all is well"
			if err := w.update(p); err != nil {
				return err
			}
		}
		return nil
	}},
	{"a pod of the till is not ready:", func(w *world) error {
		return w.change("till-2", func(p *Pod) { p.Status.Conditions[0].Status = "False" })
	}},
	{"the cart is served by its stable pods alone, and one becomes a canary:", func(w *world) error {
		s, err := w.services.Get(lw.Key{Namespace: "shop", Name: "cart"})
		if err != nil {
			return err
		}
		s.Spec.Selector["track"] = "stable"
		s, err = w.services.Update(s)
		if err != nil {
			return err
		}
		w.service = s.ResourceVersion
		return w.change("cart-3", func(p *Pod) { p.Labels["track"] = "canary" })
	}},
	{"the connection breaks; meanwhile a node is lost, and its pods are made anew on another:", func(w *world) error {
		w.Break()
		for _, name := range []string{"cart-1", "till-1"} {
			old, err := w.pods.Get(lw.Key{Namespace: "shop", Name: name})
			if err != nil {
				return err
			}
			if err := w.pods.Delete(lw.KeyOf(old)); err != nil {
				return err
			}
			if err := w.create(newPod(name, old.Labels["app"], "node-3", old.Status.PodIP+"0")); err != nil {
				return err
			}
		}
		return nil
	}},
}

// A world is an API server in memory with the pods and services of a shop.
type world struct {
	*lwtest.Server
	pods         *lwtest.Collection[*Pod]
	services     *lwtest.Collection[*Service]
	pod, service string // the versions of the last writes
}

func newWorld() (*world, error) {
	server := lwtest.StartServer(lwtest.Resource{Plural: "pods", Kind: "Pod"}, lwtest.Resource{Plural: "services", Kind: "Service"})
	w := &world{Server: server, pods: lwtest.Objects[*Pod](server, "pods"), services: lwtest.Objects[*Service](server, "services")}
	for k, app := range []string{"cart", "till"} {
		s := &Service{}
		s.Namespace, s.Name, s.Spec.Selector = "shop", app, map[string]string{"app": app}
		s, err := w.services.Create(s)
		if err != nil {
			return nil, err
		}
		w.service = s.ResourceVersion
		for i := 1; i <= 3; i++ {
			name, node := fmt.Sprint(app, "-", i), fmt.Sprint("node-", i)
			if err := w.create(newPod(name, app, node, fmt.Sprintf("10.0.%d.%d", i, k+1))); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}

// newPod returns a pod that is ready.
func newPod(name, app, node, ip string) *Pod {
	p := &Pod{}
	p.Namespace, p.Name = "shop", name
	p.Labels = map[string]string{"app": app, "track": "stable"}
	p.Spec.NodeName = node
	p.Status = PodStatus{Phase: "Running", PodIP: ip, Conditions: []Condition{{Type: "Ready", Status: "True"}}}
	return p
}

func (w *world) create(p *Pod) error {
	p, err := w.pods.Create(p)
	if err == nil {
		w.pod = p.ResourceVersion
	}
	return err
}

func (w *world) update(p *Pod) error {
	p, err := w.pods.Update(p)
	if err == nil {
		w.pod = p.ResourceVersion
	}
	return err
}

func (w *world) change(name string, change func(*Pod)) error {
	p, err := w.pods.Get(lw.Key{Namespace: "shop", Name: name})
	if err != nil {
		return err
	}
	change(p)
	return w.update(p)
}

// waitFor waits until v shows all that was written.
func (w *world) waitFor(ctx context.Context, v *View) error {
	if err := v.Graph.WaitForResourceVersion(ctx, v.Pods, w.pod); err != nil {
		return err
	}
	return v.Graph.WaitForResourceVersion(ctx, v.Services, w.service)
}

// show prints the view, of one state, and returns an error if that is not what the server has.
func (w *world) show(v *View, out io.Writer) error {
	snap := v.Graph.Snapshot()
	got := append(lines(v.Endpoints.At(snap)), lines(v.Loads.At(snap))...)
	for _, line := range got {
		fmt.Fprintln(out, "  ", line)
	}
	if diff := cmp.Diff(w.computed(), got); diff != "" {
		return fmt.Errorf("the view differs from the server (-server +view):\n%s", diff)
	}
	return nil
}

// lines returns the objects of a snapshot as text, in the order of their names.
func lines[T interface {
	lw.Object
	fmt.Stringer
}](snap *lw.Snapshot[T]) (lines []string) {
	for obj := range snap.All() {
		lines = append(lines, obj.String())
	}
	slices.Sort(lines)
	return lines
}

// computed returns what a view must show, by a loop over all that the server has.
func (w *world) computed() []string {
	var endpoints, loads []string
	counts := map[string]Count{}
	for s := range w.services.All() {
		e := &Endpoints{Meta: lw.Meta{Namespace: s.Namespace, Name: s.Name}}
		for p := range w.pods.All() { // in the order of their keys
			if b := backendOf(p); b != nil && b.Namespace == s.Namespace && selects(s, b) {
				if b.Ready {
					e.Ready = append(e.Ready, b.IP)
				} else {
					e.NotReady = append(e.NotReady, b.IP)
				}
			}
		}
		endpoints = append(endpoints, e.String())
	}
	for p := range w.pods.All() {
		if b := backendOf(p); b != nil {
			counts[b.Node] = counts[b.Node].plus(b, 1)
		}
	}
	for node, c := range counts {
		loads = append(loads, (&Load{lw.Meta{Name: node}, c}).String())
	}
	slices.Sort(endpoints)
	slices.Sort(loads)
	return append(endpoints, loads...)
}
