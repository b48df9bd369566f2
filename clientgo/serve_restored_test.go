package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
)

// Behind a relay of a server that was restored, and is past its old version, whatever follows it
// has what the server has: client-go's own informers, and lw over client-go's clients, which is
// also told that the server went back in time.
func TestRestoredBehindARelay(t *testing.T) {
	t.Parallel()
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	}
	m := lw.NewMemory(pod("a", "one"), pod("b", "one"))
	update := func(p *corev1.Pod) {
		was, gone := m.Get(t.Context(), lw.Key{Namespace: "default", Name: p.Name})
		var err error
		if gone == nil {
			p.UID = was.UID
			_, err = m.Update(t.Context(), p)
		} else {
			_, err = m.Create(t.Context(), p)
		}
		rig.OK(t, err)
	}
	clientset := kubernetes.NewForConfigOrDie(&rest.Config{Host: relayOf(t, lw.Source[*corev1.Pod](m), servedPods), QPS: -1})
	listerWatcher := cache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "pods", "", fields.Everything())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	var mu sync.Mutex
	rewound := map[string]int{}
	stores := map[string]func() []*corev1.Pod{}
	sources := map[string]lw.Source[*corev1.Pod]{
		"FromClient": lw.FromClient(clientset.CoreV1().Pods("")),
		"SourceOf":   clientgo.SourceOf[*corev1.Pod](listerWatcher),
	}
	for name, src := range sources {
		inf := lw.NewInformer(src, &lw.Options{OnError: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, lw.ErrRewound) {
				rewound[name]++
			}
		}})
		running.Go(func() { _ = inf.Run(ctx) })
		stores[name] = inf.Store().List
	}
	theirs := cache.NewSharedIndexInformer(listerWatcher, &corev1.Pod{}, 0, nil)
	running.Go(func() { theirs.Run(ctx.Done()) })
	stores["client-go"] = func() (pods []*corev1.Pod) {
		for _, obj := range theirs.GetStore().List() {
			pods = append(pods, obj.(*corev1.Pod))
		}
		return pods
	}
	eventually := func(what string) {
		t.Helper()
		want := map[string]string{}
		for p := range m.All() {
			want[p.Name] = p.ResourceVersion + " " + p.Spec.NodeName
		}
		deadline := time.Now().Add(time.Minute)
		for name, list := range stores {
			for {
				got := map[string]string{}
				for _, p := range list() {
					got[p.Name] = p.ResourceVersion + " " + p.Spec.NodeName
				}
				diff := cmp.Diff(want, got)
				if diff == "" {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s: %s has (-want +got):\n%s", what, name, diff)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
	eventually("at first")
	backup := m.ResourceVersion()
	update(pod("a", "two"))
	update(pod("newest", "two"))
	eventually("before the restore")

	m.Fail(syscall.ECONNREFUSED)
	time.Sleep(1500 * time.Millisecond) // no outage of less than a second is one in which a server is restored
	rig.OK(t, m.Rewind(backup))
	update(pod("a", "three")) // at the version that it had before
	for n := range 10 {
		update(pod("other", fmt.Sprint(n)))
	}
	m.Fail(nil)
	eventually("after the restore")
	mu.Lock()
	defer mu.Unlock()
	for name := range sources {
		if rewound[name] != 1 {
			t.Errorf("%s was told %d times that the server went back in time, want once", name, rewound[name])
		}
	}
}
