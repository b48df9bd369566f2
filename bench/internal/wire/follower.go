package wire

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/widgets"
)

// A Follower is one side of a case: it follows the collection that f names. start does not block;
// what it starts ends with ctx.
type Follower func(ctx context.Context, f Following) (start func(), err error)

// Following is what a [Follower] follows, and what it tells.
type Following struct {
	Config *rest.Config // of the server, with the encoding
	URL    string       // of the collection
	// Add and Update are called one at a time, Add for each object of the first list.
	Add, Update func(Object)
	// Failed takes an error of a list or a watch, and ends the process if it is not expected.
	Failed func(error)
}

// An Object is what an informer of any side has.
type Object interface{ GetResourceVersion() string }

// A set is a kind of objects, and the sides that follow them, by name.
type set struct {
	kind  kind
	sides map[string]side
}

type side struct {
	follow Follower
	format Format // "": that of the case
}

// The sets of the cases.
const (
	podSet    = "pods"
	widgetSet = "custom resources"
)

// sets has all sets by name, for a child process to find its side in.
var sets = map[string]*set{
	podSet: {podKind, map[string]side{
		compare.ClientGo: {follow: podsByClientGo(nil)},
		compare.LW:       {follow: byLW(func() *lw.HTTP[*corev1.Pod] { return &lw.HTTP[*corev1.Pod]{} })},
		share:            {follow: byLW(func() *lw.HTTP[*corev1.Pod] { return &lw.HTTP[*corev1.Pod]{Share: true} })},
		shareCut: {follow: byLW(func() *lw.HTTP[*corev1.Pod] {
			return &lw.HTTP[*corev1.Pod]{Share: true, Drop: []string{"metadata.managedFields"}}
		})},
		standard: {follow: byLW(func() *lw.HTTP[*corev1.Pod] { return &lw.HTTP[*corev1.Pod]{Standard: true} })},
	}},
	widgetSet: {widgetKind, map[string]side{
		compare.ClientGo: {follow: widgetsByClientGo},
		compare.LW:       {follow: byLW(func() *lw.HTTP[*unstructured.Unstructured] { return &lw.HTTP[*unstructured.Unstructured]{} })},
		share:            {follow: byLW(func() *lw.HTTP[*unstructured.Unstructured] { return &lw.HTTP[*unstructured.Unstructured]{Share: true} })},
	}},
}

// Register makes f measurable as the side name of a case of pods. The name of the set tells its
// sides from those of the same names elsewhere. Call it before [Child].
func Register(setName, name string, f Follower) {
	if sets[setName] == nil {
		sets[setName] = &set{podKind, map[string]side{}}
	}
	sets[setName].sides[name] = side{follow: f}
}

// Follow returns c with sides that are registered: each follows n pods in a child process, first a
// streamed list, then updates of the status, then of the version alone. The keys of a sample are
// sync.*, status.*, version.*, live, peak and rss, which is the resident memory right after the
// first list. n is 10,000 or less if it is 0.
func Follow(c compare.Case, format Format, n int, setName string, sides ...string) compare.Case {
	return measured(c, job{Path: streamed, Format: format, N: n, Set: setName, Changes: usual}, sides...)
}

// byLW follows the collection by an informer on the source that newSource returns.
func byLW[T lw.Object](newSource func() *lw.HTTP[T]) Follower {
	return func(ctx context.Context, f Following) (start func(), err error) {
		src := newSource()
		src.URL = f.URL
		if src.Client, err = rest.HTTPClientFor(f.Config); err != nil {
			return nil, err
		}
		if f.Config.ContentType != string(Protobuf) {
			src.Accept = f.Config.ContentType
		}
		inf := lw.NewInformer(src, &lw.Options{OnError: f.Failed})
		inf.AddHandler(lw.Handler[T]{
			Add: func(obj T) { f.Add(any(obj).(Object)) }, Update: func(_, obj T) { f.Update(any(obj).(Object)) },
			Delete: func(T) {}, EveryUpdate: true,
		})
		return func() { go inf.Run(ctx) }, nil
	}
}

// podsByClientGo follows pods by the informer of client-go's typed factory, with the transform if
// it is not nil.
func podsByClientGo(transform cache.TransformFunc) Follower {
	return func(ctx context.Context, f Following) (start func(), err error) {
		clientset, err := kubernetes.NewForConfig(f.Config)
		if err != nil {
			return nil, err
		}
		factory := informers.NewSharedInformerFactory(clientset, 0)
		inf := factory.Core().V1().Pods().Informer()
		if transform != nil {
			if err := inf.SetTransform(transform); err != nil {
				return nil, err
			}
		}
		return func() { factory.StartWithContext(ctx) }, f.tell(inf)
	}
}

// widgetsByClientGo follows widgets by the informer of client-go's dynamic factory.
func widgetsByClientGo(ctx context.Context, f Following) (start func(), err error) {
	client, err := dynamic.NewForConfig(f.Config)
	if err != nil {
		return nil, err
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	inf := factory.ForResource(widgets.Resource).Informer()
	return func() { factory.Start(ctx.Done()) }, f.tell(inf)
}

// tell registers a handler of client-go.
func (f Following) tell(inf cache.SharedInformer) error {
	_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { f.Add(obj.(Object)) },
		UpdateFunc: func(_, obj any) { f.Update(obj.(Object)) },
		DeleteFunc: func(any) {},
	})
	return err
}
