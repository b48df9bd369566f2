package rig

import (
	"fmt"
	"net"
	"testing"
)

// TestFreePort: test binaries that run at the same time do not get the same port, although nobody
// listens on it yet.
func TestFreePort(t *testing.T) {
	port := Must[int](t)(FreePort())
	if socket, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
		socket.Close()
		t.Errorf("another process may take port %d", port)
	}
}
