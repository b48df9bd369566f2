package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/go-lw/lw/lwtest"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/early"
	"github.com/go-lw/lw/cmd/lwenvtest/internal/unkind"
)

// TestMain has the test's own program be what envtest starts.
func TestMain(m *testing.M) {
	if early.Name(os.Args[0]) == early.Server {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// environment starts an envtest, which nothing tells that it has another server.
func environment(t *testing.T, env *envtest.Environment) client.Client {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := installAssets(self, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	begun := time.Now()
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("envtest.Start took %v", time.Since(begun).Round(time.Millisecond))
	t.Cleanup(func() {
		begun := time.Now()
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
		t.Logf("envtest.Stop took %v", time.Since(begun).Round(time.Millisecond))
	})
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEnvtest(t *testing.T) {
	c, ctx := environment(t, &envtest.Environment{}), t.Context()
	var namespaces corev1.NamespaceList
	if err := c.List(ctx, &namespaces); err != nil || len(namespaces.Items) != 4 {
		t.Errorf("namespaces: %v %v", namespaces.Items, err)
	}
	svc := &corev1.Service{}
	svc.Namespace, svc.Name = "default", "a"
	svc.Spec.Type, svc.Spec.Ports = corev1.ServiceTypeNodePort, []corev1.ServicePort{{Port: 80}}
	if err := c.Create(ctx, svc); err != nil {
		t.Fatal(err)
	}
	if s := svc.Spec; s.ClusterIP != "10.0.0.2" || s.Ports[0].NodePort != 30000 {
		t.Errorf("a Service: %+v", s)
	}
	nowhere := &corev1.ConfigMap{}
	nowhere.Namespace, nowhere.Name = "nowhere", "a"
	if err := c.Create(ctx, nowhere); !apierrors.IsNotFound(err) {
		t.Errorf("an object of no namespace: %v", err)
	}
}

// A suite that runs as a command finds the server, whatever else its environment names.
func TestSuite(t *testing.T) {
	const inner = "LWENVTEST_SUITE"
	if os.Getenv(inner) != "" {
		env := &envtest.Environment{}
		config, err := env.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = env.Stop() })
		c, err := client.New(config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}); err != nil {
			t.Error(err)
		}
		return
	}
	t.Setenv(inner, "1")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("TEST_ASSET_ETCD", "/none")
	t.Setenv("USE_EXISTING_CLUSTER", "true")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{nil, {"-unkind=1"}} {
		var out strings.Builder
		args := append(append([]string{"lwenvtest"}, flags...), "--", self, "-test.run=^TestSuite$", "-test.v")
		if err := run(t.Context(), args, &out, &out); err != nil || !strings.Contains(out.String(), "--- PASS: TestSuite") {
			t.Errorf("%v: %v\n%s", flags, err, out.String())
		}
	}
}

func TestLoopbackAlone(t *testing.T) {
	for _, args := range [][]string{
		{"lwenvtest", "serve", "-listen", "0.0.0.0:0"},
		{"lwenvtest", "serve", "-listen", "example.com:0"},
	} {
		var out strings.Builder
		if err := run(t.Context(), args, &out, &out); err == nil || !strings.Contains(err.Error(), "is no loopback address") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// Clients that are not of Go, such as curl, find the authority of a certificate by names.
func TestAuthority(t *testing.T) {
	a, err := newAuthority("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []tls.Certificate{a.server, a.admin} {
		if leaf := c.Leaf; bytes.Equal(leaf.RawIssuer, leaf.RawSubject) || len(leaf.AuthorityKeyId) == 0 {
			t.Errorf("%v is issued by %v, of the key %x", leaf.Subject, leaf.Issuer, leaf.AuthorityKeyId)
		}
	}
}

// What a command's days are told by reaches a server, and what the server does reaches its log.
func TestDay(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(envDay, "-unkind=7\n-agent=^program\n-kinds=error=1")
	t.Setenv(envFaults, dir)
	server := lwtest.NewServer(t, lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap"})
	end, err := beginDay(server)
	if err != nil {
		t.Fatal(err)
	}
	get := func(agent string) int {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/n/configmaps/a", nil)
		r.Header.Set("User-Agent", agent)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		return w.Code
	}
	if code := get("test"); code != http.StatusNotFound {
		t.Errorf("the test itself got %d", code)
	}
	if code := get("program"); code != http.StatusInternalServerError {
		t.Errorf("the program got %d", code)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	faults, err := readFaults(dir)
	if err != nil || len(faults) != 1 || !strings.Contains(faults[0], "error: get configmaps n/a #1") {
		t.Errorf("%q %v", faults, err)
	}
	for text, want := range map[string]string{
		"-unkind=0": "the seed is above 0", "-kinds=error": "need -unkind", "-unkind\n-kinds=rain": `no kind of fault is "rain"`, "-unkind\n-agent=(": "missing closing",
	} {
		t.Setenv(envDay, text)
		if _, err := beginDay(server); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A command fails with its own code, and an unkind day finds what it fails by.
func TestCommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of a shell")
	}
	var out strings.Builder
	// envtest takes an empty TEST_ASSET_ETCD for the path of etcd.
	err := runCommand(t.Context(), "/assets", []string{"sh", "-c",
		`echo "$KUBEBUILDER_ASSETS $HERE ${USE_EXISTING_CLUSTER-unset} ${TEST_ASSET_ETCD-unset}"; exit 3`,
	}, append(os.Environ(), "HERE=1", "USE_EXISTING_CLUSTER=true", "TEST_ASSET_ETCD=/else"), &out, &out)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || out.String() != "/assets 1 unset unset\n" {
		t.Errorf("%v %q", err, out.String())
	}
	if err := runCommand(t.Context(), "/assets", []string{"/none"}, nil, &out, &out); err == nil || errors.As(err, &exit) {
		t.Errorf("no command: %v", err)
	}

	// The command ends lwenvtest, which passes that on.
	err = runCommand(t.Context(), "/assets", []string{"sh", "-c", `trap "exit 5" TERM; kill -TERM $PPID; while :; do sleep 0.01; done`},
		os.Environ(), &out, &out)
	if !errors.As(err, &exit) || exit.ExitCode() != 5 {
		t.Errorf("a SIGTERM: %v", err)
	}

	// The command plays its server, which has told of a fault, and fails by Lag alone.
	out.Reset()
	day := unkind.Day{Seed: 7}
	err = runUnkind(t.Context(), day, t.TempDir(), []string{"sh", "-c",
		`[ -z "$` + envDay + `" ] && exit 0; echo "+1s lag" > "$` + envFaults + `/faults-1"; case "$` + envDay + `" in *cut|*expired) exit 0;; esac; exit 1`,
	}, &out, &out)
	if err == nil || !strings.Contains(out.String(), "lag: fails 3 times of 3") || !strings.Contains(out.String(), "cut: fails 0 times of 3") ||
		!strings.Contains(out.String(), "again: lwenvtest -unkind=7 -kinds=lag -- sh -c") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestReadTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a,jane,1\nb,john,2,\"x,y\"\n")
	got, err := readTokens(file)
	want := map[string]lwtest.User{"a": {Username: "jane", UID: "1"}, "b": {Username: "john", UID: "2", Groups: []string{"x", "y"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	write("a,jane\n")
	if _, err := readTokens(file); err == nil || !strings.Contains(err.Error(), "line 1 needs a token") {
		t.Error(err)
	}
}
