package controllerruntime_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/lwtest"
)

// lateWatches delays what a server tells its watches.
type lateWatches struct{ http.RoundTripper }

const watchDelay = 3 * time.Second

func (l lateWatches) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") != "" {
		resp.Body = lateBody{resp.Body}
	}
	return resp, err
}

type lateBody struct{ io.ReadCloser }

func (b lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	time.Sleep(watchDelay)
	return n, err
}

// A client with EnableReadYourWritesConsistency reads what it has written, from NewCache as from
// controller-runtime's own cache, and also where the objects lack fields. Each read waits for the watch.
func TestReadYourWrites(t *testing.T) {
	only := controllerruntime.Options{Only: map[client.Object]lw.Fields{&corev1.Pod{}: {"metadata.labels", "metadata.finalizers"}}}
	for name, newCache := range map[string]cache.NewCacheFunc{
		"controller-runtime": cache.New, "NewCache": controllerruntime.NewCache, "Only": controllerruntime.NewCacheWith(only),
	} {
		rig.Bubble(t, name, func(t *testing.T) {
			server := lwtest.NewServer(t, lwtest.Resource{Plural: "pods", Kind: "Pod"})
			config := &rest.Config{Host: server.URL(), Transport: lateWatches{server.Client().Transport}, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
			ctx, cancel := context.WithCancel(t.Context())
			c := rig.Must[cache.Cache](t)(newCache(config, cache.Options{}))
			ended := make(chan error, 1)
			go func() { ended <- c.Start(ctx) }()
			defer func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				time.Sleep(2 * watchDelay) // client-go does not wait for its watches
			}()
			yes := true
			cl := rig.Must[client.Client](t)(client.New(config, client.Options{Cache: &client.CacheOptions{Reader: c, EnableReadYourWritesConsistency: &yes}}))
			pod := namedPod("web", "n1")
			key := client.ObjectKeyFromObject(pod)
			var got []string
			read := func(what string) {
				t.Helper()
				start := time.Now()
				var one corev1.Pod
				err := cl.Get(ctx, key, &one)
				waited := time.Since(start) > 0
				var all corev1.PodList
				if err := cl.List(ctx, &all); err != nil {
					t.Error(err)
				}
				got = append(got, fmt.Sprintf("%s: label %q, %d in the list, gone %t, waited %t", what, one.Labels["v"], len(all.Items), apierrors.IsNotFound(err), waited))
			}
			write := func(err error) {
				t.Helper()
				if err != nil {
					t.Error(err)
				}
			}
			read("before")
			pod.Finalizers = []string{"example.com/stay"}
			write(cl.Create(ctx, pod))
			read("created")
			pod.Labels = map[string]string{"v": "1"}
			write(cl.Update(ctx, pod))
			read("updated")
			write(cl.Delete(ctx, pod))
			read("held by a finalizer")
			write(cl.Get(ctx, key, pod))
			pod.Finalizers = nil
			write(cl.Update(ctx, pod))
			pod = namedPod("other", "n1")
			key = client.ObjectKeyFromObject(pod)
			write(cl.Create(ctx, pod))
			write(cl.Delete(ctx, pod))
			read("deleted")
			want := []string{
				`before: label "", 0 in the list, gone true, waited true`,
				`created: label "", 1 in the list, gone false, waited true`,
				`updated: label "1", 1 in the list, gone false, waited true`,
				`held by a finalizer: label "1", 1 in the list, gone false, waited true`,
				`deleted: label "", 0 in the list, gone true, waited true`,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("reads (-want +got):\n%s", diff)
			}
		})
	}
}
