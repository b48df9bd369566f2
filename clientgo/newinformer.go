package clientgo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts/shard"
)

// NewInformer is like [NewInformerWithOptions], with the two options that most callers set. It has
// the signature of cache.NewSharedIndexInformer, so it fits where that is expected.
func NewInformer(listerWatcher cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	if isNil(listerWatcher) {
		panic("clientgo: NewInformer: nil lister-watcher")
	}
	return newSharedInformer(newSource[metav1.Object](listerWatcher, example), example, cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: indexers}, nil, nil)
}

// NewInformerWithOptions returns lw's informer with client-go's interface, in place of
// cache.NewSharedIndexInformerWithOptions. The objects are of example's type; see [Source].
// NewInformerWithOptions panics if listerWatcher is nil.
func NewInformerWithOptions(listerWatcher cache.ListerWatcher, example runtime.Object, options cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	if isNil(listerWatcher) {
		panic("clientgo: NewInformerWithOptions: nil lister-watcher")
	}
	return newSharedInformer(newSource[metav1.Object](listerWatcher, example), example, options, nil, nil)
}

// newSharedInformer returns an informer of src with the settings given, which may be nil, of what
// is wanted; nil: all. Its transform and its handler of errors may be set until it runs.
func newSharedInformer(src lw.Source[metav1.Object], example runtime.Object, options cache.SharedIndexInformerOptions, given *lw.Options, wanted lw.WantedSet) *owned {
	m := newMetrics(options)
	o := &owned{source: &lateSource{src: src}, errors: newErrorReporter(example, options.ObjectDescription)}
	opts := optionsOf(given, nameOf(example, options.ObjectDescription), &o.records, o.errors)
	all := m.observed(o.source)
	if wanted != nil {
		all = lw.Wanted(all, wanted)
	}
	inf := lw.NewInformer(all, opts)
	o.inf, o.shared = inf, newShared(inf, fmt.Sprintf("%T", example), options.ResyncPeriod)
	o.metrics, o.resyncs.asked = m, false
	if err := o.indexer.AddIndexers(options.Indexers); err != nil {
		panic(err) // there are no other indexes that it could conflict with
	}
	if err := o.SetShardSelector(shardOf(options)); err != nil {
		panic(err) // nobody has started it
	}
	return o
}

// optionsOf returns given, which may be nil, with what client-go's informers do where it says
// nothing.
func optionsOf(given *lw.Options, name string, log *records, errs *errorReporter) *lw.Options {
	opts := &lw.Options{}
	if given != nil {
		*opts = *given
	}
	if opts.Name == "" {
		opts.Name = name
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(log)
	}
	opts.DetectMutation = opts.DetectMutation || detectMutation
	if onError := opts.OnError; onError == nil {
		opts.OnError = errs.report
	} else {
		opts.OnError = func(err error) {
			onError(err)
			// client-go's detector ends the program. One that was asked for by an option does not.
			if e, ok := errors.AsType[*lw.Error](err); detectMutation || !ok || e.Op != "mutation" {
				errs.report(err)
			}
		}
	}
	if opts.OnPanic == nil && !utilruntime.ReallyCrash {
		opts.OnPanic = func(p *lw.Panic) {
			defer utilruntime.HandleCrash()
			panic(p.Value)
		}
	}
	return opts
}

// detectMutation says that the process asks for client-go's detector of changed objects, in the way
// that client-go reads the variable.
var detectMutation, _ = strconv.ParseBool(os.Getenv("KUBE_CACHE_MUTATION_DETECTOR"))

// nameOf returns the name of an informer in errors and logs.
func nameOf(example runtime.Object, description string) string {
	if description != "" || example == nil {
		return description
	}
	if u, ok := example.(*unstructured.Unstructured); ok && u.GetKind() != "" {
		return u.GetKind()
	}
	t := reflect.TypeOf(example)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// owned is the result of newSharedInformer.
type owned struct {
	*shared[metav1.Object]
	inf    *lw.Informer[metav1.Object]
	source *lateSource
	errors *errorReporter
	// records are of the sync, and of recoveries: client-go tells neither.
	records records
}

// KeyState and WaitForKey are those of lw.Informer; see Decoder.Wanted.
func (o *owned) KeyState(key lw.Key) lw.KeyState { return o.inf.KeyState(key) }
func (o *owned) WaitForKey(ctx context.Context, key lw.Key) error {
	return o.inf.WaitForKey(ctx, key)
}

// Run runs the informer until stop is closed.
func (o *owned) Run(stop <-chan struct{}) { o.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext runs the informer until ctx is done.
func (o *owned) RunWithContext(ctx context.Context) {
	if !o.start(ctx) {
		return
	}
	logger := klog.FromContext(ctx)
	o.records.to.Store(&logger)
	noMoreErrors, noMoreMetrics := o.errors.run(ctx), o.metrics.run(o.inf.Status)
	err := o.inf.Run(ctx)
	noMoreMetrics()
	noMoreErrors()
	if err != nil {
		klog.FromContext(ctx).Error(err, "The informer cannot go on", "informer", o.name)
	}
}

var errStarted = errors.New("clientgo: informer has already started")

// SetTransform sets the transform.
func (o *owned) SetTransform(f cache.TransformFunc) error {
	return o.set(func() { o.source.transform = f })
}

// SetShardSelector has the informer hold only what selector selects. It selects by itself where the
// server knows no shard selectors. Of a selector that it cannot read it returns an error, and the
// informer ends with that error, because factories do not look at this one.
func (o *owned) SetShardSelector(selector sharding.Selector) error {
	text := textOf(selector)
	if err := o.set(func() { o.source.shard = text }); err != nil || text == "" {
		return err
	}
	if _, err := shard.Parse(text); err != nil {
		return fmt.Errorf("clientgo: %s: SetShardSelector: %w", o.name, err)
	}
	return nil
}

// SetWatchErrorHandler sets the handler of errors.
func (o *owned) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	if handler == nil {
		return o.SetWatchErrorHandlerWithContext(nil)
	}
	return o.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext sets the handler of errors; nil is the default one.
func (o *owned) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	if handler == nil {
		handler = cache.DefaultWatchErrorHandler
	}
	return o.set(func() { o.errors.handler = handler })
}

// set calls change unless the informer has started.
func (o *owned) set(change func()) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.started {
		return errStarted
	}
	change()
	return nil
}

// PackedReads makes the indexer of the informer return packed objects as they are. It is for a
// reader that takes no more of what the indexer returns than its metadata and what DeepCopyObject
// returns, as controller-runtime's does: a copy is decoded, and not copied from another; what the
// reader leaves out is not opened. It is called before the indexer is used.
func (o *owned) PackedReads() { o.indexer.cells = true }
