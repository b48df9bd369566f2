// Package e2e_test runs lw against real API servers on loopback and disturbs them.
//
// The servers are built by "go run ./cmd build" in this directory. A test whose server is not built
// is skipped; with LW_E2E_REQUIRED=1 it fails.
package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/relay"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

var cborFlag = flag.Bool("cbor", false, "kube-apiserver has CBOR, and the tests follow it in CBOR, too")

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == servers.RelayArg {
		if err := relay.Main(context.Background(), os.Args[2:], io.Discard); err != nil {
			fmt.Fprintln(os.Stderr, "relay:", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if *cborFlag {
		wires = append(wires, cborWires...)
		faultWires = append(faultWires, cborWires...)
	}
	parallel := false
	flag.Visit(func(f *flag.Flag) { parallel = parallel || f.Name == "test.parallel" })
	if !parallel {
		// Fault tests wait for most of their time.
		flag.Set("test.parallel", "4")
	}
	code := m.Run()
	stopShared()
	os.Exit(code)
}

// patience bounds every wait: for a server that starts, a store that catches up. It is for a busy
// machine; nothing takes a tenth of it on an idle one. It is longer than the longest pause after
// failures in a row, which is a minute, and under the race detector, which makes the client several
// times slower.
const patience = 150 * time.Second * slowdown

// on runs test once for each kind, as a subtest with the kind's name: "go test -run /generic" runs
// those of one kind.
func on(t *testing.T, test func(t *testing.T, kind servers.Kind), kinds ...servers.Kind) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

// running are the servers that the tests without faults use, each in namespaces of its own.
var running struct {
	mu      sync.Mutex
	servers map[string]*servers.Server // guarded by mu, as dirs
	dirs    []string
}

// sharedServer returns the running server of the kind that all tests share.
func sharedServer(t testing.TB, kind servers.Kind) *servers.Server {
	t.Helper()
	running.mu.Lock()
	defer running.mu.Unlock()
	if s := running.servers[kind.Name]; s != nil {
		return s
	}
	dir := rig.Must[string](t)(os.MkdirTemp("", "lw-e2e-"))
	running.dirs = append(running.dirs, dir)
	s, err := servers.New(kind, dir, withCBOR(kind, nil)...)
	required(t, err)
	if err := s.Start(within(t, patience)); err != nil {
		s.Stop()
		t.Fatal(err)
	}
	if running.servers == nil {
		running.servers = map[string]*servers.Server{}
	}
	running.servers[kind.Name] = s
	return s
}

// withCBOR adds CBOR to the flags of a kube-apiserver, if -cbor asks for it.
func withCBOR(kind servers.Kind, args []string) []string {
	if *cborFlag && kind.Name == servers.Kube.Name {
		args = append(args[:len(args):len(args)], cborGate)
	}
	return args
}

func stopShared() {
	running.mu.Lock()
	defer running.mu.Unlock()
	for _, s := range running.servers {
		s.Stop()
	}
	for _, dir := range running.dirs {
		os.RemoveAll(dir)
	}
}

// newServer returns a server for this test alone. It does not start it. It skips the test if the
// server is not built.
func newServer(t testing.TB, kind servers.Kind, args ...string) *servers.Server {
	t.Helper()
	s, err := servers.New(kind, t.TempDir(), withCBOR(kind, args)...)
	required(t, err)
	t.Cleanup(s.Stop)
	return s
}

// startServer is newServer, and starts it.
func startServer(t testing.TB, kind servers.Kind, args ...string) *servers.Server {
	t.Helper()
	s := newServer(t, kind, args...)
	rig.OK(t, s.Start(within(t, patience)))
	return s
}

// shared is sharedServer, and a reader of it as the admin.
func shared(t testing.TB, kind servers.Kind) (*servers.Server, *servers.Reader) {
	t.Helper()
	s := sharedServer(t, kind)
	return s, reader(t, s, "")
}

// started is startServer, and a reader of it as the admin.
func started(t testing.TB, kind servers.Kind, args ...string) (*servers.Server, *servers.Reader) {
	t.Helper()
	s := startServer(t, kind, args...)
	return s, reader(t, s, "")
}

// reader returns a reader of s, with a token or as the admin, until the end of the test.
func reader(t testing.TB, s *servers.Server, token string) *servers.Reader {
	r := s.Reader(token)
	t.Cleanup(r.Close)
	return r
}

// required ends the test if err is not nil. If the reason is a server that is not built, and need
// not be, it skips the test; otherwise the test fails.
func required(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("LW_E2E_REQUIRED") == "" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: ", err)
	}
	t.Fatal(err)
}

// within returns a context that ends after d, and with the test.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
