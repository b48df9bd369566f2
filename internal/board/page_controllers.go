package board

import "strings"

var controllerColumns = []column{{"State", "state"}, {"Name", "name"}, {"Runs", "n"}, {"Waiting", "n"}, {"Running", "n"}}

// shownReasons is how many reasons of a controller are shown.
const shownReasons = 5

// controllers writes what the keys of each controller run for.
func (p *page) controllers(all []Controller) {
	if len(all) == 0 {
		return
	}
	p.Open("section")
	p.Element("h2", "Controllers")
	p.head("collections", controllerColumns)
	for _, c := range worstFirst(all, func(c Controller) State { return c.State }) {
		p.Open("tbody", class(string(c.State)))
		p.Open("tr")
		p.first(controllerColumns, c.State, c.Name)
		p.texts(controllerColumns[2:], number(c.Runs), number(c.Waiting), number(c.Running))
		p.Close()
		if len(c.Loops)+len(c.Reasons) > 0 {
			p.more(len(controllerColumns), func() { p.loops(c.Loops); p.reasons(&c) })
		}
		p.Close()
		p.Line()
	}
	p.Close()
	p.Close()
	p.Line()
}

// loops writes which keys run again and again, and who writes what.
func (p *page) loops(all []Loop) {
	if len(all) == 0 {
		return
	}
	p.Open("dl", class("faults"))
	for _, l := range all[:min(len(all), MaxFaults)] {
		p.Open("div")
		if l.Kind == LoopUndo {
			p.Element("dt", l.Key+": two writers undo each other")
		} else {
			p.Element("dt", l.Key+" answers its own writes")
		}
		p.Open("dd")
		field := l.Field
		if field == "" {
			field = "the object"
		}
		p.Text(field + " of " + l.Collection + " " + objectName(l.Namespace, l.Name))
		if len(l.Managers) > 0 {
			p.Text(", by " + strings.Join(l.Managers, " and "))
		}
		p.Text(", " + count(l.Rounds, "round") + ", the last ")
		p.ago(l.Last)
		p.Close()
		p.Close()
	}
	p.Close()
}

// reasons writes the most frequent ones.
func (p *page) reasons(c *Controller) {
	if len(c.Reasons) == 0 {
		return
	}
	p.Open("ul", class("story reasons"))
	for _, w := range c.Reasons[:min(len(c.Reasons), shownReasons)] {
		p.Open("li")
		p.Text(count(w.Runs, "run") + ": " + w.text())
		p.Close()
	}
	p.Close()
}

// text says what the reason is.
func (w *Why) text() string {
	if w.Requeue != "" {
		return w.Requeue
	}
	what := w.Type
	if what == "" {
		what = "without a net change"
	}
	text := w.Collection + " " + what + " (" + w.Cause + ")"
	if len(w.Fields) > 0 {
		text += ", mostly " + strings.Join(w.Fields, ", ")
	}
	return text
}
