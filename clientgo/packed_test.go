package clientgo_test

import (
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A packed informer gives out the objects that a plain one does, by every way, and keeps none of
// them: what a program changes in one, which is forbidden, is gone when nobody has it. With a
// transform the objects stay.
func TestDecoderPack(t *testing.T) {
	for _, content := range []string{apiruntime.ContentTypeJSON, apiruntime.ContentTypeProtobuf} {
		for _, transformed := range []bool{false, true} {
			rig.Subtest(t, content, func(t *testing.T) { testDecoderPack(t, content, transformed) })
		}
	}
}

func testDecoderPack(t *testing.T, content string, transformed bool) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // what is decoded twice is kept for a while
	s, config := newCaptureServer(t), &rest.Config{ContentConfig: rest.ContentConfig{ContentType: content}}
	lister := typedPods(t, config, clientgo.Capture(s.client(t, config)), noTweak)
	inf := clientgo.Decoder{Pack: true}.NewInformer(lister, &corev1.Pod{}, 0, cache.Indexers{
		"app": func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Labels["app"]}, nil },
	})
	if transformed {
		rig.OK(t, inf.SetTransform(func(obj any) (any, error) {
			obj.(*corev1.Pod).Spec.NodeName = "here"
			return obj, nil
		}))
	}
	var seen []any
	_ = rig.Must[cache.ResourceEventHandlerRegistration](t)(inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen = append(seen, obj.(*corev1.Pod).Name) },
		UpdateFunc: func(old, obj any) { seen = append(seen, old.(*corev1.Pod).Name, obj.(*corev1.Pod).Name) },
		DeleteFunc: func(obj any) { seen = append(seen, obj.(*corev1.Pod).Name) },
	}))
	defer runInformer(t, inf)()
	time.Sleep(time.Second)
	x := inf.GetIndexer()
	get := func() *corev1.Pod {
		obj, ok, err := x.GetByKey("default/pod-1")
		if rig.OK(t, err); !ok {
			t.Fatal("there is no pod-1")
		}
		return obj.(*corev1.Pod)
	}
	if got := names(x.List()); !reflect.DeepEqual(got, []string{"pod-0", "pod-1", "pod-2"}) ||
		!reflect.DeepEqual(got, byIndex(t, x, "app", "web")) {
		t.Errorf("the list is %v", got)
	}
	if len(seen) != 3 {
		t.Errorf("the handler was called for %v", seen)
	}
	p := get()
	if get() != p || p.Labels["app"] != "web" || transformed != (p.Spec.NodeName == "here") {
		t.Errorf("the pod is %+v", p)
	}
	p.Spec.Hostname = "changed"
	runtime.KeepAlive(p)
	p = nil
	for range 3 {
		runtime.GC()
	}
	if kept := get().Spec.Hostname == "changed"; kept != transformed {
		t.Errorf("transformed %v: the object is kept is %v", transformed, kept)
	}
}

// Packed metadata has the kind of the example.
func TestDecoderPackMetadata(t *testing.T) {
	kind := metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	synctest.Test(t, func(t *testing.T) {
		s, config := newCaptureServer(t), &rest.Config{}
		c := rig.Must[metadata.Interface](t)(metadata.NewForConfigAndClient(config, clientgo.Capture(s.client(t, config))))
		inf := clientgo.Decoder{Pack: true}.NewInformer(listWatchOf(c.Resource(podResource).Namespace("default")),
			&metav1.PartialObjectMetadata{TypeMeta: kind}, 0, nil)
		defer runInformer(t, inf)()
		time.Sleep(time.Second)
		list := inf.GetStore().List()
		rig.Same(t, "objects", []string{"pod-0", "pod-1", "pod-2"}, names(list))
		for _, obj := range list {
			rig.Same(t, "kind", kind, obj.(*metav1.PartialObjectMetadata).TypeMeta)
		}
	})
}

// With PackedReads the indexer gives out what is packed, also of what was let go: its metadata is
// the pod's, nothing of it can be set, and its copies are its reader's own. The functions of indexes
// get the pod.
func TestPackedReads(t *testing.T) {
	for name, limit := range map[string]*lw.PackLimit{"kept": nil, "let go": {Bytes: 1}} {
		rig.Subtest(t, name, func(t *testing.T) {
			s, config := newCaptureServer(t), &rest.Config{}
			informer := func(d clientgo.Decoder) cache.SharedIndexInformer {
				lister := typedPods(t, config, clientgo.Capture(s.client(t, config)), noTweak)
				return d.NewInformer(lister, &corev1.Pod{}, 0, cache.Indexers{
					"app": func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Labels["app"]}, nil },
				})
			}
			packed, plain := informer(clientgo.Decoder{Pack: true, Limit: limit}), informer(clientgo.Decoder{})
			packed.(interface{ PackedReads() }).PackedReads()
			defer runInformer(t, packed)()
			defer runInformer(t, plain)()
			time.Sleep(time.Second)
			rig.OK(t, packed.AddIndexers(cache.Indexers{
				"start": func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Name[:3]}, nil },
			}))
			x := packed.GetIndexer()
			all := rig.Must[[]any](t)(x.ByIndex("start", "pod"))
			rig.Same(t, "the objects of an index", 3, len(all))
			rig.Same(t, "those that are like one", 3, len(rig.Must[[]any](t)(x.Index("start", all[0]))))
			rig.Same(t, "the value of one", []string{"pod"}, rig.Must[[]string](t)(x.GetIndexers()["start"](all[0])))
			all = append(all, x.List()...)
			all = append(all, rig.Must[[]any](t)(x.ByIndex("app", "web"))...)
			for _, obj := range all {
				key := rig.Must[string](t)(cache.MetaNamespaceKeyFunc(obj))
				want, _, err := plain.GetIndexer().GetByKey(key)
				rig.OK(t, err)
				if _, is := obj.(*corev1.Pod); is {
					t.Errorf("%s is a pod", key)
				}
				o := obj.(apiruntime.Object)
				a, b := o.DeepCopyObject().(*corev1.Pod), o.DeepCopyObject().(*corev1.Pod)
				rig.Same(t, key, want, any(a))
				rig.Same(t, key+", again", want, any(b))
				if a == b {
					t.Errorf("%s: two copies are one", key)
				}
				rig.Same(t, key+": its kind", a.GetObjectKind().GroupVersionKind(), o.GetObjectKind().GroupVersionKind())
				rig.Same(t, key+": its metadata", metadataOf(a), metadataOf(obj.(metav1.Object)))
			}
			panics := 0
			m := reflect.ValueOf(all[0])
			for i := range m.NumMethod() {
				if name := m.Type().Method(i).Name; strings.HasPrefix(name, "Set") {
					panics++
					in := []reflect.Value{reflect.Zero(m.Method(i).Type().In(0))}
					rig.PanicsWith(t, "clientgo: a packed object cannot be changed", func() { m.Method(i).Call(in) })
				}
			}
			rig.Same(t, "methods that set", 15, panics)
		})
	}
}

// metadataOf returns what the methods of an object say that read its metadata.
func metadataOf(obj metav1.Object) map[string]any {
	got := map[string]any{}
	m := reflect.ValueOf(&obj).Elem()
	for i := range m.NumMethod() {
		if name := m.Type().Method(i).Name; strings.HasPrefix(name, "Get") {
			got[name] = m.Method(i).Call(nil)[0].Interface()
		}
	}
	return got
}
