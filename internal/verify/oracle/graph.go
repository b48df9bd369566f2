package oracle

// A GraphRead is one snapshot of a graph over a copy. Call and Ret are the moments before and after
// it.
type GraphRead struct {
	Session   string // the reader; its reads never go back
	Copy      int    // the copy that the graph reads
	Call, Ret int
	Version   string // of the copy, as the snapshot reports it

	// Items is what the snapshot shows of the copy's objects: what a collection has that takes each
	// of them as it is.
	Items []Item
	Views []View

	// Rest is set if nothing could run at the read. Then Want and WantVersion are what the copy
	// itself shows.
	Rest        bool
	Want        []Item
	WantVersion string
}

// A View is another collection of the same snapshot.
type View struct {
	Name  string
	Step  string              // the version that the collection reports
	Shows string              // its content
	Of    func([]Item) string // what its content must be if the copy's objects are these
}

// GraphReads records a snapshot of a graph. If Ret is 0 the read ends now.
func (l *Log) GraphReads(g GraphRead) {
	if g.Ret == 0 {
		g.Ret = l.Tick()
	}
	l.Reads(Read{
		Session: g.Session, Copy: g.Copy, Call: g.Call, Ret: g.Ret, What: "a snapshot of the graph", Version: g.Version,
		Items: g.Items, Graph: true,
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snapshots = append(l.snapshots, &g)
}

// A GraphPair is a Get of one collection of a graph and then one of another, for the same key. The
// second collection has an object if the first has one that Of selects, and no other.
type GraphPair struct {
	Ret           int
	Before, After string // the versions that the first collection reported before, and the second one after the two
	First, Second *Item  // as the copy has them
	Of            func(Item) bool
}

// GraphPairs records two Gets. If Ret is 0 they end now.
func (l *Log) GraphPairs(p GraphPair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Ret == 0 {
		p.Ret = l.next()
	}
	l.pairs = append(l.pairs, &p)
}

// A GraphHandler is a handler of a derived collection with all calls of its callbacks.
type GraphHandler struct {
	Name  string
	log   *Log
	calls []*Call
	ends  []graphEnd
}

// A graphEnd is what the collection has at a moment at which the handler must have caught up.
type graphEnd struct {
	seq   int
	items []Item
}

// GraphHandlers records a handler of a derived collection.
func (l *Log) GraphHandlers(name string) *GraphHandler {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &GraphHandler{Name: name, log: l}
	l.told = append(l.told, h)
	return h
}

// Calls records one call of a callback.
func (h *GraphHandler) Calls(kind Kind, old, now *Item) {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.calls = append(h.calls, &Call{Kind: kind, Old: old, New: now, call: h.log.next()})
}

// Quiets records what the collection has at a moment at which nothing waits for the handler.
func (h *GraphHandler) Quiets(items []Item) {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.ends = append(h.ends, graphEnd{h.log.next(), items})
}

// graphPromise is what a read of a graph breaks where a read of the copy breaks the promise id.
func graphPromise(id string) string {
	switch id {
	case "S4", "S5", "G6":
		return "D4"
	case "W1":
		return "D15"
	case "Y1":
		return "D14"
	}
	return "D3b"
}

// checkGraphs checks what is told of graphs, but for D3b, D4, and the rest of D14 and D15: the
// states that a graph shows are checked with the reads of the copy.
func (l *Log) checkGraphs(r *Result) {
	for _, g := range l.snapshots {
		for _, v := range g.Views {
			r.met("D3a")
			if want := v.Of(g.Items); v.Shows != want {
				r.fail(g.Ret, "D3a", "%s at %q shows %s, want %s", v.Name, g.Version, v.Shows, want)
			}
			if v.Step != g.Views[0].Step {
				r.fail(g.Ret, "D5", "one snapshot has %s of step %q and %s of step %q", g.Views[0].Name, g.Views[0].Step,
					v.Name, v.Step)
			}
		}
		if !g.Rest {
			continue
		}
		r.met("D16")
		if show(g.Items) != show(g.Want) {
			r.fail(g.Ret, "D16", "at rest the graph shows %s at %q, its copy shows %s", show(g.Items), g.Version, show(g.Want))
		}
		if g.Version != g.WantVersion {
			r.fail(g.Ret, "D16", "at rest the graph is at %q, its copy is at %q", g.Version, g.WantVersion)
		}
	}
	for _, p := range l.pairs {
		if p.Before != p.After {
			continue // there was a step between them
		}
		r.met("D5")
		there := p.First != nil && p.Of(*p.First)
		if there != (p.Second != nil) || there && !p.First.is(*p.Second) {
			r.fail(p.Ret, "D5", "two Gets at step %s: %v, then %v", p.After, p.First, p.Second)
		}
	}
	for _, w := range l.waits {
		if w.Graph && w.Sync && w.Err == nil {
			r.met("D14")
			if !w.CopySynced {
				r.fail(w.Ret, "D14", "the graph has synced, its copy has not")
			}
		}
		if w.Graph && w.Version != 0 && w.Err == nil {
			r.met("D15")
		}
	}
	for _, h := range l.told {
		l.checkGraphHandler(r, h)
	}
}

// checkGraphHandler checks the story of a handler: D7, D8.
func (l *Log) checkGraphHandler(r *Result, h *GraphHandler) {
	present, ends := map[Key]Item{}, h.ends
	quiet := func(until int) {
		for ; len(ends) > 0 && ends[0].seq < until; ends = ends[1:] {
			var told []Item
			for _, item := range present {
				told = append(told, item)
			}
			if show(told) != show(ends[0].items) {
				r.fail(ends[0].seq, "D7", "%s was told of %s, the collection has %s", h.Name, show(told), show(ends[0].items))
			}
		}
	}
	for _, c := range h.calls {
		quiet(c.call)
		r.met("D7")
		item := c.Old
		if item == nil {
			item = c.New
		}
		last, told := present[item.Key]
		switch {
		case told != (c.Old != nil):
			r.fail(c.call, "D7", "%s: %s: the object was there: %v", h.Name, c, told)
		case told && last.Ref != c.Old.Ref:
			r.fail(c.call, "D7", "%s: %s: the handler was told last: %s", h.Name, c, last)
		case c.Kind == Update && c.Old.UID != c.New.UID:
			r.fail(c.call, "D7", "%s: %s: these are two objects", h.Name, c)
		case c.Kind == Update:
			r.met("D8")
			if c.Old.Content == c.New.Content {
				r.fail(c.call, "D8", "%s: %s: they are equal", h.Name, c)
			}
		}
		delete(present, item.Key)
		if c.New != nil {
			present[item.Key] = *c.New
		}
	}
	quiet(l.seq + 1)
}
