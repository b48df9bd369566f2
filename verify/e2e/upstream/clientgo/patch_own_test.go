package clientgo

import (
	"go/ast"
	"strings"
	"testing"

	"github.com/go-lw/lw/internal/verify/rig"
)

func mustPatch(t *testing.T, src string) *patch {
	t.Helper()
	p := rig.Must[*patch](t)(newPatch("x.go", src))
	return p
}

func TestPatch(t *testing.T) {
	p := mustPatch(t, "package x\n\nfunc a() {\n}\n\nfunc b() {}\n")
	b := rig.Must[*ast.FuncDecl](t)(p.function("b"))
	p.insert(b.Body.Lbrace+1, " c() ")
	a := rig.Must[*ast.FuncDecl](t)(p.function("a"))
	p.replaceNode(a, "")
	got := rig.Must[string](t)(p.apply())
	if want := "package x\n\n\n\n\nfunc b() { c() }\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPatchErrors(t *testing.T) {
	const src = "package x\n\nfunc a() {}\n"
	if _, err := newPatch("x.go", "package"); err == nil {
		t.Error("no error for a file that does not parse")
	}
	if _, err := mustPatch(t, src).apply(); err == nil || !strings.Contains(err.Error(), "nothing to change") {
		t.Errorf("no change: %v", err)
	}
	if _, err := mustPatch(t, src).function("b"); err == nil || !strings.Contains(err.Error(), "x.go has no function b") {
		t.Errorf("no function: %v", err)
	}
	p := mustPatch(t, src)
	p.replaceNode(p.file.Decls[0], "")
	p.replaceNode(p.file.Decls[0].(*ast.FuncDecl).Name, "b")
	if _, err := p.apply(); err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("overlapping changes: %v", err)
	}
}
