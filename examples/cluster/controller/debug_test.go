package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// get returns the body of what h answers, which has to be a 200.
func get(t *testing.T, h http.Handler, path string) string {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
	if answer.Code != 200 {
		t.Fatalf("%s: %d: %s", path, answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// A boardInformer is a part of what the JSON of a board says of an informer.
type boardInformer struct {
	Name, Phase string
	Synced      bool
	Objects     int
}

// informersOf reads the JSON of a board.
func informersOf(t *testing.T, text string) []boardInformer {
	t.Helper()
	var report struct{ Informers []boardInformer }
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return report.Informers
}

// watching is what a board says of a controller of two websites with three pages.
var watching = []boardInformer{
	{Name: "ConfigMap", Phase: "watching", Synced: true, Objects: 3},
	{Name: "Website", Phase: "watching", Synced: true, Objects: 2},
}

// The page, its JSON and the metrics show the informers while the controller runs, and not after.
func TestDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.Close()
		for name, pages := range map[string]map[string]string{"a": {"home": "1", "more": "2"}, "b": {"home": "3"}} {
			write(t, w, name, pages)
		}
		current, stop := start(t, w)
		time.Sleep(time.Minute)
		h := current().Debug()
		for _, path := range []string{"/?format=json", "/debug/lw?format=json"} {
			if diff := cmp.Diff(watching, informersOf(t, get(t, h, path))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		}
		if page := get(t, h, "/"); !strings.Contains(page, "<html") || !strings.Contains(page, "Website") {
			t.Errorf("the page is %s", page)
		}
		metrics := get(t, h, "/metrics")
		for _, line := range []string{
			`lw_informer_synced{informer="Website"} 1`,
			`lw_informer_synced{informer="ConfigMap"} 1`,
			`lw_informer_objects{informer="Website"} 2`,
			`lw_informer_objects{informer="ConfigMap"} 3`,
			`lw_handler_pending{collection="",graph="",handler="Enqueue",informer="ConfigMap"} 0`,
			`lw_handler_calls_total{collection="",graph="",handler="Enqueue",informer="ConfigMap",type="added"} 3`,
			`workqueue_depth{name="websites"} 0`,
		} {
			if !strings.Contains(metrics, line+"\n") {
				t.Errorf("no %s in the metrics", line)
			}
		}
		for _, of := range []string{"\ngo_goroutines ", "\nprocess_start_time_seconds "} {
			if !strings.Contains(metrics, of) {
				t.Errorf("no %s in the metrics", strings.TrimSpace(of))
			}
		}
		if t.Failed() {
			t.Log(metrics)
		}
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest("GET", "/nothing", nil))
		if answer.Code != 404 {
			t.Errorf("/nothing: %d, want 404", answer.Code)
		}

		stop()
		if left := informersOf(t, get(t, h, "/?format=json")); len(left) > 0 {
			t.Errorf("after the stop the board has %+v", left)
		}
		if metrics := get(t, h, "/metrics"); strings.Contains(metrics, "lw_") {
			t.Errorf("after the stop the metrics are %s", metrics)
		}
	})
}

// A pipeListener is a listener in memory, since a bubble cannot wait for a real one.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newPipeListener() *pipeListener {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.close(); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv6zero, Port: 8080} }

// dial is an http.Transport.DialContext.
func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// With a debug listener, the controller of the demo goes on until Ctrl-C.
func TestDemoDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		l := newPipeListener()
		var out strings.Builder
		ended := make(chan error, 1)
		go func() { ended <- demo(ctx, io.MultiWriter(&out, t.Output()), l) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("the demo has ended: %v", err)
		default:
		}
		client := &http.Client{Transport: &http.Transport{DialContext: l.dial, DisableKeepAlives: true}}
		answer, err := client.Get("http://localhost:8080/?format=json")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		want := []boardInformer{ // of the bakery and the zoo
			{Name: "ConfigMap", Phase: "watching", Synced: true, Objects: 4},
			{Name: "Website", Phase: "watching", Synced: true, Objects: 2},
		}
		if diff := cmp.Diff(want, informersOf(t, string(body))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		interrupt()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if want := "goes on until Ctrl-C: look at http://localhost:8080/\n"; !strings.Contains(out.String(), want) {
			t.Errorf("the demo did not say %q", want)
		}
		if _, err := client.Get("http://localhost:8080/"); err == nil {
			t.Error("the page is still served after the end")
		}
	})
}

// An address that is taken is an error that names the flag and the address.
func TestListen(t *testing.T) {
	first, err := listen("debug", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	address := first.Addr().String()
	if want, got := "http://"+address+"/", url(first); got != want {
		t.Errorf("url is %s, want %s", got, want)
	}
	second, err := listen("debug", address)
	if err == nil {
		second.Close()
		t.Fatal("listening twice on one address works")
	}
	if !strings.HasPrefix(err.Error(), "-debug "+address+": ") {
		t.Errorf("the error is %v", err)
	}
	if none, err := listen("debug", ""); none != nil || err != nil {
		t.Errorf("without an address: %v, %v", none, err)
	}
}

// In an hour in which somebody writes a Website now and then, no key runs in a loop.
func TestNoLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.Close()
		current, stop := start(t, w)
		defer stop()
		for i := range 600 {
			write(t, w, fmt.Sprint("site-", i%3), map[string]string{"home": fmt.Sprint(i), fmt.Sprint(i % 5): "more"})
			time.Sleep(time.Duration(i%12) * time.Second)
		}
		var report struct {
			Controllers []struct {
				Runs  int
				Loops []any
			}
		}
		if err := json.Unmarshal([]byte(get(t, current().Debug(), "/?format=json")), &report); err != nil {
			t.Fatal(err)
		}
		if len(report.Controllers) != 1 || report.Controllers[0].Runs < 600 || len(report.Controllers[0].Loops) > 0 {
			t.Errorf("%+v", report)
		}
	})
}
