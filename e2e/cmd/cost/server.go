package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-lw/lw/e2e/internal/measure"
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

func (m *meter) rss() (int64, error) { return m.status("VmRSS") }

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
	return measure.ProcessStatus(m.s.APIProcess(), name)
}

// seed writes n pods directly into etcd, before the server starts.
func seed(ctx context.Context, s *servers.Server, n int) error {
	values := map[string][]byte{}
	for i := range n {
		values[objectPath(i)] = pod(i, 0)
	}
	return s.Put(ctx, values)
}

const namespace = "cost"

func objectPath(i int) string { return measure.PodKey(namespace, i) }

// pod returns pod i as etcd has it: about 5 KiB of protobuf in a watch. restarts tells its versions
// apart.
func pod(i, restarts int) []byte { return measure.Pod(namespace, i, restarts, 38) }
