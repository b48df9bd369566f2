package clientgo_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw/internal/rig"
)

// crashes are the ways in which a program crashes with client-go, and so must with lw. Each is a
// part of a test that runs in a process of its own.
var crashes = map[string]struct {
	crash func(t *testing.T, impl implementation)
	want  []string // in what the process prints before it dies
}{
	"a handler that panics": {
		func(t *testing.T, impl implementation) {
			inf := impl.new(newPodMemory(labelled("a")), cache.SharedIndexInformerOptions{})
			mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { panic("of the handler") }})
			runInformer(t, inf)
		},
		[]string{`"Observed a panic" panic="of the handler"`, "panic: of the handler"},
	},
	"an index that fails": {
		func(t *testing.T, impl implementation) {
			runInformer(t, impl.new(newPodMemory(labelled("a")), cache.SharedIndexInformerOptions{Indexers: cache.Indexers{
				"fails": func(any) ([]string, error) { return nil, errors.New("no value") },
			}}))
		},
		[]string{`unable to calculate an index entry for key "ns/a" on index "fails": no value`},
	},
	"a changed object": {
		func(t *testing.T, impl implementation) {
			inf := impl.new(newPodMemory(labelled("a")), cache.SharedIndexInformerOptions{})
			runInformer(t, inf)
			synctest.Wait()
			inf.GetStore().List()[0].(*corev1.Pod).Spec.NodeName = "changed"
			time.Sleep(time.Hour)
		},
		[]string{"changed"},
	},
}

// Each crash happens with client-go's informer and with lw's, in a process that asks for
// client-go's detector of changes.
func TestCrash(t *testing.T) {
	const which = "CLIENTGO_TEST_CRASH"
	if name, implName, ok := strings.Cut(os.Getenv(which), ", "); ok {
		synctest.Test(t, func(t *testing.T) {
			crashes[name].crash(t, implementations[implName])
			synctest.Wait()
		})
		return
	}
	self := rig.Must[string](t)(os.Executable())
	for name, tc := range crashes {
		for _, impl := range []string{"client-go", "NewInformer"} {
			t.Run(name+", "+impl, func(t *testing.T) {
				child := exec.CommandContext(t.Context(), self, "-test.run=^TestCrash$")
				child.Env = append(os.Environ(), which+"="+name+", "+impl, "KUBE_CACHE_MUTATION_DETECTOR=true")
				out, err := child.CombinedOutput()
				if err == nil || !strings.Contains(string(out), "panic: ") {
					t.Errorf("the process has not crashed: %v\n%s", err, out)
				}
				for _, want := range tc.want {
					if !strings.Contains(string(out), want) {
						t.Errorf("the process does not print %s, but\n%s", want, out)
					}
				}
			})
		}
	}
}
