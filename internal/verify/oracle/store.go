package oracle

import (
	"cmp"
	"iter"
	"slices"
)

// checkReads checks that each read shows one state of the server, that of its version, and that no
// read is older than a read or a wait that had returned before it began: S1 (and S8, which follows
// from it), S2, S4, S5, S7, S9, S11, D1, Y1, G6, W1.
//
// It goes through the reads in the order in which they began. bounds is a list of lower bounds by
// moment: each wait and each checked read adds one at the moment at which it returned. Before a
// read, low takes in all bounds of earlier moments, so it is the oldest point that the read may
// show. A reader's own last read bounds its next one even if the two overlap in time.
//
// A graph may lag behind the copy that it reads, and never runs ahead of it: what it has shown
// bounds all later reads, and what the copy has shown bounds the reads of the copy alone.
//
// A copy that has stopped can still be read, and shows its last state. So what a copy has shown
// bounds its own reads and those of later copies, but not those of earlier ones.
func (l *Log) checkReads(r *Result) {
	byCall := slices.SortedStableFunc(slices.Values(l.reads), func(a, b *Read) int { return cmp.Compare(a.Call, b.Call) })
	bounds := l.waitBounds()
	next := 0                         // the first of bounds that low does not include
	ofCopy, ofGraph := lows{}, lows{} // the bounds for every read from now on
	session := map[string]point{}     // the newest point that each session has seen
	for _, read := range byCall {
		for next < len(bounds) && bounds[next].seq < read.Call {
			ofCopy.raise(bounds[next])
			if bounds[next].graph {
				ofGraph.raise(bounds[next])
			}
			next++
		}
		low := ofCopy.of(read.Copy)
		if read.Graph {
			low = ofGraph.of(read.Copy)
		}
		if read.Held {
			l.checkSnapshot(r, read)
			continue
		}
		from := low.at
		seen, again := session[read.Session]
		if again && from.before(seen) {
			from = seen
		}
		p, ok := l.witness(r, read, from, low, again && seen == from)
		if !ok {
			continue
		}
		session[read.Session] = p
		if p != (point{}) {
			// It bounds the reads of all sessions from the moment at which it returned.
			at := slices.IndexFunc(bounds[next:], func(f bound) bool { return f.seq > read.Ret })
			if at < 0 {
				at = len(bounds) - next
			}
			bounds = slices.Insert(bounds, next+at, bound{read.Ret, p, "a read by " + read.Session, read.Copy, read.Graph})
		}
	}
}

// A bound says that no read that begins after moment seq may show an older point than at.
type bound struct {
	seq   int
	at    point
	why   string
	copy  int
	graph bool // it is for reads of graphs too
}

// A lowerBound is the newest of some bounds.
type lowerBound struct {
	at   point
	why  string
	copy int
}

// lows has the lower bound that each copy has set, by its number.
type lows map[int]lowerBound

func (l lows) raise(f bound) {
	if l[f.copy].at.before(f.at) {
		l[f.copy] = lowerBound{f.at, f.why, f.copy}
	}
}

// of returns the newest bound that a copy or one before it has set.
func (l lows) of(number int) (low lowerBound) {
	for setter, set := range l {
		if setter <= number && (low.at.before(set.at) || low.at == set.at && low.copy < set.copy) {
			low = set
		}
	}
	return low
}

// waitBounds returns the bounds that successful waits for a version set, in the order of time.
func (l *Log) waitBounds() (bounds []bound) {
	for _, w := range l.waits {
		if w.Err == nil && w.Version != 0 {
			bounds = append(bounds, bound{w.Ret, point{w.Epoch, w.Version}, "a wait for it", w.Copy, w.Graph})
		}
	}
	slices.SortStableFunc(bounds, func(a, b bound) int { return cmp.Compare(a.seq, b.seq) })
	return bounds
}

// witness returns the oldest point that is not before from and whose state is what read shows. If
// there is none it reports the violation and returns false. own says that from comes from the same
// session.
func (l *Log) witness(r *Result, read *Read, from point, low lowerBound, own bool) (point, bool) {
	version, err := ParseVersion(read.Version)
	if err != nil {
		read.fail(r, "S9", "%s reports version %q", read.What, read.Version)
		return point{}, false
	}
	if read.What == "" {
		read.What = "a read"
	}
	if !l.unique(r, read) {
		return point{}, false
	}
	if version == 0 && (!read.Lower || len(read.Items) == 0) {
		return point{}, l.checkEmpty(r, read, from, low)
	}
	if read.Graph {
		r.met("D3b")
		if from != (point{}) {
			r.met("D4")
		}
	} else {
		r.met("S1")
	}
	if read.family != "" {
		r.met(read.family)
	}
	top := l.truth.at(read.Ret)
	for i := from.epoch; i <= top.epoch; i++ {
		for v := range l.candidates(read, i, version, from) {
			if p := (point{i, v}); !p.before(from) && l.truth.reached(p, read.Ret) && l.shows(r, read, p) {
				return p, true
			}
		}
	}
	l.explain(r, read, version, from, low, own)
	return point{}, false
}

// candidates yields the versions of an epoch that the read may show: its own, or all from its
// lower bound on. From is a bound too, and may be of a version that wrote no object. Nearly always
// the first is the one, so the others are not looked for before.
func (l *Log) candidates(read *Read, epoch int, version uint64, from point) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if read.Lower && epoch == from.epoch {
			version = max(version, from.version)
		}
		if !yield(version) || !read.Lower {
			return
		}
		for _, v := range l.truth.changes(epoch, version, l.truth.epochs[epoch].top) {
			if !yield(v) {
				return
			}
		}
	}
}

// shows reports whether read shows the state of p, and what the copy was told beyond that.
//
// While an object is bad, the copy may hold back the version that it reports. It then shows newer
// content than that of p. So each object is checked alone: it may be that of p or of any later
// version, and only a bad object may be older.
func (l *Log) shows(r *Result, read *Read, p point) bool {
	state, bad := l.truth.state(p)
	if len(l.tells) == 0 && len(bad) == 0 && equal(state, read) {
		return true
	}
	lax := l.truth.badSince(p, read.Ret)
	if len(l.tells) == 0 && !lax {
		return false
	}
	got := map[Key]*Item{}
	for i := range read.Items {
		got[read.Items[i].Key] = &read.Items[i]
	}
	// The content may also be of a later epoch, if the server was as new again before the copy saw
	// it: nothing tells the copy then that the server went back.
	keys := map[Key]bool{}
	for i := p.epoch; i <= l.truth.at(read.Ret).epoch; i++ {
		for key := range l.truth.epochs[i].revisions {
			keys[key] = true
		}
	}
	for _, t := range l.tells {
		keys[t.Key] = true
	}
	for key := range got {
		if !keys[key] {
			return false
		}
	}
	for key := range keys {
		var want *Item
		if item, ok := state[key]; ok {
			want = &item
		}
		if !l.mayShow(r, read, p, key, got[key], want, lax) {
			return false
		}
	}
	return true
}

// mayBe reports whether got may be the content of key in a copy that holds back its version at p. A
// nil got means that the read does not show the key.
func (l *Log) mayBe(read *Read, p point, key Key, got *Item) bool {
	matches := func(c revision) bool {
		there := c.item != nil && !c.bad && (read.Of == nil || read.Of(*c.item))
		return there == (got != nil) && (!there || c.item.is(*got))
	}
	top := l.truth.at(read.Ret)
	for i := p.epoch; i <= top.epoch; i++ {
		from := p.version
		if i > p.epoch {
			from = 0
		}
		if first := l.truth.revisionAt(point{i, from}, key); i == p.epoch && (first.bad || matches(first)) {
			// The copy may keep the version from before the object went bad. If it never had one,
			// it shows nothing.
			if matches(first) || got == nil || l.truth.wrote(*got) {
				return true
			}
		}
		for _, c := range l.truth.epochs[i].revisions[key] {
			if c.version > from && l.truth.reached(point{i, c.version}, read.Ret) && matches(c) {
				return true
			}
		}
	}
	return false
}

// equal reports whether read shows exactly those objects of state that read.Of selects.
func equal(state map[Key]Item, read *Read) bool {
	n := 0
	for _, want := range state {
		if read.Of != nil && !read.Of(want) {
			continue
		}
		n++
		if !slices.ContainsFunc(read.Items, want.is) {
			return false
		}
	}
	return n == len(read.Items)
}

// unique checks that read shows no key twice.
func (l *Log) unique(r *Result, read *Read) bool {
	r.met("S7")
	seen := map[Key]bool{}
	for _, item := range read.Items {
		if seen[item.Key] {
			read.fail(r, "S7", "%s shows %s twice: %s", read.What, item.Key, show(read.Items))
			return false
		}
		seen[item.Key] = true
	}
	return true
}

// checkEmpty checks a read of a copy that reports no version yet. That is right only before the
// first sync, and only without objects.
func (l *Log) checkEmpty(r *Result, read *Read, from point, low lowerBound) bool {
	for _, w := range l.waits {
		if w.Sync && w.Err == nil && w.Copy == read.Copy && (w.Graph || !read.Graph) && w.Ret < read.Call {
			read.fail(r, "Y1", "%s has no version, though the copy had synced", read.What)
			return false
		}
	}
	r.met("Y1")
	if len(read.Items) > 0 {
		read.fail(r, "S1", "%s shows %s before there is a version", read.What, show(read.Items))
		return false
	}
	if from != (point{}) && low.copy == read.Copy {
		read.fail(r, "S4", "%s has no version after %s at %d", read.What, low.why, from.version)
		return false
	}
	return true
}

// fail reports that the read breaks the promise id, or what that is for a read of a graph.
func (read *Read) fail(r *Result, id, format string, args ...any) {
	if read.Graph {
		id = graphPromise(id)
	}
	r.fail(read.Ret, id, format, args...)
}

// explain reports which promise a read without a witness breaks. If the read shows a right state
// that is too old, the violation names what the read had to be as new as. Otherwise its version is
// unknown to the server, or its content is wrong.
func (l *Log) explain(r *Result, read *Read, version uint64, from point, low lowerBound, own bool) {
	top := l.truth.at(read.Ret)
	older := false
	known := false
	for i := range top.epoch + 1 {
		p := point{i, version}
		known = known || l.truth.reached(p, read.Ret)
		if !l.truth.reached(p, read.Ret) || !l.shows(r, read, p) {
			continue
		}
		older = true
	}
	what := "a later state than the server's"
	switch {
	case !known:
		read.fail(r, "S9", "%s reports version %d, %s, %d", read.What, version, what, top.version)
	case older && read.Copy != low.copy && !own:
		read.fail(r, "G6", "%s of a new copy at %d is older than %s at %d", read.What, version, low.why, from.version)
	case older && low.why == "a wait for it":
		read.fail(r, "W1", "%s at %d, after a wait for %d had ended well", read.What, version, from.version)
	case older && own:
		read.fail(r, "S4", "%s at %d, after the same session had seen %d", read.What, version, from.version)
	case older:
		read.fail(r, "S5", "%s at %d, after %s had shown %d", read.What, version, low.why, from.version)
	default:
		state, _ := l.truth.state(point{top.epoch, min(version, top.version)})
		var want []Item
		for _, item := range state {
			if read.Of == nil || read.Of(item) {
				want = append(want, item)
			}
		}
		read.fail(r, cmp.Or(read.family, "S1"), "%s at %d shows %s, the server had %s", read.What, version, show(read.Items),
			show(want))
	}
}

// checkSnapshot checks a read of a snapshot that was taken earlier: it must still show the state of
// its version, however old that is.
func (l *Log) checkSnapshot(r *Result, read *Read) {
	r.met("S11")
	version, err := ParseVersion(read.Version)
	if err != nil || version == 0 {
		if len(read.Items) > 0 {
			r.fail(read.Ret, "S11", "%s has no version, but shows %s", read.What, show(read.Items))
		}
		return
	}
	if !l.unique(r, read) {
		return
	}
	for i := range l.truth.at(read.Ret).epoch + 1 {
		if p := (point{i, version}); l.truth.reached(p, read.Ret) && l.shows(r, read, p) {
			return
		}
	}
	r.fail(read.Ret, "S11", "%s of version %d has become %s", read.What, version, show(read.Items))
}

// checkObjects checks that no object that the copy showed was changed afterwards: S6.
func (l *Log) checkObjects(r *Result, now func(ref any) Item) {
	if now == nil {
		return
	}
	for _, ref := range l.order {
		r.met("S6")
		if was, is := l.refs[ref], now(ref); !was.is(is) {
			r.fail(l.seq, "S6", "%s has been changed to %s", was, is)
			return
		}
	}
}
