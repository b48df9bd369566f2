package clientgo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-lw/lw/internal/verify/rig"
)

// clientGo is the version whose tests lw's informers pass.
var clientGo = module{"k8s.io/client-go", "v0.37.2"}

// excludedTests are the tests of client-go that another informer cannot pass, and why.
var excludedTests = map[string]string{
	"TestResyncCheckPeriod":         "reads the fields of *sharedIndexInformer that say how often it looks for resyncs, and sets its clock",
	"TestSharedInformerTransformer": "its transform renames objects; lw.Transform keeps namespace and name, and refuses this by name",
}

// TestClientGo runs client-go's tests of its shared and of its typed informers.
func TestClientGo(t *testing.T) {
	w := workspaceFor(t, clientGo, module{})
	cacheDir := filepath.Join(w.clientGo, "tools", "cache")
	var tests []string
	for file, rewrite := range map[string]func(string) (string, error){
		"shared_informer_test.go": func(src string) (string, error) { return rewriteInformerTests(src, excludedTests) },
		"typed_test.go":           rewriteTypedTests,
	} {
		src := rig.Must[[]byte](t)(os.ReadFile(filepath.Join(cacheDir, file)))
		p := rig.Must[*patch](t)(newPatch(file, string(src)))
		tests = append(tests, p.tests()...)
		rig.OK(t, w.rewrite(filepath.Join("tools/cache", file), rewrite))
	}
	for from, file := range map[string]string{
		"testdata/cache/rewritten_test.go":     "lw_rewritten_test.go",
		"testdata/cache/hook_external_test.go": "lw_hook_external_test.go",
	} {
		rig.OK(t, w.add(from, filepath.Join("tools/cache", file)))
	}
	runSuites(t, w, []suite{
		{
			pkg:      "k8s.io/client-go/tools/cache",
			tests:    tests,
			excluded: excludedTests,
			sees: map[string]string{
				mute:      "TestSharedInformerTransformer",
				forgetful: "TestIndexer",
			},
		},
		{pkg: "k8s.io/client-go/dynamic/dynamicinformer"},
		{pkg: "k8s.io/client-go/metadata/metadatainformer"},
		{pkg: "k8s.io/client-go/examples/fake-client"},
		{pkg: "k8s.io/client-go/kubernetes_test"},
		{pkg: "k8s.io/client-go/testing/internal"},
	})
}
