package lwtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-lw/lw"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// truth is what was written to the collection, and so what a source must say of it.
type truth[T lw.Object] struct {
	equal   func(stored, obj T) bool
	changes []*change[T]
	states  []map[lw.Key]T // states[n] is what is there after n changes
	start   string         // a version of states[0]
}

// A change is one write. The version of a deletion is not told to the one who deletes: it becomes known, or narrowed down, by
// what the source says.
type change[T lw.Object] struct {
	key      lw.Key
	old, new T      // zero: not there
	version  string // "": not known, but after one and not later than the other
	after    string
	until    string // "": no bound
}

// compare orders two versions, which were found to be decimal when they were seen first.
func compare(a, b string) int {
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		panic(fmt.Sprintf("lwtest: %v", err))
	}
	return order
}

func (c *change[T]) String() string {
	var zero T
	verb := "update of"
	switch {
	case c.old == zero:
		verb = "creation of"
	case c.new == zero:
		verb = "deletion of"
	}
	at := " at " + c.version
	if c.version == "" {
		at = " after " + c.after
	}
	return verb + " " + c.key.String() + at
}

// must reports whether the change is certain to have been made at version, may whether it is possible.
func (c *change[T]) must(version string) bool {
	if c.version != "" {
		return compare(c.version, version) <= 0
	}
	return c.until != "" && compare(c.until, version) <= 0
}

func (c *change[T]) may(version string) bool {
	if c.version != "" {
		return compare(c.version, version) <= 0
	}
	return compare(c.after, version) < 0
}

// can reports whether a deletion that is not known better can have been at version.
func (c *change[T]) can(version string) bool {
	return compare(version, c.after) > 0 && (c.until == "" || compare(version, c.until) <= 0)
}

// now is the state after all changes.
func (tr *truth[T]) now() map[lw.Key]T { return tr.states[len(tr.states)-1] }

// wrote notes that obj is stored under key now, or nothing if it is zero, later than the version after. It says what is wrong
// with the version.
func (tr *truth[T]) wrote(key lw.Key, obj T, after string) error {
	var zero T
	old := tr.now()[key]
	c := &change[T]{key: key, old: old, new: obj, after: after}
	if obj != zero {
		c.version = obj.GetResourceVersion()
		if err := valid(c.version); err != nil {
			return err
		}
		if old != zero && old.GetResourceVersion() == c.version {
			return nil // nothing has changed
		}
		if compare(c.version, c.after) <= 0 {
			return fmt.Errorf("it returned resource version %s after %s", c.version, c.after)
		}
		if c.new.GetUID() == "" {
			return fmt.Errorf("it returned no UID")
		}
	}
	state := maps.Clone(tr.now())
	if state[key] = obj; obj == zero {
		delete(state, key)
	}
	tr.changes, tr.states = append(tr.changes, c), append(tr.states, state)
	return nil
}

func valid(version string) error {
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return fmt.Errorf("resource version %q: %w", version, err)
	}
	return nil
}

// matches compares what a source says to be all objects at version with what can have been there. It says what is wrong, and
// otherwise learns from it when objects were deleted. at least so many changes must have been made.
func (tr *truth[T]) matches(version string, objs []T, selects func(T) bool, least int) error {
	lo := 0
	for i, c := range tr.changes {
		if c.must(version) {
			lo = i + 1
		}
	}
	hi := lo
	for hi < len(tr.changes) && tr.changes[hi].may(version) {
		hi++
	}
	if hi < least {
		return fmt.Errorf("version %s is from before the %v", version, tr.changes[least-1])
	}
	first, last := -1, -1
	var why error
	for n := max(lo, least); n <= hi; n++ {
		err := tr.differs(tr.states[n], objs, selects)
		switch {
		case err == nil && first < 0:
			first, last = n, n
		case err == nil:
			last = n
		default:
			why = err
		}
	}
	if first < 0 {
		return why
	}
	for i, c := range tr.changes {
		switch {
		case c.version != "":
		case i < first && (c.until == "" || compare(version, c.until) < 0):
			c.until = version
		case i >= last && compare(version, c.after) > 0:
			c.after = version
		}
	}
	return nil
}

// differs says how objs differ from what of state is selected.
func (tr *truth[T]) differs(state map[lw.Key]T, objs []T, selects func(T) bool) error {
	var wrong []string
	seen := map[lw.Key]bool{}
	for _, obj := range objs {
		key := lw.KeyOf(obj)
		want, ok := state[key]
		switch {
		case seen[key]:
			wrong = append(wrong, fmt.Sprintf("%v is there twice", key))
		case !ok:
			wrong = append(wrong, fmt.Sprintf("%v is there, and should not be", key))
		case !selects(want):
			wrong = append(wrong, fmt.Sprintf("%v is there, and is not selected", key))
		default:
			if err := tr.same(want, obj); err != nil {
				wrong = append(wrong, err.Error())
			}
		}
		seen[key] = true
	}
	for key, obj := range state {
		if !seen[key] && selects(obj) {
			wrong = append(wrong, fmt.Sprintf("%v is not there, and should be at %s", key, obj.GetResourceVersion()))
		}
	}
	if wrong == nil {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("%s", strings.Join(wrong, "; "))
}

// same says how obj differs from what is stored.
func (tr *truth[T]) same(stored, obj T) error {
	key := lw.KeyOf(stored)
	switch {
	case lw.KeyOf(obj) != key:
		return fmt.Errorf("%v in place of %v", lw.KeyOf(obj), key)
	case obj.GetResourceVersion() != stored.GetResourceVersion():
		return fmt.Errorf("%v is there at %q, and should be at %s", key, obj.GetResourceVersion(), stored.GetResourceVersion())
	case obj.GetUID() != stored.GetUID():
		return fmt.Errorf("%v is there with UID %q, and should be with %s", key, obj.GetUID(), stored.GetUID())
	case !tr.equal(stored, obj):
		return fmt.Errorf("%v at %s is not what was written: %s, want %s", key, obj.GetResourceVersion(), show(obj), show(stored))
	}
	return nil
}

func show(obj any) string {
	b, err := json.Marshal(obj)
	if err != nil {
		return fmt.Sprintf("%+v", obj)
	}
	return string(b)
}
