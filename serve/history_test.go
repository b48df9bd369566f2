package serve

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve/internal/order"
)

// What a history answers is what a model answers that keeps the state of each version.
func TestHistoryModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := HistoryLimits{Events: rapid.IntRange(1, 12).Draw(t, "events"), Bytes: 1000}
		h := newHistory(limits)
		m := historyModel{h: h}
		m.begin(t, false)
		t.Repeat(map[string]func(*rapid.T){
			"commit": m.commit,
			"begin":  func(t *rapid.T) { m.begin(t, rapid.IntRange(0, 3).Draw(t, "broken") == 0) },
			"frames": func(t *rapid.T) {
				if len(m.events) > 0 {
					h.grew(rapid.SampledFrom(m.events).Draw(t, "event"), rapid.IntRange(1, 500).Draw(t, "bytes"))
				}
			},
			"open":  m.open,
			"read":  m.read,
			"state": m.state,
			"": func(t *rapid.T) {
				h.mu.Lock()
				defer h.mu.Unlock()
				var bytes int64
				for _, e := range h.events {
					bytes += e.bytes
				}
				if bytes != h.bytes || bytes > limits.Bytes || len(h.events) > limits.Events {
					t.Fatalf("%d events of %d bytes, counted as %d", len(h.events), bytes, h.bytes)
				}
				if len(h.past) > maxPast || len(h.gaps) > maxGaps {
					t.Fatalf("%d states of the past, %d gaps", len(h.past), len(h.gaps))
				}
			},
		})
	})
}

// begun returns a history that has begun without objects.
func begun(limits HistoryLimits, version uint64) *history {
	h := newHistory(limits)
	h.begin(order.List[*item]{}, version, false)
	return h
}

// added is the event of an object whose path is its version.
func added(version uint64) *event {
	return &event{version: version, new: &item{path: strconv.FormatUint(version, 10)}}
}

// opened opens a watch.
func opened(t *testing.T, h *history, version uint64) place {
	t.Helper()
	return rig.Must[place](t)(h.open(version))
}

// The observer is told of each object that a beginning does not have any more, also where another
// one has its name.
func TestObserver(t *testing.T) {
	state := func(uids ...types.UID) (state order.List[*item]) { // of the objects a, b, ...
		for i, uid := range uids {
			if path := string(rune('a' + i)); uid != "" {
				state.Set(path, &item{path: path, uid: uid})
			}
		}
		return state
	}
	h := begun(HistoryLimits{}, 1)
	var told []string
	h.observe(func(old, new *item) {
		if new == nil {
			told = append(told, "-"+string(old.uid))
		} else {
			told = append(told, "+"+string(new.uid))
		}
	})
	for _, tt := range []struct {
		state order.List[*item]
		want  []string
	}{
		{state("1", "2"), []string{"+1", "+2"}},
		{state("3", "2"), []string{"-1", "+3", "+2"}},
		{state("", "2", "1"), []string{"-3", "+2", "+1"}},
	} {
		told = nil
		h.begin(tt.state, h.here+1, false)
		rig.Same(t, "told", tt.want, told)
	}
}

type historyModel struct {
	h       *history
	version uint64
	now     map[string]*item
	states  map[uint64]map[string]*item // of each version of this era
	events  []*event                    // of this era
	gaps    []gap                       // of this era
	eras    int
	watches []*modelWatch
	// replaced is the newest version of which nobody can tell whether it was given out before the
	// last broken beginning.
	replaced uint64
}

type modelWatch struct {
	place place
	era   int
	state map[string]*item // what the client has
	from  uint64           // the version that it began at
}

func (m *historyModel) begin(t *rapid.T, broken bool) {
	before := m.version
	m.version += uint64(rapid.IntRange(0, 3).Draw(t, "later"))
	if broken && m.version > 5 && rapid.Bool().Draw(t, "back") {
		m.version -= 5
	}
	m.version = max(m.version, 1)
	if broken {
		m.replaced = max(m.replaced, before, m.version-1)
	}
	var state order.List[*item]
	m.now = map[string]*item{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a/x", "a/y", "b/x"}), 0, 3, rapid.ID).Draw(t,
		"objects") {
		i := &item{path: name, version: m.version, uid: types.UID(name)}
		m.now[name] = i
		state.Set(name, i)
	}
	m.states = map[uint64]map[string]*item{m.version: maps.Clone(m.now)}
	m.events, m.gaps = nil, nil
	m.eras++
	if broken {
		for _, w := range m.watches {
			w.era = -1
		}
	}
	m.h.begin(state, m.version, broken)
}

func (m *historyModel) commit(t *rapid.T) {
	var events []*event
	version := m.version
	for range rapid.IntRange(0, 4).Draw(t, "events") {
		// Several events may have one version.
		version += uint64(rapid.IntRange(0, 2).Draw(t, "later"))
		version = max(version, m.version+1)
		path := rapid.SampledFrom([]string{"a/x", "a/y", "b/x", "b/z"}).Draw(t, "path")
		e := &event{version: version, old: m.now[path]}
		if e.old == nil || rapid.Bool().Draw(t, "update") {
			e.new = &item{path: path, version: version}
			m.now[path] = e.new
		} else {
			delete(m.now, path)
		}
		events = append(events, e)
		m.states[version] = maps.Clone(m.now)
	}
	unseen := rapid.IntRange(0, 3).Draw(t, "unseen") == 0
	if unseen {
		version += uint64(rapid.IntRange(0, 4).Draw(t, "versions"))
	}
	version += uint64(rapid.IntRange(0, 1).Draw(t, "bookmark"))
	m.states[version] = maps.Clone(m.now)
	m.events = append(m.events, events...)
	if unseen {
		m.gaps = append(m.gaps, gap{m.version, version})
		m.h.leap(events, version)
	} else {
		m.h.commit(events, version)
	}
	m.version = version
}

// unseen reports whether nobody knows the state at a version, though it is between known ones.
func (m *historyModel) unseen(version uint64) bool {
	return slices.ContainsFunc(m.gaps, func(g gap) bool { return g.from < version && version < g.to })
}

// at returns the state of a version.
func (m *historyModel) at(version uint64) map[string]*item {
	for v := version; v > 0; v-- {
		if s, ok := m.states[v]; ok {
			return s
		}
	}
	return nil
}

func (m *historyModel) state(t *rapid.T) {
	version := m.version + 2 - min(m.version+1, uint64(rapid.IntRange(0, 12).Draw(t, "back")))
	got, err := m.h.at(version)
	switch oldest := m.h.extent().oldest; {
	case m.isReplaced(version):
		if !apierrors.HasStatusCause(err, listopts.CauseReplaced) || !apierrors.IsResourceExpired(err) {
			t.Fatalf("at %d of %d, replaced up to %d: %v", version, m.version, m.replaced, err)
		}
	case version > m.version:
		if !apierrors.IsTimeout(err) {
			t.Fatalf("at %d of %d: %v", version, m.version, err)
		}
	case version < oldest || m.unseen(version):
		if !apierrors.IsResourceExpired(err) {
			t.Fatalf("at %d of %d: %v", version, m.version, err)
		}
	case err != nil:
		t.Fatalf("at %d of %d: %v", version, m.version, err)
	default:
		if want := m.at(version); !maps.Equal(want, maps.Collect(got.From(""))) {
			t.Fatalf("the state at %d", version)
		}
		if want := m.now; version == m.version {
			state, here, ok := m.h.present()
			if !ok || here != version || !maps.Equal(want, maps.Collect(state.From(""))) {
				t.Fatal("the present state")
			}
		}
	}
}

// isReplaced reports whether a version may be one of a history before, and is none of this.
func (m *historyModel) isReplaced(version uint64) bool {
	return version <= m.replaced && (version < m.h.extent().oldest || version > m.version || m.unseen(version))
}

func (m *historyModel) open(t *rapid.T) {
	if len(m.watches) > 5 {
		m.watches = m.watches[1:]
	}
	if rapid.Bool().Draw(t, "now") {
		p, state := m.h.openNow()
		m.watches = append(m.watches, &modelWatch{p, m.eras, maps.Collect(state.From("")), m.version})
		return
	}
	version := m.version + 2 - min(m.version+1, uint64(rapid.IntRange(0, 12).Draw(t, "back")))
	p, err := m.h.open(version)
	oldest, replaced := m.h.extent().oldest, m.isReplaced(version)
	if (version < oldest || replaced || m.unseen(version)) != (err != nil) || replaced != apierrors.HasStatusCause(err,
		listopts.CauseReplaced) {
		t.Fatalf("open at %d, oldest %d, replaced up to %d: %v", version, oldest, m.replaced, err)
	}
	if err == nil {
		w := &modelWatch{place: p, era: m.eras, from: version}
		if version <= m.version {
			w.state = maps.Clone(m.at(version))
		}
		m.watches = append(m.watches, w)
	}
}

// A watch that has read all has the present state. It never misses an event: it ends instead.
func (m *historyModel) read(t *rapid.T) {
	if len(m.watches) == 0 {
		t.Skip("no watch")
	}
	n := rapid.IntRange(0, len(m.watches)-1).Draw(t, "watch")
	w := m.watches[n]
	r, err := m.h.read(w.place, nil)
	switch {
	case w.era != m.eras:
		if (w.era == -1) != apierrors.HasStatusCause(err, listopts.CauseReplaced) || err == nil && !r.stale {
			t.Fatalf("a watch of an older era: %v", err)
		}
		m.watches = slices.Delete(m.watches, n, n+1)
		return
	case err != nil || m.unseen(w.from):
		if !apierrors.IsResourceExpired(err) || w.place.position >= m.h.dropped && !m.unseen(w.from) {
			t.Fatalf("a watch from %d: %v", w.from, err)
		}
		m.watches = slices.Delete(m.watches, n, n+1)
		return
	}
	w.place.position += uint64(len(r.events))
	for _, e := range r.events {
		if passed := e.version > w.place.after; passed != (e.version > w.from) {
			t.Fatalf("a watch from %d: whether it gets the event of %d: %t", w.from, e.version, passed)
		}
	}
	if w.from > m.version {
		return
	}
	if w.state == nil { // the client came with a version that was not here yet
		w.state = maps.Clone(m.at(w.from))
	}
	for _, e := range r.events {
		if e.version <= w.place.after {
			continue
		}
		if e.new == nil {
			delete(w.state, e.old.path)
		} else {
			w.state[e.new.path] = e.new
		}
	}
	if !maps.Equal(w.state, m.now) {
		t.Fatalf("a watch from %d that has read all does not have the state at %d", w.from, m.version)
	}
}

// A watch from a version that is not here yet leaves out what comes up to that version.
func TestOpenAhead(t *testing.T) {
	h := begun(HistoryLimits{}, 5)
	p := opened(t, h, 8)
	h.commit([]*event{added(6), added(7), added(8), added(9), added(10)}, 11)
	r, err := h.read(p, nil)
	rig.OK(t, err)
	var got []uint64
	for _, e := range r.events {
		if e.version > p.after {
			got = append(got, e.version)
		}
	}
	rig.Same(t, "versions", []uint64{9, 10}, got)
}

// Of many gaps the oldest are too old, and none is kept of versions that are too old anyway.
func TestGaps(t *testing.T) {
	h := begun(HistoryLimits{Events: 3}, 7)
	one := func(v uint64) { h.commit([]*event{added(v)}, v) }
	for v := uint64(8); v <= 10; v++ {
		one(v)
	}
	for n := uint64(1); n <= maxGaps+2; n++ {
		h.leap(nil, 10*n+10)
	}
	check := func() {
		t.Helper()
		rig.Same(t, "gaps, and the oldest version", []any{maxGaps, uint64(30)}, []any{len(h.gaps), h.extent().oldest})
		for v, want := range map[uint64]bool{9: false, 10: false, 29: false, 30: true, 31: false, 40: true, 41: false,
			190: true} {
			if _, err := h.open(v); (err == nil) != want || err != nil && !apierrors.IsResourceExpired(err) {
				t.Errorf("a watch from %d: %v", v, err)
			}
		}
	}
	check()
	one(191) // and that of 8 is dropped
	check()
	for v := uint64(192); v < 200; v++ {
		one(v)
	}
	rig.Same(t, "gaps that are left", 0, len(h.gaps))
	h.leap([]*event{added(201)}, 203)
	h.begin(order.List[*item]{}, 202, true)
	opened(t, h, 202) // no gaps are left of a history before
}

// S7: a history has no more bytes of frames than it may have. The oldest events go, those of one
// version together, and a watch that has not read them ends.
func TestBytesAreBounded(t *testing.T) {
	h := begun(HistoryLimits{Bytes: 100}, 1)
	events := []*event{added(2), added(3), added(3), added(4)}
	for _, e := range events {
		h.commit([]*event{e}, e.version)
	}
	slow := opened(t, h, 2)
	for i, want := range []struct {
		bytes  int64
		oldest uint64
	}{{40, 1}, {80, 1}, {80, 2},
		{40, 3}} { // of the third 40 bytes the first ones go, of the last two both events of version 3
		h.grew(events[i], 40)
		if h.bytes != want.bytes || h.extent().oldest != want.oldest {
			t.Errorf("after %d frames: %d bytes, oldest %d, want %+v", i+1, h.bytes, h.extent().oldest, want)
		}
	}
	h.grew(events[0], 1000) // it is gone, and counts no more
	if h.bytes != 40 || len(h.events) != 1 {
		t.Errorf("%d bytes of %d events", h.bytes, len(h.events))
	}
	if _, err := h.read(slow, nil); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch that has not read what is gone: %v", err)
	}
	h.grew(events[3], 61)
	if h.bytes != 0 || len(h.events) != 0 || h.extent().oldest != 4 {
		t.Errorf("an event that is too large alone: %d bytes of %d events, oldest %d", h.bytes, len(h.events),
			h.extent().oldest)
	}
	late := added(5)
	h.commit([]*event{late}, 5)
	h.begin(order.List[*item]{}, 6, false)
	h.grew(late, 10)
	rig.Same(t, "bytes of a history before", 0, h.bytes)
}

// A state of the past is not made twice, and is dropped when nobody may ask for it any more.
func TestPastStates(t *testing.T) {
	h := begun(HistoryLimits{}, 1)
	for v := uint64(2); v < 200; v++ {
		h.commit([]*event{added(v)}, v)
	}
	for v := uint64(100); v < 130; v++ {
		for range 3 {
			if got, err := h.at(v); err != nil || got.Len() != int(v-1) {
				t.Fatalf("at %d: %d objects, %v", v, got.Len(), err)
			}
		}
	}
	rig.Same(t, "states of the past", maxPast, len(h.past))
	if n := testing.AllocsPerRun(10, func() { _, _ = h.at(129) }); n > 0 {
		t.Errorf("a state that is known allocates %v times", n)
	}

	h = begun(HistoryLimits{Events: 5}, 1)
	for v := uint64(2); v < 30; v++ {
		h.commit([]*event{added(v)}, v)
		if v < 4 {
			continue
		}
		_, err := h.at(v - 2)
		rig.OK(t, err)
		for _, s := range h.past {
			if s.position < h.dropped {
				t.Fatalf("at %d: the state before event %d is kept, and the first one is %d", v, s.position, h.dropped)
			}
		}
	}
	kept := len(h.past)
	h.remember(h.dropped-1, order.List[*item]{}) // which was dropped while it was made
	if kept == 0 || len(h.past) != kept {
		t.Errorf("%d states are kept, then %d", kept, len(h.past))
	}
}

// The versions of a process rise, also if its clock goes back, and are told from those of others.
func TestStamps(t *testing.T) {
	a, b := newStamps(3), newStamps(4)
	last := uint64(0)
	for range 1000 {
		v := a.next()
		if w := b.next(); v <= last || v == w {
			t.Fatalf("%d after %d, and %d of another replica", v, last, w)
		}
		last = v
	}
	for range 100 {
		if r := newStamps(0).replica; r == 0 || r >= replicas {
			t.Errorf("a random replica is %d", r)
		}
	}
	clock := a.now
	a.now = func() time.Time { return clock().Add(-time.Hour) }
	if v := a.next(); v <= last || v > last+replicas {
		t.Errorf("%d after %d, with a clock that was set back", v, last)
	}
	h := newHistory(HistoryLimits{})
	h.own = b
	at := b.next()
	h.begin(order.List[*item]{}, at, false)
	// given checks that of all versions near to those that were given out, these alone are accepted.
	given := func(all ...uint64) {
		t.Helper()
		for _, v := range all {
			for _, near := range []uint64{v - replicas, v - 1, v, v + 1, v + replicas} {
				want := slices.Contains(all, near)
				_, failed := h.at(near)
				if _, err := h.open(near); (err == nil) != want || (failed == nil) != want {
					t.Errorf("of %d, %d: a watch %v, a state %v", all, near, err, failed)
				} else if !want && (!apierrors.IsResourceExpired(err) || !apierrors.IsResourceExpired(failed)) {
					t.Errorf("%d: %v, %v", near, err, failed)
				}
			}
		}
	}
	given(at)
	h.limits.Events = 3
	first, second, third := added(at+9*replicas), added(at+18*replicas), added(at+27*replicas)
	h.commit([]*event{first}, first.version)
	given(at, first.version)
	h.commit([]*event{second, {version: second.version, old: second.new}}, second.version)
	given(at, first.version, second.version)
	h.commit([]*event{third}, third.version)
	given(first.version, second.version, third.version) // the event of the first is gone, and its state is the oldest
	h.begin(order.List[*item]{}, at+100*replicas, false)
	given(at + 100*replicas)
	if one, two := madeUID("a/b", 1), madeUID("a/b", 2); one == two || len(one) != 36 {
		t.Errorf("UIDs %s and %s", one, two)
	}
}
