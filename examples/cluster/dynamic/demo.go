package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// A world is an API server in memory that serves a resource as long as it has its definition.
type world struct {
	*lwtest.Server
	definitions *lwtest.Collection[*Definition]
}

func newWorld() *world {
	server := lwtest.StartServer(
		lwtest.Resource{Group: definitions.Group, Plural: definitions.Resource, Kind: "CustomResourceDefinition", Cluster: true},
		lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap"},
		lwtest.Resource{Group: "example.dev", Plural: "websites", Kind: "Website"},
		lwtest.Resource{Group: "example.dev", Plural: "gadgets", Kind: "Gadget"},
	)
	server.SetServed("websites", false)
	server.SetServed("gadgets", false)
	return &world{server, lwtest.Objects[*Definition](server, definitions.Resource)}
}

func (w *world) config() *rest.Config {
	return &rest.Config{Host: w.URL(), Transport: w.Client().Transport}
}

// objects is a collection of the server, of which the demonstration needs the metadata.
func (w *world) objects(plural string) *lwtest.Collection[*metav1.PartialObjectMetadata] {
	return lwtest.Objects[*metav1.PartialObjectMetadata](w.Server, plural)
}

// create adds an object.
func (w *world) create(plural, name string) error {
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	_, err := w.objects(plural).Create(obj)
	return err
}

// define creates the definition of a custom resource, and serves it.
func (w *world) define(plural string) error {
	w.SetServed(plural, true)
	d := &Definition{ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.dev"}}
	d.Spec.Group, d.Spec.Names.Plural = "example.dev", plural
	d.Spec.Versions = []Version{{Name: "v1", Served: true, Storage: true}}
	d.Status.Conditions = []metav1.Condition{{Type: "Established", Status: metav1.ConditionTrue}}
	_, err := w.definitions.Create(d)
	return err
}

// undefine deletes the definition of a custom resource, and all its objects.
func (w *world) undefine(plural string) error {
	w.SetServed(plural, false)
	return w.definitions.Delete(lw.Key{Name: plural + ".example.dev"})
}

// content returns the objects of a kind with their versions.
func content[T lw.Object](objs func(yield func(T) bool)) []string {
	out := []string{}
	for obj := range objs {
		out = append(out, obj.GetName()+"@"+obj.GetResourceVersion())
	}
	slices.Sort(out)
	return out
}

// demo follows a server in memory, lets things happen, and returns nil if the program knows each
// time what the server has.
func demo[T lw.Object](ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var none T
	fmt.Fprintf(out, "\nas %T\n", none)
	w := newWorld()
	defer w.Close()
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelError}))
	// The websites are wanted twice: by name, and for their definition. They are watched once.
	resources := []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"}, {Group: "example.dev", Version: "v1", Resource: "websites"},
	}
	f, err := NewFollower(w.config(), resources, true, log, func(string, lw.EventType, T) {})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- f.Run(running) }()

	all := func(fs ...func() error) func() error {
		return func() error {
			for _, f := range fs {
				if err := f(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	create := func(plural, name string) func() error { return func() error { return w.create(plural, name) } }
	for _, step := range []struct {
		what  string
		do    func() error
		kinds []string // that are followed then
	}{
		{"a server without custom resources", create("configmaps", "a"), []string{"configmaps", "websites"}},
		{"two kinds are defined", all(
			func() error { return w.define("websites") }, create("websites", "bakery"), create("websites", "zoo"),
			func() error { return w.define("gadgets") }, create("gadgets", "lamp"),
		), []string{"configmaps", "gadgets", "websites"}},
		{"the connection breaks, and objects come and go meanwhile", all(
			func() error { w.Break(); return nil }, create("configmaps", "b"), create("gadgets", "clock"),
			func() error { return w.objects("websites").Delete(lw.Key{Namespace: "default", Name: "zoo"}) },
		), []string{"configmaps", "gadgets", "websites"}},
		{"a kind is gone, with its objects", func() error { return w.undefine("gadgets") }, []string{"configmaps", "websites"}},
		{"it comes back", all(func() error { return w.define("gadgets") }, create("gadgets", "lamp")),
			[]string{"configmaps", "gadgets", "websites"}},
	} {
		if err := step.do(); err != nil {
			return err
		}
		for {
			want, have := map[string][]string{}, map[string][]string{}
			for _, plural := range step.kinds {
				want[plural] = content(w.objects(plural).All())
			}
			for resource, store := range f.Kinds() {
				plural, _ := schema.ParseResourceArg(resource)
				have[plural.Resource] = content(store.All())
			}
			if maps.EqualFunc(want, have, slices.Equal) {
				fmt.Fprintf(out, "%s: %v\n", step.what, have)
				break
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case err := <-ended:
				return fmt.Errorf("the follower has ended: %w", err)
			case <-ctx.Done():
				return fmt.Errorf("%s: the program knows %v, and the server has %v", step.what, have, want)
			}
		}
	}
	stop()
	return <-ended
}
