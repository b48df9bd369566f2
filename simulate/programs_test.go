package simulate

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw/controllerruntime"
)

// manage returns a Start that runs one controller of ConfigMaps, which owns Secrets.
func manage(reconciler func(c client.Client) reconcile.Func) func(ctx context.Context, c *rest.Config) error {
	return manageOn(nil, reconciler) // controller-runtime's own cache
}

func manageOn(caches cache.NewCacheFunc, reconciler func(c client.Client) reconcile.Func) func(ctx context.Context,
	c *rest.Config) error {
	return manageWith(ctrl.Options{NewCache: caches}, reconciler)
}

func manageWith(opts ctrl.Options, reconciler func(c client.Client) reconcile.Func) func(ctx context.Context,
	c *rest.Config) error {
	opts.Metrics = metricsserver.Options{BindAddress: "0"}
	opts.Controller = controllerconfig.Controller{SkipNameValidation: new(true)}
	return func(ctx context.Context, c *rest.Config) error {
		mgr, err := ctrl.NewManager(c, opts)
		if err != nil {
			return err
		}
		if err := ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(reconciler(mgr.GetClient())); err != nil {
			return err
		}
		return mgr.Start(ctx)
	}
}

const one = `
apiVersion: v1
kind: ConfigMap
metadata: {name: one, namespace: default}
data: {want: a}
`

const two = `
apiVersion: v1
kind: ConfigMap
metadata: {name: one, namespace: default}
data: {want: b}
`

func steps(w *W) {
	w.Apply(one)
	w.Settle()
	w.Apply(two)
}

func owner(m *corev1.ConfigMap) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(m, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
}

// each is a reconciler that does work for each ConfigMap that is there.
func each(c client.Client, work func(ctx context.Context, m *corev1.ConfigMap) error) reconcile.Func {
	return func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
		m := &corev1.ConfigMap{}
		if err := c.Get(ctx, req.NamespacedName, m); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		return ctrl.Result{}, work(ctx, m)
	}
}

// clean makes a child by a name that follows from its parent's, and then says so in the parent. It
// drops a conflict: what it is told of then has it try again.
func clean(c client.Client) reconcile.Func {
	return each(c, func(ctx context.Context, m *corev1.ConfigMap) error {
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name + "-child"}}
		err := c.Get(ctx, client.ObjectKeyFromObject(child), child)
		switch {
		case apierrors.IsNotFound(err):
			child.OwnerReferences = owner(m)
			child.Labels = map[string]string{"want": m.Data["want"]}
			if err = c.Create(ctx, child); err == nil {
				_ = 1 / time.Since(child.CreationTimestamp.Time).Milliseconds() // as kube-controller-manager does
			}
		case err == nil && child.Labels["want"] != m.Data["want"]:
			child.Labels = map[string]string{"want": m.Data["want"]}
			err = c.Update(ctx, child)
		}
		if err == nil && m.Data["made"] != m.Data["want"] {
			m.Data["made"] = m.Data["want"]
			err = c.Update(ctx, m)
		}
		if apierrors.IsConflict(err) {
			err = nil
		}
		return err
	})
}

// random makes a child by a random name while the parent, as the cache has it, names none.
func random(c client.Client) reconcile.Func {
	return randomBy(c, func(child *corev1.Secret) { child.GenerateName = "one-" })
}

// worded is random with names of its own making.
func worded(c client.Client) reconcile.Func {
	return randomBy(c, func(child *corev1.Secret) { child.Name = "one-" + strings.ToLower(rand.Text()) })
}

func randomBy(c client.Client, name func(child *corev1.Secret)) reconcile.Func {
	return each(c, func(ctx context.Context, m *corev1.ConfigMap) error {
		if m.Data["child"] != "" {
			return nil
		}
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, OwnerReferences: owner(m)}}
		name(child)
		if err := c.Create(ctx, child); err != nil {
			return err
		}
		m.Data["child"] = "name: " + child.Name
		return c.Update(ctx, m)
	})
}

// between says that it is done before it is.
func between(c client.Client) reconcile.Func {
	return each(c, func(ctx context.Context, m *corev1.ConfigMap) error {
		if m.Data["done"] != "" {
			return nil
		}
		m.Data["done"] = "yes"
		if err := c.Update(ctx, m); err != nil {
			return err
		}
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name,
			OwnerReferences: owner(m)}}
		return client.IgnoreAlreadyExists(c.Create(ctx, child))
	})
}

// endless writes what it has written, and is told of it.
func endless(c client.Client) reconcile.Func {
	return each(c, func(ctx context.Context, m *corev1.ConfigMap) error {
		m.Data["beat"] += "x"
		if len(m.Data["beat"]) > 3 {
			m.Data["beat"] = ""
		}
		return c.Update(ctx, m)
	})
}

func TestClean(t *testing.T) {
	Run(t, World{Start: manage(clean), Steps: steps, Histories: 1000})
}

// TestCleanOnLW is TestClean on the cache of lw.
func TestCleanOnLW(t *testing.T) {
	Run(t, World{Start: manageOn(controllerruntime.NewCache, clean), Steps: steps})
}

// TestReplay repeats histories with faults of each kind. In this process they have several cores,
// so what the goroutines of the server and of the program do at once, and the scheduler does not
// wait for, shows.
func TestReplay(t *testing.T) {
	s := begin(t, &World{
		Kubernetes: "1.31", // so that a start may read an older state
		Start: func(ctx context.Context, c *rest.Config) error {
			client := kubernetes.NewForConfigOrDie(c).CoreV1()
			var more sync.WaitGroup
			defer more.Wait()
			for i := range 4 { // each asks again at once when its watch ends, and has a last word
				more.Go(func() {
					for ctx.Err() == nil {
						if w, err := client.ConfigMaps("default").Watch(ctx,
							metav1.ListOptions{LabelSelector: fmt.Sprint("number!=", i)}); err == nil {
							for range w.ResultChan() {
							}
						}
					}
					last := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("last-", i)}}
					_, _ = client.Secrets("default").Create(context.WithoutCancel(ctx), last, metav1.CreateOptions{})
				})
			}
			return manage(random)(ctx, c)
		},
		Steps: func(w *W) {
			steps(w)
			w.Pass(wait.Jitter(time.Second, 1))
		},
	})
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	k := learned(t, s.world)
	faults := map[string]int{}
	for n := range 60 {
		p := planOf(1, n, k.calm)
		first, second := k.bubble(p, 0), k.bubble(p, 0)
		for kind, times := range first.Faults {
			faults[kind] += times
		}
		if first.Digest != second.Digest {
			t.Errorf("%q is another history when it is repeated: (-want +got)\n%s", p, cmp.Diff(first.Story, second.Story))
		}
	}
	for _, kind := range allKinds {
		if faults[kind] == 0 {
			t.Errorf("%s has not happened", kind)
		}
	}
	const plan = "order 0; conflict at 1"
	var first *report
	for range 3 {
		r := s.shrunk(plan)
		if r == nil || r.Exact != r.Replays {
			t.Fatalf("%q does not fail, or not again: %+v", plan, r)
		}
		if first == nil {
			first = r
		} else if first.Digest != r.Digest {
			t.Errorf("%q is another history in another process: (-want +got)\n%s", plan, cmp.Diff(first.Story, r.Story))
		}
	}
}

// TestPlanted finds what is wrong with programs that are wrong in ways of their own.
func TestPlanted(t *testing.T) {
	for _, c := range []struct {
		name       string
		reconciler func(c client.Client) reconcile.Func
		steps      func(w *W)
		want       []string // one of these oracles
	}{
		{"a random name before the cache has the status", random, steps, []string{"twice", "another end"}},
		{"a crash between two writes", between, steps, []string{"another end", "a restart mends something"}},
		{"no rest", endless, steps, []string{"no rest"}},
		{"a name that another owner had", namesake, again, []string{"another end", "a restart mends something"}},
		{"an annotation that is lost", whole, annotated, []string{"another end"}},
		{"an error that never ends", stuck, steps, []string{"an error at rest"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := begin(t, &World{Start: manage(c.reconciler), Steps: c.steps})
			r := s.find()
			if r == nil {
				t.Fatalf("nothing was found in %d histories", s.result.Histories)
			}
			t.Log(s.text(r))
			if !slices.Contains(c.want, r.Failure.Oracle) || r.Exact != r.Replays {
				t.Errorf("%s, %d of %d replays are exact, want one of %q", r.Failure.Oracle, r.Exact, r.Replays, c.want)
			}
		})
	}
}

// namesake takes a child for its own by its name, whoever owns it.
func namesake(c client.Client) reconcile.Func {
	return each(c, func(ctx context.Context, m *corev1.ConfigMap) error {
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
		err := c.Get(ctx, client.ObjectKeyFromObject(child), child)
		if apierrors.IsNotFound(err) {
			child.OwnerReferences = owner(m)
			err = c.Create(ctx, child)
		}
		if err == nil && m.Data["child"] == "" {
			m.Data["child"] = "of " + string(child.OwnerReferences[0].UID)
			if child.OwnerReferences[0].UID == m.UID {
				m.Data["child"] = "own"
			}
			err = c.Update(ctx, m)
		}
		return err
	})
}

// stuck does its work, and says for ever that it once could not.
func stuck(c client.Client) reconcile.Func {
	var failed error
	work := clean(c)
	return func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
		result, err := work(ctx, req)
		if err != nil {
			failed = err
		}
		return result, failed
	}
}

// again deletes the parent and makes it again at once.
func again(w *W) {
	w.Apply(one)
	w.Settle()
	w.Delete(one)
	w.Settle()
	w.Apply(two)
}

// whole writes the whole child as it wants it, over what it has not seen.
func whole(c client.Client) reconcile.Func {
	return each(c, func(ctx context.Context, m *corev1.ConfigMap) error {
		if m.Data["seen"] == m.Data["want"] {
			return nil
		}
		m.Data["seen"], m.ResourceVersion = m.Data["want"], ""
		return c.Update(ctx, m)
	})
}

// annotated has a user annotate what the program writes.
func annotated(w *W) {
	w.Apply(one)
	w.Settle()
	w.Apply(two)
	w.Apply(strings.Replace(two, "name: one,", "name: one, annotations: {user: x},", 1))
}
