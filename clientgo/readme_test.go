package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
)

// keys is a work queue, as far as a handler sees one.
type keys chan lw.Key

func (k keys) Add(key lw.Key) { k <- key }

// What README.md begins with, from a clientset to a write that is read; and what it returns where the server says no.
func TestREADME(t *testing.T) {
	example := func(ctx context.Context, clientset kubernetes.Interface, queue keys, pod *corev1.Pod) error {
		pods := lw.NewInformer(lw.FromClient(clientset.CoreV1().Pods("")), nil) // every type is inferred
		byNode := lw.NewIndex(pods, func(p *corev1.Pod) string { return p.Spec.NodeName })
		pods.AddHandler(lw.Handler[*corev1.Pod]{
			Add:    func(p *corev1.Pod) { queue.Add(lw.KeyOf(p)) },
			Update: func(old, p *corev1.Pod) { queue.Add(lw.KeyOf(p)) },
			Delete: func(last *corev1.Pod) { queue.Add(lw.KeyOf(last)) }, // never nil, never a tombstone
		})
		go pods.Run(ctx)

		patience, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := pods.WaitForSync(patience); err != nil {
			return err // "lw: Pod: not synced (…): list (failure 5 in a row): pods is forbidden: …: context deadline exceeded"
		}
		for p := range byNode.Lookup("node-1") {
			fmt.Println(p.Name, p.Status.Phase)
		}
		p, err := clientset.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return pods.WaitForResourceVersion(patience, p.ResourceVersion) // read your writes: from here on every read shows it
	}
	for name, refused := range map[string]bool{"as it should": false, "forbidden": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(apiserver.Options{Resources: []apiserver.Resource{{Resource: "pods", Kind: "Pod"}}})
				client := server.Client()
				t.Cleanup(func() { server.Close(); client.CloseIdleConnections() })
				if refused {
					why := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no role allows it"))
					for _, verb := range []apiserver.Verb{apiserver.List, apiserver.Watch, apiserver.Stream} {
						server.Inject(apiserver.Fault{Verb: verb, Times: -1, Do: apiserver.Fail(why)})
					}
				}
				config := &rest.Config{
					Host: "http://apiserver", Transport: client.Transport, QPS: -1,
					ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
				}
				clientset, err := kubernetes.NewForConfig(config)
				if err != nil {
					t.Fatal(err)
				}
				queue := make(keys, 10)
				err = example(t.Context(), clientset, queue, pod("default", "new"))
				synctest.Wait()
				if refused {
					want := regexp.MustCompile(`^lw: Pod: not synced \(.*\): (list|stream) \(failure \d+ in a row\): pods is forbidden: .*no role.*: context deadline exceeded$`)
					if err == nil || !want.MatchString(err.Error()) || !apierrors.IsForbidden(err) || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got  %v\nwant %v", err, want)
					}
					return
				}
				if err != nil || len(queue) != 1 || <-queue != (lw.Key{Namespace: "default", Name: "new"}) {
					t.Errorf("%d keys, error %v", len(queue), err)
				}
			})
		})
	}
}
