package simulate

import (
	"strconv"
	"strings"

	"github.com/go-lw/lw/lwtest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// startStale starts the program, with the stale reads that are due.
func (h *history) startStale() {
	h.stale = map[string]int{}
	for i, f := range h.plan.faults {
		if f.what == stale && !h.used[i] && f.at <= h.tries {
			h.stale[f.on] = i
		}
	}
	h.start()
}

// older sees to it that a list shows an older state, if it allows one.
func (h *history) older(r *request) {
	if r.verb != lwtest.List || r.http.URL.Query().Get("resourceVersion") != "0" {
		return // it asks for the newest state, or for none that is older than it knows
	}
	h.lists[r.plural] = true
	i, ok := h.stale[r.plural]
	if !ok {
		return
	}
	delete(h.stale, r.plural)
	h.happens(i)
	back := h.plan.faults[i].long
	h.narrate("THE PROGRAM READS %s AS THEY WERE %d CHANGES BEFORE", r.plural, back)
	h.hold(r.plural, 0) // else it has caught up before the program looks
	h.server.Inject(lwtest.Fault{Verb: lwtest.List, Plural: r.plural, Effect: lwtest.Lag(uint64(back))})
}

// streams reports whether the server of the World streams lists: a program that asks for one is then
// never shown an older state.
func (w *World) streams() bool {
	switch minor := w.minor(); {
	case minor == 33: // it was off in this one
		return false
	default:
		return minor >= 32
	}
}

// minor returns the minor version of the World's cluster.
func (w *World) minor() int {
	if w.Kubernetes == "" {
		return newest
	}
	minor, err := strconv.Atoi(strings.TrimPrefix(w.Kubernetes, "1."))
	if err != nil || !strings.HasPrefix(w.Kubernetes, "1.") {
		return 0
	}
	return minor
}

// newest is the minor version of Kubernetes that the module is made of.
const newest = 37

// unstreamed answers a streamed list as a server does that has none; false: this is none, or the
// server has them.
func (h *history) unstreamed(r *request) bool {
	if h.world.streams() || r.verb != lwtest.Watch || r.http.URL.Query().Get("sendInitialEvents") != "true" {
		return false
	}
	r.answer = statusAnswer(r.http, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", field.ErrorList{
		field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
	}))
	h.gate.release(r)
	return true
}
