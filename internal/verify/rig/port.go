package rig

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// reserved has a UDP socket for each port that FreePort has returned. It is open as long as the
// process runs, and nobody sends anything to it.
var reserved struct {
	mu      sync.Mutex
	sockets []net.PacketConn
}

// FreePort returns a port that nobody listens on, a different one each time, also in test binaries
// that run at the same time: each has the UDP port of that number. It is below the range from which
// the kernel takes the local ports of outgoing connections. Otherwise such a connection could have
// taken the port when a server is restarted.
func FreePort() (int, error) {
	for range 1000 {
		port := 20000 + rand.N(12000)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		socket, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			socket.Close()
			continue
		}
		l.Close()
		reserved.mu.Lock()
		defer reserved.mu.Unlock()
		reserved.sockets = append(reserved.sockets, socket)
		return port, nil
	}
	return 0, errors.New("no free port")
}
