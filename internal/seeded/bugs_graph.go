package main

const (
	aggregateFile  = "aggregate.go"
	deriveFile     = "derive.go"
	nodeFile       = "derived_node.go"
	faultsFile     = "derived_faults.go"
	graphFile      = "graph.go"
	gateFile       = "graph_gate.go"
	inputFile      = "graph_input.go"
	stepFile       = "graph_step.go"
	joinFile       = "join.go"
	leftFile       = "join_left.go"
	unionFile      = "union.go"
	arrangeFile    = "internal/arrange/arrange.go"
	resultsFile    = "internal/settle/results.go"
	collectionTest = "TestGraphs$"
)

// graphBugs are those of derived collections.
var graphBugs = []bug{
	// What a step takes, and what it shows.
	{name: "graph: a step reads beyond its cut", run: collectionTest, edits: append(one(inputFile,
		"l.sub.cursor.pollTo(position, true)", "l.sub.cursor.poll()"),
		edit{inputFile, "if l.read(position) == position || l.ended {", "if l.read(position) >= position || l.ended {"})},
	{name: "graph: each collection is committed alone", run: "TestGetsOfOneState|TestDiamond", edits: one(stepFile,
		"			n.commitLocked(version)\n",
		"			n.commitLocked(version)\n			g.gate.endLocked()\n			g.gate.mu.Unlock()\n			g.gate.mu.Lock()\n			g.gate.beginLocked()\n")},
	{name: "graph: Get does not look at the gate", run: "TestGetsOfOneState", edits: one(gateFile,
		"	if seq := x.gate.seq.Load(); seq%2 == 0 {\n		if obj, ok = x.store.Get(key); x.gate.seq.Load() == seq {",
		"	if x.gate.seq.Load() > 0 {\n		if obj, ok = x.store.Get(key); ok {")},
	{name: "graph: an index does not look at the gate", run: "TestGetsOfOneState", edits: one("index.go",
		"	if ix.gate == nil {\n		return ix.groups.View(key)", "	if ix.gate != nil {\n		return ix.groups.View(key)")},
	{name: "graph: versions are shown before what they are of", run: collectionTest, edits: one(stepFile,
		"	defer g.gate.mu.Unlock()\n	if slices.ContainsFunc(nodes, node.changed) {",
		"	defer g.gate.mu.Unlock()\n	for _, l := range leaves {\n		if version, ok := l.shown(); ok {\n			g.vector[l.core()] = version\n		}\n	}\n"+
			"	g.snapshot.Store(nil)\n	g.gate.mu.Unlock()\n	time.Sleep(1)\n	g.gate.mu.Lock()\n	if slices.ContainsFunc(nodes, node.changed) {")},
	{name: "graph: a step before all inputs have synced", run: "TestGraphSync$", edits: one(nodeFile,
		"		if in.stage() == waiting {\n", "		if d.varies == nil && in.stage() == waiting {\n")},
	{name: "graph: a late collection has only what changes", run: "TestLateNode", edits: one(deriveFile,
		"	if whole || in.stage() == joining {", "	if in.stage() == joining {")},
	{name: "graph: a late collection begins with the step before", run: collectionTest, edits: one(nodeFile,
		"			if !d.op.Changed(KeyOf(obj)) && !yield(obj) {", "			if !yield(obj) {")},
	{name: "graph: a wait for a version does not wait for a step", run: "TestGraphReadYourWrites", edits: one(graphFile,
		"	next := g.nextStep()\n", "	next := make(chan struct{})\n	close(next)\n")},
	{name: "graph: the first list does not wake it", run: "TestGraphStarts", edits: one(hubFile,
		"		s.cursor.signal() // the", "		// the")},

	// What the operators make.
	{name: "graph: rights in any order", run: "TestLeftJoinOrder", edits: one(leftFile,
		"	slices.SortFunc(found, func(a, b *arrange.Entry[R, struct{}]) int { return compareKeys(a.Key, b.Key) })\n", "")},
	{name: "graph: keys of an object stay as they were at first", run: "TestJoinKeys", edits: one(arrangeFile,
		"	if e.values != hash {\n", "	if e.values > hash {\n")},
	{name: "graph: an object keeps its old keys", run: "TestJoinKeys", edits: one(arrangeFile,
		"			a.leave(v, e)\n		}\n	}\n}\n", "		}\n	}\n}\n")},
	{name: "graph: each value is searched in a list of all", run: "TestManyValues", in: "./internal/arrange", edits: one(arrangeFile,
		"		if g := a.groups[v]; g != nil && g.mark == was {\n			g.mark = stays\n", "		if g := a.groups[v]; g != nil && slices.Contains(old, v) {\n			g.mark = stays\n")},
	{name: "graph: each rival is searched in a list of all", run: "TestManyRivals", in: "./internal/settle", edits: one("internal/settle/queue.go",
		"	case q.of != nil:\n		return q.of[origin]\n", "")},
	{name: "graph: a key that comes twice counts twice", run: "TestJoinKeys", edits: one("internal/equal/distinct.go",
		"} else if slices.Contains(values[:n], value) {", "} else if len(values) < 0 && slices.Contains(values[:n], value) {")},
	{name: "graph: a key that is not equal to itself counts", run: "TestDistinct", in: "./internal/equal", edits: one("internal/equal/distinct.go",
		"if value != value {", "if false {")},
	{name: "graph: a pair stays when a key has gone", run: "TestJoinKeys", edits: one(joinFile,
		"		default:\n			o.set(l, r, *new(U))\n", "")},
	{name: "graph: Where is asked of new rights only", run: collectionTest, edits: one(leftFile,
		"		rights = slices.Delete(rights, i, i+1)\n", "		return\n")},
	{name: "graph: an aggregate without Remove", run: "TestDiamond|TestGraphEpoch", edits: one(aggregateFile,
		"		without = o.agg.Remove(g.acc, old)", "		without = g.acc")},
	{name: "graph: Add panics after Remove, and the object counts no more", run: "TestGraphPanicsOfAggregate", edits: one(aggregateFile,
		"			if !stored {", "			if false && !stored {")},
	{name: "graph: what could not be taken out of its group counts for ever", run: "TestGraphPanicsOfKeysBefore", edits: one(aggregateFile,
		"	o.held[c.Key] = heldBack[T]{c.Old, leaving}\n	o.again()\n", "	o.held[c.Key] = heldBack[T]{c.Old, leaving}\n")},
	{name: "graph: what could not be taken out of its group is held back", run: "TestGraphPanicsOfKeysBefore|TestGraphPanicsOfAggregate", edits: one(aggregateFile,
		"heldBack[T]{c.Old, leaving}", "heldBack[T]{c.Old, false}")},
	{name: "graph: a second call of Left ends the program", run: "TestGraphPanicsOfKeysBefore", edits: one("join_sides.go",
		"	if p := s.faults.attempt(fault{function: \"Left\", key: l.Key}, func() { keys = list.of(s.on.Left(l.Object)) }); p != nil {\n		return s.lefts.ValuesOf(l)\n	}\n	return keys\n",
		"	return list.of(s.on.Left(l.Object))\n")},
	{name: "graph: Equal is called under the lock of a cursor", run: "TestGraphCallsHoldNoLock", edits: one("cursor.go",
		"		differs := d.Type != Updated || !c.q.same(d.Old, d.New)\n", "		c.mu.Lock()\n		differs := d.Type != Updated || !c.q.same(d.Old, d.New)\n		c.mu.Unlock()\n")},
	{name: "graph: a group without a member stays", run: collectionTest, edits: one(aggregateFile,
		"	if g.n <= 0 {", "	if g.n < 0 {")},
	{name: "graph: the last of many counts", run: "TestConflictsOfOperators", edits: one(deriveFile,
		"				if equal.IsZero(result) || seen[KeyOf(identify(result))] {", "				if equal.IsZero(result) {")},
	{name: "graph: what is not yielded any more stays", run: collectionTest, edits: one(deriveFile,
		"		if !kept[was] {", "		if kept[was] {")},
	{name: "graph: a later member of a union comes first", run: collectionTest, edits: one(unionFile,
		"Compare: cmp.Compare[int],", "Compare: func(a, b int) int { return cmp.Compare(b, a) },")},
	{name: "graph: a member that leaves a union leaves its objects", run: collectionTest, edits: one(unionFile,
		"			o.Drop(m.number, KeyOf(obj))\n", "			_ = obj\n")},

	// Which result counts, and what is told.
	{name: "graph: the larger origin is shown", run: "TestConflicts$", edits: one(resultsFile,
		"	if r.rules.Compare(origin, owner) < 0 {", "	if r.rules.Compare(origin, owner) > 0 {")},
	{name: "graph: nobody takes over", run: "TestConflicts$", edits: one(resultsFile,
		"	if waiting == nil {\n		var none T", "	if waiting == nil || waiting.Len() < 2 {\n		var none T")},
	{name: "graph: a conflict is reported again and again", run: "TestConflicts$|TestConflictsOfStates", edits: one(faultsFile,
		"	if !known {\n", "	if known || !known {\n")},
	{name: "graph: the text of a conflict is that of its beginning", run: "TestConflicts$", edits: one(faultsFile,
		"	x.conflicts[key] = err\n", "	if !known {\n		x.conflicts[key] = err\n	}\n")},
	{name: "graph: a right of the same name cures a left", run: "TestGraphPanicsOfRights", edits: one(faultsFile,
		"	delete(x.setAside, at)\n", "	for other := range x.setAside {\n		if other.key == at.key {\n			delete(x.setAside, other)\n		}\n	}\n")},
	{name: "graph: equal results are told", run: "TestGraphIsQuiet", edits: append(one(resultsFile,
		"		if r.rules.Same(now, obj) {\n			return true\n		}\n		r.net", "		r.net"),
		edit{resultsFile, "	r.net.Drop(r.rules.Same)\n", ""})},
	{name: "graph: a resource version makes another result", run: "TestGraphIsQuiet", edits: one(faultsFile,
		"		like.Elem().FieldByIndex(meta.Index).Addr().Interface().(*Meta).ResourceVersion = b.GetResourceVersion()\n", "")},
	{name: "graph: Equal decides over UIDs", run: "TestGraphIsQuiet", edits: one(faultsFile,
		"a.GetUID() == b.GetUID() && same(a, b)", "same(a, b)")},
	{name: "graph: folded changes that come to nothing are told", run: "TestBlockedDerivedHandler", edits: one("cursor.go",
		"if !folded || c.q.same == nil {", "if folded || !folded {")},
	{name: "graph: a panic takes the result away", run: "TestGraphPanics$", edits: one(deriveFile,
		"func() { result = identify(o.f(obj)) }) || !named(o.faults, at, result) {\n", "func() { result = identify(o.f(obj)) }) || !named(o.faults, at, result) {\n			o.set(key, result)\n")},
	{name: "graph: what panicked stays set aside", run: "TestGraphPanics$", edits: one(faultsFile,
		"	delete(x.setAside, at)\n", "")},

	// Close.
	{name: "graph: Close leaves the informer subscribed", run: "TestGraphLeavesInformers", edits: one(graphFile,
		"		l.release()\n		g.gate.mu.Lock()", "		g.gate.mu.Lock()")},
	{name: "graph: Close leaves what is behind", run: "TestGraphLeaks", edits: one(graphFile,
		"		gone, behind = append(gone, other), append(behind, other.name())", "		behind = append(behind, other.name())")},
	{name: "graph: Close says nothing of what is behind", run: "TestCloseNames", edits: one(graphFile,
		"		gone, behind = append(gone, other), append(behind, other.name())", "		gone = append(gone, other)")},
	{name: "graph: Close leaves the content in the last snapshot", run: "TestGraphLeaks", edits: one(graphFile,
		"	g.snapshot.Store(nil) // it keeps the content of what has gone\n", "")},
	{name: "graph: a member that leaves is closed with its union", run: "TestUnionOutlivesMember", edits: one(unionFile,
		"	present, _ := o.members.list()\n	for _, m := range present {\n		if !yield(",
		"	present, leaving := o.members.list()\n	for _, m := range slices.Concat(present, leaving) {\n		if !yield(")},
	{name: "graph: a new member counts from the next step on", run: "TestUnionWaitsForNewMember", edits: one(unionFile,
		"	present, _ := o.members.list()\n	for _, m := range present {\n		if !yield(",
		"	for m := range o.joined {\n		if !yield(")},
	{name: "graph: a leaf is left before the objects of its member", run: "TestLeafOfMemberThatLeaves", edits: one(graphFile,
		"			for in := range n.held {", "			for in := range n.inputs {")},
	{name: "graph: a leaf is left that a new collection will read", run: "TestDeriveDuringPrune", edits: one(graphFile,
		"			if read[l] || l.claim(0) > 0 {", "			if read[l] {")},
	{name: "graph: it sleeps without a look at the version", run: "TestVersionMovesDuringStep", edits: one(inputFile,
		"version != l.version {", "version == \"\" {")},
	{name: "graph: each way through diamonds is sorted", run: "TestDiamondsInARow", edits: one(graphFile,
		"			if done, ok := placed[in]; ok && !done {", "			if _, ok := placed[in]; ok {")},
	{name: "graph: a wait follows each way through diamonds", run: "TestDiamondsInARow", edits: one("wait.go",
		"			if isClosed(before.synced) || seen[before] {", "			if isClosed(before.synced) {")},
	{name: "graph: a wait goes on after its informer has stopped", run: "TestGraphSyncOfStoppedInformer", edits: one("wait.go",
		"			if !isClosed(inf.synced) {\n				return c.unsynced(ErrStopped)\n			}\n", "			<-ctx.Done()\n")},
	{name: "graph: informers of one name are one", run: "TestGraphVersionsOfOneName", edits: one(inputFile,
		"	l.label, l.number = g.names.Take(h.opts.Name)\n", "	_, l.number = g.names.Take(h.opts.Name)\n	l.label = h.opts.Name\n")},
	{name: "graph: Run leaves the informers subscribed", run: "TestGraphStops", edits: one(graphFile,
		"	for _, l := range leaves {\n		l.release()\n	}\n", "	_ = leaves\n")},

	// What the proofs find.
	{name: "graph proof: each collection is committed alone", edits: one(stepFile,
		"			n.commitLocked(version)\n",
		"			n.commitLocked(version)\n			g.gate.endLocked()\n			g.gate.mu.Unlock()\n			g.gate.mu.Lock()\n			g.gate.beginLocked()\n")},
	{name: "graph proof: a new epoch is ignored", edits: one(stepFile,
		"ok && g.vector[l.core()] != version {",
		"ok && (len(g.vector[l.core()]) < len(version) || len(g.vector[l.core()]) == len(version) && g.vector[l.core()] < version) {")},
	{name: "graph proof: an aggregate without Remove", edits: one(aggregateFile,
		"		without = o.agg.Remove(g.acc, old)", "		without = g.acc")},
}
