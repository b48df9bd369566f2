package main

import (
	"fmt"
	"go/types"
	"reflect"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// An apiType is one that masks are for.
type apiType struct {
	named *types.Named
	name  string // path.Name
	root  *node
}

// A node is a part of an API type: a field, and with it all elements of a list of such.
type node struct {
	of     *apiType
	parent *node
	path   string // in JSON, dots between; "" for the whole
	typ    types.Type
	// core is the struct that is left of typ without pointers, slices and arrays; nil for a leaf.
	core   *types.Struct
	named  types.Type // with the methods of core
	key    string     // of core, see schema.structKey
	inline bool       // its fields are those of its parent, in JSON
	hidden bool       // it is not in JSON, so nothing decodes it
	kids   []*node    // by the number of the field, made when first needed
	tag    tag
}

// A schema makes nodes, and knows types by what is the same after a conversion.
type schema struct {
	types []*apiType
	nodes func(*node) tag // told of each new node
	keys  map[*types.Struct]string
	same  typeutil.Map // see canonical
}

func (s *schema) add(named *types.Named) *apiType {
	t := &apiType{named: named, name: named.Obj().Pkg().Path() + "." + named.Obj().Name()}
	t.root = s.newNode(&node{of: t, typ: named})
	s.types = append(s.types, t)
	return t
}

func (s *schema) newNode(n *node) *node {
	core, named := coreOf(n.typ)
	if core != nil && !decodesItself(named) && !n.within(core) && exported(core) {
		n.core, n.named, n.key = core, named, s.structKey(core)
	}
	n.tag = s.nodes(n)
	return n
}

// within reports whether an object of the type core contains n: the type is recursive, and paths
// end here.
func (n *node) within(core *types.Struct) bool {
	for p := n.parent; p != nil; p = p.parent {
		if p.core == core {
			return true
		}
	}
	return false
}

// leaf reports whether n is read as a whole or not at all.
func (n *node) leaf() bool { return n.core == nil }

// child returns the part of n that is a field of its struct.
func (s *schema) child(n *node, field int) *node {
	if n.kids == nil {
		n.kids = make([]*node, n.core.NumFields())
	}
	if n.kids[field] == nil {
		f := n.core.Field(field)
		name, inline, hidden := jsonName(f, n.core.Tag(field))
		kid := &node{of: n.of, parent: n, path: join(n.path, name), typ: f.Type(), inline: inline, hidden: hidden || n.hidden}
		if inline {
			kid.path = n.path
		}
		n.kids[field] = s.newNode(kid)
	}
	return n.kids[field]
}

// find returns the part of n at a path in JSON; nil if there is none.
func (s *schema) find(n *node, path string) *node {
	if path == "" {
		return n
	}
	if n.leaf() {
		return nil
	}
	name, rest, _ := strings.Cut(path, ".")
	for i := range n.core.NumFields() {
		kid := s.child(n, i)
		if kid.hidden {
			continue
		}
		if kid.inline && !kid.leaf() {
			if found := s.find(kid, path); found != nil {
				return found
			}
		} else if kid.path == join(n.path, name) && !kid.inline {
			return s.find(kid, rest)
		}
	}
	return nil
}

// leaves calls f for every path of n that ends in a leaf.
func (s *schema) leaves(n *node, f func(*node)) {
	if n.hidden {
		return
	}
	if n.leaf() {
		f(n)
		return
	}
	for i := range n.core.NumFields() {
		s.leaves(s.child(n, i), f)
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func jsonName(f *types.Var, tag string) (name string, inline, hidden bool) {
	value, tagged := reflect.StructTag(tag).Lookup("json")
	name, options, _ := strings.Cut(value, ",")
	if name == "-" && options == "" || !f.Exported() && !f.Embedded() {
		return f.Name(), false, true
	}
	if name == "" && (f.Embedded() || tagged && strings.Contains(","+options+",", ",inline,")) {
		if core, _ := coreOf(f.Type()); core != nil {
			return "", true, false
		}
	}
	if name == "" {
		name = f.Name()
	}
	return name, false, false
}

// coreOf returns the struct that is left of t without pointers, slices and arrays.
func coreOf(t types.Type) (*types.Struct, types.Type) {
	for {
		switch u := t.Underlying().(type) {
		case *types.Pointer:
			t = u.Elem()
		case *types.Slice:
			t = u.Elem()
		case *types.Array:
			t = u.Elem()
		case *types.Struct:
			return u, types.Unalias(t)
		default:
			return nil, nil
		}
	}
}

// decodesItself reports whether a type reads its JSON by a method, so that no part of it can be
// left out.
func decodesItself(t types.Type) bool {
	obj, _, _ := types.LookupFieldOrMethod(t, true, nil, "UnmarshalJSON")
	fn, ok := obj.(*types.Func)
	if !ok {
		return false
	}
	// One that is promoted from an embedded field counts as well: it is what encoding/json calls.
	return fn.Exported()
}

func exported(s *types.Struct) bool {
	for f := range s.Fields() {
		if f.Exported() || f.Embedded() {
			return true
		}
	}
	return false
}

// structKey is the same for two structs if and only if a value of one can be converted to the
// other: tags do not count.
func (s *schema) structKey(t *types.Struct) string {
	if key, ok := s.keys[t]; ok {
		return key
	}
	var b strings.Builder
	for f := range t.Fields() {
		if f.Embedded() {
			b.WriteByte('!')
		}
		if !f.Exported() && f.Pkg() != nil {
			b.WriteString(f.Pkg().Path())
			b.WriteByte('.')
		}
		b.WriteString(f.Name())
		b.WriteByte(' ')
		b.WriteString(types.TypeString(f.Type(), nil))
		b.WriteByte(';')
	}
	key := b.String()
	if t.NumFields() == 0 {
		key = fmt.Sprintf("empty %p", t)
	}
	s.keys[t] = key
	return key
}

// canonical returns one of all identical types, so that it can be a key.
func (s *schema) canonical(t types.Type) types.Type {
	if same, ok := s.same.At(t).(types.Type); ok {
		return same
	}
	s.same.Set(t, t)
	return t
}

// identity are the paths that every mask keeps.
var identity = map[string]bool{
	"apiVersion": true, "kind": true,
	"metadata.name": true, "metadata.namespace": true, "metadata.uid": true, "metadata.resourceVersion": true,
}

// isAPI reports whether a type is one of Kubernetes' kinds: it has a TypeMeta and an ObjectMeta.
func isAPI(t types.Type) bool {
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	var kind, meta bool
	for f := range s.Fields() {
		kind = kind || f.Embedded() && f.Name() == "TypeMeta"
		meta = meta || f.Embedded() && f.Name() == "ObjectMeta"
	}
	return kind && meta
}

// itemOf returns the type of the items of a list type such as PodList, or t itself.
func itemOf(t types.Type) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return t
	}
	for f := range s.Fields() {
		if slice, ok := f.Type().Underlying().(*types.Slice); ok && f.Name() == "Items" {
			item := slice.Elem()
			if p, ok := item.Underlying().(*types.Pointer); ok {
				item = p.Elem()
			}
			return item
		}
	}
	return t
}

func deref(t types.Type) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}
