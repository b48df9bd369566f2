package main

import (
	"go/token"

	"golang.org/x/tools/go/ssa"
)

// A level says how much of a field is read.
type level uint8

const (
	unread level = iota
	presence
	whole
)

// A use is what the program does with a value.
type use struct {
	level  level
	nilled bool // a pointer or slice is looked at, if only to follow it
	pos    token.Pos
	class  string // "read", "logged", "compared", "written", ...: see models.go
	text   string
	advice string
}

func usePresence(u use) use {
	u.level = presence
	return u
}

// usage looks at what is done with the address of a field, or with the value of one.
func usage(v ssa.Value) use {
	_, addr := v.(*ssa.FieldAddr)
	u := use{pos: v.Pos(), class: "read", text: "read"}
	more := func(l level, pos token.Pos) {
		if l > u.level {
			u.level = l
			if pos.IsValid() {
				u.pos = pos
			}
		}
		u.nilled = u.nilled || l > unread
	}
	for _, r := range *v.Referrers() {
		switch r := r.(type) {
		case *ssa.DebugRef:
		case *ssa.Store:
			if !addr || r.Val == v {
				more(whole, r.Pos())
			}
		case *ssa.UnOp:
			if addr && r.Op == token.MUL {
				l, pos := valueUsage(r)
				more(l, pos)
			} else {
				more(whole, r.Pos())
			}
		default:
			if addr {
				more(whole, r.Pos())
				continue
			}
		}
	}
	if !addr {
		l, pos := valueUsage(v)
		more(l, pos)
	}
	return u
}

// valueUsage is presence if a value is compared with nil, or its length is asked for, and nothing
// else. The length of a string is its value's.
func valueUsage(v ssa.Value) (level, token.Pos) {
	result, at := unread, token.NoPos
	for _, r := range *v.Referrers() {
		switch r := r.(type) {
		case *ssa.DebugRef:
			continue
		case *ssa.BinOp:
			if (r.Op == token.EQL || r.Op == token.NEQ) && (isNil(r.X) || isNil(r.Y)) {
				result, at = presence, r.Pos()
				continue
			}
		case *ssa.Call:
			if b, ok := r.Call.Value.(*ssa.Builtin); ok && b.Name() == "len" && nillable(v.Type()) {
				result, at = presence, r.Pos()
				continue
			}
		}
		return whole, v.Pos()
	}
	return result, at
}

func isNil(v ssa.Value) bool {
	c, ok := v.(*ssa.Const)
	return ok && c.Value == nil && nillable(c.Type())
}

// A sink is where a value goes that is not followed further.
type sink struct {
	use
	fn         *ssa.Function // that contains the line
	pkg        *pkg          // of a function that may be read from source instead
	callback   bool          // functions that arrive are called by a library
	dynamic    func(tag)     // a call of the functions that arrive
	comparable bool          // only structs that == compares
	methods    bool          // it asks a value for its Error or String, if it has one
	path       string        // only this part of what arrives is read
}

// depth is how far the sink sees.
func (s *sink) depth() depth {
	if s.class == "unknown" {
		return shallow
	}
	return deep
}

// A depth says what of a value somebody can see who has it.
type depth uint8

const (
	// shallow: who does not know a type sees what interfaces without methods have; of the others he
	// calls the methods.
	shallow depth = iota
	// deep: reflection sees all.
	deep
)
