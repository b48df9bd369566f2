package board

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-lw/lw/internal/board/markup"
)

// style is the style sheet. It has no "<" and no "&", so that the page is well-formed.
//
//go:embed page.css
var style string

// Policy returns the Content-Security-Policy of the page. It allows the page's own style sheet, the
// form of a page that shows objects, and nothing else: no script, and nothing to load.
func Policy(objects bool) string {
	sum, forms := sha256.Sum256([]byte(style)), "'none'"
	if objects {
		forms = "'self'"
	}
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action " + forms + "; frame-ancestors 'none'"
}

// A page is a document that is being written.
type page struct {
	markup.Writer
	now time.Time
}

// attr is short for an attribute.
func attr(name markup.Name, value string) markup.Attr { return markup.Attr{Name: name, Value: value} }

func class(names string) markup.Attr { return attr("class", names) }

// Page returns the report as a page of HTML, which is well-formed XML too. It loads nothing and
// runs no script. If refresh is not 0, the browser loads the page again after so many seconds. If
// objects is true, a form asks for the collection and the key of an object.
func (r *Report) Page(refresh int, objects bool) string {
	p := &page{now: r.Time}
	verdict := r.verdict()
	p.Verbatim("<!DOCTYPE html>\n")
	p.Open("html", attr("lang", "en"))
	p.Open("head")
	p.Void("meta", attr("charset", "utf-8"))
	p.Void("meta", attr("name", "viewport"), attr("content", "width=device-width, initial-scale=1"))
	p.Void("meta", attr("name", "color-scheme"), attr("content", "light dark"))
	if refresh > 0 {
		p.Void("meta", attr("http-equiv", "refresh"), attr("content", strconv.Itoa(refresh)))
	}
	p.Element("title", verdict+" · "+r.Process.Program)
	p.Open("style")
	p.Verbatim(style)
	p.Close()
	p.Close()
	p.Line()
	p.Open("body")
	p.header(r, verdict, refresh)
	p.Open("main")
	if len(r.Informers)+len(r.Graphs)+len(r.Controllers) == 0 {
		p.Element("p", "Nothing runs on this board. An informer is on it from the beginning to the end of its Run "+
			"if its Options.Board is this board, and a graph if its GraphOptions.Board is.")
	}
	p.informers(r.Informers)
	for _, g := range worstFirst(r.Graphs, func(g Graph) State { return g.State }) {
		p.graph(&g)
	}
	p.controllers(r.Controllers)
	if objects {
		p.find(r.collections())
	}
	p.Close()
	p.Close()
	p.Close()
	p.Line()
	return p.String()
}

// collections returns the names under which objects are found, in the order of the report.
func (r *Report) collections() []string {
	var names []string
	for _, inf := range r.Informers {
		if inf.Kind == KindInformer {
			names = append(names, inf.Name)
		}
	}
	for _, g := range r.Graphs {
		for _, c := range g.Collections {
			names = append(names, g.Name+"/"+c.Name)
		}
	}
	return names
}

// find writes the form that asks for an object in one of the collections.
func (p *page) find(collections []string) {
	if len(collections) == 0 {
		return
	}
	p.Open("section")
	p.Element("h2", "An object")
	p.Open("form", attr("method", "get"), class("find"))
	p.Open("label")
	p.Text("Collection ")
	p.Open("select", attr("name", "collection"))
	for _, name := range collections {
		p.Element("option", name)
	}
	p.Close()
	p.Close()
	p.Open("label")
	p.Text("Key ")
	p.Void("input", attr("name", "key"), attr("required", "required"), attr("placeholder", "namespace/name"))
	p.Close()
	p.Element("button", "Show")
	p.Close()
	p.Close()
	p.Line()
}

// worstFirst returns all in the order of their states, and those of one state as they were.
func worstFirst[E any](all []E, state func(E) State) []E {
	return slices.SortedStableFunc(slices.Values(all), func(a, b E) int { return cmp.Compare(state(a).rank(), state(b).rank()) })
}

// tally counts the informers, graphs and controllers in each state.
func (r *Report) tally() map[State]int {
	n := map[State]int{}
	for _, inf := range r.Informers {
		n[inf.State]++
	}
	for _, g := range r.Graphs {
		n[g.State]++
	}
	for _, c := range r.Controllers {
		n[c.State]++
	}
	return n
}

// verdict says in a few words how things are.
func (r *Report) verdict() string {
	tally, all, troubled := r.tally(), len(r.Informers)+len(r.Graphs)+len(r.Controllers), 0
	for state, n := range tally {
		if state.troubled() {
			troubled += n
		}
	}
	switch {
	case all == 0:
		return "Nothing runs"
	case troubled == 1:
		return "1 of " + number(all) + " needs a look"
	case troubled > 0:
		return number(troubled) + " of " + number(all) + " need a look"
	case tally[OK] == all:
		return "All in step"
	}
	return number(tally[OK]) + " of " + number(all) + " in step"
}

// header writes what is true of the program as a whole.
func (p *page) header(r *Report, verdict string, refresh int) {
	p.Open("header")
	where := r.Process.Program
	if r.Process.Host != "" {
		where += " on " + r.Process.Host
	}
	p.Open("p", class("when"))
	p.Element("span", where)
	p.Open("span")
	p.Element("time", r.Time.Format("2006-01-02 15:04:05 UTC"), attr("datetime", r.Time.Format(time.RFC3339Nano)))
	p.Text(" · ")
	if refresh > 0 {
		p.Text("every " + strconv.Itoa(refresh) + " s · ")
		p.Element("a", "stop", attr("href", "?"))
	} else {
		p.Element("a", "every 5 s", attr("href", "?refresh=5"))
	}
	p.Text(" · ")
	p.Element("a", "JSON", attr("href", "?format=json"))
	p.Close()
	p.Close()
	p.Element("h1", verdict)
	tally := r.tally()
	if len(tally) > 0 {
		p.Open("ul", class("tally"))
		for _, state := range states {
			if n := tally[state]; n > 0 {
				p.Open("li", class(string(state)))
				p.mark(state)
				p.Text(number(n) + " " + state.word())
				p.Close()
			}
		}
		p.Close()
	}
	p.Open("dl", class("facts"))
	p.fact("Heap after the last GC", size(r.Process.HeapLive))
	p.fact("Heap now", size(r.Process.Heap))
	memory := size(r.Process.Memory)
	if r.Process.Limit > 0 {
		memory += " of " + size(r.Process.Limit)
	}
	p.fact("Memory of the runtime", memory)
	p.fact("Goroutines", number(r.Process.Goroutines))
	p.fact("Go", strings.TrimPrefix(r.Process.Go, "go"))
	p.Close()
	p.Close()
	p.Line()
}

// fact writes a name and its value, in a dl.
func (p *page) fact(name, value string) {
	p.Open("div")
	p.Element("dt", name)
	p.Element("dd", value)
	p.Close()
}

// word is what the page calls the state.
func (s State) word() string {
	if s == OK {
		return "in step"
	}
	return string(s)
}

// outline returns that of the state's mark, in a square of 12. The marks differ without colour.
func (s State) outline() string {
	switch s {
	case Failing: // a triangle
		return "M6 .6 11.8 11H.2z"
	case Incomplete: // a diamond
		return "M6 0 12 6 6 12 0 6z"
	case Conflict: // a cross
		return "M2.2 0 6 3.8 9.8 0 12 2.2 8.2 6 12 9.8 9.8 12 6 8.2 2.2 12 0 9.8 3.8 6 0 2.2z"
	case Looping: // a ring that is cut
		return "M6 .5a5.5 5.5 0 1 0 5.5 5.5h-2A3.5 3.5 0 1 1 6 2.5V5l4-3.3L6-1z"
	case Behind: // an hourglass
		return "M1.5 0h9v2L7.4 6l3.1 4v2h-9v-2l3.1-4-3.1-4z"
	case Retrying: // a circle that is half full
		return "M6 .5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 1 1 0-11zM6 2v8a4 4 0 1 0 0-8z"
	case Stopping: // a square
		return "M1 1h10v10H1z"
	case Waits: // a dash
		return "M1 5h10v2H1z"
	case Syncing: // a ring
		return "M6 .5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 1 1 0-11zM6 2.1a3.9 3.9 0 1 0 0 7.8 3.9 3.9 0 1 0 0-7.8z"
	}
	return "M6 1a5 5 0 1 1 0 10A5 5 0 1 1 6 1z" // a full circle
}

// mark draws the mark of state. The word beside it says the same.
func (p *page) mark(state State) {
	p.Open("svg", attr("width", "12"), attr("height", "12"), attr("viewBox", "0 0 12 12"), attr("aria-hidden", "true"))
	p.Void("path", attr("fill", "currentColor"), attr("fill-rule", "evenodd"), attr("d", state.outline()))
	p.Close()
	p.Text(" ")
}

// ago writes how long ago at was.
func (p *page) ago(at time.Time) {
	if at.IsZero() {
		p.Text("never")
		return
	}
	p.Element("time", span(max(0, p.now.Sub(at)))+" ago", attr("datetime", at.Format(time.RFC3339Nano)), attr("title", at.Format("2006-01-02 15:04:05 UTC")))
}
