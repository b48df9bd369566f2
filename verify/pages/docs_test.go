package pages_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// The pages' blocks of Go stand here without the names of packages of the tests.
type (
	Widget   = rig.Widget
	Sprocket = rig.Sprocket
)

var widget, key = rig.NewWidget, rig.Key

// A Gizmo is the API type of docs/test.md.
type Gizmo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

func newGizmo(name string) *Gizmo {
	return &Gizmo{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// total is a function of a user's, which only reads.
func total(widgets lw.Reader[*Widget]) (sum int) {
	for w := range widgets.All() {
		sum += w.Size
	}
	return sum
}

// What docs/test.md shows.
func TestTestingPage(t *testing.T) {
	t.Run("indexer", func(t *testing.T) {
		widgets := lw.NewIndexer(widget("a", 1), widget("b", 2))
		if got := total(widgets); got != 3 {
			t.Errorf("a total of %d", got)
		}
	})
	t.Run("fixture", func(t *testing.T) {
		widgets := lw.NewInformer(lw.NewMemory[*Widget](), nil)
		bySize := lw.NewIndex(widgets, func(w *Widget) int { return w.Size })
		widgets.Fixture().Set(widget("a", 1))
		if total(widgets.Store()) != 1 || bySize.Len(1) != 1 {
			t.Error("the store does not show the fixture")
		}
	})
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := lw.NewMemory(widget("a", 1))
			widgets := lw.NewInformer(server, nil)
			var queue []lw.Key
			widgets.AddHandler(lw.Handler[*Widget]{
				Add:    func(w *Widget) { queue = append(queue, lw.KeyOf(w)) },
				Delete: func(last *Widget) { queue = append(queue, lw.KeyOf(last)) },
			})
			go widgets.Run(t.Context())
			synctest.Wait()
			if _, err := server.Delete(t.Context(), key("a"), ""); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if len(queue) != 2 {
				t.Errorf("%d keys were queued, want one for each change", len(queue))
			}
		})
	})
	t.Run("mutation", func(t *testing.T) {
		src := lw.NewMemory(widget("a", 1))
		inf := lw.NewInformer(src, &lw.Options{DetectMutation: true, OnError: func(err error) {
			t.Errorf("%v\n%s", err, lwtest.MutationDiff(err))
		}})
		synctest.Test(t, func(t *testing.T) {
			go inf.Run(t.Context())
			rig.OK(t, inf.WaitForSync(t.Context()))
		})
	})
}

// A Part is one of those that docs/derive.md makes of a widget.
type Part struct{ lw.Meta }

// What docs/derive.md shows of DeriveMany and of Graph.WaitForStep.
func TestDeriveManyPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		widgets := lw.NewInformer(lw.NewMemory(widget("a", 3)), nil)
		g := lw.NewGraph(nil)
		parts := lw.DeriveMany(g, widgets, func(w *Widget) iter.Seq[*Part] {
			var all []*Part
			for i := range w.Size {
				all = append(all, &Part{Meta: lw.Meta{Namespace: w.Namespace, Name: fmt.Sprint(w.Name, "-", i)}})
			}
			return slices.Values(all)
		})
		go widgets.Run(t.Context())
		go g.Run(t.Context())
		rig.OK(t, g.WaitForSync(t.Context()))
		changed := widget("a", 2)
		changed.ResourceVersion, changed.UID = "100", types.UID(widgets.Store().List()[0].GetUID())
		rig.OK(t, widgets.Tell(changed))
		rig.OK(t, g.WaitForStep(t.Context()))
		if parts.Store().Len() != 2 {
			t.Errorf("%d parts", parts.Store().Len())
		}
	})
}

// The CRD of docs/test.md.
func TestInsteadOfEnvtestPage(t *testing.T) {
	websites := lwtest.Resource{
		Group: "example.dev", Plural: "websites", Kind: "Website", Status: true, Versioned: true, // as each CRD
		Schema: []byte(`{"type": "object", "properties": {"spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}`),
		Default: func(_ context.Context, a lwtest.Admission) error {
			return unstructured.SetNestedField(a.Object.(*unstructured.Unstructured).Object, int64(1), "spec", "replicas")
		},
		Validate: func(_ context.Context, a lwtest.Admission) error {
			if a.Verb == lwtest.Create && strings.HasPrefix(a.Object.(metav1.Object).GetName(), "x-") {
				return errors.New("names must not begin with x-")
			}
			return nil
		},
	}
	server := lwtest.NewServer(t, websites)
	objects := lwtest.Objects[*unstructured.Unstructured](server, "websites")
	site := func(name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.dev/v1", "kind": "Website"}}
		u.SetNamespace("default")
		u.SetName(name)
		return u
	}
	created, err := objects.Create(site("a"))
	rig.OK(t, err)
	if n, _, _ := unstructured.NestedInt64(created.Object, "spec", "replicas"); n != 1 {
		t.Errorf("%d replicas", n)
	}
	if _, err := objects.Create(site("x-a")); !rig.Matches(err, "names must not begin with x-") {
		t.Error(err)
	}
}

// The lines of docs/test.md for a manager in a bubble: an error takes no time there.
func TestErrorHandlersPage(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = handlers[:1]
	defer func() { utilruntime.ErrorHandlers = handlers }()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		utilruntime.HandleErrorWithContext(t.Context(), errors.New("broken"), "an error")
		rig.Same(t, "time that it took", 0, time.Since(begun))
	})
}

// The loop over outages of docs/test.md.
func TestTestingPageOutages(t *testing.T) {
	for _, outage := range lwtest.Outages() {
		t.Run(outage.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := lwtest.NewServer(t, lwtest.Resource{Group: "example.com", Plural: "gizmos", Kind: "Gizmo"})
				gizmos := lwtest.Objects[*Gizmo](server, "gizmos")
				inf := lw.NewInformer(gizmos.Source(), &lw.Options{OnError: func(error) {}})
				go inf.Run(t.Context())
				time.Sleep(time.Minute)

				outage.Do(server)
				created, err := gizmos.Create(newGizmo("during-" + outage.Name))
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(outage.Lasts + 5*time.Minute)
				if _, ok := inf.Store().Get(lw.KeyOf(created)); !ok {
					t.Error("the informer has not caught up")
				}
			})
		})
	}
}

// The fault of docs/test.md.
func TestTestingPageFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Group: "example.com", Plural: "gizmos", Kind: "Gizmo"})
		gizmos := lwtest.Objects[*Gizmo](server, "gizmos")
		server.Inject(lwtest.Fault{
			Plural: "gizmos",
			Match:  func(r lwtest.Request) bool { return r.Verb != lwtest.Create },
			Times:  2,
			Effect: lwtest.Fail(apierrors.NewTooManyRequests("later", 30)),
		})
		if _, err := gizmos.Create(newGizmo("a")); err != nil {
			t.Fatal(err)
		}
		inf := lw.NewInformer(gizmos.Source(), &lw.Options{OnError: func(err error) { t.Log(err) }})
		go inf.Run(t.Context())
		time.Sleep(5 * time.Minute)
		if inf.Store().Len() != 1 || server.Armed() > 0 {
			t.Errorf("%d gizmos, and %d faults that nobody has met", inf.Store().Len(), server.Armed())
		}
	})
}

// The handler of docs/serve.md for a live page in a browser.
func TestServePageOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lw.NewMemory(widget("a", 1))
		widgets := lw.NewInformer(server, nil)
		mux := http.NewServeMux()
		mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for change := range widgets.Events(r.Context()) { // until the page is closed
				object, err := json.Marshal(change.Object())
				if err != nil {
					return
				}
				fmt.Fprintf(w, "event: %s\ndata: %s\n\n", change.Type, object)
				if http.NewResponseController(w).Flush() != nil {
					return
				}
			}
		})
		go widgets.Run(t.Context())
		ctx, closePage := context.WithCancel(t.Context())
		page, ended := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(ended)
			mux.ServeHTTP(page, httptest.NewRequestWithContext(ctx, "GET", "/events", nil))
		}()
		synctest.Wait()
		rig.Must[string](t)(server.Delete(t.Context(), key("a"), ""))
		synctest.Wait()
		closePage()
		<-ended
		var got []string
		for event := range strings.SplitSeq(strings.TrimSpace(page.Body.String()), "\n\n") {
			name, data, _ := strings.Cut(event, "\n")
			var w Widget
			rig.OK(t, json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &w))
			got = append(got, name+" "+w.Name)
		}
		rig.Same(t, "events", []string{"event: added a", "event: deleted a"}, got)
		rig.Same(t, "flushed", true, page.Flushed)
	})
}

// What docs/derive.md shows of tests.
func TestDerivePageOfTests(t *testing.T) {
	byNamespace := func(w *Widget) lw.Key { return lw.Key{Name: w.Namespace} }
	add := func(sum int, w *Widget) int { return sum + w.Size }
	subtract := func(sum int, w *Widget) int { return sum - w.Size }
	newTotal := func(key lw.Key, sum int) *Widget { return &Widget{Meta: lw.Meta{Name: key.Name}, Size: sum} }

	synctest.Test(t, func(t *testing.T) {
		server := lw.NewMemory(widget("a", 1), widget("b", 2))
		widgets := lw.NewInformer(server, nil)
		g := lw.NewGraph(&lw.GraphOptions{Verify: true, OnError: func(err error) { t.Error(err) }})
		totals := lw.GroupBy(g, widgets, byNamespace, lw.Aggregate[*Widget, int]{Add: add, Remove: subtract}, newTotal)
		go widgets.Run(t.Context())
		go g.Run(t.Context())
		synctest.Wait() // until all that can happen has happened
		if _, err := server.Delete(t.Context(), key("a"), ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, ok := totals.Store().Get(lw.Key{Name: "default"}); !ok || got.Size != 2 {
			t.Errorf("a total of %v, want 2", got)
		}
	})
}

// A cluster is retired as docs/derive.md shows: the union, and what is derived from it, goes on.
func TestDerivePageOfClusters(t *testing.T) {
	podOf := func(w *Widget) *Widget {
		return &Widget{Meta: lw.Meta{Namespace: w.Namespace, Name: "pod-of-" + w.Name}, Size: w.Size}
	}

	synctest.Test(t, func(t *testing.T) {
		server, other := lw.NewMemory(widget("a", 1)), lw.NewMemory(widget("b", 2))
		cluster, rest := lw.NewInformer(server, nil), lw.NewInformer(other, nil)
		g := lw.NewGraph(&lw.GraphOptions{OnError: func(err error) { t.Error(err) }})
		all := lw.NewUnion[*Widget](g)
		all.Add(rest)
		go cluster.Run(t.Context())
		go rest.Run(t.Context())
		go g.Run(t.Context())
		synctest.Wait()
		retire := func() {
			pods := lw.Derive(g, cluster, podOf)
			remove := all.Add(pods)
			// …
			remove()     // the union goes on without its objects
			pods.Close() // and nothing reads the informer of the cluster any more, which can be stopped
		}
		retire()
		synctest.Wait()
		rig.Must[*Widget](t)(other.Create(t.Context(), widget("c", 3)))
		synctest.Wait()
		rig.Same(t, "the union", map[lw.Key]int{key("b"): 2, key("c"): 3}, rig.Sizes(all.Store()))
	})
}
