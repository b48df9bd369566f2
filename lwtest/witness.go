package lwtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-lw/lw"
	"pgregory.net/rapid"
)

// witness asks the source, if its hints have a StillHas, whether it had some object at a version:
// one that it has or had, perhaps later or before, or one that it never had.
func (h *history[T]) witness(rt *rapid.T) {
	ask := lw.HintsOf(h.Source()).StillHas
	if ask == nil {
		rt.Skip("no witness")
	}
	version, objs := h.drawVersion(rt), h.everStored()
	if len(objs) == 0 {
		rt.Skip("there was never an object")
	}
	id := lw.MetaOf(objs[len(objs)-1-rapid.IntRange(0, len(objs)-1).Draw(rt, "objects back")])
	switch rapid.SampledFrom([]string{"as it was", "another UID", "any UID", "another name"}).Draw(rt, "asked of") {
	case "another UID":
		id.UID = "lwtest-another"
	case "any UID":
		id.UID = ""
	case "another name":
		id.Name += "-lwtest"
	}
	want, known := h.had(id, version)
	if !known {
		rt.Skip("nobody knows")
	}
	what := fmt.Sprintf("StillHas of %v, version %s, UID %q, at %s", lw.KeyOf(&id), id.ResourceVersion, id.UID, version)
	var had bool
	var err error
	h.call("StillHas", func() { had, err = ask(context.Background(), id, version) })
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		h.step("%s: the source does not know", what)
	case err != nil && h.expired("StillHas", version, err):
	case err != nil:
		h.rt.Fatal(h.report("%s: %v", what, err))
	case had != want:
		h.rt.Fatal(h.report("%s: %v, want %v", what, had, want))
	default:
		h.step("%s: %v", what, had)
	}
}

// everStored returns all objects in all their versions, in the order of the writes.
func (tr *truth[T]) everStored() (objs []T) {
	var zero T
	for _, c := range tr.changes {
		if c.new != zero {
			objs = append(objs, c.new)
		}
	}
	return objs
}

// had reports whether the collection at version had the object of id in that version, with that
// UID if it has one. known is false if a deletion may or may not have been made by then.
func (tr *truth[T]) had(id lw.Meta, version string) (had, known bool) {
	var zero T
	obj := tr.states[0][lw.KeyOf(&id)]
	for _, c := range tr.changes {
		switch {
		case c.key != lw.KeyOf(&id) || !c.possibleAt(version):
		case c.certainAt(version):
			obj = c.new
		default:
			return false, false
		}
	}
	return obj != zero && obj.GetResourceVersion() == id.ResourceVersion && (id.UID == "" || obj.GetUID() == id.UID), true
}
