package main

import (
	"cmp"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// cached returns the API types that a program gets from caches: by lw's sources, listers, clients
// of controller-runtime, and the kinds that its controllers watch.
func (p *program) cached() []*types.Named {
	found := map[*types.Named]bool{}
	add := func(t types.Type) {
		t = itemOf(deref(t))
		if named, ok := types.Unalias(t).(*types.Named); ok && isAPI(named) {
			found[named] = true
		}
	}
	for _, one := range p.pkgs {
		if !one.own || one.ssa == nil {
			continue
		}
		p.functions(one, func(fn *ssa.Function) {
			for _, b := range fn.Blocks {
				for _, instr := range b.Instrs {
					if c, ok := instr.(ssa.CallInstruction); ok {
						cachedBy(c.Common(), add)
					}
				}
			}
		})
	}
	var all []*types.Named
	for t := range found {
		all = append(all, t)
	}
	slices.SortFunc(all, func(x, y *types.Named) int {
		return cmp.Or(cmp.Compare(x.Obj().Pkg().Path(), y.Obj().Pkg().Path()), cmp.Compare(x.Obj().Name(), y.Obj().Name()))
	})
	return all
}

// functions calls f for all functions of a package, and those in them.
func (p *program) functions(one *pkg, f func(*ssa.Function)) {
	var visit func(fn *ssa.Function)
	visit = func(fn *ssa.Function) {
		if fn == nil {
			return
		}
		f(fn)
		for _, anon := range fn.AnonFuncs {
			visit(anon)
		}
	}
	for _, m := range one.ssa.Members {
		switch m := m.(type) {
		case *ssa.Function:
			visit(m)
		case *ssa.Type:
			if named, ok := m.Type().(*types.Named); ok {
				for fn := range named.Methods() {
					visit(p.prog.FuncValue(fn))
				}
			}
		}
	}
}

// cachedBy calls add for the types of the objects that a call gets from a cache.
func cachedBy(c *ssa.CallCommon, add func(types.Type)) {
	var full string
	switch {
	case c.IsInvoke():
		full = fullName(c.Method)
	case c.StaticCallee() != nil:
		fn := originOf(c.StaticCallee())
		obj, ok := fn.Object().(*types.Func)
		if !ok {
			return
		}
		full = fullName(obj)
	default:
		return
	}
	if strings.Contains(full, "/listers/") {
		for v := range c.Signature().Results().Variables() {
			t := v.Type()
			if s, ok := t.Underlying().(*types.Slice); ok {
				t = s.Elem()
			}
			add(t)
		}
		return
	}
	switch full {
	case "sigs.k8s.io/controller-runtime/pkg/client.Reader.Get", "sigs.k8s.io/controller-runtime/pkg/client.Reader.List",
		"sigs.k8s.io/controller-runtime/pkg/builder.TypedBuilder.For", "sigs.k8s.io/controller-runtime/pkg/builder.TypedBuilder.Owns",
		"sigs.k8s.io/controller-runtime/pkg/builder.TypedBuilder.Watches", "sigs.k8s.io/controller-runtime/pkg/source.Kind",
		"sigs.k8s.io/controller-runtime/pkg/cache.Informers.GetInformer":
		for _, arg := range c.Args {
			if t := exampleType(arg); t != nil {
				add(t)
			}
		}
	case "github.com/go-lw/lw.NewInformer", "github.com/go-lw/lw.FromClient", "github.com/go-lw/lw.ListWatch", "github.com/go-lw/lw/clientgo.HTTP",
		"github.com/go-lw/lw.NewReflector", "github.com/go-lw/lw.Transform", "github.com/go-lw/lw.Share":
		if fn := c.StaticCallee(); fn != nil {
			for _, t := range fn.TypeArgs() {
				add(t)
			}
		}
	}
}
