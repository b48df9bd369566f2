// Command dynamic follows kinds that nobody knows before it runs.
//
//	go run .
//
// demonstrates it on an API server in memory, where kinds come and go and the connection breaks. It
// exits with 0 if the program knows at the end what the server has.
//
//	go run . -kubeconfig ~/.kube/config pods.v1. deployments.v1.apps
//	go run . -kubeconfig ~/.kube/config -custom -metadata
//
// prints the changes of a cluster until Ctrl-C: those of the resources that are named, and with
// -custom those of all custom resources. With -metadata it reads the metadata of the objects alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/go-lw/lw"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "follow the cluster of this file")
	custom := flag.Bool("custom", false, "follow all custom resources")
	metadata := flag.Bool("metadata", false, "read metadata alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *custom, *metadata, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string, custom, metadata bool, args []string) error {
	if kubeconfig == "" {
		if err := demo[*unstructured.Unstructured](ctx, os.Stdout); err != nil {
			return err
		}
		return demo[*metav1.PartialObjectMetadata](ctx, os.Stdout)
	}
	if len(args) == 0 && !custom {
		return errors.New("name resources such as pods.v1. or deployments.v1.apps, or use -custom")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	var resources []schema.GroupVersionResource
	for _, arg := range args {
		resource, _ := schema.ParseResourceArg(arg)
		if resource == nil {
			return fmt.Errorf("%s is no resource with its version and group: deployments.v1.apps; pods.v1. for the core group", arg)
		}
		resources = append(resources, *resource)
	}
	if metadata {
		return follow[*metav1.PartialObjectMetadata](ctx, config, resources, custom)
	}
	return follow[*unstructured.Unstructured](ctx, config, resources, custom)
}

// follow prints what changes on a cluster.
func follow[T lw.Object](ctx context.Context, config *rest.Config, resources []schema.GroupVersionResource, custom bool) error {
	f, err := NewFollower(config, resources, custom, slog.Default(), func(kind string, change lw.EventType, obj T) {
		fmt.Printf("%-8s %s %s\n", change, kind, lw.KeyOf(obj))
	})
	if err != nil {
		return err
	}
	return f.Run(ctx)
}
