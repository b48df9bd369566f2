package clientgo_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	fcache "k8s.io/client-go/tools/cache/testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// client-go's own fake of a controller's source refuses a streamed list with an error of strconv: neither the API's nor the
// network's. It is listed then, within a backoff.
func TestFakeControllerSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fcache.NewFakeControllerSource()
		fake.Add(pod("default", "a"))
		fake.Add(pod("default", "b"))
		src := &lw.ListWatch[*corev1.Pod, *corev1.List]{
			ListFunc: func(_ context.Context, opts metav1.ListOptions) (*corev1.List, error) {
				l, err := fake.List(opts)
				if err != nil {
					return nil, err
				}
				return l.(*corev1.List), nil
			},
			WatchFunc: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) { return fake.Watch(opts) },
		}
		var errs []error
		inf := lw.NewInformer(src, &lw.Options{OnError: func(err error) { errs = append(errs, err) }})
		var told []string
		inf.AddHandler(lw.Handler[*corev1.Pod]{
			Add:    func(p *corev1.Pod) { told = append(told, "add "+p.Name) },
			Update: func(_, p *corev1.Pod) { told = append(told, "update "+p.Name) },
			Delete: func(p *corev1.Pod) { told = append(told, "delete "+p.Name) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- inf.Run(ctx) }()
		begin := time.Now()
		rig.OK(t, inf.WaitForSync(t.Context()))
		if took := time.Since(begin); took > 2*time.Second || len(errs) != 2 {
			t.Errorf("synced after %v and %v", took, errs)
		}
		fake.Add(pod("default", "c"))
		fake.Modify(pod("default", "a"))
		fake.Delete(pod("default", "b"))
		time.Sleep(time.Minute)
		synctest.Wait()
		slices.Sort(told[:2])
		if want := []string{"add a", "add b", "add c", "update a", "delete b"}; !slices.Equal(want, told) {
			t.Errorf("told %v, want %v", told, want)
		}
		if s := inf.Status(); s.Mode != lw.ListPages || s.Failures != 0 || s.Objects != 2 {
			t.Errorf("status: %+v", s)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		fake.Shutdown()
	})
}
