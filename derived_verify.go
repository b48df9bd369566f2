package lw

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-lw/lw/internal/mutation"
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
	// One fault mostly changes many objects, and all steps from then on. So the first object that
	// differs is named, and the others are counted, once as long as there are some.
	var first Key
	var what string
	differing := 0
	differ := func(key Key, how string) {
		if differing++; differing == 1 || compareKeys(key, first) < 0 {
			first, what = key, how
		}
	}
	for key, obj := range got {
		switch other, ok := want[key]; {
		case !ok:
			differ(key, "it is shown, but a new computation does not make it")
		case !d.hub.log.same(obj, other):
			paths, _ := mutation.Paths(obj, other)
			differ(key, "a new computation makes another one: "+strings.Join(paths, ", "))
		}
	}
	for key := range want {
		if _, ok := got[key]; !ok {
			differ(key, "it is not shown, but a new computation makes it")
		}
	}
	known := d.differs
	if d.differs = differing > 0; !d.differs || known {
		return
	}
	if differing > 1 {
		what += fmt.Sprintf(" (and %d more)", differing-1)
	}
	d.faults.report(first, fmt.Errorf("%w: %s: %s", errVerify, d.cause(), what))
}

// cause says what makes a collection differ from a new computation.
func (d *Derived[T]) cause() string {
	if c, ok := d.op.(interface{ cause() string }); ok {
		return c.cause()
	}
	return "a function is not pure, or a shared object was changed"
}
