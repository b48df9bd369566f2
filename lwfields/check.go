package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// directive stands in the comment of a variable that is a mask.
const directive = "//lwfields:mask "

// A mask is one that the program has.
type mask struct {
	typ   string // path.Name
	name  string // of the variable
	paths []string
	all   bool // the variable is nil: everything is kept
	pos   token.Pos
}

// findMasks finds the variables of the program that have the directive.
func findMasks(p *program) ([]*mask, error) {
	var masks []*mask
	for _, one := range p.pkgs {
		if !one.own {
			continue
		}
		for _, file := range one.files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if !bytes.Contains(text, []byte(directive)) {
				continue
			}
			f, err := parser.ParseFile(p.fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, decl := range f.Decls {
				d, ok := decl.(*ast.GenDecl)
				if !ok || d.Tok != token.VAR {
					continue
				}
				for _, spec := range d.Specs {
					v := spec.(*ast.ValueSpec)
					doc := v.Doc
					if doc == nil {
						doc = d.Doc
					}
					m, err := maskOf(p, doc, v)
					if err != nil {
						return nil, err
					}
					if m != nil {
						masks = append(masks, m)
					}
				}
			}
		}
	}
	return masks, nil
}

func maskOf(p *program, doc *ast.CommentGroup, v *ast.ValueSpec) (*mask, error) {
	if doc == nil {
		return nil, nil
	}
	for _, c := range doc.List {
		typ, ok := strings.CutPrefix(c.Text, directive)
		if !ok {
			continue
		}
		m := &mask{typ: strings.TrimSpace(typ), name: v.Names[0].Name, pos: v.Names[0].Pos(), all: len(v.Values) == 0}
		for _, value := range v.Values {
			lit, ok := value.(*ast.CompositeLit)
			if !ok {
				return nil, fmt.Errorf("%s: %s is no list of paths", p.position(value.Pos()), m.name)
			}
			for _, e := range lit.Elts {
				s, ok := e.(*ast.BasicLit)
				if !ok {
					return nil, fmt.Errorf("%s: a path of %s is no constant", p.position(e.Pos()), m.name)
				}
				path, err := strconv.Unquote(s.Value)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", p.position(e.Pos()), err)
				}
				m.paths = append(m.paths, path)
			}
		}
		return m, nil
	}
	return nil, nil
}

// checkMasks prints the reads that are outside of a mask, and the status to exit with.
func checkMasks(p *program, masks []*mask, r *Report, exact bool, w io.Writer) int {
	status := exitDone
	for _, m := range masks {
		i := slices.IndexFunc(r.Types, func(t *TypeReport) bool { return t.Name == m.typ })
		if i < 0 || m.all {
			continue
		}
		t := r.Types[i]
		short := m.typ[strings.LastIndexByte(m.typ, '.')+1:]
		lines := t.lines()
		slices.SortFunc(lines, compareLines)
		for _, l := range lines {
			if slices.ContainsFunc(m.paths, func(kept string) bool { return l.Path != "" && covers(kept, l.Path) }) {
				continue
			}
			status = exitOutside
			what := l.Path
			if what == "" {
				what = "all"
			}
			verb := "reads " + what + " of " + short
			if l.Class == "written" {
				verb = "writes all of " + short
			}
			fmt.Fprintf(w, "%s:%d:%d: %s, which %s leaves out", l.File, l.Line, l.Column, verb, m.name)
			if l.Class != "read" {
				fmt.Fprintf(w, ": %s", l.Text)
			}
			if l.Advice != "" {
				fmt.Fprintf(w, "; %s", l.Advice)
			}
			fmt.Fprintln(w)
		}
		for _, kept := range m.paths {
			if !exact || len(t.All) > 0 || slices.ContainsFunc(t.Mask, func(path string) bool { return covers(path, kept) }) {
				continue
			}
			status = exitOutside
			at := p.position(m.pos)
			what := "which nobody reads"
			enough := slices.DeleteFunc(slices.Clone(t.Mask), func(path string) bool { return !covers(kept, path) })
			if len(enough) > 0 {
				what = "of which this is enough: " + strings.Join(enough, ", ")
			}
			fmt.Fprintf(w, "%s:%d:%d: %s keeps %s of %s, %s\n", at.Filename, at.Line, at.Column, m.name, kept, short, what)
		}
	}
	return status
}
