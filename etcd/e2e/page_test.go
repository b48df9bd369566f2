package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
)

// What docs/sources.md shows.
func TestPage(t *testing.T) {
	example := func(ctx context.Context, client *clientv3.Client) error {
		type Job struct {
			lw.Meta `json:"metadata"`
			Command string `json:"command"`
		}
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
		version, err := jobs.Delete(ctx, lw.KeyOf(job), job.ResourceVersion)
		if err != nil {
			return err
		}
		return informer.WaitForResourceVersion(ctx, version) // now no read shows the job
	}
	client, _, _ := begin(t)
	ctx, cancel := context.WithCancel(within(t, time.Minute))
	defer cancel()
	noErr(t, example(ctx, client))
}

// TestPages expects each page to say how many objects are behind it, as far as etcd knows, and that
// a token is refused together with a version.
func TestPages(t *testing.T) {
	_, _, c := begin(t)
	ctx := within(t, time.Minute)
	for _, name := range []string{"a", "b", "c"} {
		for _, namespace := range []string{"one", "two"} {
			noErr(t, second(c.Create(ctx, newThing(namespace, name, 1))))
		}
	}
	for _, test := range []struct {
		opts metav1.ListOptions
		want string
	}{
		{metav1.ListOptions{Limit: 4}, "2"},
		{metav1.ListOptions{Limit: 6}, "none"},
		{metav1.ListOptions{Limit: 1, FieldSelector: "metadata.namespace=two"}, "2"},
		{metav1.ListOptions{Limit: 1, FieldSelector: "metadata.name!=a"}, "none"}, // of which it knows nothing
	} {
		meta, err := c.List(ctx, test.opts, func(_ *thing, err error) error { return err })
		noErr(t, err)
		got := "none"
		if n := meta.RemainingItemCount; n != nil {
			got = fmt.Sprint(*n)
		}
		if got != test.want {
			t.Errorf("limit %d of %q: %s remain, want %s", test.opts.Limit, test.opts.FieldSelector, got, test.want)
		}
		if meta.Continue == "" {
			continue
		}
		test.opts.Continue, test.opts.ResourceVersion = meta.Continue, meta.ResourceVersion
		if _, err := c.List(ctx, test.opts, func(*thing, error) error { return nil }); !apierrors.IsBadRequest(err) {
			t.Errorf("a token together with a version: %v", err)
		}
	}
}
