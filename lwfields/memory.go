package main

import (
	"go/constant"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// of returns the vertex of a value; -1 for what is no object and leads to none.
func (a *analysis) of(v ssa.Value) vid {
	switch v := v.(type) {
	case nil, *ssa.Const, *ssa.Builtin:
		return -1
	case *ssa.Function:
		a.reached(v)
	}
	if id, ok := a.values[v]; ok {
		return id
	}
	if b, ok := v.Type().Underlying().(*types.Basic); ok && b.Kind() != types.UnsafePointer {
		a.values[v] = -1
		return -1
	}
	id := a.newVertex(vertex{typ: v.Type(), value: v, fn: v.Parent(), pos: v.Pos()})
	a.values[v] = id
	switch v := v.(type) {
	case *ssa.Function:
		a.sourceFunc(id, v)
	case *ssa.Global:
		if a.foreign(v.Pkg.Pkg) {
			a.sourceAny(id)
		}
	}
	if !a.flowsIn(v) {
		a.seed(id)
	}
	return id
}

// flowsIn reports whether all that a value can be comes to it over edges of the graph, so that its
// type need not say it: an object that the program has made itself is then nobody's object.
func (a *analysis) flowsIn(v ssa.Value) bool {
	switch v := v.(type) {
	case *ssa.Alloc, *ssa.Phi, *ssa.FreeVar, *ssa.ChangeType, *ssa.ChangeInterface, *ssa.MakeInterface, *ssa.Extract,
		*ssa.MakeSlice, *ssa.MakeMap, *ssa.MakeChan:
		return true
	case *ssa.Slice:
		return true
	case *ssa.UnOp:
		switch v.X.(type) {
		case *ssa.Alloc, *ssa.FreeVar:
			return v.Op == token.MUL
		}
	case *ssa.Parameter:
		return !a.opened[v.Parent()]
	case *ssa.Call:
		if b, ok := v.Call.Value.(*ssa.Builtin); ok {
			return b.Name() == "append"
		}
		if fn := v.Call.StaticCallee(); fn != nil && fn.Blocks != nil && a.modelOf(fn) == nil {
			return true
		}
		m := a.modelOfCall(&v.Call)
		return m != nil && (m.kind == live || m.kind == flows)
	}
	return false
}

// seed gives a vertex whose type says that it has objects the tag of whole ones. It does not matter
// where they come from.
func (a *analysis) seed(id vid) {
	t := a.verts[id].typ
	for _, api := range a.types {
		if a.typeHolds(t, api) {
			a.source(id, api.root.tag)
		}
	}
}

// part returns the vertex of one of several results.
func (a *analysis) part(v ssa.Value, i int) vid {
	key := tupleKey{v, i}
	if id, ok := a.tuples[key]; ok {
		return id
	}
	t := v.Type().(*types.Tuple).At(i).Type()
	id := a.newVertex(vertex{typ: t, fn: v.Parent(), pos: v.Pos(), label: "a result"})
	a.tuples[key] = id
	if !a.flowsIn(v) {
		a.seed(id)
	}
	return id
}

// result is the vertex of a result of a function, for all calls.
func (a *analysis) result(fn *ssa.Function, i int) vid {
	key := resultKey{fn, i}
	if id, ok := a.resultIDs[key]; ok {
		return id
	}
	id := a.newVertex(vertex{typ: fn.Signature.Results().At(i).Type(), fn: fn, pos: fn.Pos(), label: "the result of " + fn.Name()})
	a.resultIDs[key] = id
	return id
}

// field is the vertex of a field in all values of a struct type.
func (a *analysis) field(s *types.Struct, i int, holder types.Type) vid {
	if b, ok := s.Field(i).Type().Underlying().(*types.Basic); ok && b.Kind() != types.UnsafePointer {
		return -1
	}
	key := memoryKey{a.structKey(s), i}
	if id, ok := a.fields[key]; ok {
		return id
	}
	f := s.Field(i)
	id := a.newVertex(vertex{typ: f.Type(), pos: f.Pos(), label: "the field " + f.Name()})
	a.fields[key] = id
	a.seed(id)
	// A library calls the functions that it finds in its own structs, and stores objects there.
	if a.foreign(f.Pkg()) {
		a.copies(id, a.library())
	}
	if f.Pkg() != nil && strings.HasPrefix(f.Pkg().Path(), "container/") {
		a.copies(a.memory(f.Pkg().Path()), id)
		a.copies(id, a.memory(f.Pkg().Path()))
	}
	return id
}

// fieldOf connects x with its field i, which is r or r's address.
func (a *analysis) fieldOf(x ssa.Value, i int, r ssa.Value, b *ssa.BasicBlock) {
	t := x.Type()
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	s := t.Underlying().(*types.Struct)
	from := a.use(x, b)
	to, ok := a.values[r]
	if !ok || to < 0 { // a scalar has a vertex here: its reads are recorded at the edge to it
		to = a.newVertex(vertex{typ: r.Type(), value: r, fn: r.Parent(), pos: r.Pos()})
		a.values[r] = to
		a.seed(to)
	}
	a.verts[to].ofStruct = a.structKey(s)
	a.fieldUses[to] = usage(r)
	a.connect(from, to, fieldEdge, int32(i))
	if _, addr := r.(*ssa.FieldAddr); addr {
		a.copies(a.field(s, i, t), to)
	} else {
		a.loads(a.field(s, i, t), to)
	}
	// What a library puts into a field of an interface's type may be any object.
	if a.foreign(s.Field(i).Pkg()) && !a.isObjectPart(s) {
		a.sourceAnyIn(to, r.Parent())
	}
}

// isObjectPart reports whether a struct is declared for objects on the wire: what it refers to by
// an interface was in the object.
func (a *analysis) isObjectPart(s *types.Struct) bool {
	for i := range s.NumFields() {
		if _, _, hidden := jsonName(s.Field(i), s.Tag(i)); s.Tag(i) != "" && !hidden {
			return true
		}
	}
	return false
}

// instruction adds what one instruction does to the graph.
func (a *analysis) instruction(instr ssa.Instruction) {
	b := instr.Block()
	switch i := instr.(type) {
	case *ssa.Phi:
		for n, e := range i.Edges {
			a.copies(a.use(e, b.Preds[n]), a.of(i))
		}
	case *ssa.UnOp:
		switch {
		case i.Op == token.MUL:
			a.loads(a.use(i.X, b), a.of(i))
		case i.Op == token.ARROW:
			a.loads(a.use(i.X, b), a.first(i, i.CommaOk))
		}
	case *ssa.BinOp:
		a.compare(i)
	case *ssa.ChangeType:
		a.convert(i.X, i, b)
	case *ssa.MultiConvert:
		a.convert(i.X, i, b)
	case *ssa.Convert:
		a.convert(i.X, i, b)
		if isUnsafe(i.Type()) {
			a.escape(a.use(i.X, b), i.X, &sink{use: use{level: whole, pos: i.Pos(), class: "unsafe", text: "converted to unsafe.Pointer",
				advice: "copy the fields that are needed"}, fn: i.Parent()})
		}
	case *ssa.ChangeInterface:
		a.copies(a.use(i.X, b), a.of(i))
	case *ssa.SliceToArrayPointer:
		a.copies(a.use(i.X, b), a.of(i))
	case *ssa.MakeInterface:
		a.makeInterface(i)
	case *ssa.TypeAssert:
		a.copies(a.use(i.X, b), a.first(i, i.CommaOk))
	case *ssa.MakeClosure:
		fn := i.Fn.(*ssa.Function)
		a.reached(fn)
		a.sourceFunc(a.of(i), fn)
		for n, bound := range i.Bindings {
			a.copies(a.use(bound, b), a.of(fn.FreeVars[n]))
		}
	case *ssa.FieldAddr:
		a.fieldOf(i.X, i.Field, i, b)
	case *ssa.Field:
		a.fieldOf(i.X, i.Field, i, b)
	case *ssa.IndexAddr:
		a.copies(a.use(i.X, b), a.of(i))
	case *ssa.Index:
		a.loads(a.use(i.X, b), a.of(i))
	case *ssa.Lookup:
		a.loads(a.use(i.X, b), a.first(i, i.CommaOk))
		a.mapKey(i.Index, b, i.Pos())
	case *ssa.Slice:
		a.copies(a.use(i.X, b), a.of(i))
	case *ssa.Range:
		a.copies(a.use(i.X, b), a.rangeOf(i))
	case *ssa.Next:
		if !i.IsString {
			a.loads(a.rangeOf(i.Iter.(*ssa.Range)), a.part(i, 1))
			a.loads(a.rangeOf(i.Iter.(*ssa.Range)), a.part(i, 2))
		}
	case *ssa.Extract:
		a.copies(a.part(i.Tuple, i.Index), a.of(i))
	case *ssa.Select:
		received := 2
		for _, s := range i.States {
			if s.Dir == types.SendOnly {
				a.stores(a.use(s.Send, b), a.use(s.Chan, b))
				continue
			}
			a.loads(a.use(s.Chan, b), a.part(i, received))
			received++
		}
	case *ssa.Store:
		a.stores(a.use(i.Val, b), a.use(i.Addr, b))
	case *ssa.MapUpdate:
		a.stores(a.use(i.Value, b), a.use(i.Map, b))
		a.stores(a.use(i.Key, b), a.use(i.Map, b))
		a.mapKey(i.Key, b, i.Pos())
	case *ssa.Send:
		a.stores(a.use(i.X, b), a.use(i.Chan, b))
	case *ssa.Return:
		for n, r := range i.Results {
			a.copies(a.use(r, b), a.result(i.Parent(), n))
		}
	case *ssa.Panic:
		a.escape(a.use(i.X, b), i.X, &sink{use: use{level: whole, pos: i.Pos(), class: "formatted", text: "given to panic",
			advice: "panic with the key of the object"}, fn: i.Parent()})
	case ssa.CallInstruction:
		a.call(i)
	}
}

// first is the vertex of what an instruction yields beside its "ok".
func (a *analysis) first(v ssa.Value, commaOk bool) vid {
	if commaOk {
		return a.part(v, 0)
	}
	return a.of(v)
}

// rangeOf is the vertex of an iterator, which has the type of the map.
func (a *analysis) rangeOf(r *ssa.Range) vid {
	if id, ok := a.values[r]; ok {
		return id
	}
	id := a.newVertex(vertex{typ: r.X.Type(), value: r, fn: r.Parent(), pos: r.Pos()})
	a.values[r] = id
	return id
}

// convert is a copy. Fields of struct types that differ in name alone are one.
func (a *analysis) convert(x, to ssa.Value, b *ssa.BasicBlock) {
	a.copies(a.use(x, b), a.of(to))
	from, _ := coreOf(x.Type())
	into, _ := coreOf(to.Type())
	if from == nil || into == nil || from.NumFields() != into.NumFields() || a.structKey(from) == a.structKey(into) {
		return
	}
	for i := range from.NumFields() {
		f, t := a.field(from, i, x.Type()), a.field(into, i, to.Type())
		a.copies(f, t)
		a.copies(t, f)
	}
}

func isUnsafe(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Kind() == types.UnsafePointer
}

// compare reads whole what == compares field by field.
func (a *analysis) compare(i *ssa.BinOp) {
	if i.Op != token.EQL && i.Op != token.NEQ || isNil(i.X) || isNil(i.Y) {
		return
	}
	for _, v := range []ssa.Value{i.X, i.Y} {
		a.byValue(v, i.Block(), &sink{use: use{level: whole, pos: i.Pos(), class: "compared", text: "compared with " + i.Op.String(),
			advice: "compare the fields that matter"}, fn: i.Parent()})
	}
}

func (a *analysis) mapKey(v ssa.Value, b *ssa.BasicBlock, pos token.Pos) {
	a.byValue(v, b, &sink{use: use{level: whole, pos: pos, class: "compared", text: "a key of a map", advice: "use the UID or the name as key"},
		fn: b.Parent()})
}

// byValue is escape for struct values and for what an interface may have of them; a pointer is only
// an address.
func (a *analysis) byValue(v ssa.Value, b *ssa.BasicBlock, s *sink) {
	switch v.Type().Underlying().(type) {
	case *types.Struct, *types.Array:
		a.escape(a.use(v, b), v, s)
	case *types.Interface:
		s.comparable = true
		a.escape(a.use(v, b), v, s)
	}
}

// makeInterface boxes a value. Its methods may be called by whoever has the box.
func (a *analysis) makeInterface(i *ssa.MakeInterface) {
	from, to := a.use(i.X, i.Block()), a.of(i)
	a.copies(from, to)
	t := i.X.Type()
	a.box(t)
	if path := libraryReader(t); path != "" {
		a.readsLater(path, i, &site{fn: i.Parent(), at: i.Pos(), name: types.TypeString(t, (*types.Package).Name)})
	}
	if box, ok := a.boxTags.At(t).(tag); ok {
		a.source(to, box)
	} else if a.mayContain(t) {
		box := a.newTag(tagInfo{kind: boxTag, typ: t})
		a.boxTags.Set(t, box)
		a.source(to, box)
	}
	for _, fn := range a.methods(t) {
		if fn.Blocks != nil && len(fn.Params) > 0 && !a.isPart(t) {
			a.copies(from, a.of(fn.Params[0]))
		}
	}
}

// isPart reports whether t is an API type, or a pointer to one: all its values have their tags.
func (a *analysis) isPart(t types.Type) bool {
	core, _ := coreOf(t)
	if core == nil {
		return false
	}
	key := a.structKey(core)
	for _, api := range a.types {
		if api.root.key == key {
			return true
		}
	}
	return false
}

// constantString returns the text of a constant.
func constantString(v ssa.Value) (string, bool) {
	c, ok := v.(*ssa.Const)
	if !ok || c.Value == nil || c.Value.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(c.Value), true
}
