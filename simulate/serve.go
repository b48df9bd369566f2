package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nothing is the oracle of runs that prove nothing.
const nothing = "nothing is proved"

// serves reports whether the server has a resource.
func (w *World) serves(group, version, plural string) bool {
	return slices.ContainsFunc(w.Resources, func(r lwtest.Resource) bool {
		return r.Group == group && r.Plural == plural && (r.Version == version || r.Version == "" && version == "v1" || slices.Contains(r.Versions, version))
	})
}

// served fails if the server has no such resource: the answer would be a 404, which a program takes
// for an object that is not there, or for a reason to ask again for ever.
func (h *history) served(r *request) {
	if !h.world.serves(r.group, r.version, r.plural) {
		h.fail("the world", "the program's %s of %s asks for %s, and the server has no such kind (404): give its Resource to World.Resources, or its definition to World.CRDs",
			r.verb, r.path(), strings.TrimPrefix(r.group+"/"+r.version+" "+r.plural, "/"))
	}
}

// lists notes what the server says to a list or a watch.
func (g *gate) lists(r *request, code int, body string) {
	query := r.http.URL.Query()
	of := fmt.Sprintf("%s of %s", r.verb, r.path())
	if query.Get("sendInitialEvents") == "true" {
		of = fmt.Sprintf("%s of %s", lwtest.List, r.path()) // where it is refused, a plain list may come
	}
	for _, by := range []string{"labelSelector", "fieldSelector"} {
		if text := query.Get(by); text != "" {
			of += " with the " + by + " " + text
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch was, asked := g.refused[of]; {
	case code < 300:
		g.refused[of] = ""
	case !asked || was != "":
		g.refused[of] = strings.TrimSpace(fmt.Sprintf("%d %s", code, messageOf(body)))
	}
}

// messageOf returns the message of a Status, or the text that is none.
func messageOf(body string) string {
	var of struct{ Message string }
	if json.Unmarshal([]byte(body), &of) == nil && of.Message != "" {
		return of.Message
	}
	return body
}

// proves fails if the calm run shows nothing that a history could be compared with.
func (h *history) proves() {
	h.gate.mu.Lock()
	refused := maps.Clone(h.gate.refused)
	h.gate.mu.Unlock()
	for _, of := range slices.Sorted(maps.Keys(refused)) {
		if said := refused[of]; said != "" {
			h.fail(nothing, "each %s fails, so the program never sees what it asks for: %s", of, said)
		}
	}
	if h.writes > 0 {
		return
	}
	said := ""
	if text := h.logged(0); text != "" {
		said = "\nthe last error that it has logged: " + text
	}
	h.fail(nothing, "in the calm run the program writes nothing, so all histories end alike: let Start set up all controllers, let Steps make what they act on, and give World.Actors what they wait for%s", said)
}

// bind puts a Pod on a node, as a scheduler asks for it.
func bind(s *lwtest.Server, w *recorder, r *request) {
	pods := lwtest.Objects[*corev1.Pod](s, "pods")
	var binding corev1.Binding
	if err := json.Unmarshal(r.body, &binding); err != nil {
		w.status(apierrors.NewBadRequest(err.Error()).Status())
		return
	}
	pod, err := pods.Get(lw.Key{Namespace: r.namespace, Name: r.name})
	if err == nil && (pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil) {
		err = apierrors.NewConflict(corev1.Resource("pods/binding"), r.name, fmt.Errorf("the pod is already on the node %q, or is being deleted", pod.Spec.NodeName))
	}
	if err == nil {
		pod.Spec.NodeName = binding.Target.Name
		pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: time.Now().Truncate(time.Second)},
		})
		_, err = pods.Update(pod)
	}
	var status apierrors.APIStatus
	switch {
	case err == nil:
		w.status(metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
	case errors.As(err, &status):
		w.status(status.Status())
	default:
		w.status(apierrors.NewInternalError(err).Status())
	}
}

// status answers with a Status.
func (w *recorder) status(s metav1.Status) {
	s.Kind, s.APIVersion = "Status", "v1"
	w.header.Set("Content-Type", "application/json")
	w.code = int(s.Code)
	w.body.Write(encode(s))
}
