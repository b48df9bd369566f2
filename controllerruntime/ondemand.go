package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/demand"
)

// defaultOnDemandFor is the default of Options.OnDemandFor.
const defaultOnDemandFor = 30 * time.Minute

// A part is what a cache has of those kinds that it does not have whole.
type part struct {
	scheme     *runtime.Scheme
	onDemand   map[form]*readKeys
	namespaces *lw.NamespaceSet // nil: all
	namespaced func(runtime.Object) (bool, error)

	mu        sync.Mutex
	informers map[form]partInformer // guarded by mu
}

// partOf returns what o asks for; nil if the cache has all. opts are those of the cache, with their
// scheme and their mapper.
func partOf(o Options, opts cache.Options) (*part, error) {
	if len(o.OnDemand) == 0 && o.Namespaces == nil {
		return nil, nil
	}
	p := &part{scheme: opts.Scheme, onDemand: map[form]*readKeys{}, namespaces: o.Namespaces, informers: map[form]partInformer{}}
	p.namespaced = func(obj runtime.Object) (bool, error) {
		return apiutil.IsObjectNamespaced(obj, opts.Scheme, opts.Mapper)
	}
	if opts.NewInformer != nil {
		return nil, errors.New("OnDemand and Namespaces need informers of lw: leave out NewInformer of cache.Options")
	}
	several := len(opts.DefaultNamespaces) > 1 || o.Namespaces != nil && len(opts.DefaultNamespaces) > 0
	for _, by := range opts.ByObject {
		several = several || len(by.Namespaces) > 1 || o.Namespaces != nil && len(by.Namespaces) > 0
	}
	if several {
		return nil, errors.New("the namespaces of cache.Options make an informer of each: OnDemand takes at most one, and Options.Namespaces is in their place")
	}
	for _, example := range o.OnDemand {
		f, err := formOfExample(example)
		if err != nil {
			return nil, fmt.Errorf("OnDemand: %w", err)
		}
		p.onDemand[f] = &readKeys{last: map[lw.Key]time.Time{}, keep: o.OnDemandFor}
		if o.OnDemandFor <= 0 {
			p.onDemand[f].keep = defaultOnDemandFor
		}
	}
	return p, nil
}

// setOf returns what the cache has of the objects like example; nil if it has all.
func (p *part) setOf(example runtime.Object) lw.WantedSet {
	if p == nil {
		return nil
	}
	if keys := p.onDemand[formOf(example)]; keys != nil {
		return &keys.set
	}
	if p.namespaces == nil {
		return nil
	}
	if is, err := p.namespaced(example); err != nil || !is {
		return nil // controller-runtime has mapped the kind before
	}
	return p.namespaces
}

// A partInformer is an informer of a clientgo.Decoder with Wanted.
type partInformer interface {
	KeyState(key lw.Key) lw.KeyState
	WaitForKey(ctx context.Context, key lw.Key) error
}

// add notes the informer of the objects like example.
func (p *part) add(example runtime.Object, inf toolscache.SharedIndexInformer) toolscache.SharedIndexInformer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.informers[formOf(example)] = inf.(partInformer)
	return inf
}

// informer returns the informer of a form; nil if there is none yet.
func (p *part) informer(f form) partInformer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.informers[f]
}

// formOfList returns the form of the objects of list.
func formOfList(list client.ObjectList, scheme *runtime.Scheme) (form, error) {
	gvk, err := apiutil.GVKForObject(list, scheme)
	if err != nil {
		return form{}, err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	switch list.(type) {
	case runtime.Unstructured:
		return form{reflect.TypeFor[*unstructured.Unstructured](), gvk}, nil
	case *metav1.PartialObjectMetadataList:
		return form{metadataType, gvk}, nil
	}
	example, err := scheme.New(gvk)
	return form{typ: reflect.TypeOf(example)}, err
}

// Get reads an object. It waits for one of which the cache has not all, until that has been read.
func (c *ownCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if c.part == nil {
		return c.Cache.Get(ctx, key, obj, opts...)
	}
	f := formOf(obj)
	keys := c.part.onDemand[f]
	if keys != nil {
		if key.Name == "" { // no object has that, and nobody can want it
			return c.Cache.Get(ctx, key, obj, opts...)
		}
		key = c.part.keyOf(obj, key)
	}
	for {
		if keys != nil {
			keys.read(key)
		}
		err := c.Cache.Get(ctx, key, obj, opts...)
		if err != nil && (!apierrors.IsNotFound(err) || keys == nil && c.part.namespaces == nil) {
			return err
		}
		inf := c.part.informer(f)
		if inf == nil {
			return err
		}
		switch inf.KeyState(key) {
		case lw.KeyThere:
			if err == nil {
				return nil
			}
			continue // it has just come
		case lw.KeyAbsent:
			if unusable := inf.WaitForKey(ctx, key); unusable != nil {
				return notRead(f, key, unusable)
			}
			return err
		}
		waited := inf.WaitForKey(ctx, key)
		if waited == nil || keys != nil && errors.Is(waited, lw.ErrUnwanted) {
			continue
		}
		if errors.Is(waited, demand.ErrLetGo) {
			return err // a reconciler that is called since its objects were Deleted finds none
		}
		return notRead(f, key, waited)
	}
}

// keyOf returns key without its namespace if objects like obj have none, as in controller-runtime.
func (p *part) keyOf(obj client.Object, key lw.Key) lw.Key {
	if is, err := p.namespaced(obj); err == nil && !is {
		key.Namespace = ""
	}
	return key
}

// notRead returns the error of a Get whose object did not come, for the reason why.
func notRead(f form, key lw.Key, why error) error {
	if errors.Is(why, lw.ErrUnwanted) {
		return fmt.Errorf("unable to get: %v because of unknown namespace for the cache", key)
	}
	return fmt.Errorf("controllerruntime: Get of %v %v: %w", f, key, why)
}

// List reads objects. It is refused of a kind of which the cache has what somebody has read.
func (c *ownCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if c.part == nil {
		return c.Cache.List(ctx, list, opts...)
	}
	f, err := formOfList(list, c.part.scheme)
	if err != nil {
		return err
	}
	if c.part.onDemand[f] != nil {
		return fmt.Errorf("controllerruntime: List of %v is refused: the cache has only those objects of the kind that were read by their names, as Options.OnDemand says; "+
			"Get each by its name, list with mgr.GetAPIReader(), or take the kind out of Options.OnDemand", f)
	}
	var all client.ListOptions
	all.ApplyOptions(opts)
	space := lw.Key{Namespace: all.Namespace}
	for {
		inf := c.part.informer(f)
		read := inf != nil && inf.KeyState(space) == lw.KeyAbsent // a namespace is no object
		if err := c.Cache.List(ctx, list, opts...); err != nil {
			return err
		}
		if inf = c.part.informer(f); inf == nil || space.Namespace == "" {
			return nil
		}
		switch state := inf.KeyState(space); {
		case state == lw.KeyUnwanted:
			err := fmt.Errorf("unable to list: %v because of unknown namespace for the cache", space.Namespace)
			if errors.Is(inf.WaitForKey(ctx, space), demand.ErrLetGo) {
				return reconcile.TerminalError(err) // a reconciler is called again when the namespace is back
			}
			return err
		case state == lw.KeyComing:
			if err := inf.WaitForKey(ctx, space); err != nil && !errors.Is(err, lw.ErrUnwanted) {
				return fmt.Errorf("controllerruntime: List of %v in %s: %w", f, space.Namespace, err)
			}
		case read:
			return nil
		} // else it has come since the list began
	}
}

// A readKeys is which objects of a kind were read not long ago.
type readKeys struct {
	set  lw.KeySet
	keep time.Duration

	mu   sync.Mutex
	last map[lw.Key]time.Time // guarded by mu
}

// read notes that key is read now, and has it wanted.
func (k *readKeys) read(key lw.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, wanted := k.last[key]
	k.last[key] = time.Now()
	if !wanted {
		k.set.Set(key.String(), key)
		time.AfterFunc(k.keep, func() { k.letGo(key) })
	}
}

// letGo lets go of key, or comes again if it was read since.
func (k *readKeys) letGo(key lw.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if rest := k.keep - time.Since(k.last[key]); rest > 0 {
		time.AfterFunc(rest, func() { k.letGo(key) })
		return
	}
	delete(k.last, key)
	k.set.Set(key.String())
}
