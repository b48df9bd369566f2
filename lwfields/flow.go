package main

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// A tag says what a value may be. The graph of this file carries tags from where values come from
// to where they are used.
type tag int32

type tagKind uint8

const (
	partTag    tagKind = iota // node, or a container of it
	anyTag                    // an object of the type of node that came from a library, in an interface
	failedTag                 // the same, where it has turned out to be no object of another type
	funcTag                   // the function fn of the program
	boxTag                    // a value of typ, which is no part of an object but may contain one
	foreignTag                // a function of a library that nobody can name
	fillTag                   // memory of the program that a library fills
)

type tagInfo struct {
	kind tagKind
	node *node
	fn   *ssa.Function
	typ  types.Type
}

// A vid numbers a vertex: a value of a function, a field of a struct type in all of its values, a
// result of a function, or a sink.
type vid int32

type vertex struct {
	typ   types.Type // what its value may be; nil for a sink, which takes all
	flat  bool       // a struct value: there is nothing that an alias could change
	out   []edge
	in    []origin // where copies and loads come from
	fed   []vid    // what is stored into it
	tags  []tag
	opens bool // what is in a box that it gets is in it as well
	depth depth
	value ssa.Value
	fn    *ssa.Function // the function of the value, or of the sink's call
	pos   token.Pos
	sink  *sink
	label string // for what is no value
	// ofStruct is the key of the struct of which the vertex is a field, where a fieldEdge ends.
	ofStruct string
}

// An origin is the other end of an edge.
type origin struct {
	from vid
	load bool
}

// An edge passes tags on. Its kind says how they change.
type edge struct {
	to   vid
	kind edgeKind
	arg  int32 // the field; or an index into analysis.ops
}

type edgeKind uint8

const (
	// copyEdge: to is what from is. A store into what one of them refers to is seen by the other.
	copyEdge edgeKind = iota
	// loadEdge: to is what from refers to, or what is in it.
	loadEdge
	// storeEdge: from is now in what to refers to.
	storeEdge
	// fieldEdge: to is the field arg of from, or its address.
	fieldEdge
	// passEdge: what from has, to has as well, and nothing comes back.
	passEdge
	// partsEdge passes objects and their parts alone.
	partsEdge
	// opEdge: what to gets is computed by ops[arg].
	opEdge
)

// An op is a rule of a library function, or of a refined value.
type op func(t tag, at state) (pass tag, ok bool)

// How a vertex has a tag.
const (
	held uint8 = 1 << iota
	// stored: a store has put it into what the vertex refers to, so all have it that the vertex may
	// have come from.
	stored
	// deep: it was put into something that the vertex refers to. So all have it that were stored into
	// the vertex.
	deeply
)

// A state is that a vertex has a tag.
type state uint64

func stateOf(v vid, t tag) state { return state(v)<<32 | state(uint32(t)) }
func (s state) vid() vid         { return vid(s >> 32) }
func (s state) tag() tag         { return tag(uint32(s)) }

type work struct {
	state
	mode uint8
}

// A graph is the part of an analysis that knows no Go.
type graph struct {
	schema
	verts []vertex
	tags  []tagInfo
	ops   []op
	// fieldUses says for a vertex that is the target of a fieldEdge what is done with it.
	fieldUses map[vid]use

	has  map[state]uint8
	from map[state]state // whence a vertex has got a tag first; itself at a source
	todo []work

	flowing   bool
	holdsMemo map[holdsKey]bool
	boxMemo   map[boxKey]bool
	parted    []types.Type // types in interfaces that are made of parts of objects, such as for sort.Interface
	contents  func(types.Type, depth) vid
	reach     func(sink *sink, at state)
	read      func(n *node, u use, at state)
}

type boxKey struct {
	typ types.Type
	i   *types.Interface
}

type holdsKey struct {
	typ types.Type
	tag tag
}

func (g *graph) newVertex(v vertex) vid {
	if v.typ != nil {
		_, v.flat = v.typ.Underlying().(*types.Struct)
	}
	g.verts = append(g.verts, v)
	return vid(len(g.verts) - 1)
}

func (g *graph) newTag(t tagInfo) tag {
	g.tags = append(g.tags, t)
	return tag(len(g.tags) - 1)
}

// connect adds an edge, also while tags flow.
func (g *graph) connect(from, to vid, kind edgeKind, arg int32) {
	if from < 0 || to < 0 || from == to && kind == copyEdge {
		return
	}
	e := edge{to, kind, arg}
	if out := g.verts[from].out; len(out) < 32 && slices.Contains(out, e) { // a second one does no harm
		return
	}
	g.verts[from].out = append(g.verts[from].out, e)
	switch kind {
	case storeEdge:
		g.verts[to].fed = append(g.verts[to].fed, from)
	case fieldEdge: // a store into a part goes to the memory of its field
	default:
		g.verts[to].in = append(g.verts[to].in, origin{from, kind == loadEdge || kind == passEdge})
	}
	if !g.flowing {
		return
	}
	for _, t := range slices.Clone(g.verts[from].tags) {
		s := stateOf(from, t)
		g.follow(s, g.has[s], e)
	}
	for _, t := range slices.Clone(g.verts[to].tags) {
		g.back(stateOf(to, t))
	}
}

// back passes a tag on to what a vertex may have come from, and to what was stored into it.
func (g *graph) back(s state) {
	v, mode := s.vid(), g.has[s]
	if mode&stored != 0 {
		for i := 0; i < len(g.verts[v].in); i++ {
			from := g.verts[v].in[i]
			m := held | stored | mode&deeply
			if from.load {
				m |= deeply
			}
			g.add(from.from, s.tag(), m, s)
		}
	}
	if mode&deeply != 0 {
		for i := 0; i < len(g.verts[v].fed); i++ {
			if from := g.verts[v].fed[i]; !g.verts[from].flat {
				g.add(from, s.tag(), held|stored|deeply, s)
			}
		}
	}
}

func (g *graph) copies(from, to vid) { g.connect(from, to, copyEdge, 0) }
func (g *graph) loads(from, to vid)  { g.connect(from, to, loadEdge, 0) }
func (g *graph) stores(from, to vid) { g.connect(from, to, storeEdge, 0) }

// through adds an edge that computes.
func (g *graph) through(from, to vid, f op) {
	g.ops = append(g.ops, f)
	g.connect(from, to, opEdge, int32(len(g.ops)-1))
}

// add gives a vertex a tag, if a value of its type can be that.
func (g *graph) add(v vid, t tag, mode uint8, from state) {
	vert := &g.verts[v]
	s := stateOf(v, t)
	if vert.flat {
		mode = held
	}
	had := g.has[s]
	if had|mode == had {
		return
	}
	if had == 0 {
		if vert.sink == nil && !g.holds(vert.typ, t) {
			return
		}
		g.from[s] = from
		if from == 0 {
			g.from[s] = s
		}
		vert.tags = append(vert.tags, t)
	}
	g.has[s] = had | mode
	if vert.sink == nil && g.tags[t].kind == fillTag {
		for _, api := range g.types {
			if g.typeHolds(vert.typ, api) {
				// The fill itself goes to all aliases, and says the same there.
				g.add(v, api.root.tag, held, s)
			}
		}
	}
	g.todo = append(g.todo, work{s, mode})
}

// source says that a vertex has a tag by itself.
func (g *graph) source(v vid, t tag) { g.add(v, t, held, 0) }

// flow passes all tags on until nothing changes.
func (g *graph) flow() {
	g.flowing = true
	for len(g.todo) > 0 {
		w := g.todo[len(g.todo)-1]
		g.todo = g.todo[:len(g.todo)-1]
		v := w.vid()
		if sink := g.verts[v].sink; sink != nil {
			g.reach(sink, w.state)
			continue
		}
		if info := &g.tags[w.tag()]; g.verts[v].opens && info.kind == boxTag {
			g.connect(g.contents(info.typ, g.verts[v].depth), v, partsEdge, 0)
		}
		for i := 0; i < len(g.verts[v].out); i++ { // reach and follow may add edges
			g.follow(w.state, w.mode, g.verts[v].out[i])
		}
		g.back(w.state)
	}
	g.flowing = false
}

func (g *graph) follow(s state, mode uint8, e edge) {
	switch e.kind {
	case copyEdge, loadEdge:
		// What comes here from elsewhere is something else: it is not stored into.
		g.add(e.to, s.tag(), held|mode&deeply, s)
	case storeEdge:
		g.add(e.to, s.tag(), held|stored, s)
	case passEdge:
		g.add(e.to, s.tag(), held, s)
	case partsEdge:
		if k := g.tags[s.tag()].kind; k == partTag || k == anyTag || k == failedTag {
			g.add(e.to, s.tag(), held, s)
		}
	case opEdge:
		if t, ok := g.ops[e.arg](s.tag(), s); ok {
			g.add(e.to, t, held|mode&deeply, s)
		}
	case fieldEdge:
		g.followField(s, e)
	}
}

// followField takes the field of a part, and records that it is read if it has no parts itself.
func (g *graph) followField(s state, e edge) {
	info := g.tags[s.tag()]
	if info.kind != partTag || info.node.leaf() {
		return
	}
	if int(e.arg) >= info.node.core.NumFields() {
		return
	}
	v := &g.verts[e.to]
	if info.node.key != v.ofStruct {
		return
	}
	kid := g.child(info.node, int(e.arg))
	if kid.hidden {
		return
	}
	use := g.fieldUses[e.to]
	if kid.leaf() {
		if use.level > unread {
			g.read(kid, use, s)
		}
		return
	}
	if use.nilled && nillable(kid.typ) {
		g.read(kid, usePresence(use), s)
	}
	g.add(e.to, kid.tag, held, s)
}

func nillable(t types.Type) bool {
	switch t.Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Map, *types.Interface:
		return true
	}
	return false
}

// holds reports whether a value of type t can be, or lead to, what tg says.
func (g *graph) holds(t types.Type, tg tag) bool {
	key := holdsKey{t, tg}
	if is, ok := g.holdsMemo[key]; ok {
		return is
	}
	g.holdsMemo[key] = false // a recursive type adds nothing
	is := g.canHold(t, &g.tags[tg])
	g.holdsMemo[key] = is
	return is
}

func (g *graph) canHold(t types.Type, info *tagInfo) bool {
	t = types.Unalias(t)
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return g.canHoldElem(u.Elem(), info)
	case *types.Slice:
		return g.canHoldElem(u.Elem(), info)
	case *types.Array:
		return g.canHoldElem(u.Elem(), info)
	case *types.Chan:
		return g.canHoldElem(u.Elem(), info)
	case *types.Map:
		return g.canHoldElem(u.Key(), info) || g.canHoldElem(u.Elem(), info)
	case *types.Tuple:
		for v := range u.Variables() {
			if g.canHoldElem(v.Type(), info) {
				return true
			}
		}
		return false
	case *types.Interface:
		if _, ok := t.(*types.TypeParam); ok {
			return true
		}
		return g.boxes(u, info)
	case *types.Struct:
		return info.kind == partTag && !info.node.leaf() && g.structKey(u) == info.node.key ||
			info.kind == boxTag && types.Identical(t, info.typ) || info.kind == fillTag && g.isWhole(u)
	case *types.Signature:
		return info.kind == funcTag && sameSignature(u, info.fn.Signature) || info.kind == foreignTag
	case *types.Basic:
		return u.Kind() == types.UnsafePointer
	}
	return false
}

func (g *graph) canHoldElem(t types.Type, info *tagInfo) bool {
	switch info.kind {
	case partTag:
		return g.holds(t, info.node.tag)
	default:
		key := holdsKey{t, -1}
		if g.holdsMemo[key] { // on the way already: the type contains itself
			return false
		}
		g.holdsMemo[key] = true
		defer delete(g.holdsMemo, key)
		return g.canHold(t, info)
	}
}

// boxes reports whether an interface can have what info says in it.
func (g *graph) boxes(i *types.Interface, info *tagInfo) bool {
	if i.NumMethods() == 0 {
		return true
	}
	switch info.kind {
	case partTag, anyTag, failedTag:
		named := info.node.named
		if named == nil {
			named = info.node.typ
		}
		if types.Implements(named, i) || types.Implements(types.NewPointer(named), i) {
			return true
		}
		if info.kind != partTag {
			return false
		}
		for _, b := range g.parted {
			if types.Implements(b, i) && g.holds(b, info.node.tag) {
				return true
			}
		}
		return false
	case boxTag:
		key := boxKey{info.typ, i}
		is, ok := g.boxMemo[key]
		if !ok {
			is = types.Implements(info.typ, i)
			g.boxMemo[key] = is
		}
		return is
	}
	return true
}

// sameSignature compares parameters and results by their types, not by their names.
func sameSignature(a, b *types.Signature) bool {
	return a.Variadic() == b.Variadic() && sameTuple(a.Params(), b.Params()) && sameTuple(a.Results(), b.Results())
}

func sameTuple(a, b *types.Tuple) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if !types.Identical(a.At(i).Type(), b.At(i).Type()) {
			return false
		}
	}
	return true
}

// isWhole reports whether a struct is that of an API type.
func (g *graph) isWhole(s *types.Struct) bool {
	key := g.structKey(s)
	for _, api := range g.types {
		if api.root.key == key {
			return true
		}
	}
	return false
}

// typeHolds is holds without interfaces.
func (g *graph) typeHolds(t types.Type, api *apiType) bool {
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return g.typeHolds(u.Elem(), api)
	case *types.Slice:
		return g.typeHolds(u.Elem(), api)
	case *types.Array:
		return g.typeHolds(u.Elem(), api)
	case *types.Chan:
		return g.typeHolds(u.Elem(), api)
	case *types.Map:
		return g.typeHolds(u.Key(), api) || g.typeHolds(u.Elem(), api)
	case *types.Tuple:
		for v := range u.Variables() {
			if g.typeHolds(v.Type(), api) {
				return true
			}
		}
	case *types.Struct:
		return g.structKey(u) == api.root.key
	}
	return false
}
