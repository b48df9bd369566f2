package simulate

import (
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/cluster"
)

// TestPlain asks for JSON, in the forms that a client takes.
func TestPlain(t *testing.T) {
	for accept, want := range map[string]string{
		"":                                    "application/json",
		"application/vnd.kubernetes.protobuf": "application/json",
		"application/vnd.kubernetes.protobuf,application/json":      "application/json",
		"application/json;as=Table;g=meta.k8s.io, application/json": "application/json;as=Table;g=meta.k8s.io, application/json",
	} {
		h := http.Header{"Accept": {accept}}
		plain(h)
		if got := h.Get("Accept"); got != want {
			t.Errorf("Accept %q is %q, want %q", accept, got, want)
		}
	}
}

// TestAsJSON answers a client that wants protobuf in JSON, which stories are made of.
func TestAsJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lwtest.NewServer(t, cluster.Resources()...)
		g := newGate(s)
		r := rig.Must[*http.Request](t)(http.NewRequest(http.MethodGet, s.URL()+"/api/v1/configmaps", http.NoBody))
		r.Header.Set("Accept", "application/vnd.kubernetes.protobuf,application/json")
		go func() {
			<-g.wake
			requests, _ := g.open()
			requests[0].answer = g.serve(requests[0])
			g.release(requests[0])
		}()
		answer := rig.Must[*http.Response](t)(network{g, 0}.RoundTrip(r))
		_ = answer.Body.Close()
		if kind := answer.Header.Get("Content-Type"); kind != "application/json" {
			t.Errorf("the answer is %s", kind)
		}
	})
}

// TestAlways looks at each state, also at those that Steps make by W.Server.
func TestAlways(t *testing.T) {
	seen := map[string]bool{}
	w := &World{
		Start: manage(clean),
		Steps: func(w *W) {
			steps(w)
			w.Settle()
			other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}}
			if _, err := lwtest.Objects[*corev1.Secret](w.Server, "secrets").Create(other); err != nil {
				panic(err)
			}
		},
		Always: func(s State) error {
			for _, obj := range s.Objects {
				seen[obj.GetKind()+" "+obj.GetName()+" "+obj.GetResourceVersion()] = true
			}
			return nil
		},
	}
	if err := w.prepare(); err != nil {
		t.Fatal(err)
	}
	quiet()
	k := &worker{t: t, world: w}
	out := k.bubble(plan{}, 0)
	if out.Failure != nil {
		t.Fatal(out.Failure)
	}
	want := []string{
		"ConfigMap one 2", "ConfigMap one 4", "ConfigMap one 5", "ConfigMap one 7", "Secret one-child 3",
		"Secret one-child 6", "Secret other 8",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(seen))); diff != "" {
		t.Errorf("Always has not seen each state: (-want +got)\n%s\n%s", diff, story(out.Story))
	}
}

// TestRun keeps what fails. The failing test runs in a process of its own.
func TestRun(t *testing.T) {
	const inner = "LW_SIMULATE_TESTRUN"
	if os.Getenv(inner) != "" {
		Run(t, World{Start: manage(between), Steps: steps})
		return
	}
	cmd := exec.Command(rig.Must[string](t)(os.Executable()), "-test.run=^TestRun$")
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), inner+"=1")
	out, err := cmd.CombinedOutput()
	files := rig.Must[[]string](t)(filepath.Glob(filepath.Join(cmd.Dir, "testdata/simulate/TestRun/*")))
	if err == nil || len(files) != 1 || !strings.Contains(string(out), filepath.Base(files[0])) {
		t.Fatalf("%v, and it has kept %q:\n%s", err, files, out)
	}
	lacks(t, string(out), "known: why", "simulate: another end", "the program:")
}
