//go:build !newest

package clientgo_test

import "k8s.io/client-go/tools/cache"

// What stands in for newer functions of client-go with the oldest one, which go.mod asks for.

const publishesVersions = false

func shutDownHandler(inf cache.SharedInformer, reg cache.ResourceEventHandlerRegistration) error {
	if err := inf.RemoveEventHandler(reg); err != nil {
		return err
	}
	if r, ok := reg.(interface{ ShutdownChan() <-chan struct{} }); ok {
		<-r.ShutdownChan()
	}
	return nil
}

func typedView(inf cache.SharedIndexInformer) cache.SharedIndexInformer { return inf }
