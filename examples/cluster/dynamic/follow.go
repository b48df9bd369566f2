package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
)

// A Follower follows kinds that nobody knows before the program runs: the given resources, and
// those of all CustomResourceDefinitions, which come and go. T is how it reads their objects:
//   - *unstructured.Unstructured has everything;
//   - *metav1.PartialObjectMetadata has the metadata alone, and the server sends nothing else. That
//     is enough to count, to find by label or owner, and to notice changes, at a part of the cost.
type Follower[T lw.Object] struct {
	config   *rest.Config
	log      *slog.Logger
	onChange func(kind string, change lw.EventType, obj T)

	// group runs the informers. Users of one kind share its informer.
	group       lw.Group
	definitions *lw.Informer[*Definition]

	mu    sync.Mutex
	kinds map[string]*kind[T] // by who wants it: an argument, or the name of a definition
}

// A kind is one that somebody wants.
type kind[T lw.Object] struct {
	resource schema.GroupVersionResource
	informer *lw.Informer[T]
	forget   func()
}

// NewFollower returns a Follower of the resources, and of all custom resources if custom is set. It
// calls onChange for every change, for each who wants the kind, in several goroutines at once.
func NewFollower[T lw.Object](config *rest.Config, resources []schema.GroupVersionResource, custom bool, log *slog.Logger,
	onChange func(kind string, change lw.EventType, obj T)) (*Follower[T], error) {
	f := &Follower[T]{config: config, log: log, onChange: onChange, kinds: map[string]*kind[T]{}}
	for _, resource := range resources {
		if err := f.want("argument "+name(resource), resource); err != nil {
			return nil, err
		}
	}
	if !custom {
		return f, nil
	}
	src, err := clientgo.HTTP[*Definition](config, definitions, "")
	if err != nil {
		return nil, err
	}
	src.Kind = "CustomResourceDefinition" // the type's name does not say it
	f.definitions = lw.NewInformer(src, &lw.Options{Logger: log})
	f.group.Add(f.definitions)
	f.definitions.AddHandler(lw.Handler[*Definition]{
		Add:    f.defined,
		Update: func(_, d *Definition) { f.defined(d) },
		Delete: func(d *Definition) { f.unwant(d.Name) },
	})
	return f, nil
}

// Run follows until ctx is done.
func (f *Follower[T]) Run(ctx context.Context) error { return f.group.Run(ctx) }

// defined is called for a definition that is new or has changed.
func (f *Follower[T]) defined(d *Definition) {
	resource, ok := d.resource()
	f.mu.Lock()
	have := f.kinds[d.Name]
	f.mu.Unlock()
	if have != nil && (!ok || have.resource != resource) {
		f.unwant(d.Name)
	}
	if ok && (have == nil || have.resource != resource) {
		if err := f.want(d.Name, resource); err != nil {
			f.log.Error("not followed", "definition", d.Name, "error", err)
		}
	}
}

// want follows a resource on behalf of somebody.
func (f *Follower[T]) want(who string, resource schema.GroupVersionResource) error {
	src, err := clientgo.HTTP[T](f.config, resource, "")
	if err != nil {
		return err
	}
	src.Drop = []string{"metadata.managedFields"}
	// If the kind is followed already this is the same informer, and src is not used. A resource
	// that the server does not have is no error: the informer asks again until it has.
	inf, release := lw.Share(&f.group, resource, func() lw.Source[T] { return src },
		&lw.Options{Name: name(resource), Logger: f.log})
	handler := inf.AddHandler(lw.Handler[T]{
		Add:    func(obj T) { f.onChange(name(resource), lw.Added, obj) },
		Update: func(_, obj T) { f.onChange(name(resource), lw.Updated, obj) },
		Delete: func(obj T) { f.onChange(name(resource), lw.Deleted, obj) },
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kinds[who] = &kind[T]{resource, inf, func() {
		handler.Remove()
		release() // the last one stops the informer, and waits for it
	}}
	return nil
}

// unwant ends what want began. There are no calls for the objects of a kind that is not followed
// any more: they are deleted if the kind is gone, and if not, nobody knows.
func (f *Follower[T]) unwant(who string) {
	f.mu.Lock()
	k := f.kinds[who]
	delete(f.kinds, who)
	f.mu.Unlock()
	if k != nil {
		k.forget()
	}
}

// Kinds returns the stores of the kinds that are followed.
func (f *Follower[T]) Kinds() map[string]lw.Reader[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]lw.Reader[T]{}
	for _, k := range f.kinds {
		out[name(k.resource)] = k.informer.Store()
	}
	return out
}

// name returns a resource as it is written on the command line: deployments.v1.apps.
func name(r schema.GroupVersionResource) string {
	return fmt.Sprintf("%s.%s.%s", r.Resource, r.Version, r.Group)
}
