package main

import (
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// use is the vertex of a value where block b uses it.
func (a *analysis) use(v ssa.Value, b *ssa.BasicBlock) vid {
	id := a.of(v)
	if id < 0 || b == nil {
		return id
	}
	if _, ok := v.Type().Underlying().(*types.Interface); !ok {
		return id
	}
	fn := b.Parent()
	checks, ok := a.checks[fn]
	if !ok {
		checks = findChecks(fn)
		a.checks[fn] = checks
	}
	for n, c := range checks[sameValue(v)] {
		var is bool
		switch {
		case c.yes != nil && c.yes.Dominates(b):
			is = true
		case c.no != nil && c.no.Dominates(b):
		default:
			continue
		}
		id = a.refine(v, id, n, c.typ, is)
	}
	return id
}

// refine returns the vertex of what is left of a value after an assertion.
func (a *analysis) refine(v ssa.Value, from vid, n int, t types.Type, is bool) vid {
	key := refinedKey{v, string(rune('a'+n)) + map[bool]string{true: "yes", false: "no"}[is] + string(rune(from))}
	if id, ok := a.refined[key]; ok {
		return id
	}
	id := a.newVertex(vertex{typ: v.Type(), value: v, fn: v.Parent(), pos: v.Pos()})
	a.refined[key] = id
	concrete := !types.IsInterface(t)
	a.through(from, id, func(tg tag, _ state) (tag, bool) {
		info := &a.tags[tg]
		switch info.kind {
		case anyTag, failedTag:
			named := info.node.of.named
			matches := types.Identical(t, types.NewPointer(named)) || types.Identical(t, named)
			if i, ok := t.Underlying().(*types.Interface); ok {
				matches = types.Implements(types.NewPointer(named), i)
			}
			switch {
			case is && matches && concrete:
				return info.node.tag, true
			case is != matches:
				return 0, false
			case !is:
				return a.failedTags[info.node.of], true
			}
		case boxTag:
			same := types.Identical(t, info.typ)
			if concrete && is != same {
				return 0, false
			}
		case partTag:
			if concrete && is && !a.holds(t, tg) {
				return 0, false
			}
			if concrete && !is && info.node.parent == nil && types.Identical(t, types.NewPointer(info.node.of.named)) {
				return 0, false
			}
		}
		return tg, true
	})
	return id
}

// A fieldOnce is a field of a local struct that is set once, with the struct.
type fieldOnce struct {
	alloc *ssa.Alloc
	field int
}

// sameValue returns what is equal for values that are the same: every load of a field of a struct
// that is set once, as that over which a loop ranges, yields one.
func sameValue(v ssa.Value) any {
	load, ok := v.(*ssa.UnOp)
	if !ok {
		return v
	}
	addr, ok := load.X.(*ssa.FieldAddr)
	if !ok {
		return v
	}
	alloc, ok := addr.X.(*ssa.Alloc)
	if !ok {
		return v
	}
	set := 0
	for _, r := range *alloc.Referrers() {
		switch r := r.(type) {
		case *ssa.DebugRef, *ssa.UnOp:
		case *ssa.Store:
			if r.Val == alloc {
				return v
			}
			set++
		case *ssa.FieldAddr:
			for _, use := range *r.Referrers() {
				if _, ok := use.(*ssa.UnOp); !ok {
					return v
				}
			}
		default:
			return v
		}
	}
	if set != 1 {
		return v
	}
	return fieldOnce{alloc, addr.Field}
}

// findChecks finds the assertions of a function that decide which way it goes.
func findChecks(fn *ssa.Function) map[any][]assertion {
	checks := map[any][]assertion{}
	for _, b := range fn.Blocks {
		for _, instr := range b.Instrs {
			assert, ok := instr.(*ssa.TypeAssert)
			if !ok {
				continue
			}
			if !assert.CommaOk {
				continue
			}
			for _, r := range *assert.Referrers() {
				extract, ok := r.(*ssa.Extract)
				if !ok || extract.Index != 1 {
					continue
				}
				for _, r := range *extract.Referrers() {
					branch, ok := r.(*ssa.If)
					if !ok {
						continue
					}
					c := assertion{typ: assert.AssertedType}
					yes, no := branch.Block().Succs[0], branch.Block().Succs[1]
					if len(yes.Preds) == 1 {
						c.yes = yes
					}
					if len(no.Preds) == 1 {
						c.no = no
					}
					key := sameValue(assert.X)
					checks[key] = append(checks[key], c)
				}
			}
		}
	}
	return checks
}
