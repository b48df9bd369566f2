package clientgo

import (
	"errors"
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
)

// HTTP returns a source of the collection resource in namespace. If namespace is "" it is the
// collection of all namespaces, or that of a cluster-scoped resource.
//
// HTTP uses the server, the credentials and the TLS settings of config, and does not change config.
// It ignores config's rate limits, which count requests and so have no effect on a watch, and its
// timeout, which would end every watch.
//
// It returns an error if config is nil or contradicts itself, or if resource has no version or no
// name. It makes no request.
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
