// Package clientgo runs the tests of Kubernetes projects on lw. It reads them from the module
// cache, and copies none of them into this repository:
//
//   - client-go's tests of shared informers, typed informers and their factories,
//   - sample-controller's tests,
//   - tests of kube-controller-manager's controllers,
//   - those of what kubelet and kube-proxy follow,
//   - kube-state-metrics' tests of its stores and of the whole program,
//   - cert-manager's tests of its controllers of certificates,
//   - coredns' tests of its plugin kubernetes.
//
// A test of this package makes a temporary module with a copy of client-go, of which two functions
// are changed: NewSharedIndexInformerWithOptions returns what clientgo.NewInformerWithOptions
// returns, and a Reflector runs a clientgo.Reflector over its store. All other constructors and all
// generated factories call these. So the programs
// under test get informers of lw, and are not changed themselves. Only client-go's own tests are:
// those that look into the fields of its informer are rewritten to ask the informer's methods.
//
// Each test binary runs several times: with client-go's informers, which shows that the suite
// passes as it is built here; with lw's; and with informers that are broken on purpose, which shows
// that the suite can fail.
//
//	go test ./...                        client-go, sample-controller and some controllers
//	go test -race ./...                  the same, under the race detector
//	go test -timeout 2h ./... -nightly   more controllers and programs, with or without -race
//
// The first run compiles client-go and the controllers, which takes minutes. Later ones find them
// in the build cache.
package clientgo
