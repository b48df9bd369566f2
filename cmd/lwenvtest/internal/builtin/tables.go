package builtin

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-aggregator/pkg/registry/apiservice/etcd"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"
)

// convertor makes the tables of kube-apiserver, of which kubectl shows a Pod's restarts and a
// Deployment's replicas. Its table of functions costs 5 ms, and most suites ask for no table.
var convertor = sync.OnceValue(func() printerstorage.TableConvertor {
	return printerstorage.TableConvertor{TableGenerator: printers.NewTableGenerator().With(printersinternal.AddHandlers)}
})

// table makes the table of an object. A kind that has no columns of its own shows its age.
func (k *kind) table(o runtime.Object) (*metav1.Table, error) {
	internal, err := legacyscheme.Scheme.ConvertToVersion(o, runtime.InternalGroupVersioner)
	if err != nil {
		return nil, fmt.Errorf("lwenvtest: builtin: %w", err)
	}
	if k.resource.Plural == "apiservices" { // of the aggregator, which prints its kind itself
		return (*etcd.REST)(nil).ConvertToTable(context.Background(), internal, nil)
	}
	t, err := convertor().ConvertToTable(context.Background(), internal, nil)
	if err != nil {
		plain := rest.NewDefaultTableConvertor(schema.GroupResource{Group: k.resource.Group, Resource: k.resource.Plural})
		return plain.ConvertToTable(context.Background(), o, nil)
	}
	return t, nil
}
