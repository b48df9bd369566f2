// Package controllerruntime runs controller-runtime's own tests of its cache on lw. It has none of
// their files: it reads them from the module cache.
package controllerruntime

import (
	// What the tests of controller-runtime's cache need, so that go.mod has it.
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "sigs.k8s.io/controller-runtime/pkg/envtest"

	_ "github.com/go-lw/lw/clientgo"
	_ "github.com/go-lw/lw/controllerruntime"
)
