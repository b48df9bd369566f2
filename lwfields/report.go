package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/token"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/tools/go/ssa"
)

// A Report says what the program reads of each type.
type Report struct {
	Types []*TypeReport `json:"types"`
}

// A TypeReport is that of one type.
type TypeReport struct {
	Name  string `json:"name"`  // path.Name
	Paths int    `json:"paths"` // that the type has
	// Mask are the paths that are read, without what every mask keeps; also if All is not empty.
	Mask []string `json:"mask"`
	// Reads has the lines for each path of Mask.
	Reads map[string][]Line `json:"reads"`
	// All are the lines that need the whole object. A mask is of use when there are none.
	All []Line `json:"all,omitempty"`

	api    *apiType
	founds []*found
}

// A Line is a line of the program that reads.
type Line struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Path   string `json:"path"` // what it reads: the path of the mask, or one below it
	Text   string `json:"text"`
	Class  string `json:"class"` // read, logged, formatted, encoded, compared, reflected, written, unsafe or unknown
	Advice string `json:"advice,omitempty"`
	// AnyType: the object came in an interface, and may be of another type.
	AnyType bool `json:"anyType,omitempty"`
}

func (l Line) position() string { return fmt.Sprintf("%s:%d", l.File, l.Line) }

// report makes a report of what was found. skip are classes that do not count.
func (a *analysis) report(skip map[string]bool) *Report {
	r := &Report{}
	for _, api := range a.types {
		t := &TypeReport{Name: api.name, api: api, Reads: map[string][]Line{}}
		a.leaves(api.root, func(*node) { t.Paths++ })
		for _, f := range a.found {
			if f.node.of == api && !skip[f.class] {
				t.founds = append(t.founds, f)
			}
		}
		lines := map[string][]Line{} // by path, with "?" for presence
		for _, f := range t.founds {
			path := f.node.path
			if identity[path] {
				continue
			}
			l := a.line(f)
			if f.level == presence {
				path += "?"
				l.Path = path
			}
			lines[path] = append(lines[path], l)
		}
		for path := range lines {
			slices.SortFunc(lines[path], compareLines)
			lines[path] = slices.Compact(lines[path])
		}
		t.All = lines[""]
		delete(lines, "")
		// What needs all needs this part as well; the part is no line of its own.
		for path, ls := range lines {
			ls = slices.DeleteFunc(ls, func(l Line) bool {
				return slices.ContainsFunc(t.All, func(all Line) bool { return all.position() == l.position() && all.Text == l.Text })
			})
			if lines[path] = ls; len(ls) == 0 {
				delete(lines, path)
			}
		}
		var paths []string
		for path := range lines {
			paths = append(paths, path)
		}
		t.Mask = minimal(paths)
		for path, ls := range lines {
			for _, kept := range t.Mask {
				// What reads below a path asks as well whether it is there; that is no line of its own.
				if covers(kept, path) && (kept == path || !strings.HasSuffix(path, "?")) {
					t.Reads[kept] = append(t.Reads[kept], ls...)
				}
			}
		}
		for path := range t.Reads {
			slices.SortFunc(t.Reads[path], compareLines)
		}
		r.Types = append(r.Types, t)
	}
	slices.SortFunc(r.Types, func(x, y *TypeReport) int { return cmp.Compare(x.Name, y.Name) })
	return r
}

func compareLines(x, y Line) int {
	return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column), cmp.Compare(x.Path, y.Path),
		cmp.Compare(x.Text, y.Text))
}

// lines are all reads of a type.
func (t *TypeReport) lines() []Line {
	lines := slices.Clone(t.All)
	for _, ls := range t.Reads {
		lines = append(lines, ls...)
	}
	return lines
}

// minimal leaves out paths that others cover, and sorts.
func minimal(paths []string) []string {
	mask := []string{}
	for _, p := range paths {
		if !slices.ContainsFunc(paths, func(q string) bool { return q != p && covers(q, p) }) {
			mask = append(mask, p)
		}
	}
	slices.Sort(mask)
	return slices.Compact(mask)
}

// covers reports whether a mask with q keeps what p asks for.
func covers(q, p string) bool {
	if q == p {
		return true
	}
	bare, isPresence := strings.CutSuffix(p, "?")
	below := q == bare || strings.HasPrefix(q, bare+".")
	if isPresence && below { // what is below is there only if it is there
		return true
	}
	if strings.HasSuffix(q, "?") {
		return false
	}
	return strings.HasPrefix(bare, q+".") || q == bare
}

// line says where a read is: in the program, also if a library does it.
func (a *analysis) line(f *found) Line {
	l := Line{Path: f.node.path, Text: f.text, Class: f.class, Advice: f.advice, AnyType: f.anyType}
	pos := f.pos
	if !a.isOwn(f.fn) || !pos.IsValid() {
		at := f.at
		for {
			v := &a.verts[at.vid()]
			if a.isOwn(v.fn) && v.pos.IsValid() {
				if !a.isOwn(f.fn) && f.pos.IsValid() {
					in := a.p.position(f.pos)
					l.Text += fmt.Sprintf(" in %s:%d", in.Filename, in.Line)
				}
				pos = v.pos
				break
			}
			prev := a.from[at]
			if prev == at || prev == 0 {
				break
			}
			at = prev
		}
	}
	p := a.p.position(pos)
	l.File, l.Line, l.Column = p.Filename, p.Line, p.Column
	if !pos.IsValid() && f.fn != nil {
		p := a.p.position(f.fn.Pos())
		l.File, l.Line, l.Column = p.Filename, p.Line, p.Column
	}
	return l
}

// isOwn reports whether a function is of the program.
func (a *analysis) isOwn(fn *ssa.Function) bool {
	for fn != nil && fn.Parent() != nil {
		fn = fn.Parent()
	}
	if fn == nil {
		return false
	}
	fn = originOf(fn)
	if fn.Pkg == nil {
		if fn.Object() == nil {
			return false
		}
		p := a.p.of(fn.Object().Pkg())
		return p != nil && p.own
	}
	p := a.p.of(fn.Pkg.Pkg)
	return p != nil && p.own
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	for i, t := range r.Types {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s: %d of %d paths\n", t.Name, len(t.Mask), t.Paths)
		tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		for _, path := range t.Mask {
			lines := t.Reads[path]
			first := lines[0] // that reads all of the path, and not a part of it
			if i := slices.IndexFunc(lines, func(l Line) bool { return l.Path == path }); i >= 0 {
				first = lines[i]
			}
			fmt.Fprintf(tab, "  %s\t%d\t%s\t%s\n", path, len(lines), first.position(), first.text())
		}
		for _, l := range t.All {
			fmt.Fprintf(tab, "  ALL\t1\t%s\t%s\n", l.position(), l.text())
		}
		if err := tab.Flush(); err != nil {
			return err
		}
		if n := len(t.All); n > 0 {
			fmt.Fprintf(w, "  without %s: the %s above\n", plural(n, "that line", "those lines"), plural(len(t.Mask), "path", "paths"))
		}
	}
	return nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf("%d %s", n, strings.TrimPrefix(many, "those "))
}

func (l Line) text() string {
	text := l.Text
	if l.AnyType {
		text += ", if it is one: its type is not known there"
	}
	if l.Advice != "" {
		text += "\t→ " + l.Advice
	}
	return text
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// why prints every line that reads a path, and how the object came there.
func (a *analysis) why(w io.Writer, r *Report, path string) bool {
	any := false
	for _, t := range r.Types {
		founds := slices.DeleteFunc(slices.Clone(t.founds), func(f *found) bool {
			p := f.node.path
			if path == "ALL" {
				return p != ""
			}
			return p != path && !strings.HasPrefix(p, path+".") && !(p == "" || strings.HasPrefix(path, p+"."))
		})
		slices.SortFunc(founds, func(x, y *found) int { return compareLines(a.line(x), a.line(y)) })
		for _, f := range founds {
			any = true
			l := a.line(f)
			what := cmp.Or(l.Path, "ALL")
			fmt.Fprintf(w, "%s:%d:%d: %s of %s: %s\n", l.File, l.Line, l.Column, what, t.Name, l.text())
			for _, step := range a.chain(f.at) {
				fmt.Fprintf(w, "\t%s\n", step)
			}
		}
	}
	return any
}

// chain says how a tag came to a vertex, from where the object comes from.
func (a *analysis) chain(at state) []string {
	var steps []string
	for {
		v := &a.verts[at.vid()]
		what := v.label
		if v.value != nil {
			what = v.value.Name() + " " + v.value.Type().String()
			if g, ok := v.value.(*ssa.Function); ok {
				what = g.String()
			}
		}
		if v.sink == nil {
			info := &a.tags[at.tag()]
			part := "an object of any type"
			if info.kind == partTag {
				part = cmp.Or(info.node.path, "the object")
			} else if info.kind == boxTag {
				part = "a box of " + info.typ.String()
			}
			where := ""
			if v.pos != token.NoPos {
				p := a.p.position(v.pos)
				where = fmt.Sprintf("%s:%d: ", p.Filename, p.Line)
			}
			step := fmt.Sprintf("%s%s is %s", where, what, part)
			if len(steps) == 0 || steps[len(steps)-1] != step {
				steps = append(steps, step)
			}
		}
		prev := a.from[at]
		if prev == at || prev == 0 || len(steps) > 60 {
			break
		}
		at = prev
	}
	slices.Reverse(steps)
	return steps
}
