package kubetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/internal/verify/rig"
)

// TwoCRDs are the CustomResourceDefinitions of the tests, with what there is in such files.
const TwoCRDs = `# made by a generator
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.lw.test}
spec:
  group: lw.test
  scope: Namespaced
  names: {plural: gizmos, kind: Gizmo}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v0, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.lw.test}
spec:
  group: lw.test
  scope: Namespaced
  names: {plural: gadgets, kind: Gadget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

// A fakeServer notes requests, and serves what was created at the third request for it.
type fakeServer struct {
	requests []string
	asked    map[string]int
	refuses  bool
}

func (f *fakeServer) Do(_ context.Context, method, path, _ string, in any) ([]byte, error) {
	f.requests = append(f.requests, method+" "+path)
	if f.asked[path]++; f.refuses || method == "GET" && f.asked[path] < 3 {
		return nil, errors.New("404")
	}
	return nil, nil
}

// All CRDs are created, in the order of the files, and each version that is served is waited for.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"b.yaml": TwoCRDs, "a.json": crdJSON, "README.md": "# CRDs"} {
		rig.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	crds := rig.Must[[]crd](t)(readCRDs([]string{dir}))
	var names []string
	for _, c := range crds {
		names = append(names, c.Metadata.Name)
	}
	if diff := cmp.Diff([]string{"others.lw.test", "gizmos.lw.test", "gadgets.lw.test"}, names); diff != "" {
		t.Fatal(diff)
	}
	f := &fakeServer{asked: map[string]int{}}
	rig.OK(t, install(t.Context(), f, crds))
	create := "POST " + crdPath
	want := []string{create, create, create}
	for _, path := range []string{"other.test/v1/others", "lw.test/v1/gizmos", "lw.test/v1/gadgets"} {
		get := "GET /apis/" + path + "?limit=1"
		want = append(want, get, get, get)
	}
	if diff := cmp.Diff(want, f.requests); diff != "" {
		t.Error(diff)
	}
	f.refuses = true
	if err := install(t.Context(), f, crds); err == nil || !strings.Contains(err.Error(),
		"a.json: create others.lw.test: 404") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := served(ctx, f, "/x"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

const crdJSON = `{"kind":"CustomResourceDefinition","metadata":{"name":"others.lw.test"},
	"spec":{"group":"other.test","names":{"plural":"others"},"versions":[{"name":"v1","served":true}]}}`
