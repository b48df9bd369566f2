package unkind_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/cmd/lwenvtest/internal/unkind"
	"github.com/go-lw/lw/lwtest"
)

const ns = "default"

// A plant is a controller of ConfigMaps with a mistake, and without it.
type plant struct {
	name      string
	reconcile func(c *controller, o *corev1.ConfigMap) error
	owns      bool // what it makes wakes it
	// edge is when the wrong one acts, in the place of whenever something has changed.
	edge func(old, new *corev1.ConfigMap) bool
	act  func(w *world, name string) // what a user does when the object is there
	ok   func(w *world, name string) error
}

// plants are the mistakes, as a kind server forgives them.
var plants = []plant{
	{name: "double", owns: true, // creates what its cache lacks, under new names
		reconcile: func(c *controller, o *corev1.ConfigMap) error {
			have, err := c.secrets.Secrets(ns).List(labels.SelectorFromSet(labels.Set{"of": o.Name}))
			for i := len(have); i < 2 && err == nil; i++ {
				name := fmt.Sprint(o.Name, "-", i)
				if c.wrong {
					name = ""
				}
				err = ignoreExists(c.create(o, name))
			}
			return err
		},
		ok: secrets(2)},
	{name: "exists", // takes AlreadyExists for a failure
		reconcile: func(c *controller, o *corev1.ConfigMap) error {
			if o.Annotations["state"] == "Failed" {
				return nil
			}
			if _, err := c.secrets.Secrets(ns).Get(o.Name); apierrors.IsNotFound(err) {
				err := c.create(o, o.Name)
				if apierrors.IsAlreadyExists(err) && c.wrong {
					return c.state(o, "Failed")
				}
				if ignoreExists(err) != nil {
					return err
				}
			}
			return c.state(o, "Ready")
		},
		act: func(w *world, name string) { w.write(60*time.Millisecond, name, "x", "1") },
		ok:  ready},
	{name: "conflict", // takes a conflict for a failure
		reconcile: func(c *controller, o *corev1.ConfigMap) error {
			if o.Annotations["state"] != "" {
				return nil
			}
			o = o.DeepCopy()
			o.Annotations = map[string]string{"state": "Ready"}
			_, err := c.client.CoreV1().ConfigMaps(ns).Update(c.ctx, o, metav1.UpdateOptions{})
			if apierrors.IsConflict(err) && c.wrong {
				return c.state(o, "Failed")
			}
			return err
		},
		ok: ready},
	{name: "deadline", // gives up after a quarter of a second
		reconcile: func(c *controller, o *corev1.ConfigMap) error {
			if o.Annotations["state"] != "" {
				return nil
			}
			one := *c
			if c.wrong {
				var cancel context.CancelFunc
				one.ctx, cancel = context.WithTimeout(c.ctx, 250*time.Millisecond)
				defer cancel()
			}
			if err := ignoreExists(one.create(o, o.Name)); one.ctx.Err() != nil {
				return c.state(o, "Failed")
			} else if err != nil {
				return err
			}
			return c.state(o, "Ready")
		},
		ok: ready},
	{name: "again", // creates again, under a new name, what it was told has failed
		reconcile: func(c *controller, o *corev1.ConfigMap) error {
			if o.Annotations["state"] != "" {
				return nil
			}
			name := o.Name
			if c.wrong {
				name = ""
			}
			lost := func(err error) bool { return !apierrors.IsAlreadyExists(err) }
			if err := retry.OnError(retry.DefaultBackoff, lost, func() error { return c.create(o, name) }); ignoreExists(err) != nil {
				return err
			}
			return retry.OnError(retry.DefaultBackoff, lost, func() error { return c.state(o, "Ready") })
		},
		ok: secrets(1)},
	{name: "swallow", // forgets an error
		reconcile: func(c *controller, o *corev1.ConfigMap) error {
			err := ignoreExists(c.create(o, o.Name))
			if c.wrong {
				return nil
			}
			return err
		},
		ok: secrets(1)},
	{name: "edge", // acts when it sees A become B
		edge: func(old, new *corev1.ConfigMap) bool { return old.Data["phase"] == "A" && new.Data["phase"] == "B" },
		reconcile: func(c *controller, o *corev1.ConfigMap) error {
			if phase := o.Data["phase"]; phase != "B" && phase != "C" {
				return nil
			}
			return ignoreExists(c.create(o, o.Name))
		},
		act: func(w *world, name string) {
			for _, phase := range []string{"A", "B", "C"} {
				w.write(120*time.Millisecond, name, "phase", phase)
			}
		},
		ok: secrets(1)},
	{name: "overwrite", // writes a whole object from its cache, whatever the version
		reconcile: func(c *controller, o *corev1.ConfigMap) error {
			if o.Annotations["state"] != "" || !c.wrong {
				return c.state(o, "Ready")
			}
			o = o.DeepCopy()
			o.ResourceVersion, o.Annotations = "", map[string]string{"state": "Ready"}
			_, err := c.client.CoreV1().ConfigMaps(ns).Update(c.ctx, o, metav1.UpdateOptions{})
			return err
		},
		act: func(w *world, name string) { w.write(100*time.Millisecond, name, "x", "1") },
		ok: func(w *world, name string) error {
			if o, err := w.maps.Get(key(name)); err != nil || o.Data["x"] != "1" {
				return fmt.Errorf("what the user wrote is lost: %v, %v", o.Data, err)
			}
			return ready(w, name)
		}},
}

// secrets is an ok that wants a number of Secrets.
func secrets(want int) func(w *world, name string) error {
	return func(w *world, name string) error {
		n := 0
		for s := range w.secrets.All() {
			if s.Labels["of"] == name {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("%d secrets, want %d", n, want)
		}
		return nil
	}
}

// ready is an ok that wants the state Ready.
func ready(w *world, name string) error {
	o, err := w.maps.Get(key(name))
	if err == nil && o.Annotations["state"] != "Ready" {
		err = fmt.Errorf("the state is %q", o.Annotations["state"])
	}
	return err
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func key(name string) lw.Key { return lw.Key{Namespace: ns, Name: name} }

// A controller is the program under test, on client-go's informers.
type controller struct {
	ctx     context.Context
	client  kubernetes.Interface
	secrets listers.SecretLister
	wrong   bool
}

func (c *controller) create(o *corev1.ConfigMap, name string) error {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": o.Name}}}
	if name == "" {
		s.GenerateName = o.Name + "-"
	}
	_, err := c.client.CoreV1().Secrets(ns).Create(c.ctx, s, metav1.CreateOptions{})
	return err
}

// state writes a state, without a version, unless the object of the cache has it.
func (c *controller) state(o *corev1.ConfigMap, state string) error {
	if o.Annotations["state"] == state {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"state":%q}}}`, state)
	_, err := c.client.CoreV1().ConfigMaps(ns).Patch(c.ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// run has one worker reconcile what the informers tell of, until ctx ends.
func (p plant) run(ctx context.Context, config *rest.Config, wrong bool) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	maps, secrets := factory.Core().V1().ConfigMaps(), factory.Core().V1().Secrets()
	c := &controller{ctx: ctx, client: client, secrets: secrets.Lister(), wrong: wrong}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	_, err = maps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if p.edge == nil || !wrong {
				queue.Add(obj.(*corev1.ConfigMap).Name)
			}
		},
		UpdateFunc: func(old, new any) {
			if p.edge == nil || !wrong || p.edge(old.(*corev1.ConfigMap), new.(*corev1.ConfigMap)) {
				queue.Add(new.(*corev1.ConfigMap).Name)
			}
		},
	})
	if err != nil {
		return err
	}
	if _, err := secrets.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if p.owns {
			queue.Add(obj.(*corev1.Secret).Labels["of"])
		}
	}}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	context.AfterFunc(ctx, queue.ShutDown)
	for {
		name, done := queue.Get()
		if done {
			factory.Shutdown()
			return nil
		}
		o, err := maps.Lister().ConfigMaps(ns).Get(name)
		if err == nil {
			err = p.reconcile(c, o)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			queue.AddRateLimited(name)
		} else {
			queue.Forget(name)
		}
		queue.Done(name)
	}
}

// A world is the server, as the user sees it.
type world struct {
	t       *testing.T
	maps    *lwtest.Collection[*corev1.ConfigMap]
	secrets *lwtest.Collection[*corev1.Secret]
}

// write changes an object after some time.
func (w *world) write(after time.Duration, name, field, value string) {
	time.Sleep(after)
	o, err := w.maps.Get(key(name))
	if err != nil {
		w.t.Fatal(err)
	}
	if o.Data == nil {
		o.Data = map[string]string{}
	}
	o.Data[field] = value
	if _, err := w.maps.Update(o); err != nil {
		w.t.Fatal(err)
	}
}

// objects is how many objects each controller has, of which one comes after the other. An error or
// a lost answer meets one in twenty.
const (
	objects = 20
	between = 700 * time.Millisecond
)

// play returns what is wrong with which objects in the end, and how many faults there were.
func (p plant) play(t *testing.T, day unkind.Day, wrong bool) (bad []string, faults int) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.StartServer(
			lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap", Type: &corev1.ConfigMap{}},
			lwtest.Resource{Plural: "secrets", Kind: "Secret", Type: &corev1.Secret{}},
		)
		day.Begin(server, func(unkind.Fault) { faults++ })
		w := &world{t, lwtest.Objects[*corev1.ConfigMap](server, "configmaps"), lwtest.Objects[*corev1.Secret](server, "secrets")}
		config := &rest.Config{Host: server.URL(), Transport: server.Client().Transport, UserAgent: "program", QPS: -1,
			ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.run(ctx, config, wrong) }()
		var names []string
		for i := range objects {
			name := fmt.Sprint(p.name, "-", i)
			names = append(names, name)
			go func() {
				time.Sleep(time.Second + time.Duration(i)*between)
				if _, err := w.maps.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}); err != nil {
					t.Error(err)
				}
				if p.act != nil {
					p.act(w, name)
				}
			}()
		}
		// A suite that waits for twenty seconds has seen what comes. Later on client-go lists again, and
		// tells of each object once more, which heals what was swallowed.
		time.Sleep(time.Second + objects*between + 20*time.Second)
		for _, name := range names {
			if err := p.ok(w, name); err != nil {
				bad = append(bad, name+": "+err.Error())
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		server.Close()
		time.Sleep(time.Minute) // a queue ends with its next tick
	})
	return bad, faults
}

const seeds = 5

// Every mistake is found by one of five seeds, and nothing is found where there is none.
func TestPlantedMistakes(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil // they log, and one sleeps by the clock outside the bubble
	defer func() { utilruntime.ErrorHandlers = handlers }()
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			var found []string
			caught := false
			for seed := range uint64(seeds) {
				day := unkind.Day{Seed: seed + 1, Agent: regexp.MustCompile("^program$")}
				if bad, faults := p.play(t, day, false); len(bad) > 0 || faults == 0 {
					t.Errorf("seed %d, %d faults: there is no mistake, and yet\n%s", day.Seed, faults, strings.Join(bad, "\n"))
				}
				bad, faults := p.play(t, day, true)
				caught = caught || len(bad) > 0
				found = append(found, fmt.Sprintf("seed %d, %d faults: %d of %d", day.Seed, faults, len(bad), objects))
			}
			t.Log(strings.Join(found, "\n"))
			if !caught {
				t.Error("no seed has found the mistake")
			}
		})
	}
}
