package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/go-lw/lw/internal/verify/rig"
)

// RelayArg is the first argument with which a Relay runs this very program. Its main function, or
// TestMain, then calls relay.Main with the others.
const RelayArg = "relay"

// A Relay is a relay of a Server, or of another Relay, in a process of its own. Its methods are
// called from one goroutine at a time.
type Relay struct {
	URL string // https://127.0.0.1:port, the same after a restart

	server  *Server
	args    []string
	process *process
}

// NewRelay returns a relay of upstream, which is the URL of s or of a relay of it. It starts
// nothing. args are further flags of the program.
func (s *Server) NewRelay(upstream string, args ...string) (*Relay, error) {
	port, err := rig.FreePort()
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(s.Dir, name) }
	if err := os.WriteFile(file("ca.crt"), s.CA, 0o600); err != nil {
		return nil, err
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	return &Relay{URL: "https://" + listen, server: s, args: append([]string{
		RelayArg, "-upstream", upstream, "-ca", file("ca.crt"), "-token", AdminToken,
		"-listen", listen, "-cert", file("tls.crt"), "-key", file("tls.key"),
	}, args...)}, nil
}

// Start starts the relay and waits until it listens.
func (r *Relay) Start(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if r.process, err = spawn(filepath.Join(r.server.Dir, "relay.log"), program, r.args...); err != nil {
		return err
	}
	return r.process.await(ctx, func(ctx context.Context) error {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", r.URL[len("https://"):])
		if err == nil {
			_ = c.Close()
		}
		return err
	})
}

// Kill kills the relay with SIGKILL and waits for its end.
func (r *Relay) Kill() { r.process.signal(syscall.SIGKILL) }

// Freeze stops the relay with SIGSTOP; Thaw lets it continue.
func (r *Relay) Freeze() { r.process.signal(syscall.SIGSTOP) }
func (r *Relay) Thaw()   { r.process.signal(syscall.SIGCONT) }

// Config returns a configuration for clients of the relay, as [Server.Config] does.
func (r *Relay) Config() *rest.Config {
	c := r.server.Config()
	c.Host = r.URL
	return c
}
