package main

import (
	"context"
	"log/slog"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
)

// A Website is the resource of crd.yaml.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Pages map[string]string `json:"pages"`
	} `json:"spec"`
	Status struct {
		Pages int `json:"pages"`
	} `json:"status"`
}

var (
	websites    = schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "websites"}
	websiteKind = websites.GroupVersion().WithKind("Website")
)

// managed is the label of the ConfigMaps that are ours.
const managed = "example.dev/website"

type controller struct {
	board      lw.Board // shows the informers
	group      lw.Group // runs them
	sites      *lw.Informer[*Website]
	maps       *lw.Informer[*corev1.ConfigMap]
	queue      workqueue.TypedRateLimitingInterface[lw.Key]
	siteClient dynamic.NamespaceableResourceInterface
	mapClient  corev1client.ConfigMapsGetter
}

func newController(config *rest.Config) (*controller, error) {
	siteSource, err := clientgo.HTTP[*Website](config, websites, "")
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &controller{
		queue:      workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[lw.Key]()),
		siteClient: client.Resource(websites),
		mapClient:  core,
	}
	// A cluster has many ConfigMaps. The selector leaves those of others on the server.
	ours := lw.WithListOptions(lw.FromClient(core.ConfigMaps("")),
		func(o *metav1.ListOptions) { o.LabelSelector = managed })
	c.sites = lw.NewInformer(siteSource, &lw.Options{Board: &c.board})
	c.maps = lw.NewInformer(ours, &lw.Options{Board: &c.board})
	c.sites.AddHandler(clientgo.Enqueue[*Website](c.queue))
	c.maps.AddHandler(clientgo.EnqueueOwner[*corev1.ConfigMap](c.queue, websiteKind.GroupKind()))
	c.group.Add(c.sites)
	c.group.Add(c.maps)
	return c, nil
}

// work reconciles until ctx is done. The group must run.
func (c *controller) work(ctx context.Context) error {
	// An empty store must not be taken for a server without objects.
	if err := c.group.WaitForSync(ctx); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return nil
		}
		if err := c.reconcile(ctx, key); err != nil {
			slog.Error("reconcile", "website", key, "error", err)
			c.queue.AddRateLimited(key)
		} else {
			c.queue.Forget(key)
		}
		c.queue.Done(key)
	}
}

// reconcile makes the ConfigMap of one Website what its spec says.
func (c *controller) reconcile(ctx context.Context, key lw.Key) error {
	site, ok := c.sites.Store().Get(key)
	if !ok || site.DeletionTimestamp != nil {
		return nil // the garbage collector removes what the Website owns
	}
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: site.Namespace, Name: site.Name,
			Labels:          map[string]string{managed: site.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(site, websiteKind)},
		},
		Data: site.Spec.Pages,
	}
	var written *corev1.ConfigMap
	var err error
	if have, ok := c.maps.Store().Get(key); !ok {
		written, err = c.mapClient.ConfigMaps(key.Namespace).Create(ctx, want, metav1.CreateOptions{})
	} else if !maps.Equal(have.Data, want.Data) {
		have = have.DeepCopy() // the object in the store is everybody's
		have.Data = want.Data
		written, err = c.mapClient.ConfigMaps(key.Namespace).Update(ctx, have, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	if written != nil {
		// The next reconcile must see this one's write, or it would write once more.
		if err := c.maps.WaitForResourceVersion(ctx, written.ResourceVersion); err != nil {
			return err
		}
	}
	if site.Status.Pages == len(want.Data) {
		return nil
	}
	status := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.dev/v1", "kind": "Website",
		"metadata": map[string]any{
			"namespace": site.Namespace, "name": site.Name, "resourceVersion": site.ResourceVersion, "uid": string(site.UID),
		},
		"spec":   map[string]any{},
		"status": map[string]any{"pages": int64(len(want.Data))},
	}}
	updated, err := c.siteClient.Namespace(key.Namespace).UpdateStatus(ctx, status, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	return c.sites.WaitForResourceVersion(ctx, updated.GetResourceVersion())
}
