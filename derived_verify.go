package lw

import (
	"errors"
	"fmt"
	"strings"
)

// errVerify is in the error of a difference that GraphOptions.Verify finds.
var errVerify = errors.New("verify")

func (d *Derived[T]) verify() {
	if d.now == waiting || d.faults.any() {
		return // what is set aside is not what a new computation gives
	}
	none := func(Key) (obj T, ok bool) { return obj, false }
	silent := newFaults(d.graph, d.faults.collection)
	silent.silent = true
	fresh := d.anew(none, silent)
	fresh.run(true)
	fresh.Decide()
	want := map[Key]T{}
	for _, c := range fresh.Changes() {
		want[c.Key] = c.New
	}
	got := map[Key]T{}
	for obj := range d.contents() {
		got[KeyOf(obj)] = obj
	}
	for key, obj := range got {
		switch other, ok := want[key]; {
		case !ok:
			d.faults.report(key, fmt.Errorf("%w: it is shown, but a new computation does not make it", errVerify))
		case !d.hub.log.same(obj, other):
			paths, _ := changedPaths(obj, other)
			d.faults.report(key, fmt.Errorf("%w: a new computation makes another one: %s", errVerify, strings.Join(paths, ", ")))
		}
	}
	for key := range want {
		if _, ok := got[key]; !ok {
			d.faults.report(key, fmt.Errorf("%w: it is not shown, but a new computation makes it", errVerify))
		}
	}
}
