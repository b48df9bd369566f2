package main

import (
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// apply adds a call of a function that the tables know.
func (a *analysis) apply(s *site, m *model, args []ssa.Value) {
	switch m.kind {
	case harmless:
		a.makes(s)
	case live:
	case fills:
		for _, arg := range args {
			a.fill(a.use(arg, s.block))
		}
	case reads:
		if m.class == "example" {
			a.readsOf(s, m.paths)
			return
		}
		for _, arg := range args {
			for _, v := range unpack(arg) {
				for _, path := range m.paths {
					a.readPath(s, a.use(v, s.block), path, "read by "+s.name)
				}
			}
		}
	case flows:
		for _, arg := range args {
			for _, v := range unpack(arg) {
				from := a.use(v, s.block)
				a.results(s, func(to vid) { a.copies(from, to) })
			}
		}
	case copies:
		if len(args) == 2 {
			a.stores(a.use(args[0], s.block), a.use(args[1], s.block))
		}
	case keeps:
		for _, arg := range args {
			for _, v := range unpack(arg) {
				a.stores(a.use(v, s.block), a.memory(s.pkg.path))
			}
			// What is in it comes out by the arguments as well: workqueue.Get, sync.Map.Range.
		}
		a.results(s, func(to vid) { a.loads(a.memory(s.pkg.path), to) })
	case reflects:
		a.reflect(s, m, args)
		a.makes(s)
	case selects:
		for _, arg := range args {
			for _, v := range unpack(arg) {
				a.fill(a.use(v, s.block))
			}
		}
		a.makes(s)
		if selective(args) {
			a.readsOf(s, []string{"metadata.labels"})
		}
	}
}

// reflect gives arguments to a function that looks at all of them.
func (a *analysis) reflect(s *site, m *model, args []ssa.Value) {
	what := "given to "
	switch m.class {
	case "written":
		what = "written by "
	case "compared":
		what = "compared by "
	}
	u := use{class: m.class, text: what + s.name, advice: m.advice, level: whole, pos: s.pos()}
	verbs := formatVerbs(s, args)
	for _, arg := range args {
		elems := variadic(arg)
		for i, v := range unpack(arg) {
			to := &sink{use: u, fn: s.fn, methods: s.pkg != nil && s.pkg.path == "fmt" && strings.Contains(s.name, "rint") && !strings.HasSuffix(s.name, "f")}
			if elems != nil && i < len(verbs) {
				if verb := verbs[i]; verb == "T" || verb == "p" {
					continue // its type or its address
				} else if byMethod(verb) {
					to.methods = true
				}
			}
			from := a.use(v, s.block)
			a.giveFrom(from, v, to)
			if m.class == "encoded" || m.class == "reflected" || strings.Contains(s.name, "can") {
				a.fill(from) // as Unmarshal and Sscan do
			}
		}
	}
}

// formatVerbs returns what a constant format does with the variadic arguments: the flags and the
// letter of each; nil if that is not known.
func formatVerbs(s *site, args []ssa.Value) []string {
	if !strings.HasSuffix(s.name, "f") || len(args) < 2 {
		return nil
	}
	format, ok := constantString(args[len(args)-2])
	if !ok {
		return nil
	}
	var verbs []string
	for at := 0; at < len(format); at++ {
		if format[at] != '%' {
			continue
		}
		from := at + 1
		for at++; at < len(format) && strings.IndexByte("+-# 0123456789.", format[at]) >= 0; at++ {
		}
		if at == len(format) || format[at] == '[' || format[at] == '*' {
			return nil // an explicit index
		}
		if format[at] != '%' {
			verbs = append(verbs, format[from:at+1])
		}
	}
	return verbs
}

// byMethod reports whether a verb asks a value for its Error or String, if it has one.
func byMethod(verb string) bool {
	return strings.IndexByte("vsqxX", verb[len(verb)-1]) >= 0 && !strings.Contains(verb, "#")
}

// readPath records that a path of whatever a vertex is is read.
func (a *analysis) readPath(s *site, from vid, path, text string) {
	if from < 0 {
		return
	}
	u := use{level: whole, pos: s.pos(), class: "read", text: text}
	a.copies(from, a.newVertex(vertex{sink: &sink{use: u, fn: s.fn, path: path}, fn: s.fn, pos: s.pos()}))
}

// readsOf records reads of the types that a call is about: that of its results, of its type
// arguments or of an example.
func (a *analysis) readsOf(s *site, paths []string) {
	var found []*apiType
	look := func(t types.Type) {
		for _, api := range a.types {
			if a.typeHolds(t, api) || a.typeHolds(itemOf(t), api) {
				found = append(found, api)
			}
		}
	}
	known := false // a concrete type that is none of those
	for v := range s.call.Signature().Results().Variables() {
		look(v.Type())
		if core, _ := coreOf(v.Type()); core != nil {
			known = true
		}
	}
	if fn := s.call.StaticCallee(); fn != nil {
		for _, t := range fn.TypeArgs() {
			look(t)
			known = true
		}
	}
	for _, arg := range s.args {
		if t := exampleType(arg); t != nil {
			look(t)
			known = known || isAPI(t) || isAPI(itemOf(t))
		}
	}
	if len(found) == 0 && !known {
		found = a.types
	}
	for _, api := range found {
		v := a.newVertex(vertex{typ: types.NewPointer(api.named), fn: s.fn, pos: s.pos(), label: "an object of the list"})
		a.source(v, api.root.tag)
		text := "List with a selector"
		if paths[0] != "metadata.labels" {
			text = "read by " + s.name
		}
		for _, path := range paths {
			a.readPath(s, v, path, text)
		}
	}
}

// selective reports whether a list is of the objects with certain labels. What it does not know is.
func selective(args []ssa.Value) bool {
	for _, arg := range args {
		for _, v := range unpack(arg) {
			if box, ok := v.(*ssa.MakeInterface); ok {
				v = box.X
			}
			named, ok := types.Unalias(deref(v.Type())).(*types.Named)
			if !ok || named.Obj().Pkg() == nil {
				if _, slice := v.Type().Underlying().(*types.Slice); slice && !isNil(v) {
					return true
				}
				continue
			}
			switch named.Obj().Pkg().Path() + "." + named.Obj().Name() {
			case "k8s.io/apimachinery/pkg/labels.Selector":
				if call, ok := v.(*ssa.Call); ok && call.Call.StaticCallee() != nil &&
					(call.Call.StaticCallee().Name() == "Everything" || call.Call.StaticCallee().Name() == "Nothing") {
					continue
				}
				return true
			case "sigs.k8s.io/controller-runtime/pkg/client.ListOptions":
				if !isNil(v) && mayHaveSelector(v) {
					return true
				}
			case "sigs.k8s.io/controller-runtime/pkg/client.InNamespace", "sigs.k8s.io/controller-runtime/pkg/client.MatchingFields",
				"sigs.k8s.io/controller-runtime/pkg/client.MatchingFieldsSelector", "sigs.k8s.io/controller-runtime/pkg/client.Limit",
				"sigs.k8s.io/controller-runtime/pkg/client.Continue", "sigs.k8s.io/controller-runtime/pkg/client.UnsafeDisableDeepCopyOption":
			case "sigs.k8s.io/controller-runtime/pkg/client.ListOption", "sigs.k8s.io/controller-runtime/pkg/client.MatchingLabels",
				"sigs.k8s.io/controller-runtime/pkg/client.MatchingLabelsSelector", "sigs.k8s.io/controller-runtime/pkg/client.HasLabels":
				return true
			default:
				if strings.HasSuffix(named.Obj().Name(), "ListOption") {
					return true
				}
			}
		}
	}
	return false
}

// mayHaveSelector reports whether the LabelSelector of a ListOptions may be set: not if it is a
// composite literal of this function of which nobody else sets it.
func mayHaveSelector(v ssa.Value) bool {
	alloc, ok := v.(*ssa.Alloc)
	if !ok {
		return true
	}
	for _, r := range *alloc.Referrers() {
		switch r := r.(type) {
		case *ssa.FieldAddr:
			s := deref(alloc.Type()).Underlying().(*types.Struct)
			if f := s.Field(r.Field).Name(); f == "LabelSelector" || f == "Raw" {
				return true
			}
		case *ssa.MakeInterface, *ssa.DebugRef:
		default:
			return true
		}
	}
	return false
}

// onlyExample reports whether an argument is an object that the program has just made for this
// call: nothing was filled into it, and nobody looks at it afterwards.
func (a *analysis) onlyExample(v ssa.Value) bool {
	if box, ok := v.(*ssa.MakeInterface); ok {
		if n := uses(box); n != 1 {
			return false
		}
		v = box.X
	}
	alloc, ok := v.(*ssa.Alloc)
	if !ok || !a.isPart(alloc.Type()) {
		return false
	}
	n := 0
	for _, r := range *alloc.Referrers() {
		switch r.(type) {
		case *ssa.DebugRef:
		case *ssa.FieldAddr:
			return false // what is stored may be of an object
		default:
			n++
		}
	}
	return n == 1
}

func uses(v ssa.Value) int {
	n := 0
	for _, r := range *v.Referrers() {
		if _, ok := r.(*ssa.DebugRef); !ok {
			n++
		}
	}
	return n
}
