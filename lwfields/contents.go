package main

import "go/types"

// expand connects what is in the fields of all structs that t leads to with a sink.
func (a *analysis) expand(t types.Type, d depth, to vid) {
	if id := a.inside(t, d); id >= 0 {
		a.connect(id, to, partsEdge, 0)
	}
}

// inside is the vertex of what is in the fields of all structs that t leads to; -1 if there are
// none.
func (a *analysis) inside(t types.Type, d depth) vid {
	if id, ok := a.insides[d].At(t).(vid); ok {
		return id
	}
	structs := structsIn(t)
	id := vid(-1)
	switch len(structs) {
	case 0:
	case 1:
		id = a.insideStruct(structs[0], d)
	default:
		id = a.newVertex(vertex{typ: anything, opens: true, depth: d, label: "what is in a " + t.String()})
		for _, s := range structs {
			a.connect(a.insideStruct(s, d), id, partsEdge, 0)
		}
	}
	a.insides[d].Set(t, id)
	return id
}

// structsIn are the structs that are left of t without pointers and containers.
func structsIn(t types.Type) []*types.Struct {
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return structsIn(u.Elem())
	case *types.Slice:
		return structsIn(u.Elem())
	case *types.Array:
		return structsIn(u.Elem())
	case *types.Chan:
		return structsIn(u.Elem())
	case *types.Map:
		return append(structsIn(u.Key()), structsIn(u.Elem())...)
	case *types.Struct:
		return []*types.Struct{u}
	}
	return nil
}

func (a *analysis) insideStruct(s *types.Struct, d depth) vid {
	key := insideKey{a.structKey(s), d}
	if id, ok := a.insideKeys[key]; ok {
		return id
	}
	id := a.newVertex(vertex{typ: anything, opens: true, depth: d, label: "what is in a struct"})
	a.insideKeys[key] = id
	for i := range s.NumFields() {
		t := s.Field(i).Type()
		if f := a.field(s, i, nil); f >= 0 {
			kind := passEdge
			if u, ok := t.Underlying().(*types.Interface); ok && d == shallow && u.NumMethods() > 0 {
				kind = partsEdge
			}
			a.connect(f, id, kind, 0)
		}
		a.connect(a.inside(t, d), id, partsEdge, 0)
	}
	return id
}
