package kinds_test

import (
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// A defined is what a history reads of a definition.
type defined struct {
	lw.Meta `json:"metadata"`
	Spec    struct {
		Scope    string `json:"scope"`
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		AcceptedNames struct {
			Plural string `json:"plural"`
			Kind   string `json:"kind"`
		} `json:"acceptedNames"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// served reports whether the server serves what d defines.
func (d *defined) served() bool {
	for _, c := range d.Status.Conditions {
		if c.Type == "Established" {
			return c.Status == "True"
		}
	}
	return false
}

func (h *history) defined() (all []*defined) {
	for d := range lwtest.Objects[*defined](h.server, "customresourcedefinitions").All() {
		all = append(all, d)
	}
	return all
}

func (h *history) definition(plural string) *defined {
	for _, d := range h.defined() {
		if d.Name == plural+"."+group {
			return d
		}
	}
	return nil
}

// A standing is what a store should have.
type standing string

const (
	isServed standing = "what the server has"
	isKept   standing = "what it had"
	isEmpty  standing = "nothing"
)

// truth returns what the server has for a subject.
func (h *history) truth(s *subject) (standing, map[lw.Key]*widget) {
	has := map[lw.Key]*widget{}
	if s.of == metric {
		switch {
		case !h.up:
			return isEmpty, nil
		case h.service == "", h.down:
			return isKept, nil
		}
		for o := range h.metric.All() {
			has[keyOf(o)] = o
		}
		return isServed, has
	}
	for _, d := range h.defined() {
		names := d.Status.AcceptedNames
		if !d.served() || s.of.Kind != "" && s.of.Kind != names.Kind || s.of.Kind == "" && s.of.Resource != names.Plural {
			continue
		}
		is := false
		for _, v := range d.Spec.Versions {
			is = is || v.Served && (s.of.Version == "" || s.of.Version == v.Name)
		}
		if !is || d.Spec.Scope == "Cluster" && s.namespace != "" {
			return isKept, nil
		}
		for o := range h.objects(names.Plural + "." + group).All() {
			if s.namespace == "" || s.namespace == o.Namespace {
				has[keyOf(o)] = o
			}
		}
		return isServed, has
	}
	return isEmpty, nil
}

// asks checks a request of a kind.
func (h *history) asks(path string) {
	if !strings.HasPrefix(path, "/apis/"+group+"/") && !strings.HasPrefix(path, "/apis/"+metric.Group+"/") {
		return
	}
	h.mu.Lock()
	all := h.all
	h.mu.Unlock()
	for _, s := range all {
		now := h.catalog.Served(s.of)
		url := "/apis/" + now.Resource.Group + "/" + now.Resource.Version + "/"
		if s.namespace != "" {
			url += "namespaces/" + s.namespace + "/"
		}
		if now.Served && url+now.Resource.Resource == path || !now.Since.Before(time.Now()) {
			return
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteLocked("3: a request for %s, which nobody serves", path)
}

// handle adds a handler, each of whose calls takes d.
func (h *history) handle(s *subject, d time.Duration) {
	told := map[lw.Key]*widget{}
	h.mu.Lock()
	s.folded = append(s.folded, told)
	h.mu.Unlock()
	call := func(what string, old, now *widget) {
		h.mu.Lock()
		o := now
		if o == nil {
			o = old
		}
		had := told[keyOf(o)]
		switch {
		case what == "Add" && had != nil, what != "Add" && (had == nil || had.UID != old.UID):
			h.noteLocked("2: %s: %s of %v %s, had %v", s.of, what, keyOf(o), o.UID, had)
		case what == "Update" && old.UID != now.UID:
			h.noteLocked("2: %s: an Update of another object, %v", s.of, keyOf(o))
		case what == "Delete" && h.live[old.UID]:
			h.noteLocked("6: %s %s: a Delete of %v, which the server has", s.of, s.namespace, keyOf(o))
		}
		if now != nil {
			told[keyOf(o)] = now
		} else {
			delete(told, keyOf(o))
		}
		h.mu.Unlock()
		h.mixed(s)
		time.Sleep(d)
	}
	s.handlers = append(s.handlers, s.AddHandler(lw.Handler[*widget]{
		Add:    func(o *widget) { call("Add", nil, o) },
		Update: func(old, o *widget) { call("Update", old, o) },
		Delete: func(o *widget) { call("Delete", o, nil) },
	}))
}

// mixed checks that a store has objects of one definition alone.
func (h *history) mixed(s *subject) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var of types.UID
	for o := range s.Store().Snapshot().All() {
		if of != "" && h.born[o.UID] != "" && of != h.born[o.UID] {
			h.noteLocked("8: %s has objects of two definitions", s.of)
		}
		of = h.born[o.UID]
	}
}

// judge fails if something was wrong until now.
func (h *history) judge() {
	synctest.Wait()
	for _, s := range h.all {
		h.mixed(s)
		s.cut = s.cut || !h.calm
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wrong != "" {
		h.r.Fatal(h.wrong)
	}
}

// rest waits until all is in step, perhaps for an hour more, and compares.
func (h *history) rest(long bool) {
	if left := time.Until(h.until); left > 0 {
		time.Sleep(left)
	}
	if h.lagging {
		h.lagging, h.excused = false, true
		h.setSlow(false)
		h.server.Cut()
	}
	time.Sleep(70 * time.Second)
	if h.unsure {
		time.Sleep(2 * time.Minute)
	}
	h.judge()
	waits := map[*subject]int{}
	for _, s := range h.all {
		h.compare(s)
		waits[s] = s.waits()
	}
	h.excused = h.unsure || h.down
	if !long {
		// A catalog that was refused asks for the definitions again only after six minutes.
		h.calm = !h.taken && !h.down && !h.unsure
		return
	}
	time.Sleep(time.Hour)
	h.judge()
	for _, s := range h.all {
		h.compare(s)
		if n := s.waits() - waits[s]; n > 0 {
			h.r.Fatalf("4: %s: %d lines in an hour in which nothing happened", s.of, n)
		}
	}
	h.calm = !h.taken && !h.down
}

// compare compares one store with the truth.
func (h *history) compare(s *subject) {
	stand, want := h.truth(s)
	has := map[lw.Key]*widget{}
	for o := range s.Store().Snapshot().All() {
		has[keyOf(o)] = o
	}
	status := s.Status()
	wrong := stand != isKept && len(has) != len(want)
	for key, o := range want {
		wrong = wrong || has[key] == nil || has[key].UID != o.UID || has[key].ResourceVersion != o.ResourceVersion
	}
	if wrong {
		h.r.Fatalf("1: %s %s has %v, want %s, %v: %+v", s.of, s.namespace, has, stand, want, status)
	}
	if (stand == isEmpty) != (status.Unserved != "") && s.of != metric {
		h.r.Fatalf("1: %s: want %s, but Unserved is %q", s.of, stand, status.Unserved)
	}
	if stand == isKept && s.of != metric && !s.cut {
		for _, o := range has {
			alive := false
			for _, d := range h.defined() {
				alive = alive || d.UID == h.born[o.UID]
			}
			if !alive {
				h.r.Fatalf("1: %s %s has %v of a definition that is gone", s.of, s.namespace, keyOf(o))
			}
		}
	}
	h.mu.Lock()
	for _, told := range s.folded {
		same := len(told) == len(has)
		for key, o := range has {
			same = same && told[key] != nil && told[key].ResourceVersion == o.ResourceVersion
		}
		if !same {
			h.noteLocked("2: %s: a handler was told %v, and the store has %v", s.of, told, has)
		}
	}
	h.mu.Unlock()
	errs := slices.DeleteFunc(s.failures(), func(err string) bool {
		return strings.Contains(err, "too old resource version") // of a definition that was made again
	})
	if len(errs) > 0 && !s.excused && !h.excused {
		h.r.Fatalf("4: %s %s: failures without a reason: %q", s.of, s.namespace, errs)
	}
	s.excused = stand == isKept
	s.cut = s.cut && stand == isKept
}
