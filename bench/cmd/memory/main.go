// Command memory prints how much memory an informer of pods takes, with each of the ways to keep
// less. docs/memory.md has its table.
//
//	go run ./cmd/memory
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/bench/internal/pods"
	"github.com/go-lw/lw/internal/apiserver"
)

func main() {
	n := flag.Int("pods", 10_000, "the number of pods that the server has")
	flag.Parse()
	if err := run(*n); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

// run prints a row for each way to follow n pods, all in this process. The server is in it too: its
// objects are there before the first row, so a row's growth of the heap is the informer's.
func run(n int) error {
	server := apiserver.New(apiserver.Options{Resources: []apiserver.Resource{
		{Resource: "pods", Kind: "Pod", Fields: []string{"spec.nodeName"}, Proto: apiserver.Proto[corev1.Pod]()},
	}})
	defer server.Close()
	for i := range n {
		p := pods.Full(i)
		p.ResourceVersion = "" // the server gives it
		if _, err := server.Collection("pods").Create(p); err != nil {
			return err
		}
	}
	client := server.Client()
	defer client.CloseIdleConnections()
	const url, asJSON = "http://server/api/v1/pods", "application/json"
	managed := []string{"metadata.managedFields"}
	read := lw.Fields{"metadata.labels", "spec.nodeName", "status.conditions.status", "status.conditions.type",
		"status.phase", "status.podIP"}
	nodeSelector := "?fieldSelector=spec.nodeName%3D" + pods.Full(0).Spec.NodeName
	rows := []struct {
		name string
		cost func() (cost, error)
	}{
		{"`HTTP[*corev1.Pod]`", followed(&lw.HTTP[*corev1.Pod]{URL: url, Client: client, Accept: asJSON})},
		{"`Pack` of it", followed(lw.Pack(
			&lw.HTTP[*corev1.Pod]{URL: url, Client: client, Accept: asJSON}, lw.PackOptions{}))},
		{"with `Drop: metadata.managedFields`", followed(&lw.HTTP[*corev1.Pod]{URL: url, Client: client, Accept: asJSON,
			Drop: managed})},
		{"with `Share`", followed(&lw.HTTP[*corev1.Pod]{URL: url, Client: client, Accept: asJSON, Share: true})},
		{"with both", followed(&lw.HTTP[*corev1.Pod]{URL: url, Client: client, Accept: asJSON, Share: true, Drop: managed})},
		{"with `Only` of six fields", followed(&lw.HTTP[*corev1.Pod]{URL: url, Client: client, Accept: asJSON, Only: read})},
		{"one node's pods, by a field selector", followed(&lw.HTTP[*corev1.Pod]{URL: url + nodeSelector, Client: client,
			Accept: asJSON})},
		{"`HTTP[*metav1.PartialObjectMetadata]`",
			followed(&lw.HTTP[*metav1.PartialObjectMetadata]{URL: url, Client: client})},
		{"with `Share` and `Drop`", followed(&lw.HTTP[*metav1.PartialObjectMetadata]{URL: url, Client: client, Share: true,
			Drop: managed})},
		{"`Transform` to a struct of five fields",
			followed(lw.Transform(&lw.HTTP[*corev1.Pod]{URL: url, Client: client, Accept: asJSON}, toPlace))},
		{"`HTTP` of a type that has five fields", followed(&lw.HTTP[*slimPod]{URL: url, Client: client, Accept: asJSON})},
		{"`HTTP` of a type that has five fields, over protobuf", followed(&lw.HTTP[*slimPod]{URL: url, Client: client})},
	}
	// The server keeps the encodings of its objects. It makes those of protobuf before the first
	// row.
	if _, err := rows[len(rows)-1].cost(); err != nil {
		return err
	}
	fmt.Printf("| %d pods | objects | heap | heap an object |\n|---|---|---|---|\n", n)
	for _, row := range rows {
		c, err := row.cost()
		if err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
		kib := float64(c.heap) / 1024
		fmt.Printf("| %s | %d | %.1f MiB | %.2f KiB |\n", row.name, c.objects, kib/1024, kib/float64(c.objects))
	}
	return nil
}

// A place is where a pod runs: all that some programs need of it.
type place struct {
	lw.Meta
	Node, IP string
	Phase    corev1.PodPhase
}

func toPlace(p *corev1.Pod) (*place, error) {
	return &place{lw.MetaOf(p), p.Spec.NodeName, p.Status.PodIP, p.Status.Phase}, nil
}

// A slimPod is a pod of which lw decodes nothing but the fields of a place.
type slimPod struct {
	lw.Meta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec    struct {
		NodeName string `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	Status struct {
		Phase corev1.PodPhase `json:"phase" protobuf:"bytes,1,opt,name=phase"`
		PodIP string          `json:"podIP" protobuf:"bytes,6,opt,name=podIP"`
	} `json:"status" protobuf:"bytes,3,opt,name=status"`
}

// A cost is the memory of an informer that has synced.
type cost struct {
	objects int
	heap    uint64 // bytes in use after a collection, more than before
}

// followed returns a function that runs an informer of src until it has synced, and returns its
// cost.
func followed[T lw.Object](src lw.Source[T]) func() (cost, error) {
	return func() (cost, error) {
		ctx, cancel := context.WithCancel(context.Background())
		before, _ := measure.Live()
		inf := lw.NewInformer(src, &lw.Options{OnError: func(err error) { fmt.Fprintln(os.Stderr, err) }})
		ran := make(chan error, 1)
		defer func() { cancel(); <-ran }()
		go func() { ran <- inf.Run(ctx) }()
		err := inf.WaitForSync(ctx)
		live, _ := measure.Live()
		return cost{inf.Store().Len(), live - min(before, live)}, err
	}
}
