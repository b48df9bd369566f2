package lwdebug_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/lwdebug"
)

// A board has a page for a person, and JSON for a program.
func ExampleHandler() {
	server := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 2))
	mux := http.NewServeMux()

	var board lw.Board
	mux.Handle("/debug/lw", lwdebug.Handler(&board))
	widgets := lw.NewInformer(server, &lw.Options{Board: &board})
	graph := lw.NewGraph(&lw.GraphOptions{Board: &board})

	lw.Derive(graph, widgets, rig.SumOf, "notes")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go widgets.Run(ctx)
	go graph.Run(ctx)
	if err := graph.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}

	// What curl would show of the JSON.
	debug := httptest.NewServer(mux)
	defer debug.Close()
	response, err := http.Get(debug.URL + "/debug/lw?format=json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		for _, field := range []string{`"name"`, `"state"`, `"objects"`} {
			if line := strings.TrimSpace(lines.Text()); strings.HasPrefix(line, field) && !strings.HasSuffix(line, "[]") {
				fmt.Println(line)
			}
		}
	}

	// Output:
	// "name": "Widget",
	// "state": "ok",
	// "objects": 2,
	// "name": "graph",
	// "state": "ok",
	// "name": "notes",
	// "state": "ok",
	// "objects": 2,
}

// A readiness probe asks a group.
func ExampleHealthy() {
	server := lw.NewMemory(rig.NewWidget("a", 1))
	var group lw.Group
	group.Add(lw.NewInformer(server, nil))
	mux := http.NewServeMux()
	mux.Handle("/readyz", lwdebug.Healthy(&group, time.Minute))
	probe := func() {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		fmt.Println(answer.Code, strings.TrimSpace(answer.Body.String()))
	}

	probe()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go group.Run(ctx)
	if err := group.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	probe()

	// Output:
	// 503 lw: Widget: not synced, since Run has not been called
	// 200 ok
}
