package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-lw/lw/simulate/cluster"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// surplus makes a child while its cache has none, and deletes what is too much: only for a while
// there are two.
func surplus(c client.Client) reconcile.Func {
	return each(c, func(ctx context.Context, m *corev1.ConfigMap) error {
		var all corev1.SecretList
		if err := c.List(ctx, &all); err != nil {
			return err
		}
		if len(all.Items) == 0 {
			child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, GenerateName: m.Name + "-",
				OwnerReferences: owner(m)}}
			if err := c.Create(ctx, child); err != nil {
				return err
			}
			all.Items = append(all.Items, *child)
		}
		for _, child := range all.Items[1:] {
			if err := c.Delete(ctx, &child); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		if m.Data["made"] == m.Data["want"] {
			return nil
		}
		m.Data["made"] = m.Data["want"]
		return c.Update(ctx, m)
	})
}

// kept makes a child with a finalizer that nobody removes.
func kept(c client.Client) reconcile.Func {
	return each(c, func(ctx context.Context, m *corev1.ConfigMap) error {
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, OwnerReferences: owner(m),
			Finalizers: []string{"example.com/kept"}}}
		return client.IgnoreAlreadyExists(c.Create(ctx, child))
	})
}

// looksOnce writes the UID of the child in the parent when it makes the child, and looks at it again
// only when it starts.
func looksOnce(c client.Client) reconcile.Func {
	first := true
	return each(c, func(ctx context.Context, m *corev1.ConfigMap) error {
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
		err := c.Get(ctx, client.ObjectKeyFromObject(child), child)
		made := apierrors.IsNotFound(err)
		if made {
			child.OwnerReferences = owner(m)
			err = c.Create(ctx, child)
		}
		if err == nil && (made || first || m.Data["child"] == "") && m.Data["child"] != string(child.UID) {
			m.Data["child"] = string(child.UID)
			err = c.Update(ctx, m)
		}
		first = false
		return err
	})
}

// TestOracles finds what only one oracle can see.
func TestOracles(t *testing.T) {
	for _, c := range []struct {
		want       string
		reconciler func(c client.Client) reconcile.Func
		steps      func(w *W)
	}{
		{"twice", surplus, steps},
		{lost, whole, func(w *W) { w.Apply(one) }},
		{"orphan", kept, func(w *W) {
			w.Apply(one)
			w.Settle()
			w.Delete(one)
		}},
		{mends, looksOnce, func(w *W) {
			w.Apply(one)
			w.Settle()
			w.Delete("apiVersion: v1\nkind: Secret\nmetadata: {name: one, namespace: default}")
		}},
	} {
		t.Run(c.want, func(t *testing.T) {
			s := begin(t, &World{Start: manage(c.reconciler), Steps: c.steps})
			r := s.find()
			if r == nil {
				t.Fatalf("nothing was found in %d histories", s.result.Histories)
			}
			if r.Failure.Oracle != c.want || r.Exact != r.Replays {
				t.Errorf("%d of %d replays are exact of\n%s", r.Exact, r.Replays, s.text(r))
			}
		})
	}
}

// TestLost says what of whom is lost by which write, and that the program did not know.
func TestLost(t *testing.T) {
	text := fails(t, World{Start: manage(whole), Steps: steps}, "order 0; foreign configmaps at 0")
	lacks(t, text, lost, "the program's update of configmaps/default/one removes the annotation or the label "+
		"foreign.example.com/0 of another manager from configmaps/default/one, which it had not seen: "+
		"it wrote over what it did not know\n")
}

// remembers makes a child unless it knows of one, which it remembers: only what it reads at its
// start can be too old.
func remembers(c client.Client) reconcile.Func {
	made := false
	return each(c, func(ctx context.Context, m *corev1.ConfigMap) error {
		if made {
			return nil
		}
		var all corev1.SecretList
		if err := c.List(ctx, &all); err != nil {
			return err
		}
		if made = true; len(all.Items) == 0 {
			return c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, GenerateName: m.Name + "-",
				OwnerReferences: owner(m)}})
		}
		return nil
	})
}

// fills makes two children, less those that its cache has.
func fills(c client.Client) reconcile.Func {
	return each(c, func(ctx context.Context, m *corev1.ConfigMap) error {
		var all corev1.SecretList
		if err := c.List(ctx, &all); err != nil {
			return err
		}
		for range 2 - len(all.Items) {
			child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, GenerateName: m.Name + "-",
				OwnerReferences: owner(m)}}
			if err := c.Create(ctx, child); err != nil {
				return err
			}
		}
		return nil
	})
}

// told makes a child until it is told that it has one, and never looks.
func told(c client.Client) reconcile.Func {
	done := false
	return each(c, func(ctx context.Context, m *corev1.ConfigMap) error {
		if done {
			return nil
		}
		err := c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, GenerateName: m.Name + "-",
			OwnerReferences: owner(m)}})
		done = err == nil
		return err
	})
}

// TestTwice blames no program that can't know: the calm run shows it each write before its answer,
// a start on an older state has not seen what was there, and what is made and not told of is not
// known.
func TestTwice(t *testing.T) {
	for _, c := range []struct {
		plan       string
		reconciler func(c client.Client) reconcile.Func
		want       string
	}{
		{"order 0", fills, ""},
		{"order 0; crash-after at 0; stale secrets at 0 for 1", remembers, anotherEnd},
		{"order 0; lose at 0", told, anotherEnd},
		{"order 0; hold secrets at 1", surplus, "twice"},
	} {
		t.Run(c.plan, func(t *testing.T) {
			w := &World{Kubernetes: "1.31", Start: manage(c.reconciler), Steps: func(w *W) { w.Apply(one) },
				AtRest: func(s State) error {
					if n := len(s.Objects); n > 3 {
						return fmt.Errorf("%d objects", n)
					}
					return nil
				}}
			got := ""
			if r := begin(t, w).shrunk(c.plan); r != nil {
				got = r.Failure.Oracle
			}
			if got != c.want {
				t.Errorf("it is %q, want %q", got, c.want)
			}
		})
	}
}

// TestKeep has a child that is being deleted while its parent is made again.
func TestKeep(t *testing.T) {
	for _, c := range []struct {
		name       string
		reconciler func(c client.Client) reconcile.Func
		want       string
		steps      func(w *W)
	}{
		{"clean", clean, "", again},
		{"namesake", namesake, anotherEnd, again},
		{"gone before it is let go", clean, "", freed},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			s := begin(t, &World{Start: manage(c.reconciler), Steps: c.steps})
			if r := s.shrunk("order 0; keep secrets at 0"); r != nil {
				got = r.Failure.Oracle
			}
			if got != c.want {
				t.Errorf("it is %q, want %q", got, c.want)
			}
		})
	}
}

// freed deletes the parent, and then frees its children from whatever keeps them.
func freed(w *W) {
	w.Apply(one)
	w.Settle()
	w.Delete(one)
	w.Settle()
	all := lwtest.Objects[*corev1.Secret](w.Server, "secrets")
	for child := range all.All() {
		child.Finalizers = nil
		if _, err := all.Update(child); err != nil {
			panic(err)
		}
	}
}

// late notes in its object that another manager has written it while b was wanted.
func late(c client.Client) reconcile.Func {
	seen := 0
	work := clean(c)
	return func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
		m := &corev1.ConfigMap{}
		if err := c.Get(ctx, req.NamespacedName, m); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		more := len(m.Annotations) > seen
		seen = len(m.Annotations)
		if more && m.Data["made"] == "b" && m.Data["late"] == "" {
			m.Data["late"] = "yes"
			return ctrl.Result{}, c.Update(ctx, m)
		}
		return work(ctx, req)
	}
}

// TestForeign takes for no failure what another manager's write leads to alone, whenever it comes,
// and takes for one what another fault leads to.
func TestForeign(t *testing.T) {
	s := begin(t, &World{Start: manage(late), Steps: steps})
	if r := s.shrunk("order 0; foreign configmaps at 4"); r != nil {
		t.Error(s.text(r))
	}
	k := learned(t, &World{Start: manage(namesake), Steps: again})
	k.calm.Foreign["secrets "+anotherEnd] = true
	p := rig.Must[plan](t)(parsePlan("order 0; keep secrets at 0"))
	if out := k.history(p); out.Failure == nil || out.Failure.Oracle != anotherEnd {
		t.Errorf("it is %+v, want %q", out.Failure, anotherEnd)
	}
}

// TestVaries lets there be more objects of a kind, and not fewer.
func TestVaries(t *testing.T) {
	w := World{Varies: []string{"networkpolicies"}, Resources: cluster.Resources()}
	state := func(names ...string) (s State) {
		for _, name := range names {
			s.Objects = append(s.Objects, &unstructured.Unstructured{Object: map[string]any{"kind": "NetworkPolicy",
				"metadata": map[string]any{"name": name}}})
		}
		return s
	}
	if diff := w.difference(state("a"), state("a", "b"), nil); diff != "" {
		t.Error(diff)
	}
	if diff := w.difference(state("a", "b"), state("b"), nil); diff != "- NetworkPolicy a is missing" {
		t.Error(diff)
	}
	if r := begin(t, &World{Varies: []string{"secrets"}, Start: manage(surplus),
		Steps: steps}).shrunk("order 0; hold secrets at 1"); r != nil {
		t.Errorf("one more for a while: %v", r.Failure)
	}
}

// TestLearn knows objects by their own UIDs, in both orders of their members, not by their owners'.
func TestLearn(t *testing.T) {
	h := &history{known: map[string]int{}, round: 1}
	h.learn([]byte(`{"ownerReferences":[{"name":"a","uid":"no","controller":true}],"uid":"typed","resourceVersion":"3"}`))
	h.learn([]byte(`{"ownerReferences":[{"name":"a","uid":"no"}],"resourceVersion":"3","uid":"map"}`))
	if diff := cmp.Diff([]string{"map", "typed"}, slices.Sorted(maps.Keys(h.known))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestStale starts programs on an older state. Caches of lw always ask for the newest one.
func TestStale(t *testing.T) {
	for name, wrong := range map[string]bool{"": true, "lw": false} {
		t.Run("on "+name, func(t *testing.T) {
			defer func(was string) { *cacheFlag = was }(*cacheFlag)
			*cacheFlag = name
			s := begin(t, &World{Kubernetes: "1.31", Start: manageOn(NewCache, remembers), Steps: func(w *W) { w.Apply(one) }})
			if r := s.shrunk("order 0; crash-after at 0"); r != nil {
				t.Error(s.text(r))
			}
			if r := s.shrunk("order 0; crash-after at 0; stale secrets at 0 for 1"); (r != nil) != wrong {
				t.Errorf("a start on an older state fails: %t, want %t", r != nil, wrong)
			}
		})
	}
	t.Run("who asks for the newest state", func(t *testing.T) {
		s := begin(t, &World{Kubernetes: "1.31", Histories: 20, Start: func(ctx context.Context, c *rest.Config) error {
			secrets := kubernetes.NewForConfigOrDie(c).CoreV1().Secrets("default")
			for ctx.Err() == nil {
				if all, err := secrets.List(ctx, metav1.ListOptions{}); err == nil && len(all.Items) > 0 {
					break
				}
				made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
				_, _ = secrets.Create(ctx, made, metav1.CreateOptions{})
			}
			<-ctx.Done()
			return nil
		}})
		if r := s.find(); r != nil {
			t.Error(s.text(r))
		}
		if n := s.result.Faults[stale]; n > 0 || s.result.Histories != 20 {
			t.Errorf("it has read an older state %d times in %d histories", n, s.result.Histories)
		}
	})
}

// TestLeader lets programs lose their leadership, with a lease and without.
func TestLeader(t *testing.T) {
	for name, opts := range map[string]ctrl.Options{"lease": {LeaderElection: true, LeaderElectionID: "one",
		LeaderElectionNamespace: "default"}, "none": {}} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, &World{Start: manageWith(opts, clean), Steps: steps, Histories: 20})
			if r := s.find(); r != nil {
				t.Fatal(s.text(r))
			}
			if s.result.Faults[lease] == 0 {
				t.Error("no leadership was lost")
			}
		})
	}
	t.Run("between two writes", func(t *testing.T) {
		s := begin(t, &World{Start: manage(between), Steps: steps})
		if r := s.shrunk("order 0; lease at 1"); r == nil {
			t.Error("nothing was lost with the leadership")
		}
	})
}

// TestNames runs a program that makes up names.
func TestNames(t *testing.T) {
	s := begin(t, &World{Start: manage(worded), Steps: func(w *W) { w.Apply(one) }})
	if r := s.shrunk("order 0"); r != nil {
		t.Errorf("the calm order fails: %s", s.text(r))
	}
	const crash = "order 0; crash-after at 0"
	r := s.shrunk(crash + "; hold configmaps at 9")
	if r == nil || r.Exact != r.Replays || r.Plan != crash || r.Digest == 0 {
		t.Errorf("the crash between two writes is not found, or no replay is exact, or the hold stays: %+v", r)
	}
}

// TestLeft runs a program that leaves goroutines, as caches do whose finalizers end them.
func TestLeft(t *testing.T) {
	Run(t, World{Histories: 4, Start: func(ctx context.Context, c *rest.Config) error {
		if err := makes(ctx, c, "left"); err != nil {
			return err
		}
		for range 4000 {
			end := make(chan bool)
			runtime.SetFinalizer(new([64]byte), func(*[64]byte) { close(end) })
			runtime.AddCleanup(new([64]byte), func(end chan bool) { end <- true }, end)
			go func() { <-end }()
		}
		runtime.GC()
		<-ctx.Done()
		return nil
	}})
}

// TestFlags searches for a time, and writes results.
func TestFlags(t *testing.T) {
	for _, c := range []struct {
		name  string
		long  time.Duration
		start func(ctx context.Context, c *rest.Config) error
		want  Result
	}{
		{"for", 1, manage(clean), Result{}}, // it would make a billion histories
		{"done", 0, manage(clean), Result{Histories: 2}},
		{"fails", 0, func(context.Context, *rest.Config) error { return errors.New("no leader") },
			Result{Oracle: "the program ends", Exact: "0 of 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "results")
			defer func(file string, long time.Duration, workers int) {
				*jsonFlag, *forFlag, *workersFlag = file, long, workers
			}(*jsonFlag, *forFlag, *workersFlag)
			*jsonFlag, *forFlag, *workersFlag = file, c.long, 0 // one, since none would find nothing
			s := begin(t, &World{Start: c.start, Steps: steps, Histories: 2})
			s.done(s.find())
			b := rig.Must[[]byte](t)(os.ReadFile(file))
			var got Result
			if err := json.Unmarshal(b, &got); err != nil || strings.Count(string(b), "\n") != 1 {
				t.Fatalf("the results are %q: %v", b, err)
			}
			c.want.Test, c.want.Seed = t.Name(), *seedFlag
			got.Seconds, got.Faults, got.Pairs = 0, nil, nil
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
