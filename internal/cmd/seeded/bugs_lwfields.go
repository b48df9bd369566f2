package main

const (
	lwfieldsPackage = "./lwfields"
	lwfieldsFlow    = "lwfields/flow.go"
	lwfieldsMemory  = "lwfields/memory.go"
	lwfieldsCalls   = "lwfields/calls.go"
	lwfieldsScopes  = "lwfields/scopes.go"
)

// lwfieldsBugs make lwfields miss a read, by which a program would see a zero value, or find one that
// is none. The golden programs show them.
var lwfieldsBugs = []bug{
	{name: "lwfields: what is stored through a pointer is not seen where the pointer came from", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsFlow,
		"	if mode&stored != 0 {\n", "	if false {\n")},
	{name: "lwfields: what is put deep into a container is not seen in what was put there before", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsFlow,
		"	if mode&deeply != 0 {\n", "	if false {\n")},
	{name: "lwfields: an object passes no interface that its pointer alone implements", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsFlow,
		"types.Implements(named, i) || types.Implements(types.NewPointer(named), i)", "types.Implements(named, i)")},
	{name: "lwfields: a look for nil is no read", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsFlow,
		"	if use.nilled && nillable(kid.typ) {\n", "	if false {\n")},
	{name: "lwfields: functions of one type with other names of parameters are others", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsFlow,
		"		if !types.Identical(a.At(i).Type(), b.At(i).Type()) {\n", "		if a.At(i).Name() != b.At(i).Name() || !types.Identical(a.At(i).Type(), b.At(i).Type()) {\n")},
	{name: "lwfields: variables of a closure are not followed", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsMemory,
		"			a.copies(a.use(bound, b), a.of(fn.FreeVars[n]))\n", "			_, _ = n, a.use(bound, b)\n")},
	{name: "lwfields: what is sent over a channel is lost", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsMemory,
		"	case *ssa.Send:\n		a.stores(a.use(i.X, b), a.use(i.Chan, b))\n", "	case *ssa.Send:\n")},
	{name: "lwfields: what is stored in a map is lost", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsMemory,
		"		a.stores(a.use(i.Value, b), a.use(i.Map, b))\n", "")},
	{name: "lwfields: results of functions are lost", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsMemory,
		"			a.copies(a.use(r, b), a.result(i.Parent(), n))\n", "			_, _ = n, a.use(r, b)\n")},
	{name: "lwfields: the memory of a field is not filled", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsMemory,
		"	if _, addr := r.(*ssa.FieldAddr); addr {\n		a.copies(a.field(s, i, t), to)\n", "	if _, addr := r.(*ssa.FieldAddr); addr {\n")},
	{name: "lwfields: structs that are compared are not read", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsMemory,
		"	case *ssa.BinOp:\n		a.compare(i)\n", "	case *ssa.BinOp:\n")},
	{name: "lwfields: a call of a function value calls nobody", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsCalls,
		"			a.static(s, info.fn)\n", "")},
	{name: "lwfields: functions that are given to a library are not called", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsCalls,
		"		a.copies(from, a.library())\n", "")},
	{name: "lwfields: an unknown function reads nothing", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsCalls,
		"			a.giveFrom(from, v, &sink{use: u, fn: s.fn, pkg: s.pkg})\n", "")},
	{name: "lwfields: a library stores nothing in what it is given", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsCalls,
		"		a.add(v, a.fillTag, held|stored, 0)\n", "")},
	{name: "lwfields: a method of an interface is nobody's", run: "TestGolden", in: lwfieldsPackage, edits: one("lwfields/invoke.go",
		"					a.copies(a.use(arg, i.block), a.of(fn.Params[n]))\n", "					a.use(arg, i.block)\n")},
	{name: "lwfields: what is no object of a type is logged as one", run: "TestGolden", in: lwfieldsPackage, edits: one("lwfields/refine.go",
		"			case is != matches:\n				return 0, false\n			case !is:\n				return a.failedTags[info.node.of], true\n", "")},
	{name: "lwfields: %T is taken for %v", run: "TestGolden", in: lwfieldsPackage, edits: one("lwfields/effects.go",
		"verb == \"T\" || verb == \"p\"", "verb == \"p\"")},
	{name: "lwfields: a list with a selector reads no labels", run: "TestGolden", in: lwfieldsPackage, edits: one("lwfields/effects.go",
		"		if selective(args) {\n", "		if !selective(args) {\n")},
	{name: "lwfields: the helper of one predicate is everybody's", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsScopes,
		"	a.helperScopes(callers, used)\n", "")},
	{name: "lwfields: a helper is of one kind if one of its callers is", run: "TestGolden", in: lwfieldsPackage, edits: one(lwfieldsScopes,
		"				if !ok {\n					continue next\n", "				if !ok && len(by) == 1 {\n					continue next\n")},
}
