package serve_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-lw/lw"
)

// A modelSelector is what a watch asks for, and what it must be told of.
type modelSelector struct {
	path, query string
	matches     func(w *Widget) bool
}

var modelSelectors = []modelSelector{
	{path, "", func(*Widget) bool { return true }},
	{path, "&labelSelector=even%3Dyes", func(w *Widget) bool { return w.Size%2 == 0 }},
	{path, "&fieldSelector=size%3D1", func(w *Widget) bool { return w.Size == 1 }},
	{"/apis/example.io/v1/namespaces/n/widgets", "", func(w *Widget) bool { return w.Namespace == "n" }},
	{"/apis/example.io/v1/watch/namespaces/n/widgets/a", "", func(w *Widget) bool { return w.Namespace == "n" && w.Name == "a" }},
}

// A modelChange is one write. Those of a transaction have one version.
type modelChange struct {
	version  uint64
	old, new *Widget // as they are stored; nil: there is none
	unseen   bool    // what is served was not told of it, and has come to the same
}

// A truth is what was written, by which clients are judged.
type truth struct {
	changes []modelChange
	breaks  []uint64    // what ends watches: the history begins anew, or is forgotten, up to a version
	gaps    [][2]uint64 // the versions between which nobody has seen anything
	kept    int         // how many events the history keeps, at least
	maxTxn  int         // the most changes of one version
	version uint64      // of the last change

	// What the server may do beside: end watches at any time, cut clients off that it has waited for,
	// and refuse what is more than its limit.
	timed, impatient, limited bool
	closed                    bool // the server has begun to end

	texts map[textOf]string
}

// A textOf is what widgetText was called with.
type textOf struct {
	w       *Widget
	version string
	partial bool
}

func (tr *truth) text(w *Widget, version string, partial bool) string {
	of := textOf{w, version, partial}
	text, ok := tr.texts[of]
	if !ok {
		text = widgetText(w, version, partial)
		if tr.texts == nil {
			tr.texts = map[textOf]string{}
		}
		tr.texts[of] = text
	}
	return text
}

// expected are the events after a version that a selector sees, with their index among the changes.
type expected struct {
	told
	index int
}

func (tr *truth) after(version uint64, c *modelClient) (all []expected) {
	for i, ch := range tr.changes {
		if ch.version <= version || ch.unseen {
			continue
		}
		was, is := ch.old != nil && c.sees.matches(ch.old), ch.new != nil && c.sees.matches(ch.new)
		typ, w := "", ch.new
		switch {
		case was && is:
			typ = "MODIFIED"
		case is:
			typ = "ADDED"
		case was:
			typ, w = "DELETED", ch.old
		default:
			continue
		}
		text := tr.text(w, strconv.FormatUint(ch.version, 10), c.form.kind != "")
		all = append(all, expected{told{typ: typ, version: ch.version, text: text}, i})
	}
	return all
}

// at is the state at a version as a client sees it, in the order of lists.
func (tr *truth) at(version uint64, c *modelClient) (all []told) {
	now := map[lw.Key]*Widget{}
	for _, ch := range tr.changes {
		if ch.version > version {
			break
		}
		if ch.new == nil {
			delete(now, lw.KeyOf(ch.old))
		} else {
			now[lw.KeyOf(ch.new)] = ch.new
		}
	}
	keys := slices.SortedFunc(maps.Keys(now), func(a, b lw.Key) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	for _, key := range keys {
		if w := now[key]; c.sees.matches(w) {
			all = append(all, told{typ: "ADDED", text: tr.text(w, w.ResourceVersion, c.form.kind != "")})
		}
	}
	return all
}

// behind is the index of the first change after a version.
func (tr *truth) behind(version uint64) int {
	i := slices.IndexFunc(tr.changes, func(ch modelChange) bool { return ch.version > version })
	if i < 0 {
		return len(tr.changes)
	}
	return i
}

// judge returns what is wrong with what a client was told, and whether that is everything.
func (tr *truth) judge(c *modelClient) (wrong string, done bool) {
	code, all, ended, err := c.state()
	switch code {
	case 0:
		if ended && !c.ignored && !tr.impatient {
			return fmt.Sprintf("%v", err), true
		}
		return "", ended
	case 200:
	default:
		if code == 429 && (tr.limited || tr.closed) || code == 404 && tr.closed {
			return "", true
		}
		return fmt.Sprintf("the code is %d", code), true
	}
	fitting := false
	for _, version := range slices.Backward(tr.begins(c)) {
		complete, problem := tr.fits(c, version, all)
		if problem != "" {
			wrong += fmt.Sprintf("from %d: %s\n", version, problem)
			continue
		}
		fitting, done = true, done || complete
	}
	if !fitting {
		return wrong, true
	}
	return tr.judgeEnd(c, all, ended, err), done || ended
}

// begins are the versions at which a watch may begin: one that wants the state names none.
func (tr *truth) begins(c *modelClient) []uint64 {
	all := []uint64{c.version}
	for version := c.version + 1; c.initial && version <= tr.version; version++ {
		all = append(all, version)
	}
	return all
}

// complete reports whether a client was told of everything that it must be told.
func (tr *truth) complete(c *modelClient, all []told) bool {
	return slices.ContainsFunc(tr.begins(c), func(version uint64) bool {
		complete, wrong := tr.fits(c, version, all)
		return complete && wrong == ""
	})
}

// judgeEnd returns what is wrong with the end of a watch, if it has ended.
func (tr *truth) judgeEnd(c *modelClient, all []told, ended bool, err error) string {
	if !ended || c.ignored {
		return ""
	}
	expired := len(all) > 0 && all[len(all)-1].typ == "ERROR"
	// The server may end this watch, and what it sent before that is lost where the client has sent
	// more and had not read it.
	mayEnd := tr.timed || c.timed || len(tr.breaks) > 0 || len(tr.changes) > tr.kept
	switch {
	case c.sent && mayEnd && errors.Is(err, syscall.ECONNRESET):
		return ""
	case err != nil && !tr.impatient && !tr.closed: // at the end of the server nobody waits for long
		return fmt.Sprintf("it was cut off: %v", err)
	case err == nil && !expired && !tr.timed && !c.timed && !tr.closed:
		return "it has ended before its time"
	}
	return ""
}

// fits returns what is wrong with what a client was told, if its watch begins at a version; and
// whether it was told of everything since.
func (tr *truth) fits(c *modelClient, version uint64, all []told) (complete bool, wrong string) {
	for i, ev := range all {
		if ev.typ == "ERROR" && (i < len(all)-1 || ev.code != 410) {
			return false, fmt.Sprintf("event %d of %d is an error: %d", i, len(all), ev.code)
		}
	}
	// A watch that was refused has not begun.
	if len(all) == 1 && all[0].typ == "ERROR" && tr.expired(c, version, -1) {
		return true, ""
	}
	rest := all
	if c.initial {
		state := tr.at(version, c)
		if c.endMark {
			state = append(state, told{typ: "BOOKMARK", version: version, end: true})
		}
		for _, want := range state {
			if len(rest) == 0 {
				return false, ""
			}
			got := rest[0]
			if want.typ == "BOOKMARK" {
				got.text = ""
			} else {
				got.version = 0
			}
			if got != want {
				return false, fmt.Sprintf("the state has %+v, want %+v", got, want)
			}
			rest = rest[1:]
		}
	}
	want := tr.after(version, c)
	n, last := 0, version
	for i, got := range rest {
		switch {
		case got.typ == "ERROR":
			next := 0 // the index of the first change that it may not have been told of
			if n > 0 {
				next = want[n-1].index + 1
			} else if c.initial {
				next = tr.behind(version)
			}
			if !tr.expired(c, last, next) {
				return false, fmt.Sprintf("it has ended with 410 after %d events, and was not behind", n)
			}
			return true, ""
		case got.typ == "BOOKMARK":
			due := n
			for due < len(want) && want[due].version <= got.version {
				due++
			}
			if !c.allows || got.end || got.version < last || got.version > tr.version || due != n {
				return false, fmt.Sprintf("the bookmark %d comes after %d events, the last one at %d, of %d that are due", got.version, n, last, due)
			}
			last = got.version
		case n == len(want):
			return false, fmt.Sprintf("event %d is %+v, and there is none", i, got)
		case got != want[n].told:
			return false, fmt.Sprintf("event %d is %+v, want %+v", i, got, want[n].told)
		default:
			last = got.version
			n++
		}
	}
	return n == len(want), ""
}

// expired reports whether a client may be told that what it has not been told of is not known any
// more. It has everything up to version, and next is the first change that it may lack; -1: that is
// not known, because the watch has not begun.
func (tr *truth) expired(c *modelClient, version uint64, next int) bool {
	if len(tr.breaks) > c.opened {
		return true
	}
	if slices.ContainsFunc(tr.breaks, func(at uint64) bool { return at > version }) {
		return true
	}
	if slices.ContainsFunc(tr.gaps, func(gap [2]uint64) bool { return gap[0] < c.version && c.version < gap[1] }) {
		return true
	}
	if next < 0 {
		next = tr.behind(version)
	}
	seen := 0 // changes that have come into the history since
	for _, ch := range tr.changes[min(next, len(tr.changes)):] {
		if !ch.unseen {
			seen++
		}
	}
	return seen > tr.kept-tr.maxTxn
}
