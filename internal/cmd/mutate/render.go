package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// render returns a file with its chosen mutants in it, each behind its switch. An alternative is
// the text as it was: but one mutant is ever on, and so nothing within it is.
func (src *source) render(chosen map[*mutant]bool) string {
	var sites []*site
	for _, s := range src.sites {
		if len(drawn(s.edits, chosen)) > 0 || len(drawn(s.before, chosen)) > 0 {
			sites = append(sites, s)
		}
	}
	// What contains another one comes first.
	slices.SortFunc(sites, func(a, b *site) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	return src.span(0, len(src.text), sites, chosen)
}

// span renders a part of the text with the sites within it.
func (src *source) span(from, to int, sites []*site, chosen map[*mutant]bool) string {
	var out strings.Builder
	for len(sites) > 0 {
		s := sites[0]
		n := 1
		for n < len(sites) && sites[n].from < s.to {
			n++
		}
		out.WriteString(src.text[from:s.from])
		if s.define != nil {
			out.WriteString(s.renderDefine(src.span(s.define.value, s.to, sites[1:n], chosen), chosen))
		} else {
			out.WriteString(s.render(src.span(s.from, s.to, sites[1:n], chosen), chosen))
		}
		from, sites = s.to, sites[n:]
	}
	out.WriteString(src.text[from:to])
	return out.String()
}

// Names of what scaffold declares.
const (
	isOn = "lwMutated"
	pick = "lwPick"
	addr = "lwAddress"
)

// drawn returns those of edits whose mutants are chosen.
func drawn(edits []edit, chosen map[*mutant]bool) (out []edit) {
	for _, e := range edits {
		if chosen[e.mutant] {
			out = append(out, e)
		}
	}
	return out
}

func (s *site) render(inner string, chosen map[*mutant]bool) string {
	edits := drawn(s.edits, chosen)
	var out strings.Builder
	switch s.form {
	case boolean:
		out.WriteString("(")
		for _, e := range edits {
			fmt.Fprintf(&out, "%s(%d) && (%s) || ", isOn, e.mutant.id, e.alternative)
		}
		for _, e := range edits {
			fmt.Fprintf(&out, "!%s(%d) && ", isOn, e.mutant.id)
		}
		fmt.Fprintf(&out, "(%s))", inner)
	case eager:
		typ := ""
		if s.typ != "" {
			typ = "[" + s.typ + "]"
		}
		for _, e := range edits {
			inner = fmt.Sprintf("%s%s(%d, %s, %s)", pick, typ, e.mutant.id, e.alternative, inner)
		}
		out.WriteString(inner)
	case address:
		for _, e := range edits {
			inner = fmt.Sprintf("(*%s(%d, &%s, &%s))", addr, e.mutant.id, e.alternative, inner)
		}
		out.WriteString(inner)
	case lazy:
		fmt.Fprintf(&out, "func() %s {", s.typ)
		for _, e := range edits {
			fmt.Fprintf(&out, " if %s(%d) { return %s };", isOn, e.mutant.id, e.alternative)
		}
		fmt.Fprintf(&out, " return %s }()", inner)
	case stmt:
		out.WriteString(s.renderBefore(chosen))
		out.WriteString(alternatives(edits, inner))
	}
	return out.String()
}

// alternatives is the statement inner, or the alternative that is on.
func alternatives(edits []edit, inner string) string {
	if len(edits) == 0 {
		return inner
	}
	var out strings.Builder
	for _, e := range edits {
		fmt.Fprintf(&out, "if %s(%d) { %s } else ", isOn, e.mutant.id, e.alternative)
	}
	fmt.Fprintf(&out, "{ %s }", inner)
	return out.String()
}

// renderBefore is what runs before a statement when that is exchanged with the next one. Variables
// that the next one defines are declared here, as it may come behind an if.
func (s *site) renderBefore(chosen map[*mutant]bool) string {
	var out strings.Builder
	for _, e := range drawn(s.before, chosen) {
		if s.next.define != nil {
			out.WriteString(s.next.define.declare(e.mutant))
		}
		fmt.Fprintf(&out, "if %s(%d) { %s }; ", isOn, e.mutant.id, e.alternative)
	}
	return out.String()
}

// renderDefine renders a statement that defines variables, of which value is the right side.
func (s *site) renderDefine(value string, chosen map[*mutant]bool) string {
	edits, before := drawn(s.edits, chosen), drawn(s.before, chosen)
	var declare string
	if len(edits) == 0 { // else the statement before has declared them
		declare = s.define.declare(before[0].mutant)
	}
	return declare + s.renderBefore(chosen) + alternatives(edits, s.define.left+" = "+value)
}

// What switches the mutants of a package, and tells where the tests come by when none is on.
const (
	mutantVariable = "LW_MUTANT"
	traceVariable  = "LW_MUTANT_TRACE"
)

// scaffold is the file that each package gets beside its own.
func scaffold(name string, most int) string {
	return fmt.Sprintf(`package %s

import (
	"os"
	"strconv"
	"sync/atomic"
	"unsafe"
)

var (
	lwMutant, _   = strconv.Atoi(os.Getenv(%q))
	lwTracing     = os.Getenv(%q) != ""
	lwSeen        [%d]atomic.Bool
)

func lwMutated(n int) bool { return n == lwMutant || lwTracing && lwTrace(n) }

func lwPick[T any](n int, mutated, original T) T {
	if lwMutated(n) {
		return mutated
	}
	return original
}

func lwAddress[T any](n int, mutated, original *T) *T {
	if lwMutated(n) {
		return mutated
	}
	return original
}

func lwString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func lwTrace(n int) bool {
	if lwSeen[n].Load() || lwSeen[n].Swap(true) {
		return false
	}
	f, err := os.OpenFile(os.Getenv(%q), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strconv.Itoa(n) + "\n"); err != nil {
		panic(err)
	}
	return false
}
`, name, mutantVariable, traceVariable, most+1, traceVariable)
}
