package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/widgets"
	"github.com/go-lw/lw/bench/internal/wire"
)

// The sides.
const (
	clientGo = "client-go"
	plain    = "lw"
	packed   = "packed"

	manager       = "controller-runtime"
	plainManager  = "controller-runtime on lw"
	packedManager = "controller-runtime on lw, packed"
)

var allSides = []string{clientGo, plain, packed, manager, plainManager, packedManager}

// A side is an informer whose one handler reads each new object.
type side struct {
	start func(ctx context.Context)
	keys  func() []lw.Key // of what it has
	get   func(lw.Key) any
}

// told is what a handler is called with.
type told struct {
	add    func()
	update func(version string)
}

// An object is what an informer of any side has.
type object interface {
	lw.Identified
	GetLabels() map[string]string
}

func (j job) side(to told) (side, error) {
	config := &rest.Config{Host: j.Base}
	config.ContentType, config.AcceptContentTypes = string(j.Format), string(j.Format)
	widget := j.Kind == "widgets"
	switch j.Side {
	case clientGo:
		return byClientGo(config, widget, to)
	case plain, packed:
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return side{}, err
		}
		if widget {
			return byLW[*unstructured.Unstructured](j, client, to), nil
		}
		return byLW[*corev1.Pod](j, client, to), nil
	}
	if newCache := managers[j.Side]; newCache != nil {
		return byManager(config, widget, newCache, to)
	}
	return side{}, fmt.Errorf("there is no side %q", j.Side)
}

func byClientGo(config *rest.Config, widget bool, to told) (side, error) {
	var inf cache.SharedIndexInformer
	var start func(context.Context)
	if widget {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return side{}, err
		}
		f := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		inf = f.ForResource(widgets.Resource).Informer()
		start = func(ctx context.Context) { f.Start(ctx.Done()) }
	} else {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return side{}, err
		}
		f := informers.NewSharedInformerFactory(client, 0)
		inf = f.Core().V1().Pods().Informer()
		start = f.StartWithContext
	}
	_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { to.add() },
		UpdateFunc: func(_, obj any) { to.update(obj.(object).GetResourceVersion()) },
	})
	store := inf.GetIndexer()
	return side{
		start: start,
		keys: func() (keys []lw.Key) {
			for _, obj := range store.List() {
				keys = append(keys, lw.KeyOf(obj.(object)))
			}
			return keys
		},
		get: func(key lw.Key) any {
			obj, _, _ := store.GetByKey(key.Namespace + "/" + key.Name)
			return obj
		},
	}, err
}

// lwObject is the constraint on what an informer of lw has here.
type lwObject interface {
	lw.Object
	object
}

func byLW[T lwObject](j job, client *http.Client, to told) side {
	src := &lw.HTTP[T]{URL: j.Base + j.Path, Client: client}
	if j.Format == wire.JSON {
		src.Accept = string(j.Format)
	}
	if j.Side == packed {
		return followed(lw.Pack(src, lw.PackOptions{}), to, (*lw.Packed[T]).Open)
	}
	return followed(src, to, func(obj T) T { return obj })
}

// followed returns the side of an informer of src, whose elements open decodes.
func followed[E lw.Object, T lwObject](src lw.Source[E], to told, open func(E) T) side {
	inf := lw.NewInformer(src, &lw.Options{OnError: func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}})
	inf.AddHandler(lw.Handler[E]{
		Add: func(e E) {
			_ = open(e)
			to.add()
		},
		Update:      func(_, e E) { to.update(open(e).GetResourceVersion()) },
		Delete:      func(E) {},
		EveryUpdate: true,
	})
	return side{
		start: func(ctx context.Context) { go inf.Run(ctx) },
		keys: func() (keys []lw.Key) {
			for e := range inf.Store().All() {
				keys = append(keys, lw.KeyOf(e))
			}
			return keys
		},
		get: func(key lw.Key) any {
			e, ok := inf.Store().Get(key)
			if !ok {
				return nil
			}
			return open(e)
		},
	}
}
