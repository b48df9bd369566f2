package clientgo

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw"
)

// FactoryOptions configure [UseAll]. The zero value means what is said of each field.
type FactoryOptions struct {
	// Decoder has lw decode the objects, if the client of the factory was made over [Capture]. Nil:
	// client-go decodes.
	Decoder *Decoder
	// TweakListOptions must be the one of the factory, which keeps it to itself. Nil: it has none.
	TweakListOptions func(*metav1.ListOptions)
	// Except has an object of each type that the factory keeps for client-go. It must have the types
	// whose informers the program makes itself, by a function that it gives to InformerFor: a factory
	// that has an informer of the type does not call the function, and tells nobody.
	Except []runtime.Object
}

// UseAll makes factory, a generated SharedInformerFactory, use lw's informers for all types of its
// client. Call it before anybody asks the factory for an informer. Namespace, resync periods and
// transform are those of the factory. So is the InformerName, for metrics. See [NewInformer] for
// what the informers are, and [Use] for one type with a source of its own. UseAll logs how many
// types have lw's informers, and which do not.
//
// The factory starts all of them, but an informer sends no request before somebody wants it: has
// asked it for its store or whether it has synced, or has added a handler. A factory does not tell
// who has asked for an informer. So its waits go on without an informer that nobody wants, and name
// it as synced; who reads its store after that waits for the first list, or for the end of the
// informer. Unlike client-go's, an informer that is asked for later needs no second Start.
//
// UseAll panics if the factory has informers already, but for those of Except, if it has list
// options that opts lacks, if Except has a type that the client lacks, or if it was not made by
// client-gen's informer-gen.
func UseAll[F ~func(C, time.Duration) cache.SharedIndexInformer, C any](factory InformerFactory[F, C], opts *FactoryOptions) {
	var o FactoryOptions
	if opts != nil {
		o = *opts
	}
	namespace, tweaked, ok := generatedFields(factory)
	switch {
	case !ok:
		panic(fmt.Sprintf("clientgo: UseAll: a %T is no generated factory, whose namespace can be read", factory))
	case tweaked && o.TweakListOptions == nil:
		panic("clientgo: UseAll: the factory has list options: say which, in FactoryOptions.TweakListOptions")
	}
	named, _ := factory.(interface{ InformerName() *cache.InformerName })
	waits := waitsOf(factory)
	all := resourcesOf(reflect.TypeFor[C]())
	except := exceptions(all, o.Except)
	for _, r := range all {
		if _, ok := except[r.object]; ok {
			continue
		}
		used := false
		factory.InformerFor(reflect.New(r.object.Elem()).Interface().(runtime.Object), func(client C, resync time.Duration) cache.SharedIndexInformer {
			used = true
			from := cache.ToListWatcherWithWatchListSemantics(r.lister(reflect.ValueOf(client), namespace, o.TweakListOptions), client)
			example := reflect.New(r.object.Elem()).Interface().(runtime.Object)
			options := cache.SharedIndexInformerOptions{
				ResyncPeriod: resync, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			}
			if named != nil && named.InformerName() != nil {
				if version, ok := r.version(reflect.ValueOf(client)); ok {
					options.Identifier = named.InformerName().WithResource(version.WithResource(r.resource))
				}
			}
			source := plainSource
			if o.Decoder != nil {
				source = o.Decoder.packable
			}
			return newLazyInformer(waits, func(onError func(error)) *owned {
				return newSharedInformer(sharded(source(from, example), o.TweakListOptions), example, options, &lw.Options{OnError: onError}, nil)
			})
		})
		if !used {
			panic(fmt.Sprintf("clientgo: UseAll: the factory has an informer of %v already: call UseAll before anybody asks for it, or name it in FactoryOptions.Except", r.object))
		}
	}
	klog.Background().Info("The informers of the factory are those of lw. It calls no function that InformerFor is given for one of their types: FactoryOptions.Except is for those",
		"factory", fmt.Sprintf("%T", factory), "types", len(all)-len(except), "except", slices.Sorted(maps.Values(except)))
}

// exceptions returns the types of objects, which must be among those of all, with their names.
func exceptions(all []resourceOf, objects []runtime.Object) map[reflect.Type]string {
	out := map[reflect.Type]string{}
	for _, obj := range objects {
		t := reflect.TypeOf(obj)
		if !slices.ContainsFunc(all, func(r resourceOf) bool { return r.object == t }) {
			panic(fmt.Sprintf("clientgo: UseAll: FactoryOptions.Except has a %T, which is no type of the client", obj))
		}
		out[t] = t.String()
	}
	return out
}

// generatedFields returns what a generated factory keeps to itself.
func generatedFields(factory any) (namespace string, tweaked, ok bool) {
	v := reflect.ValueOf(factory)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return "", false, false
	}
	ns, tweak := v.Elem().FieldByName("namespace"), v.Elem().FieldByName("tweakListOptions")
	if !ns.IsValid() || ns.Kind() != reflect.String || !tweak.IsValid() || tweak.Kind() != reflect.Func {
		return "", false, false
	}
	return ns.String(), !tweak.IsNil(), true
}

// A resourceOf is how a generated clientset reaches one collection: by the methods group and name.
type resourceOf struct {
	group, name string
	namespaced  bool
	resource    string       // such as pods
	object      reflect.Type // a pointer to a struct
}

// resourcesOf returns what can be listed and watched with a clientset, one for each type of
// objects.
func resourcesOf(clientset reflect.Type) []resourceOf {
	var out []resourceOf
	seen := map[reflect.Type]bool{}
	if clientset.Kind() != reflect.Interface {
		return nil
	}
	for i := range clientset.NumMethod() {
		group := clientset.Method(i)
		if group.Type.NumIn() != 0 || group.Type.NumOut() != 1 || group.Type.Out(0).Kind() != reflect.Interface {
			continue
		}
		client := group.Type.Out(0)
		for j := range client.NumMethod() {
			m := client.Method(j)
			object, ok := listedBy(m.Type)
			if !ok || seen[object] {
				continue
			}
			seen[object] = true
			out = append(out, resourceOf{group.Name, m.Name, m.Type.NumIn() == 1, strings.ToLower(m.Name), object})
		}
	}
	return out
}

var (
	contextType     = reflect.TypeFor[context.Context]()
	listOptionsType = reflect.TypeFor[metav1.ListOptions]()
	watchType       = reflect.TypeFor[watch.Interface]()
	errorType       = reflect.TypeFor[error]()
	objectType      = reflect.TypeFor[metav1.Object]()
	runtimeType     = reflect.TypeFor[runtime.Object]()
)

// listedBy returns the type of the objects of a client that a method of the type m returns, as
// those of a generated client of a group do. ok is false if it is another method.
func listedBy(m reflect.Type) (object reflect.Type, ok bool) {
	if m.NumIn() > 1 || m.NumIn() == 1 && m.In(0).Kind() != reflect.String || m.NumOut() != 1 || m.Out(0).Kind() != reflect.Interface {
		return nil, false
	}
	list, listed := m.Out(0).MethodByName("List")
	watched, watches := m.Out(0).MethodByName("Watch")
	if !listed || !watches || !isRequest(list.Type) || !isRequest(watched.Type) || watched.Type.Out(0) != watchType {
		return nil, false
	}
	of := list.Type.Out(0)
	if of.Kind() != reflect.Pointer || of.Elem().Kind() != reflect.Struct || !of.Implements(runtimeType) {
		return nil, false
	}
	items, ok := of.Elem().FieldByName("Items")
	if !ok || items.Type.Kind() != reflect.Slice {
		return nil, false
	}
	object = items.Type.Elem()
	if object.Kind() != reflect.Pointer {
		object = reflect.PointerTo(object)
	}
	return object, object.Elem().Kind() == reflect.Struct && object.Implements(objectType) && object.Implements(runtimeType)
}

// isRequest reports whether f is func(context.Context, metav1.ListOptions) (any type, error).
func isRequest(f reflect.Type) bool {
	return f.NumIn() == 2 && f.In(0) == contextType && f.In(1) == listOptionsType && f.NumOut() == 2 && f.Out(1) == errorType
}

// lister returns a ListerWatcher of the collection.
func (r resourceOf) lister(client reflect.Value, namespace string, tweak func(*metav1.ListOptions)) *cache.ListWatch {
	call := func(ctx context.Context, method string, opts metav1.ListOptions) (any, error) {
		if tweak != nil {
			tweak(&opts)
		}
		var in []reflect.Value
		if r.namespaced {
			in = []reflect.Value{reflect.ValueOf(namespace)}
		}
		to := client.MethodByName(r.group).Call(nil)[0].MethodByName(r.name).Call(in)[0]
		out := to.MethodByName(method).Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(opts)})
		err, _ := out[1].Interface().(error)
		if err != nil {
			return nil, err
		}
		return out[0].Interface(), nil
	}
	list := func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		got, err := call(ctx, "List", opts)
		if err != nil {
			return nil, err
		}
		return got.(runtime.Object), nil
	}
	follow := func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		got, err := call(ctx, "Watch", opts)
		if err != nil {
			return nil, err
		}
		return got.(watch.Interface), nil
	}
	return &cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: follow}
}

// version returns the group and version of the collection, which the client knows, unless it is a
// fake.
func (r resourceOf) version(client reflect.Value) (version schema.GroupVersion, ok bool) {
	get := client.MethodByName(r.group).Call(nil)[0].MethodByName("RESTClient")
	if !get.IsValid() || get.Type().NumIn() != 0 || get.Type().NumOut() != 1 {
		return version, false
	}
	rest, ok := get.Call(nil)[0].Interface().(interface{ APIVersion() schema.GroupVersion })
	if !ok || isNil(rest) {
		return version, false
	}
	return rest.APIVersion(), true
}
