package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// render returns a file with its chosen mutants in it, each behind its switch. An alternative is
// the text as it was: but one mutant is ever on, and so nothing within it is.
func (f *source) render(chosen map[*mutant]bool) string {
	var sites []*site
	for _, s := range f.sites {
		if slices.ContainsFunc(s.mutants, func(m *mutant) bool { return chosen[m] }) {
			sites = append(sites, s)
		}
	}
	// What contains another one comes first.
	slices.SortFunc(sites, func(a, b *site) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	return f.span(0, len(f.text), sites, chosen)
}

// span renders a part of the text with the sites within it.
func (f *source) span(from, to int, sites []*site, chosen map[*mutant]bool) string {
	var out strings.Builder
	for len(sites) > 0 {
		s := sites[0]
		n := 1
		for n < len(sites) && sites[n].from < s.to {
			n++
		}
		out.WriteString(f.text[from:s.from])
		out.WriteString(s.render(f.span(s.from, s.to, sites[1:n], chosen), chosen))
		from, sites = s.to, sites[n:]
	}
	out.WriteString(f.text[from:to])
	return out.String()
}

// Names of what scaffold declares.
const (
	isOn = "lwMutated"
	pick = "lwPick"
)

func (s *site) render(inner string, chosen map[*mutant]bool) string {
	var ms []*mutant
	for _, m := range s.mutants {
		if chosen[m] {
			ms = append(ms, m)
		}
	}
	var out strings.Builder
	switch s.form {
	case boolean:
		out.WriteString("(")
		for _, m := range ms {
			fmt.Fprintf(&out, "%s(%d) && (%s) || ", isOn, m.id, m.alternative)
		}
		for _, m := range ms {
			fmt.Fprintf(&out, "!%s(%d) && ", isOn, m.id)
		}
		fmt.Fprintf(&out, "(%s))", inner)
	case eager:
		typ := ""
		if s.typ != "" {
			typ = "[" + s.typ + "]"
		}
		for _, m := range ms {
			inner = fmt.Sprintf("%s%s(%d, %s, %s)", pick, typ, m.id, m.alternative, inner)
		}
		out.WriteString(inner)
	case lazy:
		fmt.Fprintf(&out, "func() %s {", s.typ)
		for _, m := range ms {
			fmt.Fprintf(&out, " if %s(%d) { return %s };", isOn, m.id, m.alternative)
		}
		fmt.Fprintf(&out, " return %s }()", inner)
	case stmt:
		for _, m := range ms {
			fmt.Fprintf(&out, "if %s(%d) { %s } else ", isOn, m.id, m.alternative)
		}
		fmt.Fprintf(&out, "{ %s }", inner)
	}
	return out.String()
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
