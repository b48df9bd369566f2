package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/verify/rig"
)

var podFields = controllerruntime.Fields[*corev1.Pod]{
	"spec.nodeName": func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} },
	"image": func(p *corev1.Pod) []string {
		var images []string
		for _, c := range p.Spec.Containers {
			images = append(images, c.Image)
		}
		return images
	},
}

// servedPods returns a Reader of the pods of newPod in the namespaces a and b, and their informer.
func servedPods(t *testing.T) (*controllerruntime.Reader, *lw.Informer[*corev1.Pod]) {
	t.Helper()
	server := lw.NewMemory[*corev1.Pod]()
	for _, ns := range []string{"a", "b"} {
		for i := range 4 {
			rig.Must[*corev1.Pod](t)(server.Create(t.Context(), newPod(ns, i)))
		}
	}
	pods := lw.NewInformer(server, nil)
	r := controllerruntime.NewReader(nil)
	rig.OK(t, controllerruntime.Serve(r, pods, podFields))
	return r, pods
}

func TestReaderList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, pods := servedPods(t)
		runInBubble(t, pods)
		for _, tt := range []struct {
			name string
			opts []client.ListOption
			want string
		}{
			{"all", nil, "a/pod-0 a/pod-1 a/pod-2 a/pod-3 b/pod-0 b/pod-1 b/pod-2 b/pod-3"},
			{"namespace", []client.ListOption{client.InNamespace("b")}, "b/pod-0 b/pod-1 b/pod-2 b/pod-3"},
			{"no such namespace", []client.ListOption{client.InNamespace("c")}, ""},
			{"labels", []client.ListOption{client.MatchingLabels{"app": "db"}}, "a/pod-1 a/pod-3 b/pod-1 b/pod-3"},
			{"field", []client.ListOption{client.MatchingFields{"spec.nodeName": "n1"}}, "a/pod-2 a/pod-3 b/pod-2 b/pod-3"},
			{"two fields", []client.ListOption{client.MatchingFields{"spec.nodeName": "n0", "image": "image"}},
				"a/pod-0 a/pod-1 b/pod-0 b/pod-1"},
			{"two fields, of which one fits none", []client.ListOption{client.MatchingFields{"spec.nodeName": "n0",
				"image": "other"}}, ""},
			{"all at once", []client.ListOption{client.InNamespace("a"), client.MatchingLabels{"app": "web"},
				client.MatchingFields{"spec.nodeName": "n1"}}, "a/pod-2"},
		} {
			var list corev1.PodList
			if err := r.List(t.Context(), &list, tt.opts...); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			var names []string
			for _, p := range list.Items {
				names = append(names, p.Namespace+"/"+p.Name)
				if p.Kind != "Pod" || p.APIVersion != "v1" {
					t.Errorf("%s: kind %q, API version %q", tt.name, p.Kind, p.APIVersion)
				}
			}
			slices.Sort(names)
			rig.Same(t, tt.name, tt.want, strings.Join(names, " "))
			if list.Items == nil {
				t.Errorf("%s: Items is nil", tt.name)
			}
		}

		var list corev1.PodList
		if err := r.List(t.Context(), &list, client.MatchingLabels{"app": "db"}, client.Limit(3)); err != nil ||
			len(list.Items) != 3 || list.Continue != "continue-not-supported" {
			t.Errorf("limit: %d pods, continue %q, %v", len(list.Items), list.Continue, err)
		}
		for want, opt := range map[string]client.ListOption{
			`no field "status.phase"`: client.MatchingFields{"status.phase": "Running"},
			"names no field":          client.MatchingFieldsSelector{Selector: fields.Nothing()},
			"only equality":           client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("image", "x")},
			"continued":               client.Continue("x"),
		} {
			if err := r.List(t.Context(), &list, opt); err == nil || !strings.HasPrefix(err.Error(),
				"controllerruntime: Reader: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %s", err, want)
			}
		}
	})
}

// A reader may change what it gets, unless it asks for the shared objects.
func TestReaderCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, pods := servedPods(t)
		runInBubble(t, pods)
		key := client.ObjectKey{Namespace: "a", Name: "pod-0"}
		var p corev1.Pod
		rig.OK(t, r.Get(t.Context(), key, &p))
		var list corev1.PodList
		rig.OK(t, r.List(t.Context(), &list))
		var shared corev1.Pod
		rig.OK(t, r.Get(t.Context(), key, &shared, client.UnsafeDisableDeepCopy))
		stored, _ := pods.Store().Get(key)
		if &p.Spec.Containers[0] == &stored.Spec.Containers[0] || p.Kind != "Pod" {
			t.Errorf("Get does not copy: kind %q", p.Kind)
		}
		if &shared.Spec.Containers[0] != &stored.Spec.Containers[0] || shared.Kind != "" {
			t.Errorf("Get copies what was not to be copied: kind %q", shared.Kind)
		}
		for _, item := range list.Items {
			stored, _ := pods.Store().Get(client.ObjectKeyFromObject(&item))
			if &item.Spec.Containers[0] == &stored.Spec.Containers[0] {
				t.Error("List does not copy")
			}
		}
		rig.OK(t, r.List(t.Context(), &list, client.InNamespace("b"), client.UnsafeDisableDeepCopy))
		for _, item := range list.Items {
			stored, _ := pods.Store().Get(client.ObjectKeyFromObject(&item))
			if &item.Spec.Containers[0] != &stored.Spec.Containers[0] {
				t.Error("List copies what was not to be copied")
			}
		}
	})
}

// One kind is served typed, unstructured and as metadata, each from an informer of its own.
func TestReaderKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, pods := servedPods(t)
		key := client.ObjectKey{Namespace: "default", Name: "a"}
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"nodeName": "from unstructured"}}}
		u.SetNamespace(key.Namespace)
		u.SetName(key.Name)
		u.SetGroupVersionKind(podKind)
		m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
			Labels: map[string]string{"from": "metadata"}}}
		objects := lw.NewInformer(lw.NewMemory(u), nil)
		metadata := lw.NewInformer(lw.NewMemory(m), nil)
		rig.OK(t, controllerruntime.ServeKind(r, podKind, objects, nil))
		rig.OK(t, controllerruntime.ServeKind(r, podKind, metadata, nil))
		if err := controllerruntime.ServeKind(r, podKind, metadata, nil); err == nil || !strings.Contains(err.Error(),
			"served already") {
			t.Errorf("error %v", err)
		}
		runInBubble(t, pods, objects, metadata)

		var gotU unstructured.Unstructured
		gotU.SetGroupVersionKind(podKind)
		rig.OK(t, r.Get(t.Context(), key, &gotU))
		if node, _, _ := unstructured.NestedString(gotU.Object, "spec", "nodeName"); node != "from unstructured" {
			t.Errorf("object %v", gotU.Object)
		}
		var gotM metav1.PartialObjectMetadata
		gotM.SetGroupVersionKind(podKind)
		if err := r.Get(t.Context(), key, &gotM); err != nil || gotM.Labels["from"] != "metadata" || gotM.Kind != "Pod" {
			t.Errorf("object %v, %v", gotM, err)
		}
		for _, list := range []client.ObjectList{&unstructured.UnstructuredList{}, &metav1.PartialObjectMetadataList{}} {
			list.GetObjectKind().SetGroupVersionKind(podKind.GroupVersion().WithKind("PodList"))
			rig.OK(t, r.List(t.Context(), list))
			n := 0
			switch list := list.(type) {
			case *unstructured.UnstructuredList:
				n = len(list.Items)
			case *metav1.PartialObjectMetadataList:
				n = len(list.Items)
			}
			if n != 1 {
				t.Errorf("%T has %d items", list, n)
			}
		}
	})
}

func TestReaderErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, pods := servedPods(t)
		ctx := t.Context()
		key := client.ObjectKey{Namespace: "a", Name: "none"}
		var notServed *cache.ErrResourceNotCached
		if err := r.Get(ctx, key, &corev1.Node{}); !errors.As(err, &notServed) || notServed.GVK != nodeKind {
			t.Errorf("error %v", err)
		}
		if err := r.List(ctx, &corev1.NodeList{}); !errors.As(err, &notServed) || notServed.GVK != nodeKind {
			t.Errorf("error %v", err)
		}
		var notStarted *cache.ErrCacheNotStarted
		if err := r.Get(ctx, key, &corev1.Pod{}); !errors.As(err, &notStarted) {
			t.Errorf("error %v", err)
		}
		if err := r.List(ctx, &corev1.PodList{}); !errors.As(err, &notStarted) {
			t.Errorf("error %v", err)
		}
		if err := r.Get(ctx, key, &lightPod{}); err == nil || !strings.HasPrefix(err.Error(), "controllerruntime: Reader: ") {
			t.Errorf("error %v of a type that no scheme knows", err)
		}
		if err := controllerruntime.Serve(r, lw.NewInformer(lw.NewMemory[*lightPod](), nil), nil); err == nil {
			t.Error("a type that no scheme knows is served")
		}
		runInBubble(t, pods)
		if err := r.Get(ctx, key, &corev1.Pod{}); !apierrors.IsNotFound(err) {
			t.Errorf("error %v, want NotFound", err)
		}
	})
}

// A read waits for the first list, and its error says why that does not come.
func TestReaderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lw.NewMemory(namedPod("a", "n1"))
		server.Fail(errors.New("the server is away"))
		pods := lw.NewInformer(server, &lw.Options{OnError: func(error) {}})
		r := controllerruntime.NewReader(nil)
		rig.OK(t, controllerruntime.Serve(r, pods, nil))
		runInBubble(t, pods)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		key := client.ObjectKey{Namespace: "default", Name: "a"}
		if err := r.Get(ctx, key, &corev1.Pod{}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(),
			"the server is away") {
			t.Errorf("error %v", err)
		}
		server.Fail(nil)
		rig.OK(t, r.Get(t.Context(), key, &corev1.Pod{}))
	})
}

func ExampleReader() {
	pods := lw.NewInformer(lw.NewMemory(namedPod("a", "n1"), namedPod("b", "n2")), nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go pods.Run(ctx)
	if err := pods.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}

	reader := controllerruntime.NewReader(nil)
	if err := controllerruntime.Serve(reader, pods, controllerruntime.Fields[*corev1.Pod]{
		"spec.nodeName": func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} },
	}); err != nil {
		fmt.Println(err)
		return
	}
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.InNamespace("default"),
		client.MatchingFields{"spec.nodeName": "n2"}); err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range list.Items {
		fmt.Println(p.Name)
	}
	// Output: b
}

// Several fields must all match, whichever has the index, and an option that says no is as none.
func TestReaderOfSeveralFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other, third := newPod("a", 0), newPod("a", 1), newPod("b", 2)
		for i, p := range []*corev1.Pod{one, other, third} {
			p.Name, p.Spec.NodeName = fmt.Sprint("p", i), "n"
			p.Spec.Containers = []corev1.Container{{Image: "shared"}, {Image: fmt.Sprint("i", i)}}
		}
		third.Spec.NodeName = "m"
		pods := lw.NewInformer(lw.NewMemory(one, other, third), nil)
		r := controllerruntime.NewReader(nil)
		rig.OK(t, controllerruntime.Serve(r, pods, podFields))
		runInBubble(t, pods)
		for selector, want := range map[string]string{
			"image=i1,spec.nodeName=n": "p1", "spec.nodeName=n,image=i1": "p1", "spec.nodeName=m,image=i1": "",
			"image=i1,spec.nodeName=m":     "",
			"image=shared,spec.nodeName=n": "p0 p1", "spec.nodeName=n,image=shared,image=i0": "p0",
			"image=none,image=shared": "",
		} {
			var list corev1.PodList
			rig.OK(t, r.List(t.Context(), &list, client.MatchingFieldsSelector{Selector: fields.ParseSelectorOrDie(selector)}))
			var got []string
			for _, p := range list.Items {
				got = append(got, p.Name)
			}
			slices.Sort(got)
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %q, want %s", selector, got, want)
			}
		}
		for _, shared := range []*bool{nil, new(bool)} {
			var list corev1.PodList
			var p corev1.Pod
			if err := r.List(t.Context(), &list, client.InNamespace("b"),
				&client.ListOptions{UnsafeDisableDeepCopy: shared}); err != nil || len(list.Items) != 1 {
				t.Fatal(err, len(list.Items))
			}
			rig.OK(t, r.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "p2"}, &p,
				&client.GetOptions{UnsafeDisableDeepCopy: shared}))
			list.Items[0].Spec.Containers[0].Image, p.Spec.Containers[0].Image = "mine", "mine"
			if now, _ := pods.Store().Get(lw.Key{Namespace: "b", Name: "p2"}); now.Spec.Containers[0].Image != "shared" ||
				p.Kind != "Pod" || list.Items[0].Kind != "Pod" {
				t.Error("the reader has shared the object of the store, or has left out its kind")
			}
		}
		// An informer of another type than that of the kind is an error of each read.
		nodes := lw.NewInformer(lw.NewMemory[*corev1.Node](), nil)
		wrong := controllerruntime.NewReader(nil)
		rig.OK(t, controllerruntime.ServeKind(wrong, podKind, nodes, nil))
		runInBubble(t, nodes)
		if err := wrong.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "p2"}, &corev1.Pod{}); err == nil ||
			apierrors.IsNotFound(err) {
			t.Errorf("a pod from nodes: %v", err)
		}
	})
}
