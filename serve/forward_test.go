package serve_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// While a relay is newer than its server, nobody is sent there: who came back with the version of
// another history would be told of what that history does not have.
func TestForwardToAnOlderServer(t *testing.T) {
	forwarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) })
	inBubble(t, serve.Options{Forward: forwarded}, func(b *bubble) {
		m := lw.NewMemory(newWidget(name("a"), 1))
		b.relay(m, widgets)
		if _, err := m.Create(newWidget(name("b"), 1)); err != nil {
			b.t.Fatal(err)
		}
		synctest.Wait()
		if err := m.Rewind("2"); err != nil {
			b.t.Fatal(err)
		}
		synctest.Wait()
		if got, body := b.do("GET", path, ""); got != http.StatusGatewayTimeout {
			b.t.Errorf("a list of the newest state: %d, want 504: %s", got, body)
		}
		time.Sleep(time.Minute)
		if got, body := b.do("GET", path, ""); got != http.StatusOK {
			b.t.Errorf("the same a minute later: %d: %s", got, body)
		}
	})
}
