// Package clientgo joins lw to k8s.io/client-go: it makes sources from a rest.Config. A generated client needs nothing of it:
// lw.FromClient(clientset.CoreV1().Pods("")) is a source. It is a module of its own, so that lw does not depend on client-go.
package clientgo

import (
	"errors"
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
)

// HTTP returns a source of the collection resource, of one namespace or, if that is "", of all (or of the cluster's scope). It
// uses config's server, credentials and TLS, but neither its rate limits, which count requests and so have no say in a watch,
// nor its timeout, which would cut every watch. It fails where config is nil or contradicts itself, and where resource has no
// version or no name.
func HTTP[T lw.Object](config *rest.Config, resource schema.GroupVersionResource, namespace string) (*lw.HTTP[T], error) {
	if config == nil {
		return nil, errors.New("clientgo: HTTP: nil config")
	}
	config = rest.CopyConfig(config)
	config.Timeout = 0
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("clientgo: HTTP: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("clientgo: HTTP: %w", err)
	}
	if resource.Version == "" || resource.Resource == "" {
		return nil, fmt.Errorf("clientgo: HTTP: %q needs a version and a resource", resource)
	}
	path := []string{"api", resource.Version}
	if resource.Group != "" {
		path = []string{"apis", resource.Group, resource.Version}
	}
	if namespace != "" {
		path = append(path, "namespaces", url.PathEscape(namespace))
	}
	return &lw.HTTP[T]{URL: base.JoinPath(append(path, resource.Resource)...).String(), Client: client}, nil
}
