package main

import (
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

func TestInformer(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	pods := factory.Core().V1().Pods().Informer()
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), pods.HasSynced) {
		t.Error("not synced")
	}
}
