package board

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-lw/lw/internal/board/markup"
)

// A column is the head of a column, and the class of its cells.
type column struct{ head, class string }

var (
	informerColumns = []column{{"State", "state"}, {"Name", "name"}, {"Phase", ""}, {"Objects", "n"}, {"Version", "n"}, {"Last event", "n"}, {"Waiting", "n"}}
	graphColumns    = []column{{"State", "state"}, {"Name", "name"}, {"From", ""}, {"Objects", "n"}, {"Computed", "n"}, {"Unchanged", "n"}, {"Waiting", "n"}}
	handlerColumns  = []column{{"Handler", "name"}, {"Waiting", "n"}, {"Calls", "n"}, {"Folded", "n"}, {"Panics", "n"}, {"Half within", "n"}, {"99 % within", "n"}}
)

// head begins a table.
func (p *page) head(name string, columns []column) {
	p.Open("table", class(name))
	p.Open("thead")
	p.Open("tr")
	for _, c := range columns {
		p.Element("th", c.head, attr("scope", "col"), class(c.class))
	}
	p.Close()
	p.Close()
	p.Line()
}

// cell writes a cell of c. Its label is for a narrow screen, where the head is not shown.
func (p *page) cell(c column, content func()) {
	p.Open("td", class(c.class), attr("data-label", c.head))
	content()
	p.Close()
}

// first writes the cells of the state and the name.
func (p *page) first(columns []column, state State, name string) {
	p.cell(columns[0], func() { p.mark(state); p.Text(state.word()) })
	p.Open("th", attr("scope", "row"), class("name"))
	p.Text(name)
	p.Close()
}

// texts writes other cells.
func (p *page) texts(columns []column, texts ...string) {
	for i, text := range texts {
		c := columns[i]
		if text == "0" || text == "–" {
			c.class += " none"
		}
		p.cell(c, func() { p.Text(text) })
	}
}

func (p *page) informers(all []Informer) {
	if len(all) == 0 {
		return
	}
	p.Open("section")
	p.Element("h2", "Informers")
	p.head("collections", informerColumns)
	for _, inf := range worstFirst(all, func(inf Informer) State { return inf.State }) {
		p.informer(&inf)
	}
	p.Close()
	p.Close()
	p.Line()
}

func (p *page) informer(inf *Informer) {
	name, objects := inf.Name, "–"
	if inf.Kind == KindReflector {
		name += " (reflector)"
	} else if inf.Objects != nil {
		objects = number(*inf.Objects)
	}
	p.Open("tbody", class(string(inf.State)))
	p.Open("tr")
	p.first(informerColumns, inf.State, name)
	version := inf.ResourceVersion
	if version == "" {
		version = "–"
	}
	p.texts(informerColumns[2:], inf.Phase, objects, version)
	p.cell(informerColumns[5], func() { p.ago(inf.LastEvent) })
	p.texts(informerColumns[6:], number(inf.Pending))
	p.Close()
	p.more(len(informerColumns), func() {
		p.unserved(inf)
		p.failure(inf)
		p.packed(inf.Packed)
		p.faults(inf.SetAside, "object", "set aside", "Each stays as it was until a version comes that can be used.")
		p.handlers(inf.Handlers, inf.story(p.now))
	})
	p.Close()
	p.Line()
}

// more writes a row of one wide cell.
func (p *page) more(columns int, content func()) {
	p.Open("tr", class("more"))
	p.Element("td", "")
	p.Open("td", attr("colspan", number(columns-1)))
	content()
	p.Close()
	p.Close()
}

// unserved writes why nobody serves the kind, if nobody does.
func (p *page) unserved(inf *Informer) {
	if inf.Unserved != "" {
		p.Element("p", "Waits: "+inf.Unserved+".", class("why"))
	}
}

// failure writes the failure that lasts, if there is one.
func (p *page) failure(inf *Informer) {
	f := inf.Failure
	if f == nil {
		return
	}
	p.Open("p", class("why"))
	p.Element("strong", "Fails for "+span(time.Duration(f.ForSeconds)))
	p.Text(", since ")
	p.Element("time", f.Since.Format("2006-01-02 15:04:05 UTC"), attr("datetime", f.Since.Format(time.RFC3339Nano)))
	p.Text(", " + count(f.InARow, "time") + " in a row. ")
	if inf.Synced {
		p.Text("The store shows the last known state.")
	} else {
		p.Text("No whole list has come yet.")
	}
	p.Close()
	p.Element("p", strings.TrimPrefix(f.Error, "lw: "+inf.Name+": "), class("error"))
}

// packed writes what fills a limit, if there is one.
func (p *page) packed(u *Packed) {
	if u == nil {
		return
	}
	p.Open("p", class("why"))
	p.Element("strong", size(uint64(max(0, u.Bytes)))+" of a limit of "+size(uint64(u.Limit))+".")
	text := " Nothing was let go."
	if u.LetGo > 0 || u.Requests > 0 {
		text = " " + count(uint64(max(0, u.LetGo)), "object") + " let go, " + count(u.Requests, "request") + " for such"
		if u.Gone > 0 {
			text += ", " + number(u.Gone) + " of them for what was gone"
		}
		if u.Failed > 0 {
			text += ", " + count(u.Failed, "read") + " of metadata alone"
		}
		text += "."
	}
	p.Text(text)
	p.Close()
	if len(u.Namespaces) == 0 {
		return
	}
	p.Open("dl", class("faults"))
	for _, s := range u.Namespaces {
		p.Open("div")
		p.Element("dt", cmp.Or(s.Namespace, "no namespace"))
		p.Element("dd", size(uint64(max(0, s.Bytes)))+" of "+count(s.Objects, "object")+", and "+number(s.LetGo)+" let go")
		p.Close()
	}
	p.Close()
	if left := u.TotalNamespaces - len(u.Namespaces); left > 0 {
		p.Element("p", "And "+count(left, "namespace")+" more.")
	}
}

// shownFaults is how many faults are seen without a click.
const shownFaults = 5

// faults writes objects with which something is wrong, if there are any.
func (p *page) faults(f Faults, of, what, meaning string) {
	if f.Total == 0 {
		return
	}
	p.Open("p", class("why"))
	verb := " are "
	if f.Total == 1 {
		verb = " is "
	}
	p.Element("strong", count(f.Total, of)+verb+what+".")
	p.Text(" " + meaning)
	p.Close()
	shown := min(len(f.Objects), shownFaults)
	p.faultList(f.Objects[:shown])
	if rest := f.Objects[shown:]; len(rest) > 0 {
		p.Open("details")
		p.Element("summary", number(f.Total-shown)+" more")
		p.faultList(rest)
		if left := f.Total - len(f.Objects); left > 0 {
			p.Element("p", "And "+number(left)+" more, which are not named here.")
		}
		p.Close()
	}
}

func objectName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func (p *page) faultList(faults []Fault) {
	p.Open("dl", class("faults"))
	for _, f := range faults {
		p.Open("div")
		p.Element("dt", objectName(f.Namespace, f.Name))
		p.Element("dd", f.Cause)
		p.Close()
	}
	p.Close()
}

// story says what the informer has done so far.
func (inf *Informer) story(now time.Time) string {
	q := inf.Requests
	parts := []string{count(inf.Events, "event")}
	add := func(n uint64, what string) {
		if n > 0 {
			parts = append(parts, count(n, what))
		}
	}
	add(q.Lists, "list")
	add(q.Streams, "streamed list")
	watches := q.Watches - q.Streams
	if watches == 1 {
		parts = append(parts, "1 watch")
	} else if watches > 1 {
		parts = append(parts, number(watches)+" watches")
	}
	add(q.Probes, "probe")
	if q.Failed > 0 {
		parts = append(parts, number(q.Failed)+" failed")
	}
	add(inf.Relists, "relist")
	if inf.Relists > 0 {
		parts[len(parts)-1] += " (" + inf.causes() + ")"
	}
	if inf.Epochs > 0 {
		parts = append(parts, "the server went back in time "+count(inf.Epochs, "time"))
	}
	if len(inf.Indexes) > 0 {
		parts = append(parts, indexes(inf.Indexes))
	}
	if inf.Decoder != "" {
		parts = append(parts, "decoded by "+inf.Decoder)
	}
	for _, b := range inf.Behind {
		if b.Half != nil && b.Most != nil {
			parts = append(parts, b.By+" writes half within "+span(time.Duration(*b.Half))+" and 99 % within "+span(time.Duration(*b.Most)))
		}
	}
	if !inf.LastList.IsZero() {
		parts = append(parts, "the last whole list "+span(max(0, now.Sub(inf.LastList)))+" ago")
	}
	if !inf.ListDue.IsZero() {
		parts = append(parts, "another is due for "+span(max(0, now.Sub(inf.ListDue))))
	}
	return strings.Join(parts, ", ")
}

// indexes says how large indexes are.
func indexes(sizes []int) string {
	if len(sizes) == 0 {
		return ""
	}
	var parts []string
	for _, n := range sizes {
		parts = append(parts, number(n))
	}
	last := len(parts) - 1
	if last == 0 {
		return "an index of " + parts[0]
	}
	return "indexes of " + strings.Join(parts[:last], ", ") + " and " + parts[last]
}

// causes says why the content was listed again.
func (inf *Informer) causes() string {
	var parts []string
	for _, cause := range slices.Sorted(maps.Keys(inf.ListsBy)) {
		if cause != "first" {
			parts = append(parts, number(inf.ListsBy[cause])+" "+cause)
		}
	}
	return strings.Join(parts, ", ")
}

// handlers writes which handlers were called for what. The table is folded away unless a handler
// needs a look.
func (p *page) handlers(all []Handler, story string) {
	if len(all) == 0 {
		p.Element("p", story, class("story"))
		return
	}
	var attrs []markup.Attr
	if slices.ContainsFunc(all, func(h Handler) bool { return h.Pending > behindFrom || h.Panics > 0 }) {
		attrs = append(attrs, attr("open", "open"))
	}
	p.Open("details", attrs...)
	summary := count(len(all), "handler")
	if story != "" {
		summary += " · " + story
	}
	p.Element("summary", summary)
	p.Open("div", class("wide"))
	p.head("handlers", handlerColumns)
	p.Open("tbody")
	for _, h := range all {
		p.Open("tr")
		p.Element("th", h.Name, attr("scope", "row"), class("name"))
		calls := h.Calls.Added + h.Calls.Updated + h.Calls.Deleted
		p.texts(handlerColumns[1:], number(h.Pending), number(calls), number(h.Folded), number(h.Panics), h.Lag.text(.5), h.Lag.text(.99))
		p.Close()
	}
	p.Close()
	p.Close()
	p.Close()
	p.Close()
}

// text says within what time the calls for that share of the changes ended.
func (l Lag) text(share float64) string {
	if l.Count == 0 {
		return "–"
	}
	if bound, ok := l.within(share); ok {
		return span(time.Duration(bound))
	}
	return "> " + span(time.Duration(l.Buckets[len(l.Buckets)-1].Seconds))
}

// graphTitle is what the graph called name is called in a heading. Without a name of its own it is
// called graph, or graph#2, which does not say so twice.
func graphTitle(name string) string {
	if number, ok := strings.CutPrefix(name, "graph"); ok && (number == "" || number[0] == '#') {
		return "Graph" + number
	}
	return "Graph " + name
}

func (p *page) graph(g *Graph) {
	p.Open("section")
	p.Open("h2")
	p.Text(graphTitle(g.Name) + " ")
	p.Open("span", class("state "+string(g.State)))
	p.mark(g.State)
	p.Text(g.State.word())
	p.Close()
	p.Close()
	p.Open("dl", class("facts"))
	p.fact("Steps", number(g.Steps))
	p.fact("Time in steps", span(time.Duration(g.BusySeconds)))
	p.fact("Waiting", number(g.Pending))
	p.Close()
	p.call(g)
	if len(g.Collections) > 0 {
		p.head("collections", graphColumns)
		for _, c := range worstFirst(g.Collections, func(c Collection) State { return c.State }) {
			p.collection(g, &c)
		}
		p.Close()
	}
	p.Close()
	p.Line()
}

// call writes what a step is doing, if there is one: a function that does not return holds up all
// collections of the graph.
func (p *page) call(g *Graph) {
	if g.Call == "" {
		return
	}
	p.Open("p", class("why"))
	p.Element("strong", "A step runs for "+span(max(0, p.now.Sub(g.StepBegan))))
	p.Text(", since ")
	p.Element("time", g.StepBegan.Format("2006-01-02 15:04:05 UTC"), attr("datetime", g.StepBegan.Format(time.RFC3339Nano)))
	p.Text(". It is in " + g.Call + ", or was there last.")
	p.Close()
}

func (p *page) collection(g *Graph, c *Collection) {
	p.Open("tbody", class(string(c.State)))
	p.Open("tr")
	p.first(graphColumns, c.State, c.Name)
	p.cell(graphColumns[2], func() { p.from(g, c) })
	p.texts(graphColumns[3:], number(c.Objects), number(c.Computed), number(c.Unchanged), number(c.Pending))
	p.Close()
	if c.Conflicts.Total > 0 || c.SetAside.Total > 0 || len(c.Handlers) > 0 || len(c.Indexes) > 0 {
		p.more(len(graphColumns), func() {
			p.faults(c.Conflicts, "object", "made by several inputs", "One result of each is shown.")
			p.faults(c.SetAside, "input", "set aside", "What each has made stays as it was until its next version.")
			if len(c.Handlers) > 0 || len(c.Indexes) > 0 {
				p.handlers(c.Handlers, indexes(c.Indexes))
			}
		})
	}
	p.Close()
	p.Line()
}

// from writes the inputs of c, each informer with the version that is shown.
func (p *page) from(g *Graph, c *Collection) {
	for i, name := range c.From {
		if i > 0 {
			p.Text(", ")
		}
		p.Text(name)
		if version := g.Versions[name]; version != "" {
			p.Element("small", " at "+version)
		}
	}
}
