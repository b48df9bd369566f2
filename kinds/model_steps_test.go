package kinds_test

import (
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

var (
	bothPlurals = rapid.SampledFrom([]string{"widgets", "gizmos"})
	bothKinds   = rapid.SampledFrom([]string{"Widget", "Gizmo"})
	someGap     = rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, 5 * time.Second})
	order       = rapid.SampledFrom([]string{"v1", "v1 v2", "v2 v1"})
)

// versions draws which of the versions of s are served. Discovery cannot tell a definition that
// serves none from one that is gone.
func (h *history) versions(r *rapid.T, s spec) string {
	all := strings.Fields(strings.ReplaceAll(s.versions, "-", ""))
	off := 0
	for i, v := range all {
		if rapid.IntRange(0, 2).Draw(r, "off") == 0 && (!h.rights || off+1 < len(all)) {
			all[i] = "-" + v
			off++
		}
	}
	return strings.Join(all, " ")
}

func (h *history) drawSpec(r *rapid.T) spec {
	s := spec{plural: bothPlurals.Draw(r, "plural"), kind: bothKinds.Draw(r, "kind"), versions: order.Draw(r, "versions")}
	s.cluster = rapid.IntRange(0, 3).Draw(r, "cluster") == 0
	s.versions = h.versions(r, s)
	return s
}

func (h *history) defines(r *rapid.T) {
	s := h.drawSpec(r)
	if h.there(s.plural) {
		r.Skip("there is one")
	}
	h.write(func() { h.specs[s.plural] = s; h.put(s.object()) })
	h.soon(s)
}

// soon checks that the first list of a new definition comes in time.
func (h *history) soon(s spec) {
	if !h.calm || h.taken || h.unsure {
		return
	}
	var o *widget
	h.write(func() { o = h.create(s.plural, "a", "first") })
	if o == nil {
		return
	}
	time.Sleep(1200 * time.Millisecond)
	for _, sub := range h.all {
		if stand, want := h.truth(sub); stand == isServed && want[keyOf(o)] != nil {
			if _, ok := sub.Store().Get(keyOf(o)); !ok {
				h.r.Fatalf("5: %s %s has no object 1.2 s after Established: %+v", sub.of, sub.namespace, sub.Status())
			}
		}
	}
}

func (h *history) there(plural string) bool {
	_, err := h.crds.Get(lw.Key{Name: plural + "." + group})
	return err == nil
}

func (h *history) undefines(r *rapid.T) {
	plural := bothPlurals.Draw(r, "plural")
	if !h.there(plural) {
		r.Skip("there is none")
	}
	h.write(func() { h.undefine(spec{plural: plural}) })
}

// again deletes a definition, and makes another one in its place, perhaps after a time.
func (h *history) again(r *rapid.T) {
	s := h.drawSpec(r)
	if !h.there(s.plural) {
		r.Skip("there is none")
	}
	h.write(func() { h.undefine(s) })
	if gap := someGap.Draw(r, "gap"); gap > 0 {
		time.Sleep(gap)
	}
	h.write(func() {
		if !h.there(s.plural) {
			h.specs[s.plural] = s
			h.put(s.object())
			h.create(s.plural, "a", "again")
		}
	})
}

// swap has two kinds change their plurals.
func (h *history) swap() {
	a, b := h.specs["widgets"], h.specs["gizmos"]
	if !h.there("widgets") || !h.there("gizmos") || a.kind == b.kind {
		h.r.Skip("there are no two")
	}
	h.write(func() { h.undefine(a) })
	h.write(func() {
		h.undefine(b)
		if h.there("widgets") || h.there("gizmos") {
			return
		}
		a.plural, b.plural = b.plural, a.plural
		for _, s := range []spec{a, b} {
			h.specs[s.plural] = s
			h.put(s.object())
			h.create(s.plural, "a", "swapped")
		}
	})
}

// change changes the versions that are served, or something that matters to nobody.
func (h *history) change(r *rapid.T) {
	plural := bothPlurals.Draw(r, "plural")
	if !h.there(plural) {
		r.Skip("there is none")
	}
	s := h.specs[plural]
	if rapid.Bool().Draw(r, "versions") {
		s.versions = h.versions(r, s)
	} else {
		s.description += "."
	}
	h.write(func() { h.specs[plural] = s; h.redefine(s) })
}

// create creates an object of a plural that is served; nil if it is not, or there is one.
func (h *history) create(plural, namespace, name string) *widget {
	for _, d := range h.defined() {
		if !d.served() || d.Status.AcceptedNames.Plural != plural {
			continue
		}
		if d.Spec.Scope == "Cluster" {
			namespace = ""
		}
		o, err := h.objects(plural + "." + group).Create(&widget{Meta: lw.Meta{Namespace: namespace, Name: name}})
		if err == nil {
			return o
		}
	}
	return nil
}

func (h *history) writes(r *rapid.T) {
	for range rapid.IntRange(1, 3).Draw(r, "writes") {
		plural := rapid.SampledFrom([]string{"widgets", "gizmos", "metrics"}).Draw(r, "plural")
		namespace := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "namespace")
		name := rapid.SampledFrom([]string{"x", "y"}).Draw(r, "name")
		what := rapid.IntRange(0, 5).Draw(r, "what")
		h.write(func() {
			to := h.metric
			if plural != "metrics" {
				d := h.definition(plural)
				if d == nil || !d.served() {
					return
				}
				if to = h.objects(plural + "." + group); d.Spec.Scope == "Cluster" {
					namespace = ""
				}
			}
			key := lw.Key{Namespace: namespace, Name: name}
			o, err := to.Get(key)
			switch {
			case err != nil && plural == "metrics":
				create(h.t, to, namespace, name)
			case err != nil:
				h.create(plural, namespace, name)
			case what == 0:
				err = h.hold(plural, key)
			case what < 3:
				err = to.Delete(key)
			default:
				o.Spec.N++
				_, err = to.Update(o)
			}
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) { // a deleted object takes no finalizers
				h.t.Fatal(err)
			}
		})
	}
}

// hold gives an object a finalizer, which an update without one takes.
func (h *history) hold(plural string, key lw.Key) error {
	all := lwtest.Objects[*unstructured.Unstructured](h.server, plural)
	o, err := all.Get(key)
	if err == nil {
		o.SetFinalizers([]string{"example.com/x"})
		_, err = all.Update(o)
	}
	return err
}

// release takes the finalizers of all objects.
func (h *history) release() {
	h.write(func() {
		for _, d := range h.defined() {
			if !d.served() {
				continue
			}
			all := h.objects(d.Status.AcceptedNames.Plural + "." + group)
			for o := range all.All() {
				if _, err := all.Update(o); err != nil {
					h.t.Fatal(err)
				}
			}
		}
	})
}

func (h *history) troubles(r *rapid.T) {
	h.calm, h.excused = false, true
	code := rapid.SampledFrom([]int{404, 429, 403, 503}).Draw(r, "status")
	d := time.Second * time.Duration(rapid.SampledFrom([]int{2, 8, 15, 60}).Draw(r, "seconds"))
	h.write(func() { h.trouble, h.until = code, time.Now().Add(d) })
	if rapid.Bool().Draw(r, "cut") {
		h.server.Cut()
	}
}

// lag has the catalog hear of each change late, until its watch ends.
func (h *history) lag(r *rapid.T) {
	h.calm, h.excused, h.lagging = false, true, true
	h.setSlow(true)
	h.server.Cut()
}

func (h *history) setSlow(slow bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slow = slow
}

func (h *history) right(r *rapid.T) {
	h.calm, h.unsure = false, true
	h.write(func() { h.taken = !h.taken })
	if h.taken || rapid.Bool().Draw(r, "break") {
		h.excused = true
		h.server.Break()
	}
}

func (h *history) aggregates(r *rapid.T) {
	what := rapid.SampledFrom([]string{"up", "down", "away", "back", "moved"}).Draw(r, "what")
	h.write(func() {
		switch {
		case h.service == "":
			if what != "up" {
				return
			}
			h.service, h.down, h.up = "m", false, true
		case what == "down":
			h.service = ""
			if err := h.services.Delete(lw.Key{Name: "v1." + metric.Group}); err != nil {
				h.t.Fatal(err)
			}
			return
		case what == "moved":
			h.service += "m"
		case what == "away":
			h.down, h.excused, h.calm = true, true, false
			h.server.Break()
		case what == "back":
			h.down = false
		}
		h.world.service(h.service, map[bool]string{true: "False", false: "True"}[h.down])
	})
}

const slowest = 300 * time.Millisecond

func (h *history) handlers(r *rapid.T) {
	s := h.all[rapid.IntRange(0, len(h.all)-1).Draw(r, "informer")]
	if len(s.handlers) > 0 && rapid.Bool().Draw(r, "remove") {
		reg := s.handlers[0]
		h.mu.Lock()
		s.handlers, s.folded = s.handlers[1:], s.folded[1:]
		h.mu.Unlock()
		reg.Remove()
		return
	}
	h.handle(s, rapid.SampledFrom([]time.Duration{0, 10 * time.Millisecond, slowest}).Draw(r, "slow"))
}
