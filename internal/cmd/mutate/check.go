package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// check leaves out of chosen those mutants of p that are not Go, and returns them: a type checker
// says which.
func (p *pkg) check(chosen map[*mutant]bool, most int) (stillborn []*mutant, err error) {
	byID := map[int]*mutant{}
	for m := range chosen {
		byID[m.id] = m
	}
	for {
		faults, err := p.faults(chosen, most)
		if err != nil || len(faults) == 0 {
			return stillborn, err
		}
		n := len(stillborn)
		for _, fault := range faults {
			for _, m := range fault.blame(byID) {
				if chosen[m] {
					delete(chosen, m)
					stillborn = append(stillborn, m)
				}
			}
		}
		if len(stillborn) == n {
			return nil, fmt.Errorf("%s with its mutants does not compile: %v", p.path, faults[0].err)
		}
	}
}

// A fault is what a type checker has against a rendered file.
type fault struct {
	file     *source
	text     string
	offset   int
	function string
	err      error
}

// blame returns the mutants that a fault is from: the last one before it, or what may end a
// function without a return.
func (f fault) blame(byID map[int]*mutant) (out []*mutant) {
	if strings.Contains(f.err.Error(), "missing return") {
		for _, m := range byID {
			if m.file == f.file && m.function == f.function && (m.kind == body || m.kind == loop) {
				out = append(out, m)
			}
		}
		return out
	}
	at := -1
	for _, name := range []string{isOn, pick, addr} {
		at = max(at, strings.LastIndex(f.text[:f.offset], name))
	}
	if at < 0 {
		return nil
	}
	_, digits, _ := strings.Cut(f.text[at:], "(")
	digits = digits[:strings.IndexAny(digits+",", "),")]
	id, err := strconv.Atoi(digits)
	if m := byID[id]; err == nil && m != nil {
		// The alternatives of one site share what comes before them.
		return []*mutant{m}
	}
	return nil
}

func (p *pkg) faults(chosen map[*mutant]bool, most int) (out []fault, err error) {
	fset := token.NewFileSet()
	var trees []*ast.File
	texts := map[string]fault{}
	add := func(name, text string, f *source) error {
		tree, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("a rendered file: %w", err)
		}
		texts[name] = fault{file: f, text: text}
		trees = append(trees, tree)
		return nil
	}
	for _, f := range p.files {
		if err := add(f.path, f.render(chosen), f); err != nil {
			return nil, err
		}
	}
	if err := add("scaffold.go", scaffold(p.name, most), nil); err != nil {
		return nil, err
	}
	conf := types.Config{Importer: p.imports, Error: func(err error) {
		e := err.(types.Error)
		pos := fset.Position(e.Pos)
		f := texts[pos.Filename]
		f.offset, f.err = pos.Offset, err
		for i, tree := range trees {
			if fset.File(tree.Pos()).Name() != pos.Filename {
				continue
			}
			for _, d := range trees[i].Decls {
				if d.Pos() <= e.Pos && e.Pos <= d.End() {
					f.function = declared(d)
				}
			}
		}
		out = append(out, f)
	}}
	_, _ = conf.Check(p.path, fset, trees, nil)
	return out, nil
}
