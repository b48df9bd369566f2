// Package lwdebug shows a [lw.Board] over HTTP, as a page for a person and as JSON for a program:
//
//	var b lw.Board // Options.Board of each informer, GraphOptions.Board of each graph
//	http.Handle("/debug/lw", lwdebug.Handler(&b))
//
// It is a package of its own, as net/http/pprof is, so that a program that does not serve the page
// does not have it.
package lwdebug

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/board"
)

// Handler returns a handler that shows b.
//
// It answers a GET or HEAD of any path with the state of all that runs: with a page for a
// person, or with JSON if the query has format=json, or if the request accepts application/json and
// not text/html. The page shows the worst first. It needs no script and loads nothing; the query
// refresh=5 has the browser load it again every 5 seconds.
//
// The JSON is a contract: its fields keep their names and meanings, and new ones may come. Times
// are in the form of RFC 3339, durations in seconds, sizes in bytes, and errors are texts.
//
// Both have names of objects, and texts of errors. Serve them where only those come who may see
// these.
//
// It calls no function of yours, and waits for none: a handler, or a function of a graph, that is
// blocked does not block it.
func Handler(b *lw.Board) http.Handler { return page{b: b} }

// HandlerWithObjects is as [Handler], and also shows objects: who may see the page may then see
// each object of each collection on it, a Secret too. The page asks for a collection and a key. The
// query collection=Pod&key=default/web is answered with the object that readers see at this moment,
// as JSON, or with 404. A collection of a graph is "graph/collection". A MarshalJSON method of the
// object is called.
func HandlerWithObjects(b *lw.Board) http.Handler { return page{b: b, objects: true} }

// Var returns the JSON of [Handler], in one line, as the String method of what it returns. So the
// board can be published: expvar.Publish("lw", lwdebug.Var(b)).
func Var(b *lw.Board) fmt.Stringer { return page{b: b} }

// Healthy returns a handler for a readiness probe. It answers with 200 while g is healthy, as
// [lw.Group.Healthy] says, and else with 503 and what is wrong: names and texts of errors, for
// those who may see these.
func Healthy(g *lw.Group, grace time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if err := g.Healthy(grace); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, "ok") // an error means that nobody listens any more
	})
}

// A page is what Handler, HandlerWithObjects and Var return.
type page struct {
	b       *lw.Board
	objects bool // it shows objects too
}

func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", board.Policy(p.objects))
	h.Set("Vary", "Accept")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	query := r.URL.Query()
	if p.objects && query.Has("key") {
		p.object(w, r.Method, query.Get("collection"), query.Get("key"))
		return
	}
	asJSON, ok := wantsJSON(query.Get("format"), strings.Join(r.Header.Values("Accept"), ","))
	if !ok {
		http.Error(w, "format is html or json", http.StatusBadRequest)
		return
	}
	var body []byte
	if asJSON {
		h.Set("Content-Type", "application/json")
		body = append(p.json(true), '\n')
	} else {
		h.Set("Content-Type", "text/html; charset=utf-8")
		refresh, err := strconv.ParseUint(query.Get("refresh"), 10, 16)
		if err != nil {
			refresh = 0
		}
		body = []byte(report(p.b).Page(int(refresh), p.objects))
	}
	send(w, r.Method, body)
}

// object answers with the object of key in collection.
func (p page) object(w http.ResponseWriter, method, collection, key string) {
	in := lw.Key{Name: key}
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		in = lw.Key{Namespace: namespace, Name: name}
	}
	obj, ok := p.b.Object(collection, in)
	if !ok {
		http.Error(w, fmt.Sprintf("no object %q in a collection %q on this board", key, collection), http.StatusNotFound)
		return
	}
	body, err := json.MarshalIndent(obj, "", "  ")
	if err != nil {
		http.Error(w, fmt.Sprintf("object %q in %q: %v", key, collection, err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	send(w, method, append(body, '\n'))
}

// send sends body, or only says how long it is if method is HEAD.
func send(w http.ResponseWriter, method string, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if method == http.MethodGet {
		w.Write(body) // an error means that nobody listens any more
	}
}

// wantsJSON reports whether the answer should be JSON. ok is false if format is none that there is.
func wantsJSON(format, accept string) (yes, ok bool) {
	switch format {
	case "json":
		return true, true
	case "html":
		return false, true
	case "":
		return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html"), true
	}
	return false, false
}

func (p page) String() string { return string(p.json(false)) }

func (p page) json(indent bool) []byte {
	out, err := report(p.b).JSON(indent)
	if err != nil {
		panic(err) // there is nothing in a report that has no JSON
	}
	return out
}
