package histories_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
)

// A follower is an informer as the judge sees it: what its one handler was told, and what it shows.
type follower struct {
	objects func() []*corev1.ConfigMap
	version func() string
	synced  func() bool
	aside   func() map[lw.Key]error // what it says it could not take over
	stop    func()

	mu       sync.Mutex
	told     map[string]*corev1.ConfigMap
	gone     map[string]string // the version of the last object of a name
	broken   map[string]string // by the rule that was broken, the first time it was; guarded by mu
	reported string            // the version shown last
	rewound  bool              // the server went back in time
}

func newFollower() *follower {
	return &follower{told: map[string]*corev1.ConfigMap{}, gone: map[string]string{}, broken: map[string]string{},
		aside: func() map[lw.Key]error { return nil }}
}

// breaks notes that a rule is broken.
func (f *follower) breaks(rule, format string, args ...any) {
	if f.broken[rule] == "" {
		f.broken[rule] = fmt.Sprintf(format, args...)
	}
}

func (f *follower) add(c *corev1.ConfigMap) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last := f.told[c.Name]; last != nil {
		f.breaks("H1", "Add of %s, which was added before", c.Name)
	}
	if last, ok := f.gone[c.Name]; ok && !rises(last, c.ResourceVersion) && !f.rewound {
		f.breaks("H2", "%s is told at %s after %s", c.Name, c.ResourceVersion, last)
	}
	f.told[c.Name] = c
}

func (f *follower) update(old, c *corev1.ConfigMap) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.told[c.Name]
	switch {
	case last == nil:
		f.breaks("H1", "Update of %s, which was never added", c.Name)
	case old != last:
		f.breaks("H4", "Update of %s from %s, which was told as %s", c.Name, id(old), id(last))
	}
	switch {
	case old.UID != c.UID:
		f.breaks("H3", "Update of %s from %s to %s: another object", c.Name, id(old), id(c))
	case old.ResourceVersion == c.ResourceVersion:
		f.breaks("noise", "Update of %s from %s to %s: nothing has changed", c.Name, id(old), id(c))
	case !rises(old.ResourceVersion, c.ResourceVersion) && !f.rewound:
		f.breaks("H2", "Update of %s from %s back to %s", c.Name, id(old), id(c))
	}
	f.told[c.Name] = c
}

func (f *follower) delete(c *corev1.ConfigMap) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch last := f.told[c.Name]; {
	case last == nil:
		f.breaks("H1", "Delete of %s, which was not there", c.Name)
	case last.UID != c.UID:
		f.breaks("H3", "Delete of %s as %s, which is another object than the %s that is there", c.Name, id(c), id(last))
	}
	delete(f.told, c.Name)
	f.gone[c.Name] = c.ResourceVersion
}

func rises(from, to string) bool {
	a, errA := strconv.Atoi(from)
	b, errB := strconv.Atoi(to)
	return errA != nil || errB != nil || a < b
}

// look notes what can be seen now and not at the end.
func (f *follower) look() {
	version := f.version()
	f.mu.Lock()
	defer f.mu.Unlock()
	if version != "" && f.reported != "" && !rises(f.reported, version) && version != f.reported && !f.rewound {
		f.breaks("S4", "the version that it reports goes back from %s to %s", f.reported, version)
	}
	f.reported = version
}

// settle judges f when everything should be as it is on the server.
func (f *follower) settle(truth map[string]string) {
	synctest.Wait()
	aside := f.aside()
	got := map[string]string{}
	for _, c := range f.objects() {
		got[c.Name] = id(c)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.synced() {
		f.breaks("L2", "it has not synced after an hour")
		return
	}
	want, told := maps.Clone(truth), map[string]string{}
	for name, c := range f.told {
		told[name] = id(c)
	}
	for key := range aside { // it says so itself
		delete(want, key.Name)
		delete(got, key.Name)
		delete(told, key.Name)
	}
	if !maps.Equal(want, got) {
		f.breaks("L1", "it shows %s for good, the server has %s", list(got), list(want))
	}
	if !maps.Equal(got, told) {
		f.breaks("H8", "the handler was told of %s, and it shows %s", list(told), list(got))
	}
}

func list(objs map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(objs)) {
		out = append(out, name+" "+objs[name])
	}
	if out == nil {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

// follows are the two informers, at their defaults. f transforms objects, where it is not nil.
var follows = []func(s server, f func(*corev1.ConfigMap) error) *follower{followClientGo, followLW}

func sharedInformer(s server, indexers cache.Indexers) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return s.list(ctx, opts) },
		WatchFuncWithContext: s.watch,
	}, &corev1.ConfigMap{}, 0, indexers)
}

func followClientGo(s server, transform func(*corev1.ConfigMap) error) *follower {
	inf, f := sharedInformer(s, nil), newFollower()
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	must(inf.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}))
	if transform != nil {
		must(inf.SetTransform(func(obj any) (any, error) {
			if c, ok := obj.(*corev1.ConfigMap); ok {
				if err := transform(c); err != nil {
					return nil, err
				}
			}
			return obj, nil
		}))
	}
	reg, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { f.add(obj.(*corev1.ConfigMap)) },
		UpdateFunc: func(old, obj any) { f.update(old.(*corev1.ConfigMap), obj.(*corev1.ConfigMap)) },
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			f.delete(obj.(*corev1.ConfigMap))
		},
	})
	must(err)
	f.objects = func() (out []*corev1.ConfigMap) {
		for _, obj := range inf.GetStore().List() {
			out = append(out, obj.(*corev1.ConfigMap))
		}
		return out
	}
	f.version, f.synced = inf.LastSyncResourceVersion, reg.HasSynced
	f.run(inf.RunWithContext)
	return f
}

func followLW(s server, transform func(*corev1.ConfigMap) error) *follower {
	f := newFollower()
	var src lw.Source[*corev1.ConfigMap] = &lw.ListWatch[*corev1.ConfigMap, *corev1.ConfigMapList]{ListFunc: s.list, WatchFunc: s.watch}
	if transform != nil {
		src = lw.Transform(src, func(c *corev1.ConfigMap) (*corev1.ConfigMap, error) { return c, transform(c) })
	}
	inf := lw.NewInformer(src, &lw.Options{OnError: func(error) {}})
	inf.AddHandler(lw.Handler[*corev1.ConfigMap]{Add: f.add, Update: f.update, Delete: f.delete})
	f.objects, f.version = inf.Store().List, inf.Store().ResourceVersion
	f.synced = func() bool { return inf.Status().Synced }
	f.aside = func() map[lw.Key]error { return inf.Status().SetAside }
	f.run(func(ctx context.Context) {
		if err := inf.Run(ctx); err != nil {
			panic(err)
		}
	})
	return f
}

func (f *follower) run(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	f.stop = func() {
		cancel()
		<-done
		// What client-go leaves behind a little longer is judged by nothing here.
		time.Sleep(time.Minute)
	}
}
