//go:build unix

package serve

import (
	"net"
	"syscall"
)

const canTry = true

// trier returns a function that writes what a connection takes at once, or nil if there is none.
func trier(c net.Conn) func(data []byte) (int, error) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	// A closure for each call would be an allocation for each event and client.
	var data []byte
	var n int
	var failed error
	write := func(fd uintptr) bool {
		for {
			n, failed = syscall.Write(int(fd), data)
			if failed != syscall.EINTR {
				return true // also if nothing was written: do not wait
			}
		}
	}
	return func(d []byte) (int, error) {
		if len(d) == 0 {
			return 0, nil
		}
		data, n, failed = d, 0, nil
		err := raw.Write(write)
		data = nil
		if err == nil && failed != nil && failed != syscall.EAGAIN {
			err = failed
		}
		return max(n, 0), err
	}
}
