// Package lwhook makes every shared informer and every reflector of a test binary one of lw. Tests
// put it into a copy of client-go whose constructor asks cache.NewSharedIndexInformerHook first,
// and whose reflector asks cache.RunReflectorHook.
package lwhook

import (
	"context"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw/clientgo"
)

// init sets the hook. The environment says which informers it makes, and names the file that gets a
// byte for each.
func init() {
	wrap, ok := map[string]func(cache.SharedIndexInformer) cache.SharedIndexInformer{
		"lw":        func(inf cache.SharedIndexInformer) cache.SharedIndexInformer { return inf },
		"mute":      func(inf cache.SharedIndexInformer) cache.SharedIndexInformer { return mute{inf} },
		"forgetful": func(inf cache.SharedIndexInformer) cache.SharedIndexInformer { return forgetful{inf} },
		"undying":   func(inf cache.SharedIndexInformer) cache.SharedIndexInformer { return undying{inf} },
	}[os.Getenv("LW_UPSTREAM_INFORMERS")]
	if !ok && os.Getenv("LW_UPSTREAM_INFORMERS") != "client-go" {
		panic("lwhook: LW_UPSTREAM_INFORMERS is " + os.Getenv("LW_UPSTREAM_INFORMERS"))
	}
	witness, err := os.OpenFile(os.Getenv("LW_UPSTREAM_WITNESS"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	cache.RunReflectorHook = func(ctx context.Context, lw cache.ListerWatcher, example runtime.Object, store cache.ReflectorStore, opts cache.ReflectorOptions) bool {
		if _, err := witness.WriteString("."); err != nil {
			panic(err)
		}
		switch os.Getenv("LW_UPSTREAM_INFORMERS") {
		case "client-go":
			return false
		case "forgetful":
			store = cache.NewStore(cache.MetaNamespaceKeyFunc)
		}
		clientgo.NewReflectorWithOptions(lw, example, store, opts).RunWithContext(ctx)
		return true
	}
	cache.NewSharedIndexInformerHook = func(lw cache.ListerWatcher, example runtime.Object, opts cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
		if _, err := witness.WriteString("."); err != nil {
			panic(err)
		}
		if wrap == nil {
			return nil
		}
		return wrap(clientgo.NewInformerWithOptions(lw, example, opts))
	}
}
