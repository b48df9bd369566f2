package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-lw/lw/e2e/internal/servers"
)

// TestRun measures a little of everything. Each way to read must have read every object, and every
// watcher must have had every event.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for an idle server")
	}
	if _, err := servers.Generic.Binaries(); err != nil {
		if os.Getenv("LW_E2E_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	var out bytes.Buffer
	cfg := config{objects: 1200, rounds: 1, watchers: 5, events: 3, questions: 2}
	if err := run(t.Context(), &out, cfg); err != nil {
		t.Fatal(err)
	}
	for _, r := range reads {
		m := regexp.MustCompile(`(?m)^\| ` + r.name + ` \| (\d+) `).FindStringSubmatch(out.String())
		if m == nil {
			t.Errorf("no row of %q", r.name)
			continue
		}
		// One page of three would have a fraction of it.
		var size int
		if fmt.Sscan(m[1], &size); size < 3500 || size > 7000 {
			t.Errorf("%s: %d bytes an object", r.name, size)
		}
	}
	for _, row := range []string{"in its namespace, of a server that has run", "in all namespaces, of a server that was restarted"} {
		if !strings.Contains(out.String(), "\n| "+row+" | ") {
			t.Errorf("no row of the question %s:\n%s", row, out.String())
		}
	}
	if got := strings.Count(out.String(), "15 of 15 deliveries"); got != 3 {
		t.Errorf("%d times had all watchers all events, want 3:\n%s", got, out.String())
	}
}
