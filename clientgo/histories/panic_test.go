package histories_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

// panics are what goes wrong in a user's own functions. Each is run in a process of its own, which
// prints "goes on" if the informer has told of the object that comes after the one at fault.
var panics = []struct {
	name         string
	clientGo, lw func(ctx context.Context, m *lw.Memory[*corev1.ConfigMap], told func(name string))
}{{
	name: "a handler panics, and panics are to be reported",
	clientGo: func(ctx context.Context, m *lw.Memory[*corev1.ConfigMap], told func(string)) {
		inf := sharedInformer(m, nil)
		_, _ = inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { fails(obj.(*corev1.ConfigMap), told) }})
		inf.RunWithContext(ctx)
	},
	lw: func(ctx context.Context, m *lw.Memory[*corev1.ConfigMap], told func(string)) {
		inf := lw.NewInformer(m, &lw.Options{OnPanic: func(*lw.Panic) {}})
		inf.AddHandler(lw.Handler[*corev1.ConfigMap]{Add: func(c *corev1.ConfigMap) { fails(c, told) }})
		_ = inf.Run(ctx)
	},
}, {
	name: "an index function fails for one object",
	clientGo: func(ctx context.Context, m *lw.Memory[*corev1.ConfigMap], told func(string)) {
		inf := sharedInformer(m, cache.Indexers{"size": func(obj any) ([]string, error) {
			if obj.(*corev1.ConfigMap).Name == "bad" {
				return nil, fmt.Errorf("no size")
			}
			return nil, nil
		}})
		_, _ = inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { told(obj.(*corev1.ConfigMap).Name) }})
		inf.RunWithContext(ctx)
	},
	lw: func(ctx context.Context, m *lw.Memory[*corev1.ConfigMap], told func(string)) {
		inf := lw.NewInformer(m, &lw.Options{OnPanic: func(*lw.Panic) {}, OnError: func(error) {}})
		lw.NewIndex(inf, func(c *corev1.ConfigMap) string {
			fails(c, func(string) {}) // an index function has no error to return
			return ""
		})
		inf.AddHandler(lw.Handler[*corev1.ConfigMap]{Add: func(c *corev1.ConfigMap) { told(c.Name) }})
		_ = inf.Run(ctx)
	},
}}

func fails(c *corev1.ConfigMap, told func(string)) {
	if c.Name == "bad" {
		panic("no use for it")
	}
	told(c.Name)
}

func sharedInformer(m *lw.Memory[*corev1.ConfigMap], indexers cache.Indexers) cache.SharedIndexInformer {
	s := memory{m}
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return s.list(ctx, opts) },
		WatchFuncWithContext: s.watch,
	}, &corev1.ConfigMap{}, 0, indexers)
}

// childEnv names the case of a process that is such a one.
const childEnv = "LW_HISTORY"

// child runs the case that the environment names, if it does.
func child() {
	of := os.Getenv(childEnv)
	if of == "" {
		return
	}
	for _, p := range panics {
		run := p.lw
		switch of {
		case p.name + "/client-go":
			run = p.clientGo
		case p.name + "/lw":
		default:
			continue
		}
		m := lw.NewMemory(config("bad", "", ""))
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		went := make(chan struct{})
		go run(ctx, m, func(name string) {
			if name == "good" {
				close(went)
			}
		})
		time.Sleep(time.Second) // a process that dies does so now
		if _, err := m.Create(ctx, config("good", "", "")); err != nil {
			panic(err)
		}
		select {
		case <-went:
			fmt.Println("goes on")
		case <-ctx.Done():
			fmt.Println("hangs")
		}
		cancel()
		os.Exit(0)
	}
	panic("no case " + of)
}

// inProcess returns what becomes of the process in which name happens to an informer.
func inProcess(t *testing.T, name, informer string) string {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+name+"/"+informer)
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "goes on"):
		return ""
	case strings.Contains(string(out), "hangs"):
		return "H12: nothing is told any more"
	case err != nil:
		return "H12: the process ends"
	}
	t.Fatalf("%s: %s", cmd.Env[len(cmd.Env)-1], out)
	return ""
}
