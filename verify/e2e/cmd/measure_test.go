package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// TestMeasure measures a little of everything. Each way to read must have read every object, and
// every watcher must have had every event.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for an idle server")
	}
	mustBeBuilt(t, servers.Generic)
	var out bytes.Buffer
	cfg := config{out: &out, parts: "lists,ways,questions", rows: regexp.MustCompile("kube.*HTTP/2"), objects: 1200,
		clients: 3, questions: 2}
	rig.OK(t, cfg.run(t.Context()))
	for _, r := range reads {
		m := regexp.MustCompile(`(?m)^\| ` + r.name + ` \| (\d+) `).FindStringSubmatch(out.String())
		// One page of three would have a fraction of it.
		var size int
		if m == nil {
			t.Errorf("no row of %q", r.name)
		} else if fmt.Sscan(m[1], &size); size < 3500 || size > 7000 {
			t.Errorf("%s: %d bytes an object", r.name, size)
		}
	}
	for _, row := range []string{"in its namespace, of a server that has run",
		"in all namespaces, of a server that was restarted"} {
		if !strings.Contains(out.String(), "\n| "+row+" | ") {
			t.Errorf("no row of the question %s:\n%s", row, out.String())
		}
	}
	if !strings.Contains(out.String(), " | 3 | 0 | 0 | ") {
		t.Errorf("not all three lists were served:\n%s", out.String())
	}
	if cfg.parts = "watchers"; cfg.run(t.Context()) == nil {
		t.Error("a part that there is not was measured")
	}
}
