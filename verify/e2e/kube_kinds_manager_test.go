package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// establishments sends when the definition at a path becomes Established, as a watch of the test's own
// sees it, for each time that it does.
func establishments(t *testing.T, r *servers.Reader, name string) <-chan time.Time {
	body := rig.Must[interface {
		Read([]byte) (int, error)
		Close() error
	}](t)(r.Open(t.Context(), crds+"?watch=true&fieldSelector=metadata.name%3D"+name))
	seen := make(chan time.Time, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		before := false
		for in := json.NewDecoder(body); ; {
			var event struct {
				Type   string
				Object struct {
					Status struct{ Conditions []metav1.Condition }
				}
			}
			if in.Decode(&event) != nil {
				return
			}
			now := event.Type != "DELETED" && slices.ContainsFunc(event.Object.Status.Conditions, func(c metav1.Condition) bool {
				return c.Type == "Established" && c.Status == metav1.ConditionTrue
			})
			if now && !before {
				seen <- time.Now()
			}
			before = now
		}
	}()
	t.Cleanup(func() { body.Close(); <-ended })
	return seen
}

// TestKindsOfAManager is a manager of controller-runtime whose kind comes and goes. Its objects are in
// etcd before their definition is there, so that the server has no part in the time that is measured
// from Established to the first reconcile.
func TestKindsOfAManager(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		s, r := started(t, kind)
		f := &rooms{t: t, r: r, plural: "desks"}
		c := newClient(t, s, wire{name: "manager"})
		f.follower = &follower[*unstructured.Unstructured]{path: "/apis/lw.test/v1/desks"}
		desk := &unstructured.Unstructured{}
		desk.SetAPIVersion("lw.test/v1")
		desk.SetKind(kindOf(f.plural))

		failed := &errorLog{}
		m := rig.Must[ctrl.Manager](t)(ctrl.NewManager(rest.CopyConfig(c.config), ctrl.Options{
			NewCache: controllerruntime.NewCacheWith(controllerruntime.Options{Kinds: &kinds.Catalog{}, OnError: failed.add}),
			Logger:   logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: new(true)},
			Client:     crclient.Options{Cache: &crclient.CacheOptions{Unstructured: true}},
		}))
		type reconciled struct {
			at    time.Time
			there bool
		}
		calls := make(chan reconciled, 1000)
		rig.OK(t, builder.ControllerManagedBy(m).For(desk).Complete(reconcile.Func(
			func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				err := m.GetClient().Get(ctx, r.NamespacedName, desk.DeepCopy())
				calls <- reconciled{time.Now(), err == nil}
				if apierrors.IsNotFound(err) {
					err = nil
				}
				return reconcile.Result{}, err
			})))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Start(ctx) }()
		t.Cleanup(func() {
			cancel()
			rig.OK(t, <-ended)
		})
		next := func(there bool) time.Time {
			t.Helper()
			for {
				select {
				case call := <-calls:
					if call.there == there {
						return call.at
					}
				case <-time.After(patience):
					t.Fatalf("no reconcile with there=%v", there)
				}
			}
		}

		established := establishments(t, r, f.plural+".lw.test")
		var all []time.Duration
		for range *kindRounds {
			stored := rig.Must[[]byte](t)(json.Marshal(object{"kind": kindOf(f.plural), "apiVersion": "lw.test/v1",
				"metadata": object{"namespace": "default", "name": "one", "uid": fmt.Sprint("uid-", len(all)),
					"generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}}))
			rig.OK(t, s.Put(within(t, patience), map[string][]byte{"/registry/lw.test/desks/default/one": stored}))
			f.define("Namespaced")
			at := next(true)
			all = append(all, at.Sub(<-established).Round(time.Millisecond))
			f.undefine()
			next(false)
			f.gone()
		}
		slices.Sort(all)
		t.Logf("from Established to the first reconcile, sorted: %v", all)
		if most := all[len(all)-1]; most > 3*time.Second*slowdown {
			t.Errorf("%v from Established to the first reconcile", most)
		}
		if errs := failed.all(); len(errs) > 0 {
			t.Errorf("OnError was told of %v", errs)
		}
	}, servers.Kube)
}
