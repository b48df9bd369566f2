package lw

import "sync"

type replaceOptions[T Object] struct {
	same      func(old, new T) bool
	keep      func(Key) bool
	change    func(old, new T)
	duplicate func(Key)
}

func (x *Indexer[T]) setIn(mu *sync.Mutex, obj T, rv string) (T, bool) {
	mu.Lock()
	return x.set(obj, rv)
}

func (x *Indexer[T]) replaceIn(mu *sync.Mutex, objs []T, rv string, o replaceOptions[T]) int {
	mu.Lock()
	return x.replace(objs, rv, o.same, o.keep, o.change, o.duplicate)
}
