package serve_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// A trickle is a connection from which a few bytes are read at a time.
type trickle struct{ net.Conn }

func (c trickle) Read(p []byte) (int, error) { return c.Conn.Read(p[:min(len(p), 999)]) }

// An event of 5 MiB, which is more than any buffer between, comes whole to a client that reads a
// little at a time; and so does what follows it. A client that goes away in the middle of the
// initial events delays nobody, and leaves nothing behind (TestMain looks for goroutines).
func TestLargeEvent(t *testing.T) {
	const size = 5 << 20
	for _, tr := range transports[:3] {
		t.Run(tr.name, func(t *testing.T) {
			m := lw.NewMemory[*Widget]()
			run := startMemory(t, tr, m)
			defer run.stop()
			large := longWidget("large", 1, size)
			created, err := m.Create(t.Context(), large)
			noErr(t, err)
			gone := dial(t, run.srv, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
			noErr(t, second(io.ReadFull(gone, make([]byte, 1000))))
			_ = gone.Close()

			slow := dial(t, run.srv, "resourceVersion="+created.ResourceVersion)
			defer slow.Close()
			large.Size = 2
			small := newWidget(lw.Key{Namespace: "n", Name: "small"}, 3)
			store(t, m.Update, large)
			store(t, m.Create, small)
			resp, err := http.ReadResponse(bufio.NewReader(trickle{slow}), nil)
			noErr(t, err)
			lines := bufio.NewReader(resp.Body)
			for _, want := range []string{`"large"`, `"small"`} {
				line, err := lines.ReadString('\n')
				if err != nil || !strings.Contains(line, want) {
					t.Fatalf("%v: %.200s, want an event of %s", err, line, want)
				}
				if want == `"large"` && !strings.Contains(line, large.Labels["long"]) {
					t.Errorf("the large event has %d bytes", len(line))
				}
			}
		})
	}
}

// An authorizer that panics fails its request alone, and one that blocks delays nobody else.
func TestAuthorizeMisbehaves(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			release := make(chan struct{})
			authorize := func(_ *http.Request, a serve.Attributes) error {
				switch a.Name {
				case "panics":
					panic("no answer")
				case "blocks":
					<-release
				}
				return nil
			}
			m := lw.NewMemory(newWidget(lw.Key{Namespace: "n", Name: "fine"}, 1))
			run := handleMemory(t, serve.Options{Authorize: authorize}, m, widgets).on(t, tr)
			defer run.stop()
			get := func(name string) (int, error) {
				resp, err := run.srv.Client().Get(run.srv.URL + "/apis/example.io/v1/namespaces/n/widgets/" + name)
				if err != nil {
					return 0, err
				}
				defer resp.Body.Close()
				_, err = io.Copy(io.Discard, resp.Body)
				return resp.StatusCode, err
			}
			blocked := make(chan int, 1)
			go func() { code, _ := get("blocks"); blocked <- code }()
			for range 3 {
				if code, err := get("panics"); err == nil && code != http.StatusInternalServerError {
					t.Errorf("an authorizer that panics: %d", code)
				}
				if code, err := get("fine"); err != nil || code != http.StatusOK {
					t.Errorf("beside it: %d %v", code, err)
				}
			}
			close(release)
			if code := <-blocked; code != http.StatusNotFound {
				t.Errorf("an authorizer that blocked: %d, want 404: there is no such object", code)
			}
		})
	}
}
