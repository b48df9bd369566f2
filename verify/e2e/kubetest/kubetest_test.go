package kubetest_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/go-lw/lw/verify/e2e/kubetest"
)

// mustBeBuilt skips the test where a server is not built.
func mustBeBuilt(t *testing.T, kind kubetest.Kind) {
	t.Helper()
	err := kubetest.Built(kind)
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("LW_E2E_REQUIRED") == "" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What docs/test.md shows. It is as a program of somebody else's: not in the checkout.
func TestTestingPageOfServers(t *testing.T) {
	mustBeBuilt(t, kubetest.Generic)
	tmp := t.TempDir()
	t.Chdir(tmp)
	t.Setenv("TMPDIR", tmp)
	var kubeconfig string
	t.Run(string(kubetest.Generic), func(t *testing.T) {
		server := kubetest.New(t, kubetest.Options{Kind: kubetest.Generic})
		client, err := kubernetes.NewForConfig(server.RESTConfig())
		if err != nil {
			t.Fatal(err)
		}
		settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}

		kubeconfig = server.Kubeconfig()
		if info, err := os.Stat(kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the kubeconfig: %v, %v", info, err)
		}
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		if client, err = kubernetes.NewForConfig(config); err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "settings", metav1.GetOptions{}); err != nil {
			t.Errorf("by the kubeconfig: %v", err)
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if _, err := os.Stat(kubeconfig); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the kubeconfig is left: %v", err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// On kube-apiserver, custom resources are served when Start returns.
func TestCRDs(t *testing.T) { t.Run(string(kubetest.Kube), testCRDs) }

func testCRDs(t *testing.T) {
	mustBeBuilt(t, kubetest.Kube)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "crd.yaml"), []byte(kubetest.TwoCRDs), 0o600); err != nil {
		t.Fatal(err)
	}
	server := kubetest.New(t, kubetest.Options{CRDs: []string{dir}})
	client, err := kubernetes.NewForConfig(server.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, plural := range []string{"gizmos", "gadgets"} {
		list := client.RESTClient().Get().AbsPath("/apis/lw.test/v1/" + plural).Do(t.Context())
		if err := list.Error(); err != nil {
			t.Errorf("%s: %v", plural, err)
		}
	}
}

// What cannot be is an error before anything is built or started.
func TestWrongOptions(t *testing.T) {
	empty := t.TempDir()
	for want, opts := range map[string]kubetest.Options{
		"kube or generic":         {Kind: "cube"},
		"no custom resources":     {Kind: kubetest.Generic, CRDs: []string{write(t, "crd.yaml", kubetest.TwoCRDs)}},
		"no such file":            {CRDs: []string{filepath.Join(empty, "none")}},
		"no file in YAML or JSON": {CRDs: []string{empty}},
		"no CustomResource":       {CRDs: []string{write(t, "pod.yaml", "kind: Pod\n")}},
	} {
		if s, err := kubetest.Start(t.Context(), opts); s != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", opts, err, want)
		}
	}
	if _, err := kubetest.Binaries("cube"); err == nil {
		t.Error("there is a server named cube")
	}
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
