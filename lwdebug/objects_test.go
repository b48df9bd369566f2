package lwdebug_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwdebug"
)

// secretive has no JSON.
type secretive struct{ lw.Meta }

func (*secretive) MarshalJSON() ([]byte, error) { return nil, errors.New("no JSON of this") }

// TestObjects: the objects of informers and of graphs' collections are found by their keys, with a
// handler that shows objects and with no other.
func TestObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		widgets := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1), &rig.Widget{Meta: lw.Meta{Name: "global"}, Size: 2}),
			&lw.Options{Board: &b})
		others := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 3)), &lw.Options{Board: &b})
		secrets := lw.NewInformer(lw.NewMemory(&secretive{lw.Meta{Name: "a"}}), &lw.Options{Board: &b, Name: "a/b"})
		graph := lw.NewGraph(&lw.GraphOptions{Board: &b})
		lw.Derive(graph, widgets, func(*rig.Widget) *rig.Sum { return nil }, "notes")
		lw.Derive(graph, widgets, rig.SumOf, "notes")
		reflector := lw.NewReflector(lw.NewMemory(rig.NewWidget("a", 1)), lw.NewIndexer[*rig.Widget](),
			&lw.Options{Board: &b, Name: "sink"})
		rig.Start(t, widgets)
		synctest.Wait() // it is on the board before others, whose name is then "Widget#2"
		rig.Start(t, others)
		rig.Start(t, secrets)
		rig.Start(t, reflector)
		stop := rig.Begin(t, graph)

		with, without := lwdebug.HandlerWithObjects(&b), lwdebug.Handler(&b)
		for query, want := range map[string]string{
			"collection=Widget&key=default/a":            `200 {"Namespace":"default","Name":"a","Size":1}`,
			"collection=Widget&key=global":               `200 {"Namespace":"","Name":"global","Size":2}`,
			"collection=Widget%232&key=default%2Fa":      `200 {"Namespace":"default","Name":"a","Size":3}`,
			"collection=graph/notes&key=default/a":       `200 {"Namespace":"default","Name":"a","Sum":1}`,
			"collection=graph/notes&key=default/b":       `404 no object "default/b" in a collection "graph/notes" on this board`,
			"collection=graph/others&key=default/a":      `404 no object "default/a" in a collection "graph/others" on this board`,
			"collection=graph&key=default/a":             `404 no object "default/a" in a collection "graph" on this board`,
			"collection=sink&key=default/a":              `404 no object "default/a" in a collection "sink" on this board`,
			"collection=Widget&key=a":                    `404 no object "a" in a collection "Widget" on this board`,
			"collection=Widget&key=":                     `404 no object "" in a collection "Widget" on this board`,
			"key=default/a":                              `404 no object "default/a" in a collection "" on this board`,
			"collection=a/b&key=a":                       `500 object "a" in "a/b": json: error calling MarshalJSON for type *lwdebug_test.secretive: no JSON of this`,
			"collection=%3Cscript%3E&key=%3Cscript%3E/a": `404 no object "<script>/a" in a collection "<script>" on this board`,
		} {
			r := ask(with, "GET", "/debug/lw?"+query)
			text := strings.TrimSpace(body(t, r))
			kind := r.Header.Get("Content-Type")
			if r.StatusCode == http.StatusOK {
				var got struct {
					Namespace, Name string
					Size, Sum       int `json:",omitempty"`
				}
				if err := json.Unmarshal([]byte(text), &got); err != nil {
					t.Errorf("%s: %v", query, err)
				}
				short := rig.Must[[]byte](t)(json.Marshal(got))
				text, kind = string(short), strings.Replace(kind, "json", "text", 1)
			}
			rig.Same(t, query, want, fmt.Sprint(r.StatusCode, " ", text))
			if kind != "application/text" && kind != "text/plain; charset=utf-8" ||
				r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: header %v", query, r.Header)
			}
			if head := ask(with, "HEAD", "/debug/lw?"+query); head.StatusCode != r.StatusCode {
				t.Errorf("HEAD of %s: %d", query, head.StatusCode)
			}
			if off := ask(without, "GET", "/debug/lw?"+query); off.StatusCode != http.StatusOK ||
				!strings.HasPrefix(off.Header.Get("Content-Type"), "text/html") {
				t.Errorf("%s: a handler without objects answers %d, %v", query, off.StatusCode, off.Header)
			}
		}
		if r := ask(with, "HEAD", "/debug/lw?collection=Widget&key=global"); body(t, r) != "" || r.ContentLength <= 0 {
			t.Errorf("HEAD of an object: a body, or no length: %d", r.ContentLength)
		}
		if r := ask(with, "POST", "/debug/lw?collection=Widget&key=global"); r.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST of an object: %d", r.StatusCode)
		}

		// The page has a form, and may send it.
		page := ask(with, "GET", "/debug/lw?")
		var options, fields []string
		for _, e := range elements(t, body(t, page)) {
			switch e.Name.Local {
			case "option":
				options = append(options, "")
			case "select", "input":
				fields = append(fields, value(e, "name"))
			}
		}
		if len(options) != 5 || !cmp.Equal([]string{"collection", "key"}, fields) {
			t.Errorf("the form has %d collections and the fields %v", len(options), fields)
		}
		if policy := page.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self'") {
			t.Errorf("the policy is %s", policy)
		}
		page = ask(without, "GET", "/debug/lw?")
		if text := body(t, page); strings.Contains(text, "<form") ||
			!strings.Contains(page.Header.Get("Content-Security-Policy"), "form-action 'none'") {
			t.Errorf("a handler without objects has a form, or may send one: %v", page.Header)
		}

		stop()
		if r := ask(with, "GET", "/debug/lw?collection=graph/notes&key=default/a"); r.StatusCode != http.StatusNotFound {
			t.Errorf("of a graph that has ended: %d", r.StatusCode)
		}
	})
}

// What an informer has under a key, for those who may see all objects.
func ExampleHandlerWithObjects() {
	var board lw.Board
	debug := http.NewServeMux()
	debug.Handle("/debug/lw", lwdebug.HandlerWithObjects(&board))

	widgets := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), &lw.Options{Board: &board})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go widgets.Run(ctx)
	if err := widgets.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}

	answer := httptest.NewRecorder()
	debug.ServeHTTP(answer, httptest.NewRequest("GET", "/debug/lw?collection=Widget&key=default/a", nil))
	var got rig.Widget
	fmt.Println(json.Unmarshal(answer.Body.Bytes(), &got), got.Name, got.Size)

	// Output:
	// <nil> a 1
}
