//go:build unix

package serve_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-lw/lw"
)

// descriptors is how many files and sockets the server of TestMoreWatchersThanDescriptors may open.
const descriptors = 64

// TestMoreWatchersThanDescriptors: of 100 clients that watch a process with 64 descriptors some
// wait until it has one for them. Those that it has get all events meanwhile, and those that wait
// get all when others have left.
func TestMoreWatchersThanDescriptors(t *testing.T) {
	const inEnv = "LW_TEST_FEW_DESCRIPTORS"
	if os.Getenv(inEnv) != "" {
		serveWithFewDescriptors(t)
		return
	}
	exe, err := os.Executable()
	noErr(t, err)
	child := exec.CommandContext(t.Context(), exe, "-test.run=^TestMoreWatchersThanDescriptors$")
	child.Env = append(os.Environ(), inEnv+"=1")
	child.Stderr = os.Stderr
	command, err := child.StdinPipe()
	noErr(t, err)
	output, err := child.StdoutPipe()
	noErr(t, err)
	noErr(t, child.Start())
	said := bufio.NewScanner(output)
	if !said.Scan() {
		t.Fatal("the server does not say where it is")
	}
	addr := said.Text()

	const watchers, least = 100, descriptors / 2
	type event struct {
		from int
		name string
		err  error
	}
	events := make(chan event, 3*watchers)
	conns := make([]net.Conn, watchers)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		noErr(t, err)
		defer c.Close()
		conns[i] = c
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(c, "GET %s?watch=1&resourceVersion=2 HTTP/1.1\r\nHost: example.com\r\n\r\n", path)
		go func() {
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				events <- event{i, "", err}
				return
			}
			lines := bufio.NewScanner(resp.Body)
			for lines.Scan() {
				_, after, ok := strings.Cut(lines.Text(), `"name":"`)
				if !ok {
					events <- event{i, "", errors.New(lines.Text())}
					return
				}
				name, _, _ := strings.Cut(after, `"`)
				events <- event{i, name, nil}
			}
			if err := lines.Err(); !errors.Is(err, net.ErrClosed) {
				events <- event{i, "", fmt.Errorf("the watch ended: %v", err)}
			}
		}()
	}
	got := map[int][]string{} // by watcher
	next := func() int {
		t.Helper()
		ev := <-events
		if ev.err != nil {
			t.Fatalf("watch %d: %v", ev.from, ev.err)
		}
		got[ev.from] = append(got[ev.from], ev.name)
		return ev.from
	}
	write := func(name string) { fmt.Fprintln(command, name) }

	write("first")
	for len(got) < least {
		next()
	}
	write("second")
	var both []int
	for len(both) < watchers {
		i := next()
		if len(got[i]) < 2 {
			continue
		}
		if names := strings.Join(got[i], " "); names != "first second" {
			t.Fatalf("watch %d got %s", i, names)
		}
		both = append(both, i)
		switch {
		case len(both) == least:
			if len(got) > descriptors {
				t.Fatalf("%d clients were served with %d descriptors", len(got), descriptors)
			}
			for _, i := range both {
				conns[i].Close()
			}
		case len(both) > least:
			conns[i].Close()
		}
	}
	_ = command.Close()
	noErr(t, child.Wait())
}

// serveWithFewDescriptors serves a Memory, to which it writes an object for each name that it
// reads, until there are no more.
func serveWithFewDescriptors(t *testing.T) {
	limit := syscall.Rlimit{Cur: descriptors, Max: descriptors}
	noErr(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	m := lw.NewMemory(newWidget(name("old"), 1))
	run := startMemory(t, transports[1], m)
	fmt.Println(run.srv.Listener.Addr())
	for names := bufio.NewScanner(os.Stdin); names.Scan(); {
		put(t, m.Create, names.Text(), 1)
	}
	run.stop()
}
