package servers

import (
	"context"
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// Config returns a configuration for clients of s, as admin, without a limit on their rate. What is made of it dials
// connections of its own, which it shares with nothing made of another Config.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host:            s.URL,
		BearerToken:     AdminToken,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.CA},
		QPS:             -1,
		// client-go shares a transport between equal configurations, and none that dial by themselves are equal.
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, address)
		},
	}
}
