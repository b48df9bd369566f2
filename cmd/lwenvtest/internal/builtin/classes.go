package builtin

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	"k8s.io/kubernetes/pkg/apis/storage/util"
)

// defaultClass is kube-apiserver's name for the plugin claimClasses.
const defaultClass = "DefaultStorageClass"

// claimClasses gives a new claim of a volume the default class of storage, as the plugin of
// kube-apiserver, which is built on half of the kubelet.
type claimClasses struct {
	*admission.Handler
	classes storagelisters.StorageClassLister
}

func registerClaimClasses(all *admission.Plugins) {
	all.Register(defaultClass, func(io.Reader) (admission.Interface, error) {
		return &claimClasses{Handler: admission.NewHandler(admission.Create)}, nil
	})
}

// SetExternalKubeInformerFactory says where the classes are.
func (c *claimClasses) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	c.classes = f.Storage().V1().StorageClasses().Lister()
}

// ValidateInitialization implements admission.InitializationValidator.
func (c *claimClasses) ValidateInitialization() error {
	if c.classes == nil {
		return errors.New("lwenvtest: builtin: no informer of classes")
	}
	return nil
}

// Admit gives a claim that names no class the default one, if there is any.
func (c *claimClasses) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	claim, ok := a.GetObject().(*core.PersistentVolumeClaim)
	if !ok || a.GetSubresource() != "" || helper.PersistentVolumeClaimHasClass(claim) {
		return nil
	}
	all, err := c.classes.List(labels.Everything())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if class := newestDefault(all); class != nil {
		claim.Spec.StorageClassName = &class.Name
	}
	return nil
}

// newestDefault returns the newest of the default classes, of equally new ones the first by name.
func newestDefault(all []*storagev1.StorageClass) *storagev1.StorageClass {
	defaults := slices.DeleteFunc(all, func(c *storagev1.StorageClass) bool {
		return !util.IsDefaultAnnotation(c.ObjectMeta)
	})
	if len(defaults) == 0 {
		return nil
	}
	return slices.MinFunc(defaults, func(a, b *storagev1.StorageClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}
