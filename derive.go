package lw

import (
	"iter"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/settle"
)

// nameOr returns the first of name, or the name of T.
func nameOr[T any](name []string) string {
	if len(name) > 0 && name[0] != "" {
		return name[0]
	}
	return typeName[T]()
}

// feed calls apply for each object of in that has changed in this step, or for all objects if whole
// is true or if in joins. obj is zero if the object is gone.
func feed[T Identified](in input[T], whole bool, apply func(key Key, obj T)) {
	if whole || in.stage() == joining {
		for obj := range in.contents() {
			apply(KeyOf(obj), obj)
		}
		return
	}
	for _, c := range in.changes() {
		apply(c.Key, c.New)
	}
}

// Derive is the collection of f(obj) for each obj of in. f leaves obj out by returning the zero U
// (nil). A change of obj costs one call. name is the name in errors and in [GraphStatus]; default:
// the name of U. Derive panics if in or f is nil.
//
// Where in changes more often than what f makes of it, a Derive in front of other operators saves
// their work: an equal result goes no further.
func Derive[T, U Object](g *Graph, in Collection[T], f func(T) U, name ...string) *Derived[U] {
	if f == nil {
		panic("lw: Derive: nil function")
	}
	from := inputOf(g, in, "Derive")
	return newDerived(g, nameOr[U](name), sameForReaders[U], func(shown func(Key) (U, bool), faults *faults) operator[U] {
		o := &deriveOperator[T, U]{byKey: newByKey(shown, faults), in: from, f: f}
		o.applied = o.apply
		return o
	})
}

type deriveOperator[T, U Identified] struct {
	byKey[U]
	in      input[T]
	f       func(T) U
	applied func(Key, T) // apply, as a field so that it is allocated once
}

func (o *deriveOperator[T, U]) inputs(yield func(anyInput) bool) { yield(o.in) }

func (o *deriveOperator[T, U]) run(whole bool) { feed(o.in, whole, o.applied) }

func (o *deriveOperator[T, U]) apply(key Key, obj T) {
	var result U
	at := fault{function: "function", key: key}
	if !equal.IsZero(obj) {
		o.faults.computed.Add(1)
		if !o.faults.try(at, func() { result = identify(o.f(obj)) }) || !named(o.faults, at, result) {
			return
		}
	}
	o.faults.cured(at)
	o.set(key, result)
}

// DeriveMany is the collection of all that f yields for each obj of in. Of what one obj makes with
// one key, the first counts. A change of obj costs one call. name is as for [Derive]. DeriveMany
// panics if in or f is nil.
func DeriveMany[T, U Object](g *Graph, in Collection[T], f func(T) iter.Seq[U], name ...string) *Derived[U] {
	if f == nil {
		panic("lw: DeriveMany: nil function")
	}
	from := inputOf(g, in, "DeriveMany")
	return newDerived(g, nameOr[U](name), sameForReaders[U], func(shown func(Key) (U, bool), faults *faults) operator[U] {
		byKey := newByKey(shown, faults)
		return &manyOperator[T, U]{Results: byKey.Results, faults: faults, in: from, f: f, made: map[Key][]Key{}}
	})
}

type manyOperator[T, U Identified] struct {
	*settle.Results[Key, U]
	faults *faults
	in     input[T]
	f      func(T) iter.Seq[U]
	made   map[Key][]Key // the keys of the results of each origin
}

func (o *manyOperator[T, U]) inputs(yield func(anyInput) bool) { yield(o.in) }

func (o *manyOperator[T, U]) run(whole bool) { feed(o.in, whole, o.apply) }

func (o *manyOperator[T, U]) apply(key Key, obj T) {
	var results []U
	var keys []Key
	at := fault{function: "function", key: key}
	if !equal.IsZero(obj) {
		o.faults.computed.Add(1)
		ok := o.faults.try(at, func() {
			seen := map[Key]bool{}
			for result := range o.f(obj) {
				if equal.IsZero(result) || seen[KeyOf(identify(result))] {
					continue
				}
				seen[KeyOf(result)] = true
				results, keys = append(results, result), append(keys, KeyOf(result))
			}
		})
		if !ok {
			return
		}
		for _, result := range results {
			if !named(o.faults, at, result) {
				return
			}
		}
	}
	o.faults.cured(at)
	kept := make(map[Key]bool, len(keys))
	for i, result := range results {
		kept[keys[i]] = true
		if o.Put(key, keys[i], result) {
			o.faults.unchanged.Add(1)
		}
	}
	for _, was := range o.made[key] {
		if !kept[was] {
			o.Drop(key, was)
		}
	}
	if len(keys) > 0 {
		o.made[key] = keys
	} else {
		delete(o.made, key)
	}
}
