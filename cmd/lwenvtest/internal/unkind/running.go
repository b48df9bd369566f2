package unkind

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/lwtest"
)

// A Fault is what was done to one request.
type Fault struct {
	At       time.Duration // since the day began; of what happens to a watch, when that begins
	Kind     Kind
	Verb     lwtest.Verb
	Resource string // as in deployments.apps/status
	Object   string // its namespace and name, as far as there are any; a generated name ends with *
	N        int    // the number of the request among those of this verb and object, from 1 on
	What     string
}

// String returns the fault as a line of a log.
func (f Fault) String() string {
	of := strings.TrimSpace(f.Resource + " " + f.Object)
	return fmt.Sprintf("+%.3fs %s: %s %s #%d: %s", f.At.Seconds(), f.Kind, f.Verb, of, f.N, f.What)
}

// Begin has the server be unkind from now on. It tells note each fault, one at a time. The faults
// are one [lwtest.Fault], which Clear ends.
func (d Day) Begin(s *lwtest.Server, note func(Fault)) {
	if d.Seed == 0 {
		return
	}
	day := &running{
		Day: d, rates: d.kinds(), note: note, began: time.Now(), counts: map[string]int{}, generated: map[string][]string{},
		failed: map[string]int{}, ends: map[string][]time.Time{},
	}
	s.Inject(lwtest.Fault{Times: -1, Match: day.meets, Effect: lwtest.Choose(day.choose)})
}

// A running is a Day on which a server is unkind.
type running struct {
	Day
	rates map[Kind]float64
	note  func(Fault)
	began time.Time

	mu        sync.Mutex             // guards the fields below, and calls of note
	counts    map[string]int         // of the requests, by draw.key
	failed    map[string]int         // of those that were to fail, by draw.key
	generated map[string][]string    // the generateNames that were sent, by resource
	ends      map[string][]time.Time // when watches end, the last ones, by resource
	late      []lateness
}

// A lateness is an answer that was late.
type lateness struct {
	at time.Time
	by time.Duration
}

// spared are the groups that a test environment needs so that it can begin, or that it asks who may
// do what, and the leases by which a program knows that it leads.
var spared = []string{"apiextensions.k8s.io", "admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
	"coordination.k8s.io"}

// own is how the User-Agents of lwenvtest's own clients begin.
const own = "lwenvtest"

// meets says whether a request is one of those that may meet a fault.
func (d *running) meets(r lwtest.Request) bool {
	return !slices.Contains(spared, r.Group) && !strings.HasPrefix(r.UserAgent, own) &&
		(d.Agent == nil || d.Agent.MatchString(r.UserAgent))
}

// A draw is a request with what follows for it from the seed.
type draw struct {
	Fault
	named bool // it is about one object
	day   *running
}

// key is what requests are counted by.
func (w draw) key() string { return fmt.Sprint(w.Verb, " ", w.Resource, " ", w.Object) }

// chance is a number in [0, 1), always the same for one purpose, one request and one seed.
func (w draw) chance(purpose string) float64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d|%s|%s|%s|%s|%d", w.day.Seed, purpose, w.Verb, w.Resource, w.Object, w.N))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// hit says whether the request meets a kind of fault.
func (w draw) hit(kind Kind) bool { return w.chance(string(kind)) < w.day.rates[kind] }

// fails says whether the request meets a kind of fault by which it fails. An object meets maxFails of
// these, unless the user has named the kind's rate.
func (w draw) fails(kind Kind) bool {
	d := w.day
	if !w.hit(kind) || d.Kinds[kind] > 0 || !w.named {
		return w.hit(kind)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := w.key()
	d.failed[key]++
	return d.failed[key] <= maxFails
}

// between is a time between shortest and longest.
func (w draw) between(purpose string, shortest, longest time.Duration) time.Duration {
	return (shortest + time.Duration(w.chance(purpose)*float64(longest-shortest))).Round(time.Millisecond)
}

// tell notes a fault.
func (w draw) tell(kind Kind, format string, args ...any) {
	f := w.Fault
	f.At, f.Kind, f.What = time.Since(w.day.began), kind, fmt.Sprintf(format, args...)
	w.day.mu.Lock()
	defer w.day.mu.Unlock()
	w.day.note(f)
}

// choose returns what happens to a request.
func (d *running) choose(r lwtest.Request) lwtest.Effect {
	w := d.draw(r)
	switch {
	case r.Verb == lwtest.Watch || r.Verb == lwtest.Stream:
		return w.watch(r)
	case w.fails(Busy):
		w.tell(Busy, "429, and a second to wait")
		return lwtest.Fail(apierrors.NewTooManyRequests("the server has received too many requests and has asked us to try again later", 1))
	case w.fails(Error):
		w.tell(Error, "500, and nothing is done")
		return lwtest.Fail(apierrors.NewInternalError(errors.New("etcdserver: leader changed")))
	case r.Verb == lwtest.Get || r.Verb == lwtest.List:
		return lwtest.Effect{}
	}
	return w.write(r)
}

// draw counts a request.
func (d *running) draw(r lwtest.Request) draw {
	resource := schema.GroupResource{Group: r.Group, Resource: r.Plural}.String()
	d.mu.Lock()
	defer d.mu.Unlock()
	name := d.plain(resource, r.Name)
	if m := r.Meta; r.Verb == lwtest.Create && name == "" && m != nil {
		if name = m.Name; name == "" && m.GenerateName != "" {
			name = m.GenerateName + "*"
			if !slices.Contains(d.generated[resource], m.GenerateName) {
				d.generated[resource] = append(d.generated[resource], m.GenerateName)
			}
		}
	}
	object := strings.Trim(d.plain("namespaces", r.Namespace)+"/"+name, "/")
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	w := draw{Fault{Verb: r.Verb, Resource: resource, Object: object}, name != "", d}
	d.counts[w.key()]++
	w.N = d.counts[w.key()]
	return w
}

// plain returns a name without the suffix that a server has given it, which is another each time.
func (d *running) plain(resource, name string) string {
	const letters, length = "bcdfghjklmnpqrstvwxz2456789", 5
	if len(name) <= length || strings.Trim(name[len(name)-length:], letters) != "" {
		return name
	}
	if prefix := name[:len(name)-length]; slices.Contains(d.generated[resource], prefix) {
		return prefix + "*"
	}
	return name
}

// watch returns what happens to a watch: it lags as all of its resource do, and ends.
func (w draw) watch(r lwtest.Request) lwtest.Effect {
	var do []lwtest.Effect
	if w.hit(Lag) {
		of := draw{Fault: Fault{Resource: w.Resource}, day: w.day}
		lag := of.between("lag", maxLag/10, maxLag)
		w.tell(Lag, "each event comes %v late", lag)
		do = append(do, lwtest.Trail(lag))
	}
	kind := Cut
	if w.hit(Expired) && (!w.hit(Cut) || w.chance("which end") < .5) {
		kind = Expired
	} else if !w.hit(Cut) {
		return lwtest.All(do...)
	}
	resumes := r.Verb == lwtest.Watch && r.Options.ResourceVersion != "" && r.Options.ResourceVersion != "0"
	in := w.between("end", 300*time.Millisecond, 8300*time.Millisecond)
	if kind == Expired && resumes && w.chance("old") < .5 {
		in = 0
	}
	in, may := w.day.end(w.Resource, in)
	switch {
	case !may:
	case kind == Expired:
		w.tell(kind, "410 in %v", in)
		err := apierrors.NewResourceExpired("too old resource version: " + r.Options.ResourceVersion)
		do = append(do, lwtest.ErrorIn(in, err))
	case w.chance("how") < .5:
		w.tell(kind, "the connection breaks in %v, amid an event", in)
		do = append(do, lwtest.BreakIn(in))
	default:
		w.tell(kind, "ends in %v", in)
		do = append(do, lwtest.CutIn(in))
	}
	return lwtest.All(do...)
}

// end returns when a watch of a resource ends that would end in some time: later, if there are
// enough ends until then, or not at all, since a place for it would be too far away.
func (d *running) end(resource string, in time.Duration) (time.Duration, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, ends := time.Now(), d.ends[resource]
	at := now.Add(in)
	if len(ends) == maxEnds {
		if free := ends[0].Add(endsWithin); at.Before(free) {
			at = free.Add(in)
		}
	}
	if at.Sub(now) > 2*endsWithin {
		return 0, false
	}
	ends = append(ends, at)
	slices.SortFunc(ends, time.Time.Compare)
	d.ends[resource] = ends[max(0, len(ends)-maxEnds):]
	return at.Sub(now).Round(time.Millisecond), true
}

// write returns what happens to a write. What concerns its answer is decided, and told, when there
// is one: a write that is refused is answered with that.
func (w draw) write(r lwtest.Request) lwtest.Effect {
	var do []lwtest.Effect
	versioned := r.Meta != nil && r.Meta.ResourceVersion != ""
	if (r.Verb == lwtest.Update || r.Verb == lwtest.Patch) && versioned && w.fails(Conflict) {
		w.tell(Conflict, "somebody else writes first")
		do = append(do, lwtest.Overtake())
	}
	switch {
	case w.fails(Lose):
		do = append(do, lwtest.Written(lwtest.Choose(func(lwtest.Request) lwtest.Effect {
			if w.chance("how") < .5 {
				w.tell(Lose, "done, and the connection breaks")
				return lwtest.Reset()
			}
			w.tell(Lose, "done, and answered with 504")
			return lwtest.Fail(apierrors.NewTimeoutError("request did not complete within requested timeout - context deadline exceeded", 0))
		})))
	case w.hit(Late):
		do = append(do, lwtest.Written(lwtest.Choose(func(lwtest.Request) lwtest.Effect {
			by := w.between("late by", maxLate/5, maxLate)
			if !w.day.mayBeLate(by) {
				return lwtest.Effect{}
			}
			w.tell(Late, "done, and answered %v later", by)
			return lwtest.Delay(by)
		})))
	}
	return lwtest.All(do...)
}

// mayBeLate says whether one more answer may be late.
func (d *running) mayBeLate(by time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, sum := time.Now(), by
	d.late = slices.DeleteFunc(d.late, func(l lateness) bool { return now.Sub(l.at) >= sumWithin })
	for _, l := range d.late {
		sum += l.by
	}
	if sum > sumLate {
		return false
	}
	d.late = append(d.late, lateness{now, by})
	return true
}
