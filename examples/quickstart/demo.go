package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
)

// Pod has the fields of a pod that this program reads. A small type of your own saves the memory of
// the other fields; *corev1.Pod works as well.
type Pod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase,omitempty"`
	} `json:"status"`
}

// newPod returns pod number i, as it is when the scheduler has chosen a node for it.
func newPod(i int) *Pod {
	p := &Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	p.Namespace, p.Name = []string{"shop", "billing", "search"}[i%3], fmt.Sprintf("web-%05d", i)
	p.Spec.NodeName = fmt.Sprintf("node-%02d", i%20)
	return p
}

// demo follows the pods of the embedded server while a writer changes them and the server fails.
func demo(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := apiserver.New(apiserver.Options{Resources: []apiserver.Resource{{Resource: "pods", Kind: "Pod"}}})
	address, stop, err := server.Start("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer stop()
	w := &writer{pods: server.Collection("pods")}
	for range 2000 {
		w.create(w.next)
	}

	pods := lw.NewInformer(&lw.HTTP[*Pod]{URL: address + w.pods.URL("")}, &lw.Options{
		OnError: func(err error) { fmt.Println("  ", err) },
	})
	byNode := lw.NewIndex(pods, func(p *Pod) string { return p.Spec.NodeName })
	replica := map[string]*Pod{} // a handler's calls come one after the other
	replayed := pods.AddHandler(lw.Handler[*Pod]{
		Add:    func(p *Pod) { replica[lw.KeyOf(p).String()] = p },
		Update: func(_, p *Pod) { replica[lw.KeyOf(p).String()] = p },
		Delete: func(p *Pod) { delete(replica, lw.KeyOf(p).String()) },
	})
	ended := make(chan struct{})
	go func() { defer close(ended); pods.Run(ctx) }()
	if err := lw.WaitForSync(ctx, pods, replayed); err != nil {
		return err
	}
	onNode := 0
	for range byNode.Lookup("node-07") {
		onNode++
	}
	fmt.Printf("synced: %d pods, %d of them on node-07\n", pods.Store().Len(), onNode)

	for _, step := range []struct {
		say   string
		fails func()
	}{
		{"pods change", func() {}},
		{"the watch is cut in the middle of a frame", func() { server.Interrupt(nil, apiserver.Break) }},
		{"the server is down, and its history is compacted before it is back", func() {
			server.SetDown(true)
			w.change(400)
			server.Line.Compact(server.Line.Version())
			server.SetDown(false)
		}},
	} {
		fmt.Println(step.say)
		began := time.Now()
		step.fails()
		w.change(1000)
		version := fmt.Sprint(server.Line.Version())
		if err := pods.WaitForResourceVersion(ctx, version); err != nil {
			return err
		}
		fmt.Printf("  the store is at version %s, %v later\n", version, time.Since(began).Round(time.Millisecond))
	}
	for replayed.Pending() > 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended // no handler is called any more
	status := pods.Status()
	fmt.Printf("events: %v; lists by cause: %v\n", status.Events, status.ListCauses)
	return compare(server, pods.Store(), replica)
}

// A writer changes random pods.
type writer struct {
	pods *apiserver.Collection
	next int // the number of the next new pod
}

func (w *writer) create(i int) {
	w.pods.Create(newPod(i)) // AlreadyExists is an answer like others
	w.next = max(w.next, i+1)
}

func (w *writer) change(n int) {
	for range n {
		i := rand.IntN(w.next)
		switch rand.IntN(10) {
		case 0:
			w.pods.Delete(lw.KeyOf(newPod(i))) // NotFound, likewise
		case 1:
			w.create(w.next)
		case 2:
			w.create(i) // a deleted pod comes back: it has another UID
		default:
			p := newPod(i)
			p.Status.Phase = []string{"Running", "Failed", "Succeeded"}[rand.IntN(3)]
			w.pods.Update(p)
		}
	}
}

// compare returns an error if the store or the replica differs from the server.
func compare(server *apiserver.Server, store lw.Reader[*Pod], replica map[string]*Pod) error {
	truth, err := server.Collection("pods").StateAt(server.Line.Version())
	if err != nil {
		return err
	}
	want, got := map[string]*Pod{}, map[string]*Pod{}
	for _, obj := range truth {
		p := &Pod{}
		if err := json.Unmarshal(obj.JSON, p); err != nil {
			return err
		}
		p.TypeMeta = metav1.TypeMeta{} // lw.HTTP leaves it empty, as client-go does
		want[obj.Key.String()] = p
	}
	for p := range store.All() {
		got[lw.KeyOf(p).String()] = p
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("the store differs from the server (-server +store):\n%s", diff)
	}
	if diff := cmp.Diff(want, replica); diff != "" {
		return fmt.Errorf("the handler was called with something else than the server has (-server +handler):\n%s", diff)
	}
	fmt.Printf("the store and the handler's copy equal the server: %d pods\n", len(want))
	return nil
}
