package main

import (
	"go/types"
	"regexp"

	"golang.org/x/tools/go/ssa"
)

func newAnalysis(p *program, named []*types.Named, ignore *regexp.Regexp) *analysis {
	a := &analysis{
		p: p, ignore: ignore,
		values: map[ssa.Value]vid{}, tuples: map[tupleKey]vid{}, resultIDs: map[resultKey]vid{}, fields: map[memoryKey]vid{},
		memories: map[string]vid{}, refined: map[refinedKey]vid{}, checks: map[*ssa.Function]map[any][]assertion{},
		anyTags: map[*apiType]tag{}, failedTags: map[*apiType]tag{}, funcTags: map[*ssa.Function]tag{},
		seen: map[*ssa.Function]bool{}, opened: map[*ssa.Function]bool{}, scopes: map[*ssa.Function][]*apiType{}, readers: map[ssa.Value][]*apiType{},
		insideKeys: map[insideKey]vid{}, modelMemo: map[*types.Func]*model{}, found: map[foundKey]*found{}, want: map[*pkg]bool{},
	}
	a.graph = graph{
		schema: schema{keys: map[*types.Struct]string{}}, fieldUses: map[vid]use{}, has: map[state]uint8{}, from: map[state]state{},
		holdsMemo: map[holdsKey]bool{}, boxMemo: map[boxKey]bool{}, contents: a.inside, reach: a.arrive, read: a.record,
	}
	a.newVertex(vertex{label: "nothing"}) // so that no state is 0
	a.nodes = func(n *node) tag { return a.newTag(tagInfo{kind: partTag, node: n}) }
	for _, n := range named {
		api := a.schema.add(n)
		a.anyTags[api] = a.newTag(tagInfo{kind: anyTag, node: api.root})
		a.failedTags[api] = a.newTag(tagInfo{kind: failedTag, node: api.root})
	}
	a.foreignTag = a.newTag(tagInfo{kind: foreignTag})
	a.fillTag = a.newTag(tagInfo{kind: fillTag})
	return a
}

// run builds the graph and lets the tags flow, in turn: what flows reaches more functions.
func (a *analysis) run() {
	a.findScopes()
	a.roots()
	for {
		for len(a.pending) > 0 {
			fn := a.pending[len(a.pending)-1]
			a.pending = a.pending[:len(a.pending)-1]
			a.function(fn)
			a.dispatchNew()
		}
		a.flow()
		a.dispatchNew()
		if len(a.pending) == 0 && len(a.todo) == 0 {
			if len(a.unanswered) == 0 {
				return
			}
			a.answer()
		}
	}
}

// dispatchNew tells the calls of interfaces of types that were boxed since.
func (a *analysis) dispatchNew() {
	for ; a.dispatched < len(a.boxed); a.dispatched++ {
		t := a.boxed[a.dispatched]
		for i := 0; i < len(a.invocations); i++ {
			a.dispatch(a.invocations[i], t)
		}
	}
}

// arrive is told of everything that comes to a sink.
func (a *analysis) arrive(s *sink, at state) {
	info := &a.tags[at.tag()]
	if s.dynamic != nil {
		s.dynamic(at.tag())
		return
	}
	if s.callback {
		if info.kind == funcTag {
			a.called(info.fn)
		}
		return
	}
	switch info.kind {
	case failedTag:
		// A message about an object that nobody expected is on nobody's way.
		if s.class == "logged" || s.class == "formatted" {
			return
		}
		a.arrivePart(s, info.node, true, at)
	case anyTag:
		a.arrivePart(s, info.node, true, at)
	case partTag:
		if s.comparable && !types.Comparable(info.node.core) {
			return
		}
		a.arrivePart(s, info.node, false, at)
	case boxTag:
		a.arriveBox(s, info.typ, at)
	}
}

// arriveBox opens a box: what is in the fields of its value arrives as well. A library that does
// not know a type, and was given the value as an interface with methods, calls the methods.
func (a *analysis) arriveBox(s *sink, t types.Type, at state) {
	if s.path != "" || s.comparable {
		return
	}
	if s.methods && a.hasText(t) {
		return // the method says what is read
	}
	if s.class == "unknown" {
		if prev := a.verts[a.from[at].vid()].typ; prev != nil {
			if i, ok := prev.Underlying().(*types.Interface); ok && i.NumMethods() > 0 {
				return
			}
		}
	}
	a.expand(t, s.depth(), at.vid())
}

// hasText reports whether package fmt prints a value by a method of it that is analysed.
func (a *analysis) hasText(t types.Type) bool {
	for _, name := range []string{"Error", "String"} {
		if fn, ok := lookupMethod(t, name).(*types.Func); ok {
			if p := a.p.of(fn.Pkg()); p == nil || !p.source || p.broken {
				return false
			}
			sig := fn.Signature()
			if sig.Params().Len() == 0 && sig.Results().Len() == 1 && types.Identical(sig.Results().At(0).Type(), types.Typ[types.String]) {
				return lookupMethod(t, "Format") == nil
			}
		}
	}
	return false
}

// arrivePart records what a sink reads of a part.
func (a *analysis) arrivePart(s *sink, n *node, anyType bool, at state) {
	if s.path != "" {
		n = a.resolve(n, s.path)
		if n == nil {
			return
		}
	}
	if s.class == "unknown" && !anyType && !a.verts[a.from[at].vid()].opens && s.pkg.readable() {
		a.want[s.pkg] = true
	}
	a.recordAs(n, s.use, anyType, at, s.fn)
}

// readable reports whether a package may be read from source in the next round. The standard
// library and those that make objects themselves are too large, and know objects by interfaces
// alone.
func (p *pkg) readable() bool { return p != nil && !p.source && p.module != "" && !p.caching }

// resolve finds the part at a path of an object, also where n is its metadata.
func (a *analysis) resolve(n *node, path string) *node {
	if n.leaf() {
		return n
	}
	if found := a.find(n, path); found != nil {
		return found
	}
	if rest, ok := cutPrefix(path, "metadata."); ok {
		return a.find(n, rest)
	}
	return nil
}

func (a *analysis) record(n *node, u use, at state) {
	a.recordAs(n, u, false, at, a.verts[at.vid()].fn)
}

func (a *analysis) recordAs(n *node, u use, anyType bool, at state, fn *ssa.Function) {
	if n.hidden || u.level == unread {
		return
	}
	if n.inline {
		if u.level == whole {
			a.leaves(n, func(leaf *node) { a.recordAs(leaf, u, anyType, at, fn) })
		}
		return
	}
	key := foundKey{n, int(u.pos), u.text, u.level == presence}
	if old := a.found[key]; old != nil {
		old.anyType = old.anyType && anyType
		return
	}
	a.found[key] = &found{node: n, use: u, anyType: anyType, at: at, fn: fn}
}

func cutPrefix(s, prefix string) (string, bool) {
	if len(s) >= len(prefix) && s[:len(prefix)] == prefix {
		return s[len(prefix):], true
	}
	return s, false
}
