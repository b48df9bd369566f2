package pages_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A program that imports lw builds apimachinery, and nothing of the tests, of client-go or of
// k8s.io/api.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "github.com/go-lw/lw").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	packages := strings.Fields(string(out))
	in := func(path string) bool {
		return slices.ContainsFunc(packages, func(p string) bool { return p == path || strings.HasPrefix(p, path+"/") })
	}
	for _, want := range []string{"github.com/go-lw/lw", "k8s.io/apimachinery"} {
		if !in(want) {
			t.Errorf("%s is not in the build", want)
		}
	}
	for _, no := range []string{
		"html/template", "text/template", "expvar", "net/http/pprof",
		"golang.org/x/sync", "golang.org/x/tools", "pgregory.net/rapid", "github.com/google/go-cmp", "testing", "k8s.io/client-go", "k8s.io/api", "k8s.io/apiserver",
		"github.com/go-lw/lw/lwtest", "github.com/go-lw/lw/internal/apiserver", "github.com/go-lw/lw/internal/registry",
		"gopkg.in/evanphx/json-patch.v4", "sigs.k8s.io/structured-merge-diff/v6/typed", "sigs.k8s.io/structured-merge-diff/v6/merge", "k8s.io/kube-openapi/pkg/util/proto", "k8s.io/apimachinery/pkg/util/managedfields",
		"github.com/go-lw/lw/internal/oracle",
	} {
		if in(no) {
			t.Errorf("%s is in the build", no)
		}
	}
}

// The tool that needs x/tools is a module of its own, so no program that imports lw downloads it.
func TestNoTools(t *testing.T) {
	mod := read(t, "../../go.mod")
	if strings.Contains(mod, "golang.org/x/tools") || !strings.Contains(mod, "module github.com/go-lw/lw\n") {
		t.Errorf("go.mod of the root is\n%s", mod)
	}
}
