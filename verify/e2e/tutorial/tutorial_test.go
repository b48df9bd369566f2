// Package tutorial_test does what docs/start.md says: it runs the commands of the page, in an empty
// folder, with a real kube-apiserver.
package tutorial_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-lw/lw/internal/verify/rig"
)

var run = flag.Bool("tutorial", false, "run the page, which takes minutes, and more where kube-apiserver is not built")

// A step is a heading of the page, or a block of it.
type step struct {
	heading string
	info    string // the language and what is behind it
	text    string
}

var part = regexp.MustCompile("(?ms)^### ([^\n]+)$|^```([^\n]+)\n(.*?)^```$")

// steps returns the headings of the page and its blocks.
func steps(page string) (all []step) {
	for _, m := range part.FindAllStringSubmatch(page, -1) {
		all = append(all, step{m[1], m[2], m[3]})
	}
	return all
}

// scripts returns what is typed into the terminal of the page, and what is typed into the other
// one.
func scripts(t *testing.T, all []step) (main, other string) {
	var script strings.Builder
	script.WriteString("set -euo pipefail\n")
	for _, s := range all {
		lang, info, _ := strings.Cut(s.info, " ")
		switch {
		case s.heading != "":
			fmt.Fprintf(&script, "echo; echo \"== %s (after $SECONDS s)\"\n", s.heading)
		case lang == "sh" && info == "terminal=2":
			other += s.text
		case lang == "sh" && info == "":
			fmt.Fprintf(&script, "set -x\n%s{ set +x; } 2>/dev/null\n", s.text)
		default:
			t.Fatalf("what is to be done with a block of %q?", s.info)
		}
	}
	return script.String(), other
}

// The page is as it should be to be run.
func TestScripts(t *testing.T) {
	main, other := scripts(t, steps(read(t)))
	for _, want := range []string{
		"cp -r ../lw/examples/cluster/website/. .", "kill -9", "kubectl apply -f deploy.yaml", "go test ./...",
	} {
		if !strings.Contains(main, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if !strings.Contains(other, "./cmd serve") {
		t.Errorf("the other terminal has %q", other)
	}
	if out, err := exec.Command("bash", "-n", "-c", main).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func read(t *testing.T) string {
	page := rig.Must[[]byte](t)(os.ReadFile("../../../docs/start.md"))
	_, tutorial, _ := strings.Cut(string(page), "\n## Tutorial")
	tutorial, _, found := strings.Cut(tutorial, "\n## ")
	if !found {
		t.Fatal("docs/start.md has no tutorial")
	}
	return tutorial
}

// A log is what a terminal shows. It may be read while it is written.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestTutorial(t *testing.T) {
	if !*run {
		t.Skip("SKIPPED, NOTHING WAS TESTED: it takes minutes: -tutorial")
	}
	main, other := scripts(t, steps(read(t)))
	top := rig.Must[string](t)(filepath.Abs("../../.."))
	desk := t.TempDir()
	rig.OK(t, os.Symlink(top, filepath.Join(desk, "lw")))
	folder, tmp := filepath.Join(desk, "website"), filepath.Join(desk, "tmp")
	for _, dir := range []string{folder, tmp} {
		rig.OK(t, os.Mkdir(dir, 0o755))
	}
	// Somebody else may have the port.
	main = strings.ReplaceAll(main, "127.0.0.1:8081", fmt.Sprint("127.0.0.1:", rig.Must[int](t)(rig.FreePort())))

	// terminal runs a script as a terminal does: a signal reaches all that runs there.
	terminal := func(script string) (*exec.Cmd, *log) {
		out := &log{}
		cmd := exec.Command("bash", "-c", script)
		cmd.Dir, cmd.Stdout, cmd.Stderr = folder, out, out
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "PWD="+folder)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		rig.OK(t, cmd.Start())
		return cmd, out
	}
	began := time.Now()
	server, serverOut := terminal(other)
	served := make(chan error, 1)
	go func() { served <- server.Wait() }()
	stop := func() {
		syscall.Kill(-server.Process.Pid, syscall.SIGINT)
		select {
		case <-served:
		case <-time.After(time.Minute):
			syscall.Kill(-server.Process.Pid, syscall.SIGKILL)
			t.Error("the server has not ended a minute after Ctrl-C")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	for !strings.Contains(serverOut.String(), "export KUBECONFIG=") {
		select {
		case err := <-served:
			t.Fatalf("the other terminal: %v\n%s", err, serverOut)
		case <-ctx.Done():
			stop()
			t.Fatalf("no cluster: %v\n%s", ctx.Err(), serverOut)
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Logf("the cluster is there after %v", time.Since(began).Round(time.Second))

	began = time.Now()
	cmd, out := terminal(main)
	end := context.AfterFunc(ctx, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := cmd.Wait()
	end()
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // a controller that a failed script has left
	t.Logf("the page took %v\n%s", time.Since(began).Round(time.Second), out)
	if err != nil {
		t.Errorf("the page: %v", err)
	}
	stop()
	left, err := filepath.Glob(filepath.Join(tmp, "lw-serve-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left after Ctrl-C: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "admin.kubeconfig")); err == nil {
		t.Error("the kubeconfig is left after Ctrl-C")
	}
}
