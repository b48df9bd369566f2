package clientgo

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/go-lw/lw/internal/verify/rig"
)

// Each type of objects is listed by one collection, also if two groups have it.
func TestResourcesOf(t *testing.T) {
	type group interface {
		Pods(string) clientOf[*corev1.PodList, watch.Interface]
		Nodes() clientOf[*corev1.NodeList, watch.Interface]
		Version() string
	}
	type clientset interface {
		A() group
		B() group
		Of(string) group
		Both() (group, error)
	}
	var got []string
	for _, r := range resourcesOf(reflect.TypeFor[clientset]()) {
		got = append(got, fmt.Sprint(r.group, " ", r.name, " ", r.resource, " ", r.namespaced, " ", r.object))
	}
	rig.Same(t, "", []string{"A Nodes nodes false *v1.Node", "A Pods pods true *v1.Pod"}, got)
	rig.Same(t, "of no interface", 0, len(resourcesOf(reflect.TypeFor[*corev1.Pod]())))
}

// A plainClient has groups without the method RESTClient.
type plainClient struct{}

func (plainClient) CoreV1() any { return nil }
func (plainClient) AppsV1() any { return nil }

// The group and version of a collection, which metrics are labelled with, are those of the client.
// A fake client has none, and neither has a client whose groups have no RESTClient.
func TestResourceOfVersion(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(&rest.Config{})
	for group, want := range map[string]string{"CoreV1": "v1", "AppsV1": "apps/v1"} {
		r := resourceOf{group: group}
		version, ok := r.version(reflect.ValueOf(client))
		rig.Same(t, group, want+" true", fmt.Sprint(version, " ", ok))
		_, ok = r.version(reflect.ValueOf(fake.NewClientset()))
		rig.Same(t, group+" of a fake client", false, ok)
		_, ok = r.version(reflect.ValueOf(plainClient{}))
		rig.Same(t, group+" without a RESTClient", false, ok)
	}
}

// A collection of UseAll is listed and watched in its namespace, with the factory's options, and a
// request that is refused has no result.
func TestResourceOfLister(t *testing.T) {
	client := fake.NewClientset()
	var asked []string
	var refuse error
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	note := func(a clienttesting.Action, opts metav1.ListOptions) {
		asked = append(asked, fmt.Sprint(a.GetVerb(), " ", a.GetNamespace(), " ", opts.LabelSelector))
	}
	client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		note(a, a.(clienttesting.ListActionImpl).ListOptions)
		return true, &corev1.PodList{}, refuse
	})
	client.PrependWatchReactor("pods", func(a clienttesting.Action) (bool, watch.Interface, error) {
		note(a, a.(clienttesting.WatchActionImpl).ListOptions)
		return true, watch.NewFake(), refuse
	})
	all := resourcesOf(reflect.TypeFor[kubernetes.Interface]())
	pods := all[slices.IndexFunc(all, func(r resourceOf) bool { return r.object == reflect.TypeFor[*corev1.Pod]() })]
	from := pods.lister(reflect.ValueOf(client), "ns", func(o *metav1.ListOptions) { o.LabelSelector = "a=b" })
	for _, refuse = range []error{nil, refused} {
		list, listErr := from.ListWithContext(t.Context(), metav1.ListOptions{})
		w, watchErr := from.WatchWithContext(t.Context(), metav1.ListOptions{})
		rig.Same(t, "list", refuse, listErr, cmpopts.EquateErrors())
		rig.Same(t, "watch", refuse, watchErr, cmpopts.EquateErrors())
		rig.Same(t, "results", refuse == nil, list != nil && w != nil)
	}
	rig.Same(t, "requests", []string{"list ns a=b", "watch ns a=b", "list ns a=b", "watch ns a=b"}, asked)
}
