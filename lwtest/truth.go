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

// truth is what was written to the collection, and therefore what a source must show.
type truth[T lw.Object] struct {
	equal   func(stored, obj T) bool
	changes []*change[T]
	states  []map[lw.Key]T // states[n] is the collection after the first n changes
	start   string         // a version at which the collection was states[0]
}

// A change is one write. Delete does not return the version of a deletion, so that is not known at
// first. It is in the interval (after, until], and each list, page or event of the source narrows
// the interval or ends it with the version itself.
type change[T lw.Object] struct {
	key      lw.Key
	old, new T      // zero if the object did not exist before, or does not exist after
	version  string // "" if it is not known
	after    string // the change was made after this version
	until    string // and not later than this one; "": no bound
}

// compare orders two versions. Both have passed valid, so they are decimal.
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

// certainAt reports whether the collection at version certainly contains the change.
func (c *change[T]) certainAt(version string) bool {
	if c.version != "" {
		return compare(c.version, version) <= 0
	}
	return c.until != "" && compare(c.until, version) <= 0
}

// possibleAt reports whether the collection at version may contain the change.
func (c *change[T]) possibleAt(version string) bool {
	if c.version != "" {
		return compare(c.version, version) <= 0
	}
	return compare(c.after, version) < 0
}

// couldBeAt reports whether version is possible as the version of a change whose version is not
// known.
func (c *change[T]) couldBeAt(version string) bool {
	return compare(version, c.after) > 0 && (c.until == "" || compare(version, c.until) <= 0)
}

// now returns the state after all changes. It must not be changed.
func (tr *truth[T]) now() map[lw.Key]T { return tr.states[len(tr.states)-1] }

// addWrite adds the change that stored obj under key, or deleted key if obj is zero, after the
// version after. It returns an error if obj's version or UID cannot be right. A write that changed
// nothing, whose version is that of the old object, adds no change.
func (tr *truth[T]) addWrite(key lw.Key, obj T, after string) error {
	var zero T
	old := tr.now()[key]
	c := &change[T]{key: key, old: old, new: obj, after: after}
	if obj != zero {
		c.version = obj.GetResourceVersion()
		if err := valid(c.version); err != nil {
			return err
		}
		if old != zero && old.GetResourceVersion() == c.version {
			return nil // nothing changed
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

// valid returns an error unless version can be ordered, which means that it is decimal.
func valid(version string) error {
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return fmt.Errorf("resource version %q: %w", version, err)
	}
	return nil
}

// matches checks that objs are all the selected objects of the collection at version. version must
// include at least the first minChanges changes.
//
// The changes that are certain at version give a lower bound lo of the states that are possible,
// and the changes that are possible an upper bound hi. One of states[lo] to states[hi] must equal
// objs; if none does, the error says how objs differ from the last of them. If some do, matches
// narrows the intervals of the deletions whose version is not known: those before the first state
// that fits were made by version, those from the last one on were made after it.
func (tr *truth[T]) matches(version string, objs []T, selects func(T) bool, minChanges int) error {
	lo := 0
	for i, c := range tr.changes {
		if c.certainAt(version) {
			lo = i + 1
		}
	}
	hi := lo
	for hi < len(tr.changes) && tr.changes[hi].possibleAt(version) {
		hi++
	}
	if hi < minChanges {
		return fmt.Errorf("version %s is from before the %v", version, tr.changes[minChanges-1])
	}
	first, last := -1, -1
	var why error
	for n := max(lo, minChanges); n <= hi; n++ {
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

// differs returns an error that says how objs differ from the selected objects of state.
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

// same returns an error that says how obj differs from the stored object.
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

// show returns obj as JSON, for an error.
func show(obj any) string {
	b, err := json.Marshal(obj)
	if err != nil {
		return fmt.Sprintf("%+v", obj)
	}
	return string(b)
}
