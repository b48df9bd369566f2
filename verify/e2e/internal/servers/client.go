package servers

import (
	"context"
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// Config returns a configuration for clients of s, as the admin and without a rate limit. Clients
// of different Configs share no connections.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host:            s.URL,
		BearerToken:     AdminToken,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.CA},
		QPS:             -1,
		// client-go shares a transport between clients with equal configurations. A configuration
		// with a Dial function of its own equals no other.
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, address)
		},
	}
}
