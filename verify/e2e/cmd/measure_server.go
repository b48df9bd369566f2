package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/verify/e2e/internal/servers"
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
	pids  []int          // of the server, and of an etcd that works for it alone
	stdin io.WriteCloser // of a child, which ends with it
	wait  func() error
}

// start starts a child, or returns up itself.
func start(ctx context.Context, k kind, up *servers.Server) (*server, error) {
	s := &server{kind: k, up: up, url: up.URL, debug: up.URL, roots: x509.NewCertPool(), pids: []int{up.APIProcess()}}
	s.roots.AppendCertsFromPEM(up.CA)
	if k.child == "" {
		return s, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "child", "-as="+k.child, "-upstream="+up.URL, "-dir="+up.Dir,
		fmt.Sprint("-tls=", k.tls),
		fmt.Sprint("-h2=", k.h2))
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
	s.pids, s.wait = []int{cmd.Process.Pid}, cmd.Wait
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
	return s.up.Put(ctx, map[string][]byte{podKey(i % 100): largePod(i%100, i+1)})
}

// during returns the CPU time of the server, and the time, that f takes.
func (s *server) during(f func() error) (cpu, took time.Duration, err error) {
	from, err := servers.CPU(s.pids...)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := f(); err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	to, err := servers.CPU(s.pids...)
	return to - from, took, err
}

// status returns a line of the process's status, such as VmRSS, in bytes.
func (s *server) status(name string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pids[0]))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("the status of process %d has no %s", s.pids[0], name)
}

// A usage is the memory of a server, in bytes.
type usage struct {
	heap      int64
	live      int64 // heap and stacks
	allocated int64 // since the start
	resident  int64
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
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots},
			DisableKeepAlives: true}}
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
	var err error
	m.resident, err = s.status("VmRSS")
	return m, err
}

const namespace = "bench"

// largePod returns a pod of 6 kB of JSON, which are 4 kB of protobuf. restarts tells its versions
// apart.
func largePod(i, restarts int) []byte { return pod(i, restarts, 32) }

// smallPod returns a pod of 1.3 kB of JSON, which are 0.8 kB of protobuf.
func smallPod(i, restarts int) []byte { return pod(i, restarts, 1) }

// podKey returns the key in etcd of pod i.
func podKey(i int) string {
	return fmt.Sprintf("/registry/pods/%s/pod-%06d", namespace, i)
}

// pod returns pod i as it is put into etcd. restarts tells its versions apart. With each of the
// settings it has more bytes.
func pod(i, restarts, settings int) []byte {
	name := fmt.Sprintf("pod-%06d", i)
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID("uid-" + name),
			Labels: map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop",
				"instance": name},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%100), RestartPolicy: corev1.RestartPolicyAlways,
			DNSPolicy: corev1.DNSClusterFirst},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.%d.%d", i>>8&255, i&255),
			HostIP: "10.0.0.7"},
	}
	for _, container := range []string{"web", "proxy"} {
		c := corev1.Container{Name: container, Image: "images.test/" + container + ":v1.2.3",
			ImagePullPolicy: corev1.PullIfNotPresent}
		for n := range settings {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", n), Value: fmt.Sprintf("the value of %s %d, %s",
				container, n, name)})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container, Ready: true, Image: c.Image, ContainerID: "containerd://" + name + container,
			RestartCount: int32(restarts)})
	}
	data, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return data
}
