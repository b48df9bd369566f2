package simulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-lw/lw/controllerruntime"
)

// TestErrors says what is wrong with a World, and what to do.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		start func(ctx context.Context, c *rest.Config) error
		steps func(w *W)
		want  []string
	}{
		{"ends at once", func(context.Context, *rest.Config) error { return errors.New("no leader") }, nil,
			[]string{"the program ends", "no leader", "Start should return"}},
		{"ends without an error", func(context.Context, *rest.Config) error { return nil }, nil,
			[]string{"the program ends", "Start should return"}},
		{"panics", func(context.Context, *rest.Config) error { panic("a bug") }, nil, []string{"the program ends", "a bug",
			"error_test.go"}},
		{"never returns", func(context.Context, *rest.Config) error { time.Sleep(time.Hour * 24 * 365); return nil }, nil,
			[]string{"goroutines", "ten minutes", "error_test.go"}},
		{"panics elsewhere", func(ctx context.Context, _ *rest.Config) error {
			go func() { panic("elsewhere") }()
			<-ctx.Done()
			return nil
		}, nil, []string{"panic", "elsewhere"}},
		{"a kind that is not there", waits, func(w *W) { w.Apply("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}") }, []string{"the world", "World.Resources"}},
		{"a file that is not there", waits, func(w *W) { w.Apply("nowhere.yaml") }, []string{"the world", "nowhere.yaml"}},
		{"no rest", func(ctx context.Context, _ *rest.Config) error {
			var mu sync.Mutex
			mu.Lock()
			defer mu.Unlock()
			go mu.Lock()
			<-ctx.Done()
			return nil
		}, nil, []string{"does not settle", "Mutex", "Wait for the caches before the work begins"}},
		{"reads before its caches", early(nil), nil, []string{"the program ends", "GetAPIReader"}},
		{"no such cache", manageOn(NewCache, clean), nil, []string{"the program ends", `no cache "other"`,
			"-simulate.cache"}},
		{"reads before the caches of lw", early(controllerruntime.NewCache), nil,
			[]string{"the program ends", "GetAPIReader"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			hangs = time.Second
			defer func(was string) { *cacheFlag = was }(*cacheFlag)
			*cacheFlag = "other"
			s := begin(t, &World{Start: c.start, Steps: c.steps, Histories: 2})
			r := s.find()
			if r == nil {
				t.Fatal("nothing is wrong")
			}
			text := s.text(r)
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("the report lacks %q:\n%s", want, text)
				}
			}
		})
	}
}

func waits(ctx context.Context, _ *rest.Config) error {
	<-ctx.Done()
	return nil
}

// early reads from the caches of a manager that it has not started.
func early(caches cache.NewCacheFunc) func(ctx context.Context, c *rest.Config) error {
	return func(ctx context.Context, c *rest.Config) error {
		mgr, err := ctrl.NewManager(c, ctrl.Options{NewCache: caches, Metrics: metricsserver.Options{BindAddress: "0"}})
		if err != nil {
			return err
		}
		if err := mgr.GetClient().List(ctx, &corev1.SecretList{}); err != nil {
			return fmt.Errorf("set up: %w", err)
		}
		return mgr.Start(ctx)
	}
}
