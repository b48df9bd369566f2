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
	was, is    string // the text; is "": it is left out; of statements exchanged: the first and the second
	equivalent bool   // it is known to change nothing
	verdict    verdict
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
	exchange   kind = "statements exchanged"
	neighbour  kind = "value of the neighbour"
	copied     kind = "copy forgotten"
)

func (m *mutant) String() string {
	is := "-> " + oneLine(m.is)
	switch {
	case m.is == "":
		is = "removed"
	case m.kind == exchange:
		is = "after " + oneLine(m.is)
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
	edits    []edit
	// The rest is of statements that may be exchanged with the next one.
	define *define // the statement defines variables
	before []edit  // what runs before the statement: the next one
	next   *site   // the statement behind it, when before has a mutant
}

// An edit is what stands in the place of a site when its mutant is on.
type edit struct {
	mutant      *mutant
	alternative string
}

// A form is how a site's mutants are written.
type form int

const (
	boolean form = iota
	eager        // alternatives are computed as well: they have no effects
	lazy         // alternatives are not computed
	address      // a variable: its address is taken, and not that of the alternative
	stmt
)

// add makes a mutant of the text between two nodes.
func (f *finder) add(from, to ast.Node, as form, typ string, k kind, was, is, alternative string) {
	s := f.site(from, to, as, typ)
	if s == nil {
		return // two ways to write one place: the first one stands
	}
	for _, other := range s.edits {
		if other.alternative == alternative && other.mutant.kind != exchange {
			return
		}
	}
	s.edits = append(s.edits, edit{f.mutant(from, k, was, is), alternative})
}

// site returns the place between two nodes, or nil if its mutants are written in another way.
func (f *finder) site(from, to ast.Node, as form, typ string) *site {
	at := [2]int{f.file.offset(from.Pos()), f.file.offset(to.End())}
	if s := f.index[at]; s != nil {
		if s.form != as || s.typ != typ {
			return nil
		}
		return s
	}
	s := &site{from: at[0], to: at[1], form: as, typ: typ}
	f.index[at] = s
	f.file.sites = append(f.file.sites, s)
	return s
}

func (f *finder) mutant(at ast.Node, k kind, was, is string) *mutant {
	m := &mutant{kind: k, file: f.file, line: f.file.pkg.fset.Position(at.Pos()).Line, function: f.function, was: was, is: is}
	f.found = append(f.found, m)
	return m
}
