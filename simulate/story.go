package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A change is one of an object of the server.
type change struct {
	line     int                        // of the story that narrates it
	was, now *unstructured.Unstructured // nil: it was not there, or is gone
}

func (c change) object() *unstructured.Unstructured {
	if c.now != nil {
		return c.now
	}
	return c.was
}

func (c change) name() string {
	obj := c.object()
	return obj.GetKind() + " " + strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/")
}

func (c change) String() string {
	switch {
	case c.was == nil:
		return "creates " + c.name() + ", version " + c.now.GetResourceVersion()
	case c.now == nil:
		return "removes " + c.name()
	}
	return "changes " + c.name() + ", version " + c.now.GetResourceVersion()
}

// changesOf returns what differs between two states of a server.
func changesOf(was, now State) (out []change) {
	old := map[string]*unstructured.Unstructured{}
	for _, obj := range was.Objects {
		old[obj.GetKind()+string(obj.GetUID())] = obj
	}
	for _, obj := range now.Objects {
		id := obj.GetKind() + string(obj.GetUID())
		if before := old[id]; before == nil || before.GetResourceVersion() != obj.GetResourceVersion() {
			out = append(out, change{was: before, now: obj})
		}
		delete(old, id)
	}
	for _, obj := range was.Objects {
		if old[obj.GetKind()+string(obj.GetUID())] != nil {
			out = append(out, change{was: obj})
		}
	}
	return out
}

// remembered is how many changes of the server a history remembers, for a program that never rests.
const remembered = 12

func (h *history) narrate(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	h.story = append(h.story, line)
	if h.live {
		say(report{Line: line})
	}
}

// user narrates a step of World.Steps.
func (h *history) user(format string, args ...any) {
	h.narrate(format, args...)
	h.began = len(h.story)
}

// unsaid narrates what Steps have done by W.Server, which nobody else can have done.
func (h *history) unsaid() {
	if h.server.ResourceVersion() == h.version {
		return
	}
	for _, c := range changesOf(h.seen, h.state()) {
		h.user("a user, by w.Server, %s", c)
	}
}

// loop says what does not come to rest.
func (h *history) loop(steps int) string {
	last := h.story[max(0, len(h.story)-12):]
	text := fmt.Sprintf("after %d steps and %d changes of the server the program still works; the last steps:\n  %s", steps, h.changes, strings.Join(last, "\n  "))
	count, most := map[string]int{}, ""
	for _, c := range h.recent {
		if count[c.name()]++; count[c.name()] >= count[most] {
			most = c.name()
		}
	}
	if most != "" {
		text += fmt.Sprintf("\nthe last changes of %s:", most)
	}
	const shown = 3
	skip := count[most] - shown
	for _, c := range h.recent {
		if c.name() != most {
			continue
		}
		if skip--; skip < 0 {
			text += fmt.Sprintf("\n  in line %d, by %q:\n%s", c.line, h.story[c.line-1], h.world.describe(c))
		}
	}
	if h.began > 0 {
		text += fmt.Sprintf("\nit began with line %d, %q", h.began, h.story[h.began-1])
	}
	return text
}

// describe says what a change has changed, in the words of the object.
func (w *World) describe(c change) string {
	if c.was == nil || c.now == nil {
		return "    " + c.String()
	}
	plain := func(_, value string) string { return value }
	shape := w.shapes[c.now.GroupVersionKind().GroupKind()]
	was, now := shape.Flatten(c.was.Object, plain), shape.Flatten(c.now.Object, plain)
	var out []string
	for _, path := range sortedKeys(was, now) {
		old, there := was[path]
		is, stays := now[path]
		if there && (!stays || old != is) {
			out = append(out, "    - "+path+": "+old)
		}
		if stays && (!there || old != is) {
			out = append(out, "    + "+path+": "+is)
		}
	}
	if len(out) == 0 {
		return "    only its version"
	}
	return strings.Join(out, "\n")
}

// story returns what happened, line by line.
func story(lines []string) string {
	s := ""
	const first, last = 30, 60
	for i, line := range lines {
		if i >= first && i < len(lines)-last {
			if i == first {
				s += fmt.Sprintf("      … %d lines …\n", len(lines)-last-first)
			}
			continue
		}
		s += fmt.Sprintf("%4d  %s\n", i+1, line)
	}
	return s
}

func counts(m map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(out, ", ")
}
