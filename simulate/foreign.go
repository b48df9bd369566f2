package simulate

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// foreignDomain is that of the annotations and labels that another manager puts on objects. They
// are no part of what is compared, wherever a program copies them to.
const foreignDomain = "foreign.example.com/"

// lost is the oracle of foreign writes.
const lost = "a foreign write is lost"

// An imprint is an annotation and a label of another manager on one object.
type imprint struct {
	plural string
	key    lw.Key
	uid    types.UID
	name   string
	seen   int // the rest after which the program has seen it; 0: it has not
}

// A sweep is the calm order with a foreign write to all objects of a kind, which says what such
// writes alone lead to.
type sweep int

const (
	none     sweep = iota // it is an ordinary history
	anywhere              // the write comes after so many of the program's
	settled               // it waits until nothing is under way
)

// foreign lets another manager write; false: it is not the time yet. In a sweep it writes to all
// objects, and else to one that depends on the fault. It keeps only what has an owner: all else is
// for users to delete.
func (h *history) foreign(f fault) bool {
	c := lwtest.Objects[*unstructured.Unstructured](h.server, f.on)
	var all []*unstructured.Unstructured
	for obj := range c.All() {
		if obj.GetDeletionTimestamp() == nil && (f.what == foreign || metav1.GetControllerOfNoCopy(obj) != nil) {
			all = append(all, obj)
		}
	}
	if len(all) == 0 || h.plan.sweep == settled && len(h.options()) > 0 {
		return false
	}
	if h.plan.sweep == none {
		n := f.at % len(all)
		all = all[n : n+1]
	}
	for _, obj := range all {
		m := &imprint{plural: f.on, key: lw.KeyOf(obj), uid: obj.GetUID(), name: fmt.Sprint(foreignDomain, len(h.marks)+len(h.kept))}
		to, did := &h.marks, "ANNOTATES AND LABELS"
		if f.what == keep {
			to, did = &h.kept, "SETS A FINALIZER OF"
			obj.SetFinalizers(append(obj.GetFinalizers(), m.name))
		} else {
			obj.SetAnnotations(with(obj.GetAnnotations(), m.name))
			obj.SetLabels(with(obj.GetLabels(), m.name))
		}
		made, err := c.Update(obj)
		if err != nil {
			h.narrate("another manager may not write %s/%s: %v", f.on, m.key, err)
			continue
		}
		*to = append(*to, m)
		h.narrate("ANOTHER MANAGER %s %s/%s, version %s", did, f.on, m.key, made.GetResourceVersion())
		h.look()
	}
	h.rest()
	return true
}

// touch lets another manager write what a request is about to be refused for, so that an event
// follows. No 409 comes without one, and a program may wait for it instead of trying again.
func (h *history) touch(r *request) {
	c := lwtest.Objects[*unstructured.Unstructured](h.server, r.plural)
	obj, err := c.Get(lw.Key{Namespace: r.namespace, Name: r.name})
	if err != nil {
		return
	}
	obj.SetAnnotations(with(obj.GetAnnotations(), fmt.Sprint(foreignDomain, "write-", h.tries)))
	if _, err := c.Update(obj); err == nil {
		h.narrate("another manager writes %s/%s", r.plural, lw.KeyOf(obj))
		h.look()
	}
}

// release takes the finalizers of another manager from all that it has kept, when the steps are
// done and all else waits for time to pass: the program has not finished its work. It reports
// whether there was one.
func (h *history) release() bool {
	some := len(h.kept) > 0
	for _, m := range h.kept {
		c := lwtest.Objects[*unstructured.Unstructured](h.server, m.plural)
		obj, err := c.Get(m.key)
		if err != nil || obj.GetUID() != m.uid {
			continue
		}
		obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == m.name }))
		if _, err := c.Update(obj); err != nil {
			h.fail("the world", "the finalizer of %s/%s: %v", m.plural, m.key, err)
		}
		h.narrate("another manager lets %s/%s go", m.plural, m.key)
		h.look()
	}
	h.kept = nil
	return some
}

func with(of map[string]string, name string) map[string]string {
	out := maps.Clone(of)
	if out == nil {
		out = map[string]string{}
	}
	out[name] = "kept"
	return out
}

// seesMarks notes which marks the program has seen.
func (h *history) seesMarks(b []byte) {
	for _, m := range h.marks {
		if m.seen == 0 && bytes.Contains(b, []byte(m.name)) {
			m.seen = h.round
		}
	}
}

// keepsMarks fails if a write of the program has removed a mark from an object that stays. What a
// program removes in the calm order, and knows of, it may remove.
func (h *history) keepsMarks(r *request) {
	marks := h.marks
	h.marks = nil
	for _, m := range marks {
		obj, err := lwtest.Objects[*unstructured.Unstructured](h.server, m.plural).Get(m.key)
		if err != nil || obj.GetUID() != m.uid || obj.GetDeletionTimestamp() != nil {
			continue
		}
		if obj.GetAnnotations()[m.name] != "" && obj.GetLabels()[m.name] != "" {
			h.marks = append(h.marks, m)
			continue
		}
		blind := m.seen == 0 || r.round <= m.seen
		switch {
		case h.plan.sweep != none:
			h.loses = h.loses || !blind
		case !h.calm.Foreign[m.plural+" "+lost]:
			how := "which it had seen"
			if blind {
				how = "which it had not seen: it wrote over what it did not know"
			}
			h.fail(lost, "the program's %s of %s removes the annotation or the label %s of another manager from %s/%s, %s", r.verb, r.path(), m.name, m.plural, m.key, how)
		}
	}
}

// history makes a history. What another manager's writes alone lead to, in the calm order, is no
// failure.
func (k *worker) history(p plan) outcome {
	for {
		out := k.bubble(p, 0)
		if out.Failure == nil || !slices.Contains([]string{lost, anotherEnd, mends}, out.Failure.Oracle) {
			return out
		}
		oracle, again := out.Failure.Oracle, false
		for _, f := range p.faults {
			of := f.on + " " + oracle
			known, asked := k.calm.Foreign[of]
			if f.what == foreign && !asked {
				known = k.sweep(f.on, oracle)
				k.calm.Foreign[of], again = known, again || known
			}
			if f.what == foreign && known && oracle != lost {
				out.Failure = nil
				return out
			}
		}
		if !again {
			return out
		}
	}
}

// sweep reports whether another manager's write alone offends an oracle, after one of the program's
// first writes.
func (k *worker) sweep(plural, oracle string) bool {
	for at := range min(k.calm.Writes, 30) + 1 {
		p := plan{faults: []fault{{what: foreign, on: plural, at: at}}, sweep: settled}
		one := k.bubble(p, 0)
		if oracle != lost && one.Failure != nil && one.Failure.Oracle == oracle {
			return true
		}
		if p.sweep = anywhere; oracle == lost && (one.Loses || k.bubble(p, 0).Loses) {
			return true
		}
	}
	return false
}

// ofForeign reports whether a path is that of a mark.
func ofForeign(path, _ string) bool { return strings.Contains(path, "."+foreignDomain) }
