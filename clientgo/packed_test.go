package clientgo_test

import (
	"reflect"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

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
