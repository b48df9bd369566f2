package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/e2e/internal/servers"
)

// A meter reads what the process of a server uses.
type meter struct{ s *servers.Server }

// cpu returns the CPU time that the server has used.
func (m *meter) cpu() (time.Duration, error) { return cpuOf(m.s.APIProcess()) }

func cpuOf(process int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
	if err != nil {
		return 0, err
	}
	// The name of the program may have spaces; it ends with the last parenthesis.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const userTime, systemTime, tick = 11, 12, 10 * time.Millisecond
	user, err := strconv.ParseInt(fields[userTime], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[systemTime], 10, 64)
	return time.Duration(user+system) * tick, err
}

func (m *meter) rss() (int64, error) { return m.status("VmRSS:") }

// allocated returns how many bytes the server has allocated so far.
func (m *meter) allocated(ctx context.Context) (float64, error) {
	r := m.s.Reader("")
	defer r.Close()
	metrics, err := r.Get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(metrics)) {
		if value, ok := strings.CutPrefix(line, "go_memstats_alloc_bytes_total "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.New("the server's metrics have no go_memstats_alloc_bytes_total")
}

// status returns a line of the process's status in bytes.
func (m *meter) status(name string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.s.APIProcess()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("the status of the server has no %s", name)
}

// seed writes n pods directly into etcd, before the server starts.
func seed(ctx context.Context, s *servers.Server, n int) error {
	values := map[string][]byte{}
	for i := range n {
		values[objectPath(i)] = pod(i, 0)
	}
	return s.Put(ctx, values)
}

func objectPath(i int) string { return fmt.Sprintf("/registry/pods/cost/pod-%06d", i) }

// pod returns pod i as etcd has it: about 5 KiB of protobuf in a watch. restarts tells its versions
// apart.
func pod(i, restarts int) []byte {
	name := fmt.Sprintf("pod-%06d", i)
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "cost", Name: name, UID: types.UID("uid-" + name),
			Labels:      map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop", "instance": name},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
		},
		Spec:   corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%100), RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.%d.%d", i>>8&255, i&255), HostIP: "10.0.0.7"},
	}
	for _, container := range []string{"web", "proxy"} {
		c := corev1.Container{Name: container, Image: "images.test/" + container + ":v1.2.3", ImagePullPolicy: corev1.PullIfNotPresent}
		for n := range 38 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", n), Value: fmt.Sprintf("the value of %s %d, %s", container, n, name)})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container, Ready: true, Image: c.Image, ContainerID: "containerd://" + name + container, RestartCount: int32(restarts)})
	}
	data, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return data
}
