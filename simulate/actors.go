package simulate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/cluster"
	"github.com/go-lw/lw/simulate/crd"
	"github.com/go-lw/lw/simulate/internal/shape"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The actors of a cluster, as models that make one write at a time. Package cluster says what each
// does, and how to make a Pod fail.
var (
	Pods         = Actor{Name: "pods", Act: cluster.Pods}
	Jobs         = Actor{Name: "jobs", Act: cluster.Jobs}
	ReplicaSets  = Actor{Name: "replicasets", Act: cluster.ReplicaSets}
	Deployments  = Actor{Name: "deployments", Act: cluster.Deployments}
	StatefulSets = Actor{Name: "statefulsets", Act: cluster.StatefulSets}
	Endpoints    = Actor{Name: "endpoints", Act: cluster.Endpoints}
	Nodes        = Actor{Name: "nodes", Act: cluster.Nodes}
	Claims       = Actor{Name: "claims", Act: cluster.Claims}
)

// prepare checks the World, and gathers what the server serves, with its defaults and admission, in
// w.Resources.
func (w *World) prepare() error {
	if w.minor() == 0 {
		return fmt.Errorf("simulate: World.Kubernetes is %q, and no version as 1.31", w.Kubernetes)
	}
	if w.Histories < 0 || *historiesFlag < 0 {
		return fmt.Errorf("simulate: %d histories prove nothing", min(w.Histories, *historiesFlag))
	}
	var err error
	if w.kinds, err = kindsOf(append(strings.FieldsFunc(*withoutFlag, func(r rune) bool { return r == ',' || r == ' ' }), w.Without...)); err != nil {
		return err
	}
	var resources []lwtest.Resource
	w.shapes = map[schema.GroupKind]*shape.Shape{}
	if w.CRDs != "" {
		definitions, err := crd.Load(os.DirFS(w.CRDs))
		if err != nil {
			return err
		}
		for _, d := range definitions {
			resources = append(resources, d.Resource)
			w.shapes[schema.GroupKind{Group: d.Resource.Group, Kind: d.Resource.Kind}] = d.Shape
		}
	}
	taken := map[string]bool{}
	for _, r := range w.Resources {
		taken[r.Group+"/"+r.Plural] = true
	}
	for _, r := range append(resources, cluster.Resources()...) {
		if !taken[r.Group+"/"+r.Plural] {
			w.Resources = append(w.Resources, r)
		}
	}
	w.Resources = cluster.Admit(w.Resources, w.Admit...)
	for _, r := range w.Resources {
		if r.Type != nil {
			w.shapes[schema.GroupKind{Group: r.Group, Kind: r.Kind}] = shape.Of(reflect.TypeOf(r.Type))
		}
	}
	return nil
}

// ModuleDir returns a folder of a module that the test is built with: the CRDs of a program that is
// not in the module of the test. It panics if there is no such module.
func ModuleDir(module, folder string) string {
	known := "SIMULATE_DIR_" + strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(module)
	dir := os.Getenv(known) // a worker need not ask again
	if dir == "" {
		query := module
		// With -modfile the go.mod of the folder has another version. The build information of a test
		// names no modules, and the paths of its source files do.
		if self, err := os.Executable(); err == nil {
			b, _ := os.ReadFile(self)
			if version := regexp.MustCompile(regexp.QuoteMeta(module) + `(@v[^/\x00]+)/`).FindSubmatch(b); version != nil {
				query += string(version[1])
			}
		}
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", query).Output()
		if dir = strings.TrimSpace(string(out)); err != nil || dir == "" {
			panic(fmt.Sprintf("simulate: go list -m %s: %v: run the test within the module that requires it", query, err))
		}
		os.Setenv(known, dir)
	}
	return filepath.Join(dir, filepath.FromSlash(folder))
}
