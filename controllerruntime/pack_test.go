package controllerruntime_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
)

// packable returns newPod's pod with so many bytes more that packing makes it smaller.
func packable(ns string, i, version int) *corev1.Pod {
	p := newPod(ns, i)
	p.Annotations = map[string]string{"note": strings.Repeat(fmt.Sprintf("pod %d of %s; ", i, ns), 60)}
	p.Labels["app"], p.Spec.NodeName = []string{"web", "db"}[version%2], fmt.Sprintf("n%d", version%3)
	p.Status.Message = fmt.Sprint("version ", version)
	return p
}

var packedForms = func() []func() client.Object {
	all := examples()
	var forms []func() client.Object
	for _, name := range slices.Sorted(maps.Keys(all)) {
		forms = append(forms, func() client.Object { return all[name].DeepCopyObject().(client.Object) })
	}
	return forms
}()

// fields gives c the fields of randomRead, for every form.
func (b *bench) fields(c cache.Cache) {
	b.Helper()
	for _, of := range packedForms {
		for name, values := range indexedBy {
			rig.OK(b, c.IndexField(b.Context(), of(), name, func(o client.Object) []string { return values(o) }))
		}
	}
}

// whole is like of, but the answer is all that was read. Without a copy nothing says the kind.
func (r read) whole(t *testing.T, rd client.Reader, example client.Object, uncopied bool) map[string]any {
	unsafe, answer := client.UnsafeDisableDeepCopyOption(uncopied), map[string]any{}
	put := func(obj apiruntime.Object) error {
		if uncopied {
			obj = obj.DeepCopyObject()
			obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
		answer[client.ObjectKeyFromObject(obj.(client.Object)).String()] = obj
		return nil
	}
	if r.key.Name != "" {
		answer["error"] = fmt.Sprint(rd.Get(t.Context(), r.key, example, unsafe))
		rig.OK(t, put(example))
		return answer
	}
	list := listOf(example)
	answer["error"] = fmt.Sprint(rd.List(t.Context(), list, &r.opts, unsafe))
	rig.OK(t, meta.EachListItem(list, put))
	if r.opts.Limit > 0 {
		return map[string]any{"items": len(answer)}
	}
	return answer
}

// A packed cache answers every read as one that is not packed, in each encoding, while objects
// change and a collector runs.
func TestPackReadsAlike(t *testing.T) {
	leak.Collect(t, time.Millisecond)
	for _, content := range []string{apiruntime.ContentTypeJSON, apiruntime.ContentTypeProtobuf} {
		rig.Subtest(t, content, func(t *testing.T) { testPackReadsAlike(t, content) })
	}
}

func testPackReadsAlike(t *testing.T, content string) {
	b := newBench(t)
	b.config.ContentType = content
	plain := b.start(controllerruntime.NewCache, cache.Options{})
	packed := b.start(controllerruntime.NewCacheWith(controllerruntime.Options{Pack: true}), cache.Options{})
	b.fields(plain)
	b.fields(packed)
	steps := 3000
	if testing.Short() {
		steps = 300
	}
	b.readAlike(t, plain, packed, steps, packable)
}

// readAlike compares random reads of two caches, while pods change to what pod returns.
func (b *bench) readAlike(t *testing.T, plain, other client.Reader, steps int,
	pod func(ns string, i, version int) *corev1.Pod) {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 4))
	for i := range steps {
		if i%3 == 0 {
			b.write(b.pods.Update, pod([]string{"a", "b", "c"}[random.IntN(3)], random.IntN(4), i))
			synctest.Wait()
		}
		of, ask, uncopied := packedForms[random.IntN(len(packedForms))], randomRead(random), random.IntN(4) == 0
		if random.IntN(4) == 0 {
			ask = read{key: client.ObjectKey{Namespace: "b", Name: fmt.Sprint("pod-", random.IntN(4))}}
		}
		want := ask.whole(t, plain, of(), uncopied)
		if diff := cmp.Diff(want, ask.whole(t, other, of(), uncopied)); diff != "" {
			t.Fatalf("%T, %v, uncopied %v (-plain +other):\n%s", of(), ask, uncopied, diff)
		}
	}
}

// What a read returns is the caller's own. A list calls no function of an index for what it returns
// or leaves out.
func TestPackCopies(t *testing.T) {
	rig.Subtest(t, "JSON", func(t *testing.T) {
		b := newBench(t)
		b.config.ContentType = apiruntime.ContentTypeJSON
		c := b.start(controllerruntime.NewCacheWith(controllerruntime.Options{Pack: true}), cache.Options{})
		var opened []string
		rig.OK(t, c.IndexField(t.Context(), &corev1.Pod{}, "app", func(obj client.Object) []string {
			opened = append(opened, obj.GetName())
			return []string{obj.GetLabels()["app"]}
		}))
		b.write(b.pods.Update, packable("a", 1, 1))
		synctest.Wait()
		opened = nil
		key := client.ObjectKey{Namespace: "a", Name: "pod-1"}
		var one, two corev1.Pod
		rig.OK(t, c.Get(t.Context(), key, &one))
		one.Spec.Containers[0].Image = "another"
		rig.OK(t, c.Get(t.Context(), key, &two))
		if two.Spec.Containers[0].Image != "image" || two.Kind != "Pod" {
			t.Errorf("the second read has %+v", two)
		}
		for range 100 {
			var list corev1.PodList
			rig.OK(t, c.List(t.Context(), &list, client.InNamespace("a"), client.MatchingLabels{"app": "db"}))
			if len(list.Items) != 2 {
				t.Fatalf("the list has %d pods", len(list.Items))
			}
			rig.OK(t, c.List(t.Context(), &list, client.MatchingFields{"app": "db"}))
			if len(list.Items) != 6 {
				t.Fatalf("the list has %d pods", len(list.Items))
			}
		}
		if len(opened) > 0 {
			t.Errorf("reads have called the function of the index for %v", opened)
		}
	})
}

// A cold Get decodes once and copies nothing: it allocates little more than the object. A list that
// matches none of a hundred large objects allocates next to nothing.
func TestPackAllocates(t *testing.T) {
	rig.Subtest(t, "JSON", func(t *testing.T) {
		b := newBench(t)
		b.config.ContentType = apiruntime.ContentTypeJSON
		for i := range 100 {
			p := packable("big", i, i)
			p.Annotations["much"] = strings.Repeat(fmt.Sprint(i, " "), 20_000)
			b.write(b.pods.Create, p)
		}
		c := b.start(controllerruntime.NewCacheWith(controllerruntime.Options{Pack: true}), cache.Options{})
		rig.Must[cache.Informer](t)(c.GetInformer(t.Context(), &corev1.Pod{}))
		// The least of some tries: the process does other things, too, and a collection empties buffers.
		bytes := func(f func()) int {
			least := math.MaxInt
			for range 10 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				f()
				runtime.ReadMemStats(&after)
				least = min(least, int(after.TotalAlloc-before.TotalAlloc))
			}
			return least
		}
		var p corev1.Pod
		size := 40_000 // of the pod that is read
		got := bytes(func() {
			rig.OK(t, c.Get(t.Context(), client.ObjectKey{Namespace: "big", Name: "pod-7"}, &p))
		})
		if len(p.Annotations["much"]) != size || got > 2*size {
			t.Errorf("a Get of %d bytes allocates %d", size, got)
		}
		got = bytes(func() {
			var list corev1.PodList
			rig.OK(t, c.List(t.Context(), &list, client.MatchingLabels{"app": "none"}))
		})
		if got > 100*size/10 {
			t.Errorf("a List that finds none of %d bytes allocates %d", 100*size, got)
		}
	})
}

// PackByObject says of each kind, in each form, whether it is packed.
func TestPackByObject(t *testing.T) {
	u := examples()["unstructured pods"]
	for name, tt := range map[string]struct {
		o    controllerruntime.Options
		want []bool // of a typed, an unstructured pod and a node
	}{
		"all": {controllerruntime.Options{Pack: true}, []bool{true, true, true}},
		"but pods": {controllerruntime.Options{Pack: true, PackByObject: map[client.Object]bool{&corev1.Pod{}: false}},
			[]bool{false, true, true}},
		"one form": {controllerruntime.Options{PackByObject: map[client.Object]bool{u: true}}, []bool{false, true, false}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			b := newBench(t)
			c := b.start(controllerruntime.NewCacheWith(tt.o), cache.Options{})
			var got []bool
			for _, example := range []client.Object{&corev1.Pod{}, u, &corev1.Node{}} {
				inf := rig.Must[cache.Informer](t)(c.GetInformer(t.Context(), example))
				var seen client.Object
				reg := rig.Must[toolscache.ResourceEventHandlerRegistration](t)(inf.AddEventHandler(
					toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { seen = obj.(client.Object) }}))
				synctest.Wait()
				if !reg.HasSynced() || seen == nil {
					t.Fatal("the handler was not called")
				}
				// What is packed forgets a change that nobody may make.
				seen.SetLabels(map[string]string{"changed": "yes"})
				key := client.ObjectKeyFromObject(seen)
				seen = nil
				runtime.GC()
				runtime.GC()
				obj := example.DeepCopyObject().(client.Object)
				rig.OK(t, c.Get(t.Context(), key, obj))
				got = append(got, obj.GetLabels()["changed"] == "")
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("packed are %v, want %v", got, tt.want)
			}
		})
	}
	for text, by := range map[string]map[client.Object]bool{
		"two examples": {&corev1.Pod{}: true, &corev1.Pod{}: false},
		"says nothing": {&metav1.PartialObjectMetadata{}: true},
	} {
		_, err := controllerruntime.NewCacheWith(controllerruntime.Options{PackByObject: by})(&rest.Config{}, cache.Options{})
		if err == nil || !strings.Contains(err.Error(), "PackByObject: ") || !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %v", err)
		}
	}
}
