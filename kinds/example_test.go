package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/lwtest"
)

// An informer starts before its CustomResourceDefinition, and follows the kind when that comes.
func ExampleSource() {
	server := lwtest.StartServer(lwtest.Definitions()...)
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	catalog := kinds.New(server.URL(), server.Client())
	src := kinds.Source[*unstructured.Unstructured](catalog, kinds.Name{Group: "example.com", Version: "v1",
		Kind: "Widget"}, nil)
	inf := lw.NewInformer(src, &lw.Options{Name: "widgets"})
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = catalog.Run(ctx) })
	running.Go(func() { _ = inf.Run(ctx) })

	fmt.Println("in step:", inf.WaitForSync(ctx) == nil, inf.Store().Len(), inf.Status().Unserved != "")

	definitions := lwtest.Objects[*unstructured.Unstructured](server, "customresourcedefinitions")
	if _, err := definitions.Create(widgets.object()); err != nil {
		fmt.Println(err)
	}
	create := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "shop", "name": "web"},
	}}
	if _, err := lwtest.Objects[*unstructured.Unstructured](server, "widgets").Create(create); err != nil {
		fmt.Println(err)
	}
	there := func(o *unstructured.Unstructured) bool { return o != nil }
	web, err := lw.WaitFor(ctx, inf, lw.Key{Namespace: "shop", Name: "web"}, there)
	fmt.Println(web.GetName(), err)
	// Output:
	// in step: true 0 true
	// web <nil>
}

// A readiness probe waits for the kinds that the program cannot do without.
func ExampleCatalog_Wait() {
	server := lwtest.StartServer(lwtest.Definitions()...)
	defer server.Close()
	catalog := kinds.New(server.URL(), server.Client())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = catalog.Run(ctx) })

	probe, done := context.WithTimeout(ctx, 100*time.Millisecond)
	defer done()
	err := catalog.Wait(probe, kinds.Name{Group: "example.com", Version: "v1", Kind: "Widget"})
	fmt.Println(errors.Is(err, kinds.ErrAbsent), errors.Is(err, context.DeadlineExceeded))
	// Output: true true
}
