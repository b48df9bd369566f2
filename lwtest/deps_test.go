package lwtest_test

import (
	"os/exec"
	"strings"
	"testing"
)

// What this package needs is not in a program that uses package lw.
func TestRapidStaysOut(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "github.com/go-lw/lw").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 50 {
		t.Errorf("go list: %s", out)
	}
	for _, dep := range deps {
		for _, not := range []string{"pgregory.net/rapid", "testing", "github.com/go-lw/lw/lwtest", "internal/apiserver"} {
			if dep == not || strings.HasSuffix(dep, "/"+not) || strings.HasPrefix(dep, not+"/") {
				t.Errorf("package lw depends on %s", dep)
			}
		}
	}
}
