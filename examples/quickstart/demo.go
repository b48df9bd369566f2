package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
)

// demo starts the embedded server and follows its pods. A writer changes them, and twice in between
// something goes wrong with the server. At the end demo compares the informer with the server.
func demo(ctx context.Context, objects, changes int) error {
	server := apiserver.New(apiserver.Options{Resources: []apiserver.Resource{{Resource: "pods", Kind: "Pod"}}})
	pods := server.Collection("pods")
	for i := range objects {
		if _, err := pods.Create(newPod(i)); err != nil {
			return err
		}
	}
	address, stop, err := server.Start("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("an API server with %d pods at %s%s\n", objects, address, pods.URL(""))

	f := newFollower[*Pod](&lw.HTTP[*Pod]{URL: address + pods.URL("")}, "node", func(p *Pod) string { return p.Spec.NodeName })
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := f.run(ctx)
	if err := lw.WaitForSync(ctx, f.informer, f.replayed); err != nil {
		return err
	}
	f.line.print("synced: %d pods on %d nodes after %v", f.informer.Store().Len(), f.keys(), f.since())

	w := &writer{pods: pods, live: objects, next: objects}
	trouble := []struct {
		say  string
		make func()
	}{
		{"the watch is cut in the middle of a frame", func() { server.Interrupt(nil, apiserver.Break) }},
		{"the watch is cut, and its history compacted before it is back", func() {
			server.SetDown(true)
			w.write(ctx, changes/10)
			server.Line.Compact(server.Line.Version())
			server.SetDown(false)
		}},
	}
	w.write(ctx, changes*3/10)
	for _, t := range trouble {
		f.line.print("%s", t.say)
		began := time.Now()
		t.make()
		w.write(ctx, 1)
		recovered := f.recovery(ctx, began, fmt.Sprint(server.Line.Version()))
		w.write(ctx, changes*3/10)
		if err := <-recovered; err != nil {
			return err
		}
	}
	if err := f.informer.WaitForResourceVersion(ctx, fmt.Sprint(server.Line.Version())); err != nil {
		return err
	}
	for f.informer.Status().Pending > 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	f.report(w.changes)
	cancel()
	<-done
	return compare(server, f)
}

// writer changes random pods, slowly enough for a person to follow.
type writer struct {
	pods                *apiserver.Collection
	live, next, changes int // next is the number of the next new pod
}

func (w *writer) write(ctx context.Context, n int) {
	for i := 0; i < n && ctx.Err() == nil; i++ {
		w.change(rand.IntN(w.next))
		w.changes++
		if i%20 == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (w *writer) change(i int) {
	p := newPod(i)
	switch r := rand.IntN(20); {
	case r == 0:
		w.pods.Delete(lw.KeyOf(p)) // may fail with NotFound: the pod may be deleted already
	case r == 1:
		w.pods.Delete(lw.KeyOf(p))
		w.pods.Create(p) // another pod with the same name: it has a new UID
	case r == 2:
		w.pods.Create(newPod(w.next))
		w.next++
	default:
		p.Status.Phase = []string{"Running", "Failed", "Succeeded"}[rand.IntN(3)]
		p.Status.PodIP = fmt.Sprintf("10.0.%d.%d", rand.IntN(256), rand.IntN(256))
		w.pods.Update(p)
	}
}

// compare checks that the informer's store, and the replica that a handler has built from its
// calls, equal the server's collection.
func compare(server *apiserver.Server, f *follower[*Pod]) error {
	truth, err := server.Collection("pods").StateAt(server.Line.Version())
	if err != nil {
		return err
	}
	want := map[string]Pod{}
	for _, obj := range truth {
		var p Pod
		if err := json.Unmarshal(obj.JSON, &p); err != nil {
			return err
		}
		p.Kind, p.APIVersion = "", "" // lw.HTTP leaves them empty, as client-go does
		want[obj.Key.String()] = p
	}
	got := map[string]Pod{}
	for p := range f.informer.Store().All() {
		got[lw.KeyOf(p).String()] = *p
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("the store differs from the server (-server +store):\n%s", diff)
	}
	told := map[string]Pod{}
	for key, p := range f.replica {
		told[key.String()] = *p
	}
	if diff := cmp.Diff(want, told); diff != "" {
		return fmt.Errorf("the handler was told something else than the server has (-server +handler):\n%s", diff)
	}
	fmt.Printf("\nthe store and what the handlers were told equal the server: %d pods at resource version %d\n", len(want), server.Line.Version())
	return nil
}
