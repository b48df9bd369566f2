package controllerruntime_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"

	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/verify/crds"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/lwtest"
)

// The mapper of a catalog knows what the server serves now, without a request. controller-runtime's
// own, beside it, keeps what it has read.
func TestMapper(t *testing.T) {
	manager := func(t *testing.T, s *crds.Server, mapper bool) *kindsManager {
		var served kinds.Catalog
		m := newKindsManager(t, s, controllerruntime.Options{Kinds: &served}, func(o *ctrl.Options) {
			if mapper {
				o.MapperProvider = controllerruntime.Mapper(&served)
			}
		})
		rig.OK(t, builder.ControllerManagedBy(m).For(&Mouse{}).Owns(&corev1.ConfigMap{}).Complete(m.reconciler("mouse", &Mouse{})))
		m.start()
		rig.Sleep(time.Second)
		return m
	}
	for _, mapper := range []bool{false, true} {
		rig.Subtest(t, fmt.Sprintf("stale mappings, mapper %v", mapper), func(t *testing.T) {
			s := crds.New(t, lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap"})
			mappings := manager(t, s, mapper).GetRESTMapper()
			scope := func() string {
				_, _ = mappings.RESTMapping(zoneKind.GroupKind(), "v1") // the catalog learns of it
				rig.Sleep(time.Second)
				got, err := mappings.RESTMapping(zoneKind.GroupKind(), "v1")
				if err != nil {
					return fmt.Sprint("absent: ", meta.IsNoMatchError(err))
				}
				return string(got.Scope.Name())
			}
			s.Define("zones", "Zone", "Cluster")
			rig.Sleep(time.Second)
			got := []string{scope()}
			s.Undefine("zones")
			rig.Sleep(5 * time.Second)
			got = append(got, scope())
			s.Define("zones", "Zone", "Namespaced")
			rig.Sleep(time.Second)
			want := map[bool][]string{false: {"root", "root", "root"}, true: {"root", "absent: true", "namespace"}}
			rig.Same(t, "scopes", want[mapper], append(got, scope()))
		})
		rig.Subtest(t, fmt.Sprintf("events of objects of an absent owner, mapper %v", mapper), func(t *testing.T) {
			s := crds.New(t, lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap"})
			m := manager(t, s, mapper)
			_, _ = m.GetRESTMapper().RESTMapping(mouseKind.GroupKind(), mouseKind.Version) // the catalog learns of it
			rig.Sleep(time.Second)
			before := s.Asked("/apis")
			for i := range 5 {
				owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(i),
					OwnerReferences: []metav1.OwnerReference{{APIVersion: crdVersion.String(), Kind: "Mouse", Name: "jerry", UID: "1",
						Controller: new(true)}}}}
				rig.Must[*corev1.ConfigMap](t)(lwtest.Objects[*corev1.ConfigMap](s.Server, "configmaps").Create(owned))
			}
			rig.Sleep(time.Second)
			if n := s.Asked("/apis") - before; mapper != (n == 0) {
				t.Errorf("%d requests", n)
			}
		})
	}
	rig.Subtest(t, "what it answers", func(t *testing.T) {
		s := crds.New(t, lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap"})
		mapper := manager(t, s, true).GetRESTMapper()
		for range 2 {
			for _, versions := range [][]string{nil, {"v1"}, {"v2", "v1"}} {
				if _, err := mapper.RESTMapping(mouseKind.GroupKind(), versions...); !meta.IsNoMatchError(err) {
					t.Errorf("absent, %v: %v", versions, err)
				}
			}
			rig.Sleep(time.Second)
		}
		s.Define("mice", "Mouse", "Cluster")
		rig.Sleep(time.Second)
		for _, versions := range [][]string{nil, {"v1"}, {"v2", "v1"}} {
			got := rig.Must[*meta.RESTMapping](t)(mapper.RESTMapping(mouseKind.GroupKind(), versions...))
			rig.Same(t, "kind", mouseKind, got.GroupVersionKind)
			rig.Same(t, "resource and scope", "mice root", got.Resource.Resource+" "+string(got.Scope.Name()))
		}
		if _, err := mapper.RESTMapping(mouseKind.GroupKind(), "v2"); !meta.IsNoMatchError(err) {
			t.Errorf("another version: %v", err)
		}
		got := rig.Must[*meta.RESTMapping](t)(mapper.RESTMapping(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), "v1"))
		rig.Same(t, "of Kubernetes' own", "configmaps", got.Resource.Resource)
	})
	rig.PanicsWith(t, "controllerruntime: Mapper: nil Catalog", func() { controllerruntime.Mapper(nil) })
}

// The mapper of the manager and its cache have one catalog.
func ExampleMapper() {
	var served kinds.Catalog
	_ = ctrl.Options{
		NewCache:       controllerruntime.NewCacheWith(controllerruntime.Options{Kinds: &served}),
		MapperProvider: controllerruntime.Mapper(&served),
	}
}
