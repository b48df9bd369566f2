package why

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/request"
)

const (
	// mostTracked is how many keys are looked at for loops. When there are more, others take the
	// place of some: a key that loops comes again soon.
	mostTracked = 4096
	// mostAnswers is how many runs in a row answer their own writes before the key is named.
	mostAnswers = 10
	// mostUndone is how often two writers undo each other before they are named.
	mostUndone = 4
	// mostFlips is how many objects of a key are looked at for two such writers.
	mostFlips = 4
	// answerWithin is how long after a run a change may come that counts as made by the run, where
	// own writes are not told.
	answerWithin = 100 * time.Millisecond
	// forgetAfter ends a loop, and what looks like one.
	forgetAfter = 10 * time.Minute

	// samples is how many changes are compared at once, and samplesEach how many in a second then.
	// The last ones, samplesLeft, are kept for keys that look like loops.
	samples, samplesEach, samplesLeft = 256, 64, 128
)

// loops finds the keys of a queue that run in a loop.
type loops[K comparable] struct {
	found  map[K]*Loop
	left   float64 // samples
	leftAt time.Time
}

// A Loop is a key that runs again and again.
type Loop struct {
	Key         string
	Undo        bool // two managers undo each other; else the key answers its own writes
	Collection  string
	Object      types.NamespacedName
	Field       string   // "": the whole object
	Managers    []string // those of Field that are known
	Rounds      int
	Since, Last time.Time
}

// A history is what is remembered of the runs of a key.
type history struct {
	ended   time.Time // the last run; zero before the end of the first one
	answers int       // runs in a row that had no other reason than what the run before has written
	since   time.Time
	parts   []part // that have changed in all of these runs, as far as they were compared
	looked  int    // runs that were compared
	flips   []flip
}

// A part is a field of an object.
type part struct {
	cause cause
	ref
	Field
}

// A flip is what is remembered of the updates of an object.
type flip struct {
	ref
	updates int
	at      time.Time
	fields  []flipped // the last changes of some fields
}

type flipped struct {
	Field
	undone int
	since  time.Time
}

// takeLocked takes one of the samples if more than spare are left.
func (l *loops[K]) takeLocked(now time.Time, spare float64) bool {
	if !l.leftAt.IsZero() {
		l.left = min(samples, l.left+now.Sub(l.leftAt).Seconds()*samplesEach)
	}
	l.leftAt = now
	if l.left <= spare {
		return false
	}
	l.left--
	return true
}

// answerLocked notes that key begins to run for p. answer says that it may answer what it has
// written itself, and suspect that this was so for a while.
func (l *loops[K]) answerLocked(key K, h *history, p *pending, now time.Time) (answer, suspect bool) {
	answer = !h.ended.IsZero() && h.isAnswer(p)
	if !answer {
		h.answers, h.parts, h.looked = 0, nil, 0
		if loop := l.found[key]; loop != nil && !loop.Undo {
			delete(l.found, key)
		}
		return false, false
	}
	if h.answers++; h.answers == 1 {
		h.since = now
	}
	return true, h.answers > 1
}

// isAnswer reports whether nothing but what the run before has written is in p.
func (h *history) isAnswer(p *pending) bool {
	if len(p.changes) == 0 || slices.ContainsFunc(p.additions, func(r addition) bool { return !r.limited() }) {
		return false
	}
	return !slices.ContainsFunc(p.changes, func(c change) bool {
		return c.cause == causeResync || !c.own() && c.last.Sub(h.ended) > answerWithin
	})
}

// own reports whether the change is known to be the program's own.
func (c *change) own() bool {
	if c.cause == causeTold {
		return true
	}
	obj, version := c.new, ""
	if obj == nil {
		obj = c.old
	}
	o, ok := obj.(interface {
		GetUID() types.UID
		GetResourceVersion() string
	})
	if !ok {
		return false
	}
	if c.new != nil {
		version = o.GetResourceVersion()
	}
	_, ok = request.OwnOf(o.GetUID(), version)
	return ok
}

// answeredLocked notes what differs, of a run that answers.
func (l *loops[K]) answeredLocked(key K, h *history, parts []part, now time.Time) {
	h.looked++
	before := h.parts
	h.parts = slices.Clone(parts)
	if h.looked > 1 {
		h.parts = slices.DeleteFunc(h.parts, func(p part) bool {
			return !slices.ContainsFunc(before, func(was part) bool { return was.ref == p.ref && was.Path == p.Path })
		})
	}
	if len(h.parts) == 0 { // each run has written something else
		h.answers, h.since, h.looked, h.parts = 1, now, 1, parts
		delete(l.found, key)
		return
	}
	if loop := l.found[key]; h.answers < mostAnswers || loop != nil && loop.Undo {
		return
	}
	p := h.parts[0]
	l.found[key] = &Loop{
		Key: keyText(key), Collection: p.collection, Object: p.key, Field: p.Path, Managers: managers(p.Manager),
		Rounds: h.answers, Since: h.since, Last: now,
	}
}

func managers(all ...string) (known []string) {
	for _, m := range all {
		if m != "" && !slices.Contains(known, m) {
			known = append(known, m)
		}
	}
	return known
}

// flipLocked notes an update of an object for which the key of h is added, and reports whether the
// versions are to be compared.
func (l *loops[K]) flipLocked(h *history, of ref, now time.Time) bool {
	at := slices.IndexFunc(h.flips, func(f flip) bool { return f.ref == of })
	if at < 0 {
		if len(h.flips) == mostFlips {
			h.flips = slices.Delete(h.flips, 0, 1)
		}
		h.flips = append(h.flips, flip{ref: of, updates: 1, at: now})
		return false
	}
	f := &h.flips[at]
	if now.Sub(f.at) > forgetAfter {
		f.updates, f.fields = 0, nil
	}
	f.updates++
	f.at = now
	spare := float64(samplesLeft)
	if slices.ContainsFunc(f.fields, func(p flipped) bool { return p.undone > 0 }) {
		spare = 0
	}
	return f.updates > 1 && l.takeLocked(now, spare)
}

// flippedLocked notes what differs between the versions of an update.
func (l *loops[K]) flippedLocked(key K, h *history, of ref, fields []Field, now time.Time) {
	at := slices.IndexFunc(h.flips, func(f flip) bool { return f.ref == of })
	if at < 0 {
		return
	}
	f := &h.flips[at]
	news := make([]flipped, 0, len(fields))
	for _, field := range fields {
		n := flipped{Field: field, since: now}
		was := slices.IndexFunc(f.fields, func(p flipped) bool { return p.Path == field.Path })
		if was >= 0 {
			if other := undoes(&f.fields[was].Field, &field); other != "" {
				n.undone, n.since = f.fields[was].undone+1, f.fields[was].since
				if n.undone >= mostUndone {
					l.found[key] = &Loop{
						Key: keyText(key), Undo: true, Collection: f.collection, Object: f.key, Field: field.Path,
						Managers: managers(min(other, field.Manager), max(other, field.Manager)), Rounds: n.undone, Since: n.since, Last: now,
					}
				}
			} else if loop := l.found[key]; loop != nil && loop.Undo && loop.Field == field.Path && loop.Object == f.key {
				delete(l.found, key)
			}
			f.fields = slices.Delete(f.fields, was, was+1)
		}
		news = append(news, n)
	}
	f.fields = append(news, f.fields...)
	f.fields = f.fields[:min(len(f.fields), 2*MostFields)]
}

// undoes returns who has written the other value of a field if the change now takes back the change
// was, or makes it again, because somebody has taken it back whose event the queue did not get.
func undoes(was, now *Field) string {
	switch {
	case now.Manager == "":
	case now.was == was.now && now.now == was.was && was.Manager != now.Manager:
		return was.Manager
	case now.was == was.was && now.now == was.now && was.Manager == now.Manager && now.before != now.Manager:
		return now.before
	}
	return ""
}
