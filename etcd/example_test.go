package etcd_test

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
)

type Job struct {
	lw.Meta `json:"metadata"`
	Command string `json:"command"`
}

func jobs(ctx context.Context, client *clientv3.Client) error {
	jobs, err := etcd.New[*Job](client, "/scheduler/jobs/", nil)
	if err != nil {
		return err
	}
	informer := lw.NewInformer(jobs, nil)
	go informer.Run(ctx)

	job, err := jobs.Create(ctx, &Job{Meta: lw.Meta{Namespace: "ns", Name: "one"}, Command: "true"})
	if err != nil {
		return err
	}
	if err := informer.WaitForResourceVersion(ctx, job.ResourceVersion); err != nil {
		return err
	}
	version, err := jobs.Delete(ctx, job.Key(), job.ResourceVersion)
	if err != nil {
		return err
	}
	return informer.WaitForResourceVersion(ctx, version) // now no read shows the job
}

// These examples need an etcd, so they are compiled and not run; those of etcd/e2e and the program
// examples/cluster/etcd are run.

func ExampleNew() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"localhost:2379"}})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	if err := jobs(context.Background(), client); err != nil {
		panic(err)
	}
}

func ExampleKube() {
	var client *clientv3.Client // of the etcd of a kube-apiserver
	pods, err := etcd.New(client, "/registry/pods/", &etcd.Options[*metav1.PartialObjectMetadata]{
		Codec: etcd.Kube[*metav1.PartialObjectMetadata](), // *corev1.Pod, with k8s.io/api
	})
	if err != nil {
		panic(err)
	}
	_ = lw.NewInformer(pods, nil)
}

func ExampleCollection_WithLease() {
	ctx := context.Background()
	var client *clientv3.Client
	workers, err := etcd.New[*Job](client, "/scheduler/workers/", nil)
	if err != nil {
		panic(err)
	}
	lease, err := client.Grant(ctx, 10)
	if err != nil {
		panic(err)
	}
	// The object goes ten seconds after the last KeepAlive.
	if _, err := workers.WithLease(lease.ID).Create(ctx, &Job{Meta: lw.Meta{Namespace: "ns", Name: "me"}}); err != nil {
		panic(err)
	}
}
