package main

import (
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

const runtimePath = "sigs.k8s.io/controller-runtime/pkg/"

// libraryReaders are types and functions of controller-runtime that read fields of whatever they
// are registered for.
var libraryReaders = map[string]string{
	runtimePath + "predicate.TypedLabelChangedPredicate":      "metadata.labels",
	runtimePath + "predicate.TypedAnnotationChangedPredicate": "metadata.annotations",
	runtimePath + "predicate.TypedGenerationChangedPredicate": "metadata.generation",
	runtimePath + "predicate.LabelSelectorPredicate":          "metadata.labels",
	runtimePath + "handler.EnqueueRequestForOwner":            "metadata.ownerReferences",
	runtimePath + "handler.TypedEnqueueRequestForOwner":       "metadata.ownerReferences",
}

// libraryReader is the path that a value of a library's type will read; "" for none.
func libraryReader(t types.Type) string {
	named, ok := types.Unalias(deref(t)).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return ""
	}
	return libraryReaders[named.Obj().Pkg().Path()+"."+named.Obj().Name()]
}

// findScopes finds the functions that the program registers for objects of one kind and uses for
// nothing else: a library gives them no others.
func (a *analysis) findScopes() {
	used := map[*ssa.Function]int{} // so often a function is a value
	boxes := map[types.Type]int{}   // so often a value of a type of the program is put into an interface
	scoped := map[*ssa.Function]int{}
	scopedBox := map[types.Type]int{}
	kinds := map[*ssa.Function][]*apiType{}
	boxKinds := map[types.Type][]*apiType{}
	callers := map[*ssa.Function][]*ssa.Function{}
	for _, one := range a.p.pkgs {
		if !one.own || one.ssa == nil {
			continue
		}
		a.p.functions(one, func(fn *ssa.Function) {
			for _, b := range fn.Blocks {
				for _, instr := range b.Instrs {
					a.countValues(instr, used, boxes)
					call, ok := instr.(ssa.CallInstruction)
					if !ok {
						continue
					}
					if callee := call.Common().StaticCallee(); callee != nil {
						callers[callee] = append(callers[callee], fn)
					}
					kind, args := a.registration(call.Common())
					if args == nil {
						continue
					}
					var apis []*apiType
					for _, api := range a.types {
						if types.Identical(api.named, kind) {
							apis = append(apis, api)
						}
					}
					for _, arg := range args {
						registered(arg, 0, func(v ssa.Value) {
							switch v := v.(type) {
							case *ssa.Function:
								scoped[v]++
								kinds[v] = append(kinds[v], apis...)
							case *ssa.MakeClosure:
								scoped[v.Fn.(*ssa.Function)]++
								kinds[v.Fn.(*ssa.Function)] = append(kinds[v.Fn.(*ssa.Function)], apis...)
							case *ssa.MakeInterface:
								t := a.canonical(v.X.Type())
								scopedBox[t]++
								boxKinds[t] = append(boxKinds[t], apis...)
								a.readers[v] = apis
							case *ssa.Call:
								a.readers[v] = apis
							}
						})
					}
				}
			}
		})
	}
	for fn, n := range scoped {
		if n == used[fn] {
			a.scopes[fn] = kinds[fn]
		}
	}
	for t, n := range scopedBox {
		if n != boxes[t] {
			continue
		}
		for _, fn := range a.methods(t) {
			a.scopes[fn] = append(a.scopes[fn], boxKinds[t]...)
		}
	}
	a.helperScopes(callers, used)
}

// helperScopes adds the functions that nobody but functions of a scope calls: what they look at
// comes from these. Only a function that no other package can name, and that is no value, has
// callers that are all known.
func (a *analysis) helperScopes(callers map[*ssa.Function][]*ssa.Function, used map[*ssa.Function]int) {
	for again := true; again; {
		again = false
	next:
		for fn, by := range callers {
			if _, ok := a.scopes[fn]; ok || used[fn] > 0 || fn.Signature.Recv() != nil || fn.Parent() != nil ||
				fn.Origin() != nil || fn.Object() == nil || fn.Object().Exported() {
				continue
			}
			var apis []*apiType
			for _, caller := range by {
				scope, ok := a.scopeOf(caller)
				if !ok {
					continue next
				}
				apis = append(apis, scope...)
			}
			a.scopes[fn], again = apis, true
		}
	}
}

// scopeOf returns the types of the objects that a library gives to a function, or to the one that
// it is in; not ok if they are not known.
func (a *analysis) scopeOf(fn *ssa.Function) (apis []*apiType, ok bool) {
	for ; fn != nil; fn = fn.Parent() {
		if apis, ok = a.scopes[fn]; ok {
			return apis, true
		}
	}
	return nil, false
}

// countValues counts the functions that an instruction uses as values, and the types that it boxes.
func (a *analysis) countValues(instr ssa.Instruction, used map[*ssa.Function]int, boxes map[types.Type]int) {
	if box, ok := instr.(*ssa.MakeInterface); ok {
		boxes[a.canonical(box.X.Type())]++
	}
	if closure, ok := instr.(*ssa.MakeClosure); ok {
		used[closure.Fn.(*ssa.Function)]++
		return
	}
	var callee *ssa.Value
	if call, ok := instr.(ssa.CallInstruction); ok && !call.Common().IsInvoke() {
		callee = &call.Common().Value
	}
	for _, op := range instr.Operands(nil) {
		if fn, ok := (*op).(*ssa.Function); ok && op != callee {
			used[fn]++
		}
	}
}

// registration returns the kind that a call registers something for, and the arguments that are
// registered; no arguments if it is no such call.
func (a *analysis) registration(c *ssa.CallCommon) (kind types.Type, args []ssa.Value) {
	if c.IsInvoke() {
		if !strings.HasPrefix(c.Method.Name(), "AddEventHandler") || len(c.Args) == 0 {
			return nil, nil
		}
		kind := informerKind(c.Value)
		if kind == nil {
			return nil, nil
		}
		return kind, c.Args
	}
	fn := c.StaticCallee()
	if fn == nil {
		return nil, nil
	}
	obj, ok := originOf(fn).Object().(*types.Func)
	if !ok {
		return nil, nil
	}
	switch fullName(obj) {
	case runtimePath + "builder.TypedBuilder.For", runtimePath + "builder.TypedBuilder.Owns", runtimePath + "builder.TypedBuilder.Watches":
		if kind := exampleType(c.Args[1]); kind != nil {
			return kind, c.Args[2:]
		}
	}
	return nil, nil
}

// informerKind is the type of the objects of factory.Core().V1().Pods().Informer(): that of the
// lister that stands beside it.
func informerKind(v ssa.Value) types.Type {
	call, ok := v.(*ssa.Call)
	if !ok || !call.Call.IsInvoke() || call.Call.Method.Name() != "Informer" {
		return nil
	}
	lister := lookupMethod(call.Call.Value.Type(), "Lister")
	fn, ok := lister.(*types.Func)
	if !ok || fn.Signature().Results().Len() != 1 {
		return nil
	}
	list, ok := lookupMethod(fn.Signature().Results().At(0).Type(), "List").(*types.Func)
	if !ok || list.Signature().Results().Len() == 0 {
		return nil
	}
	slice, ok := list.Signature().Results().At(0).Type().Underlying().(*types.Slice)
	if !ok {
		return nil
	}
	return types.Unalias(deref(slice.Elem()))
}

// registered calls f for the functions, the values of types and the calls of a library that an
// argument is made of, as far as nobody else has them.
func registered(v ssa.Value, depth int, f func(ssa.Value)) {
	if depth > 12 {
		return
	}
	if elems := variadic(v); elems != nil {
		for _, e := range elems {
			registered(e, depth+1, f)
		}
		return
	}
	if fn, ok := v.(*ssa.Function); ok {
		f(fn)
		return
	}
	if v.Referrers() == nil || uses(v) != 1 {
		return
	}
	switch v := v.(type) {
	case *ssa.MakeClosure:
		f(v)
	case *ssa.MakeInterface:
		f(v)
		registered(v.X, depth+1, f)
	case *ssa.ChangeType:
		registered(v.X, depth+1, f)
	case *ssa.ChangeInterface:
		registered(v.X, depth+1, f)
	case *ssa.Call:
		fn := v.Call.StaticCallee()
		if fn == nil || fn.Blocks != nil {
			return
		}
		f(v)
		for _, arg := range v.Call.Args {
			registered(arg, depth+1, f)
		}
	case *ssa.Extract:
		registered(v.Tuple, depth+1, f)
	case *ssa.UnOp:
		literal(v.X, depth, f)
	case *ssa.Alloc:
		literal(v, depth, f)
	}
}

// literal is registered for the fields of a composite literal.
func literal(v ssa.Value, depth int, f func(ssa.Value)) {
	alloc, ok := v.(*ssa.Alloc)
	if !ok {
		return
	}
	var values []ssa.Value
	for _, r := range *alloc.Referrers() {
		switch r := r.(type) {
		case *ssa.FieldAddr:
			for _, w := range *r.Referrers() {
				store, ok := w.(*ssa.Store)
				if !ok || store.Addr != r {
					return
				}
				values = append(values, store.Val)
			}
		case *ssa.UnOp, *ssa.MakeInterface, *ssa.DebugRef:
		default:
			return
		}
	}
	for _, value := range values {
		registered(value, depth+1, f)
	}
}

// readsLater records what a predicate or a handler of a library reads of the objects that it is
// registered for: of all types, if these are not known.
func (a *analysis) readsLater(path string, v ssa.Value, s *site) {
	apis, ok := a.readers[v]
	if !ok {
		apis = a.types
	}
	for _, api := range slices.Compact(slices.Clone(apis)) {
		id := a.newVertex(vertex{typ: types.NewPointer(api.named), fn: s.fn, pos: s.at, label: "an object that a controller is told of"})
		a.source(id, api.root.tag)
		u := use{level: whole, pos: s.at, class: "read", text: "read by " + s.name}
		a.copies(id, a.newVertex(vertex{sink: &sink{use: u, fn: s.fn, path: path}, fn: s.fn, pos: s.at}))
	}
}
