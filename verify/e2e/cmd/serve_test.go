package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// mustBeBuilt skips the test where kind is not built.
func mustBeBuilt(t *testing.T, kind servers.Kind) {
	t.Helper()
	_, err := kind.Binaries()
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("LW_E2E_REQUIRED") == "" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: ", err)
	}
}

// A command runs on the cluster of its KUBECONFIG, in its directory, and its exit code is that of
// serve. Nothing is left.
func TestCommand(t *testing.T) {
	for _, kind := range servers.Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			mustBeBuilt(t, kind)
			tmp, in := t.TempDir(), t.TempDir()
			t.Setenv("TMPDIR", tmp)
			var out, log bytes.Buffer
			c := cluster{kubeconfig: filepath.Join(tmp, "config"), in: in, out: &out, log: &log}
			script := `pwd; stat -c %a "$KUBECONFIG"; sed -n 's/^ *server: //p' "$KUBECONFIG"; exit 3`
			err := c.run(t.Context(), []string{kind.Name, "sh", "-c", script})
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 {
				t.Errorf("run returned %v, want the command's error (%s)", err, &log)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if len(lines) != 3 || lines[0] != in || lines[1] != "600" || !strings.HasPrefix(lines[2], "https://127.0.0.1:") {
				t.Errorf("the command printed %q", lines)
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// A server that there is not is an error before anything is built.
func TestNoSuchServer(t *testing.T) {
	for _, args := range [][]string{nil, {"cube"}} {
		if err := (&cluster{}).run(t.Context(), args); err == nil || !strings.Contains(err.Error(), "kube or generic") {
			t.Errorf("%q: %v", args, err)
		}
	}
}
