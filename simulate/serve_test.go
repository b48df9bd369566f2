package simulate

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/cluster"
)

// makes creates a ConfigMap if it is not there.
func makes(ctx context.Context, c *rest.Config, name string) error {
	_, err := kubernetes.NewForConfigOrDie(c).CoreV1().ConfigMaps("default").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !strings.Contains(err.Error(), "already exists") {
		return err
	}
	return nil
}

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// TestProves fails runs that prove nothing.
func TestProves(t *testing.T) {
	for _, c := range []struct {
		name string
		w    World
		want []string
	}{
		{"an informer of a kind that is not served", World{Start: func(ctx context.Context, c *rest.Config) error {
			factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(c), 0)
			factory.ForResource(widgets).Informer()
			factory.Start(ctx.Done())
			<-ctx.Done()
			factory.Shutdown()
			return nil
		}}, []string{"the world", "example.com/v1 widgets", "World.Resources"}},
		{"a read of a kind that is not served", World{Start: func(ctx context.Context, c *rest.Config) error {
			_, _ = dynamic.NewForConfigOrDie(c).Resource(widgets).Namespace("default").Get(ctx, "a", metav1.GetOptions{})
			<-ctx.Done()
			return nil
		}}, []string{"the world", "example.com/v1 widgets", "World.Resources"}},
		{"a controller of a kind that is not served", World{Start: func(ctx context.Context, c *rest.Config) error {
			mgr, err := ctrl.NewManager(c, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
			if err != nil {
				return err
			}
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(widgets.GroupVersion().WithKind("Widget"))
			if err := ctrl.NewControllerManagedBy(mgr).For(u).Complete(reconcile.Func(nil)); err != nil {
				return err
			}
			return mgr.Start(ctx)
		}}, []string{"the program ends", "no matches for kind", "World.Resources"}},
		{"a start that needs a kind that is not served", World{Start: func(ctx context.Context, c *rest.Config) error {
			u := &unstructured.UnstructuredList{}
			u.SetGroupVersionKind(widgets.GroupVersion().WithKind("WidgetList"))
			own, err := client.New(c, client.Options{})
			if err != nil {
				return err
			}
			return own.List(ctx, u)
		}}, []string{"the program ends", "no matches for example.com/v1", "World.Resources"}},
		{"nothing is written", World{Start: manage(clean)}, []string{nothing, "writes nothing"}},
		{"a list never succeeds", World{Start: func(ctx context.Context, c *rest.Config) error {
			_, _ = kubernetes.NewForConfigOrDie(c).CoreV1().Pods("").List(ctx,
				metav1.ListOptions{FieldSelector: "spec.priority=1"})
			if err := makes(ctx, c, "a"); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}}, []string{nothing, "list of pods", "spec.priority"}},
		{"no history", World{Start: manage(clean), Steps: steps, Histories: -1}, []string{"no history"}},
		{"no fault", World{Start: manage(clean), Steps: steps, Histories: 1, Without: allKinds}, []string{"no fault"}},
		{"a history whose fault does not happen", World{Start: manage(clean), Steps: steps, History: "order 0; lose at 99"},
			[]string{"no fault"}},
		{"a history without faults", World{Start: manage(clean), Steps: steps, History: "order 3"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func(long time.Duration) { *forFlag = long }(*forFlag)
			if c.w.Histories < 0 {
				c.w.Histories, *forFlag = 0, 1
			}
			s := begin(t, &c.w)
			text := ""
			if r := s.find(); r != nil {
				text = s.text(r)
			} else {
				text = s.why
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("the report lacks %q:\n%s", want, text)
				}
			}
			if c.want == nil && text != "" {
				t.Errorf("it fails:\n%s", text)
			}
		})
	}
}

// TestPrepare refuses what no World can mean.
func TestPrepare(t *testing.T) {
	for _, w := range []World{{Histories: -1}, {Kubernetes: "37"}, {Kubernetes: "1.x"}, {Without: []string{"floods"}}} {
		if err := w.prepare(); err == nil {
			t.Errorf("%+v is taken", w)
		}
	}
}

// TestAbort tells a connection that the server breaks from a fault of the server.
func TestAbort(t *testing.T) {
	for name, panics := range map[string]int{"the server breaks the connection": 0, "the server is nil": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				takePanics()
				s := lwtest.NewServer(t, cluster.Resources()...)
				r := rig.Must[*http.Request](t)(http.NewRequest(http.MethodGet, s.URL()+"/api/v1/pods?watch=1", http.NoBody))
				g := newGate(s)
				if panics > 0 {
					g.server = nil
				}
				answer := g.watch(&request{http: r, verb: lwtest.Watch, plural: "pods"})
				synctest.Wait()
				s.Break()
				synctest.Wait()
				if _, watches := g.open(); len(watches) > 0 {
					t.Error("the watch stays open")
				}
				if got := takePanics(); len(got) != panics || panics > 0 && !strings.Contains(got[0], "nil pointer") {
					t.Errorf("%d panics are noted, want %d: %v", len(got), panics, got)
				}
				_ = answer.Body.Close()
			})
		})
	}
}

// TestBind lets a program be the scheduler.
func TestBind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lwtest.NewServer(t, cluster.Resources()...)
		pods := lwtest.Objects[*corev1.Pod](s, "pods")
		rig.Must[*corev1.Pod](t)(pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
			Spec: corev1.PodSpec{SchedulerName: "own"}}))
		g := newGate(s)
		ask := func(name string) int {
			binding := &corev1.Binding{Target: corev1.ObjectReference{Name: "n"}}
			r := rig.Must[*http.Request](t)(http.NewRequest(http.MethodPost, s.URL()+"/api/v1/namespaces/default/pods/"+name+
				"/binding", http.NoBody))
			asked := &request{http: r, body: encode(binding)}
			asked.parse()
			answer := g.serve(asked)
			_ = answer.Body.Close()
			return answer.StatusCode
		}
		if diff := cmp.Diff([]int{201, 409, 404}, []int{ask("a"), ask("a"), ask("b")}); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		pod := rig.Must[*corev1.Pod](t)(pods.Get(lw.Key{Namespace: "default", Name: "a"}))
		if c := pod.Status.Conditions; pod.Spec.NodeName != "n" || len(c) != 1 || c[0].Type != corev1.PodScheduled ||
			c[0].Status != corev1.ConditionTrue {
			t.Errorf("the pod is on %q, with %+v", pod.Spec.NodeName, c)
		}
	})
}
