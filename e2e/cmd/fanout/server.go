package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-lw/lw/e2e/internal/measure"
	"github.com/go-lw/lw/e2e/internal/servers"
)

// A kind is a server, and how clients talk to it.
type kind struct {
	name    string
	child   string // what this program is when it is the server; "": it is the API server
	tls, h2 bool
}

// A server is a process that is measured.
type server struct {
	kind  kind
	up    *servers.Server
	url   string
	debug string // where its pprof is
	roots *x509.CertPool
	pid   int
	stdin io.WriteCloser // of a child, which ends with it
	wait  func() error
}

// start starts a child, or returns up itself.
func start(ctx context.Context, cfg *config, k kind, up *servers.Server) (*server, error) {
	s := &server{kind: k, up: up, url: up.URL, debug: up.URL, roots: x509.NewCertPool(), pid: up.APIProcess()}
	s.roots.AppendCertsFromPEM(up.CA)
	if k.child == "" {
		return s, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "child", "-as="+k.child, "-upstream="+up.URL, "-dir="+up.Dir, fmt.Sprint("-tls=", k.tls),
		fmt.Sprint("-h2=", k.h2), fmt.Sprint("-protobuf=", cfg.protobuf), fmt.Sprint("-lists=", cfg.lists))
	cmd.Stderr = os.Stderr
	if s.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.pid, s.wait = cmd.Process.Pid, cmd.Wait
	// The child says where it is once it has synced.
	if _, err := fmt.Fscanln(bufio.NewReader(stdout), &s.url, &s.debug); err != nil {
		s.stop()
		return nil, fmt.Errorf("the child says nothing: %w", err)
	}
	return s, nil
}

// stop ends a child.
func (s *server) stop() {
	if s.stdin != nil {
		s.stdin.Close()
		_ = s.wait()
	}
}

// put makes an event for all watchers.
func (s *server) put(ctx context.Context, i int) error {
	if s.kind.child == "write" {
		_, err := fmt.Fprintln(s.stdin, len(largePod(i%100, i)))
		return err
	}
	return s.up.Put(ctx, map[string][]byte{measure.PodKey(namespace, i%100): largePod(i%100, i+1)})
}

// cpu returns the time that the threads of the server have run. It leaves out a thread that ends,
// which those of Go programs do not do.
func (s *server) cpu() (all time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.pid))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("the server has no threads any more (%v)", err)
	}
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		text, _, _ := strings.Cut(string(stat), " ")
		ns, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		all += time.Duration(ns)
	}
	return all, nil
}

// during returns the CPU time of the server, and the time, that f takes.
func (s *server) during(f func() error) (cpu, took time.Duration, err error) {
	from, err := s.cpu()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := f(); err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	to, err := s.cpu()
	return to - from, took, err
}

// status returns a line of the process's status, in bytes.
func (s *server) status(name string) (int64, error) { return measure.ProcessStatus(s.pid, name) }

// A usage is the memory of a server, in bytes.
type usage struct {
	heap      int64
	live      int64 // heap and stacks
	allocated int64 // since the start
}

// memory returns what the server uses after a garbage collection.
func (s *server) memory(ctx context.Context) (usage, error) {
	var m usage
	// Stacks shrink, and pools are emptied, by the second collection.
	for range 2 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.debug+"/debug/pprof/heap?gc=1&debug=1", nil)
		if err != nil {
			return m, err
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots}, DisableKeepAlives: true}}
		resp, err := client.Do(req)
		if err != nil {
			return m, err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return m, err
		}
		found := 0
		for line := range strings.Lines(string(body)) {
			name, value, ok := strings.Cut(strings.TrimPrefix(line, "# "), " = ")
			if !ok {
				continue
			}
			text, _, _ := strings.Cut(strings.TrimSpace(value), " ") // "Stack = inuse / sys"
			n, _ := strconv.ParseInt(text, 10, 64)
			switch name {
			case "HeapAlloc":
				m.heap = n
			case "TotalAlloc":
				m.allocated = n
			case "Stack":
				m.live = m.heap + n
			default:
				continue
			}
			found++
		}
		if found != 3 {
			return m, fmt.Errorf("%s/debug/pprof: %s: not the memory of a Go program", s.debug, resp.Status)
		}
	}
	return m, nil
}

const namespace = "bench"

// largePod returns a pod of 6 kB of JSON, which are 4 kB of protobuf. restarts tells its versions
// apart.
func largePod(i, restarts int) []byte { return measure.Pod(namespace, i, restarts, 32) }

// smallPod returns a pod of 1.3 kB of JSON, which are 0.8 kB of protobuf.
func smallPod(i, restarts int) []byte { return measure.Pod(namespace, i, restarts, 1) }
