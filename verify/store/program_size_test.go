package store_test

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/golist"
	"github.com/go-lw/lw/internal/verify/rig"
)

// The code of the reflector, the handlers and the store is in a program once, however many types
// its informers follow. A constraint with comparable anywhere below the constructors would make the
// compiler generate it for each type, which is 300 KB for each.
func TestOneCodeForAllPointers(t *testing.T) {
	type Gadget struct{ lw.Meta }
	var widgets, gadgets map[string]uintptr
	synctest.Test(t, func(t *testing.T) {
		widgets = entryPoints(t, rig.NewWidget("a", 1))
		gadgets = entryPoints(t, &Gadget{lw.Meta{Name: "a"}})
	})
	for _, name := range []string{
		"github.com/go-lw/lw.(*Reflector[...]).Run",
		"github.com/go-lw/lw.(*handlerRunner[...]).run",
		"github.com/go-lw/lw/internal/table.(*Store[...]).Compare",
	} {
		widget, gadget := widgets[name], gadgets[name]
		if widget == 0 || gadget == 0 {
			t.Errorf("%s was not on a stack; known are:\n%v", name, widgets)
		} else if widget != gadget {
			t.Errorf("%s is in the program twice: for *Widget and for *Gadget", name)
		}
	}
}

// A package that has a catalog of kinds does not compile the informer of the catalog. The compiler
// makes all methods of a type with parameters in each package that has such a type in its own types,
// or in those of their fields and methods: of an informer that takes three seconds.
func TestCatalogsCostTheCompilerNothing(t *testing.T) {
	const user = "github.com/go-lw/lw/internal/guess" // which has a field of the type *kinds.Catalog
	packages := rig.Must[[]golist.Package](t)(golist.List("", "-export", user))
	symbols := rig.Must[[]byte](t)(exec.CommandContext(t.Context(), "go", "tool", "nm", packages[0].Export).Output())
	if text := string(symbols); !strings.Contains(text, "guess.(*Mapper).RESTMapping") || strings.Contains(text, "lw.(*Informer[") {
		t.Errorf("package %s has the methods of an informer, or not even its own", user)
	}
}

// entryPoints returns where the functions of lw begin that call an index and a handler of an
// informer of obj.
func entryPoints[T lw.Object](t *testing.T, obj T) map[string]uintptr {
	entries := map[string]uintptr{}
	note := func() {
		pcs := make([]uintptr, 64)
		frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if strings.HasPrefix(f.Function, "github.com/go-lw/lw.") ||
				strings.HasPrefix(f.Function, "github.com/go-lw/lw/internal/table.") {
				entries[f.Function] = f.Entry
			}
		}
	}
	inf := lw.NewInformer(lw.NewMemory(obj), nil)
	lw.NewIndex(inf, func(T) string { note(); return "" })
	told := make(chan struct{})
	inf.AddHandler(lw.Handler[T]{Add: func(T) { note(); close(told) }})
	rig.Start(t, inf)
	<-told
	return entries
}
