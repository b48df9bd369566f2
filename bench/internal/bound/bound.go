// Package bound has processes killed that take more memory than they may.
package bound

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A group is a kind of memory cgroup: where one is made, and the file of its limit.
type group struct{ root, limit string }

var groups = []group{
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, // version 1
	{"/sys/fs/cgroup", "memory.max"},
}

func (g group) folder(pid int) string { return filepath.Join(g.root, fmt.Sprint("lw-bound-", pid)) }

// Enter has the kernel kill this process, and what it executes, if it takes more than so many
// bytes: in a memory cgroup, which [Release] removes. It returns an error where none can be made,
// and somebody has to [Watch].
func Enter(bytes int64) error {
	pid := os.Getpid()
	var failed error
	for _, g := range groups {
		err := g.enter(pid, bytes)
		if err == nil {
			return nil
		}
		_ = os.Remove(g.folder(pid))
		failed = errors.Join(failed, err)
	}
	return fmt.Errorf("bound: no cgroup can be made: %w", failed)
}

// Possible reports whether a cgroup can be made.
func Possible() bool {
	for _, g := range groups {
		folder := g.folder(0)
		if _, err := os.Stat(filepath.Join(g.root, "cgroup.procs")); err != nil || os.Mkdir(folder, 0o755) != nil {
			continue
		}
		_, err := os.Stat(filepath.Join(folder, g.limit))
		_ = os.Remove(folder)
		if err == nil {
			return true
		}
	}
	return false
}

// Peak returns the most that the process has had in memory at any time, in bytes.
func Peak(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("bound: no VmHWM of process %d", pid)
}

// Watch kills the process once it has taken more than so many bytes, and returns when it has ended.
func Watch(pid int, bytes int64) {
	for ; ; time.Sleep(time.Millisecond) {
		if peak, err := Peak(pid); err != nil {
			return
		} else if peak > bytes {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Killed reports whether err is the end of a process that somebody has killed.
func Killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signal() == syscall.SIGKILL
}

func (g group) enter(pid int, bytes int64) error {
	folder := g.folder(pid)
	if _, err := os.Stat(filepath.Join(g.root, "cgroup.procs")); err != nil {
		return err // it is no cgroup: a folder would only be a folder
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	for _, w := range []struct{ file, text string }{
		{g.limit, strconv.FormatInt(bytes, 10)}, {"cgroup.procs", strconv.Itoa(pid)},
	} {
		if err := os.WriteFile(filepath.Join(folder, w.file), []byte(w.text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Release removes the groups of processes that have ended.
func Release() {
	for _, g := range groups {
		all, _ := filepath.Glob(filepath.Join(g.root, "lw-bound-*"))
		for _, folder := range all {
			_ = os.Remove(folder) // one with a process in it stays
		}
	}
}
