package clientgo

import (
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
)

// An InformerFactory is a generated SharedInformerFactory, of client-go or of any other generated
// client. C is the type of its clientset, and F that of the functions that make its informers. The
// compiler infers both.
type InformerFactory[F ~func(C, time.Duration) cache.SharedIndexInformer, C any] interface {
	InformerFor(obj runtime.Object, newFunc F) cache.SharedIndexInformer
}

// Use makes factory use c, an informer or a derived collection such as a union, for the objects of
// type T: everybody who asks the factory for an informer or a lister of that type gets c. Call it
// before anybody has asked. The factory's Start runs an informer, unless its owner does. Informers
// of other types stay client-go's.
//
// c decides what is listed: the namespace and the selectors of the factory do not count. Its resync
// period does. The index by namespace, which listers use, is added.
//
// Use panics if the factory has an informer of the type already, or a transform or a shard
// selector, which belong to the source of c.
func Use[T interface {
	lw.Object
	runtime.Object
}, F ~func(C, time.Duration) cache.SharedIndexInformer, C any](factory InformerFactory[F, C], c lw.Collection[T]) {
	t := reflect.TypeFor[T]()
	if isNil(c) {
		panic("clientgo: Use: nil collection")
	}
	if t.Kind() != reflect.Pointer {
		panic(fmt.Sprintf("clientgo: Use: a factory has no informer of %v: want a pointer to a struct", t))
	}
	var own *adapter[T]
	factory.InformerFor(reflect.New(t.Elem()).Interface().(T), func(_ C, resync time.Duration) cache.SharedIndexInformer {
		own = newAdapter(c, resync)
		return own
	})
	switch {
	case own == nil:
		panic(fmt.Sprintf("clientgo: Use: the factory has an informer of %v already: call Use before anybody asks for it", t))
	case own.refused != nil:
		panic(fmt.Sprintf("clientgo: Use: the factory has a transform or a shard selector: %v", own.refused))
	}
	if err := own.AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}); err != nil {
		panic(fmt.Sprintf("clientgo: Use: %v", err))
	}
}
