package lw_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that imports lw builds apimachinery and go-cmp, and nothing of the tests, of client-go or of k8s.io/api.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "github.com/go-lw/lw").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	modules := map[string]bool{}
	for _, module := range strings.Fields(string(out)) {
		modules[module] = true
	}
	for _, want := range []string{"github.com/go-lw/lw", "k8s.io/apimachinery", "github.com/google/go-cmp"} {
		if !modules[want] {
			t.Errorf("%s is not among %v", want, modules)
		}
	}
	for _, no := range []string{"pgregory.net/rapid", "k8s.io/client-go", "k8s.io/api", "k8s.io/apiserver"} {
		if modules[no] {
			t.Errorf("%s is in the build", no)
		}
	}
}
