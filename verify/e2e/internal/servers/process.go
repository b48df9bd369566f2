package servers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A process is a child that dies with this program.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the process has ended
}

// spawn starts bin. Its output is appended to the file log.
func spawn(log, bin string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{cmd: exec.Command(bin, args...), log: log, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	// Start it in its own process group: an interrupt from the terminal must reach only the tests,
	// which then stop their servers in the right order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel sends Pdeathsig when the thread ends that started the child. So this thread
		// must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// running reports whether p was started and has not ended.
func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends sig to p if it runs. After SIGKILL it waits until p has ended. After SIGSTOP it
// waits until all threads of p have stopped: on a busy machine they go on for a while, and still
// answer.
func (p *process) signal(sig syscall.Signal) {
	if !p.running() {
		return
	}
	p.cmd.Process.Signal(sig)
	switch sig {
	case syscall.SIGKILL:
		<-p.done
	case syscall.SIGSTOP:
		for deadline := time.Now().Add(5 * time.Second); !p.stopped() && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
	}
}

// stopped reports whether every thread of p has stopped. It reads /proc; where there is none it
// returns true.
func (p *process) stopped() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.pid()))
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		// The state is the first letter after the program's name. The name is in parentheses, and
		// may contain parentheses itself, so look for the last one.
		if _, state, ok := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " "); ok && state[0] != 'T' {
			return false
		}
	}
	return true
}

// CPU returns the time that the threads of processes have run. It leaves out a thread that ends,
// which those of Go programs do not do.
func CPU(pids ...int) (all time.Duration, err error) {
	for _, pid := range pids {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err != nil || len(threads) == 0 {
			return 0, fmt.Errorf("servers: process %d has no threads any more (%v)", pid, err)
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
	}
	return all, nil
}

// await calls ready every 20 ms until it returns nil. It fails when p or ctx ends.
func (p *process) await(ctx context.Context, ready func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := ready(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("servers: %s ended early, see %s: %s", p.cmd.Path, p.log, tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("servers: %s is not ready: %w, see %s: %s (%v)", p.cmd.Path, ctx.Err(), p.log, tail(p.log), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func tail(file string) string {
	content, _ := os.ReadFile(file)
	return string(content[max(0, len(content)-2000):])
}
