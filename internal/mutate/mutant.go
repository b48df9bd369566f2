package main

import (
	"fmt"
	"go/ast"
	"strings"
)

// A mutant is one small mistake in one place.
type mutant struct {
	id         int
	kind       kind
	file       *source
	line       int
	function   string
	was, is    string // the text; is "": it is left out
	equivalent bool   // it is known to change nothing
	// alternative is what stands in the place of the site when the mutant is on.
	alternative string
	verdict     verdict
}

type kind string

const (
	condition  kind = "condition decided"
	boundary   kind = "boundary moved"
	logic      kind = "&& and || swapped"
	negation   kind = "negated"
	constant   kind = "constant changed"
	arithmetic kind = "arithmetic changed"
	statement  kind = "statement removed"
	result     kind = "result zeroed"
	body       kind = "case emptied"
	loop       kind = "break and continue"
)

func (m *mutant) String() string {
	is := "-> " + oneLine(m.is)
	if m.is == "" {
		is = "removed"
	}
	return fmt.Sprintf("%s:%d %s: %s: %s %s (mutant %d)", m.file.name, m.line, m.function, m.kind, oneLine(m.was), is, m.id)
}

// context is the line that m is on, and the three before it.
func (m *mutant) context() string {
	lines := strings.Split(m.file.text, "\n")
	return strings.Join(lines[max(0, m.line-4):m.line], "\n")
}

// oneLine is text in short.
func oneLine(text string) string {
	const most = 110
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = text[:most] + "…"
	}
	return "`" + text + "`"
}

// A site is a place that mutants change: an expression, a statement, or the body of a case.
type site struct {
	from, to int // in the file's text
	form     form
	typ      string // that the expression has, where it is needed to write it down
	mutants  []*mutant
}

// A form is how a site's mutants are written.
type form int

const (
	boolean form = iota
	eager        // a number whose alternatives are computed as well: they have no effects
	lazy         // a number whose alternatives are not
	stmt
)

// add makes a mutant of the text between two nodes.
func (f *finder) add(from, to ast.Node, as form, typ string, k kind, was, is, alternative string) {
	file := f.file
	s := &site{from: file.offset(from.Pos()), to: file.offset(to.End()), form: as, typ: typ}
	if i := f.index[[2]int{s.from, s.to}]; i != nil {
		if i.form != as || i.typ != typ {
			return // two ways to write one place: the first one stands
		}
		s = i
	} else {
		f.index[[2]int{s.from, s.to}] = s
		file.sites = append(file.sites, s)
	}
	m := &mutant{
		kind: k, file: file, line: file.pkg.fset.Position(from.Pos()).Line, function: f.function, was: was, is: is, alternative: alternative,
	}
	for _, other := range s.mutants {
		if other.alternative == alternative {
			return
		}
	}
	s.mutants = append(s.mutants, m)
	f.found = append(f.found, m)
}
