package main

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// A Website is the custom resource of this controller; crd.yaml defines it. The controller makes a
// ConfigMap of each page.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              WebsiteSpec   `json:"spec"`
	Status            WebsiteStatus `json:"status,omitzero"`
}

// A WebsiteSpec is what the user wants.
type WebsiteSpec struct {
	Pages map[string]string `json:"pages,omitempty"` // HTML by name
}

// A WebsiteStatus is what the controller has done.
type WebsiteStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	Pages              int   `json:"pages,omitempty"`
}

var (
	groupVersion = schema.GroupVersion{Group: "example.dev", Version: "v1"}
	websiteKind  = groupVersion.WithKind("Website")
)

// DeepCopy returns a copy that shares nothing with w. A controller that writes an object changes a
// copy: the object in the store is everybody's.
func (w *Website) DeepCopy() *Website {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Pages = maps.Clone(w.Spec.Pages)
	return &out
}

// DeepCopyObject makes a Website a runtime.Object, which client-go's clients need to write it. For
// lw it would not have to be one.
func (w *Website) DeepCopyObject() runtime.Object { return w.DeepCopy() }

// A websiteClient writes Websites. A project with generated clients has one already.
type websiteClient struct {
	client rest.Interface
	codec  runtime.ParameterCodec
}

func newWebsiteClient(config *rest.Config) (*websiteClient, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(groupVersion, &Website{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &groupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	return &websiteClient{client, runtime.NewParameterCodec(scheme)}, err
}

// in returns the client of a namespace.
func (c *websiteClient) in(namespace string) *gentype.Client[*Website] {
	return gentype.NewClient("websites", c.client, c.codec, namespace, func() *Website { return &Website{} })
}

// The finalizer keeps a Website until its pages are gone.
const finalizer = "example.dev/pages"

// withFinalizer returns a copy of w that has the finalizer, or that does not have it.
func (w *Website) withFinalizer(has bool) *Website {
	w = w.DeepCopy()
	w.Finalizers = slices.DeleteFunc(w.Finalizers, func(f string) bool { return f == finalizer })
	if has {
		w.Finalizers = append(w.Finalizers, finalizer)
	}
	return w
}
