package main

// kindBugs are those of kinds that come and go.
var kindBugs = []bug{
	{"kinds: a version that is withdrawn Deletes what is there", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.refusal", `s.stand == withheld`, `false`}}},
	{"kinds: a plural is frozen", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.isOfLocked", `g.made.Resource == s.Resource`, `true`}}},
	{"kinds: the decoder of the kind before decodes the next", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.isOfLocked", `g.made.kind == s.kind`, `true`}}},
	{"kinds: news end no pause", "TestRows|TestCatalogRows|TestHistories", "./kinds", []edit{
		{"kinds gate.end", `m.failed.Store(true)`, ``}}},
	{"kinds: 404 is a failure at once", "TestRows|TestCatalogRows|TestHistories", "./kinds", []edit{
		{"kinds gate.quietly", `time.Since(since) >= quiet`, `time.Since(since) >= 0`}}},
	{"kinds: 429 of a kind that has just come is a failure", "TestRows|TestCatalogRows", "./kinds", []edit{
		{"kinds gate.quietly", `busy := __1`, `busy := false`}}},
	{"kinds: 429 after a change of an old definition is a failure", "TestChangedSchema", "./kinds", []edit{
		{"kinds gate.quietly", `g.catalog.Served(g.name).heard`, `t.Since`}}},
	{"kinds: 410 after news of a definition is a failure", "TestChangedSchema", "./kinds", []edit{
		{"kinds gate.watch", `g.renewed(__)`, `false`}}},
	{"kinds: 410 is no failure, however often it comes after news", "TestChangedSchema", "./kinds", []edit{
		{"kinds gate.renewed", `m.expired = s.news`, ``}}},
	{"kinds: 410 is no failure, however late it comes after news", "TestChangedSchema", "./kinds", []edit{
		{"kinds gate.renewed", `time.Since(s.heard) >= quiet`, `false`}}},
	{"kinds: 404 is no doubt", "TestRows|TestCatalogRows|TestHistories", "./kinds", []edit{
		{"kinds gate.quietly", `g.catalog.doubt(__)`, ``}}},
	{"kinds: nobody says that a kind is absent", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.Hints", `h.Unserved = __1`, `_ = __1`}}},
	{"a kind whose list is not over has versions without order", "TestRows", "./kinds", []edit{
		{". versionWaits.moved", `version == "" && !w.ask.unversioned`, `false`}}},
	{"the end of a kind does not end CatchUp", "TestRows", "./kinds", []edit{
		{". versionWaits.moved", `w.ask.unserved()`, `false`}}},
	{"kinds: the end of a kind Deletes nothing", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.Watch", `t.stand == absent && m.made != ""`, `false`},
		{"kinds gate.watch", `now.stand == absent`, `false`}}},
	{"kinds: a watch goes on from the definition before", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.Watch", `initial || m.made == t.made`, `true`}}},
	{"kinds: a list that waits for the catalog is stalled", "TestRows|TestCatalogRows", "./kinds", []edit{
		{"kinds waitFor", `request.LeftOut(ctx)()`, ``}}},
	{"kinds: what was seen is of the definition that the catalog knows", "TestRows", "./kinds", []edit{
		{"kinds gate.List", `m.version != m.reached`, `false`}}},
	{"kinds: what a watch saw is of the definition that was listed", "TestRows", "./kinds", []edit{
		{"kinds gate.watch", `m.version = ev.ResourceVersion`, ``}}},
	{"kinds: a scope is frozen", "TestRows", "./kinds", []edit{
		{"kinds gate.isOfLocked", `g.made.Namespaced == s.Namespaced`, `true`}}},
	{"kinds: a list of the definition before fails", "TestRows", "./kinds", []edit{
		{"kinds gate.elsewhere", `s.made != t.made`, `false`}}},
	{"kinds: an APIService that is withdrawn amid a list Deletes what is there", "TestCatalogRows", "./kinds", []edit{
		{"kinds gate.List", `(m == nil || !m.listed)`, `true`}}},
	{"kinds: one answer of discovery is the end of a kind", "TestCatalogRows", "./kinds", []edit{
		{"kinds discovery.stateOf", `d.answered.Sub(e.missing) < goneAfter`, `false`}}},
	{"kinds: an old answer of discovery is the end of a kind", "TestFound", "./kinds", []edit{
		{"kinds discovery.stateOf", `d.answered.Sub(e.missing) < goneAfter`, `time.Since(e.missing) < goneAfter`}}},
	{"kinds: a definition is there while the server says nothing of it", "TestRows", "./kinds", []edit{
		{"kinds Catalog.reach", `pace.IsBusy(err) || __1`, `(pace.IsBusy(err) || __1) && false`}}},
	{"kinds: discovery is sent again, though it has not changed", "TestFound", "./kinds", []edit{
		{"kinds discovery.get", `tag != ""`, `false`}}},
	{"kinds: nobody asks for another scope", "TestFound", "./kinds", []edit{
		{"kinds gate.refusal", `g.catalog.refused(__)`, ``}}},
	{"kinds: a kind is absent whose APIService discovery has nothing of yet", "TestCatalogRows", "./kinds", []edit{
		{"kinds discovery.stateOf", `d.lacks(__)`, `false`}}},
	{"kinds: a kind whose APIService comes again is absent at the first answer without it", "TestCatalogRows", "./kinds", []edit{
		{"kinds discovery.stateOf", `e.state.stand == orphaned`, `false`}}},
	{"kinds: a stale answer of discovery is the end of a kind", "TestCatalogRows", "./kinds", []edit{
		{"kinds discovery.find", `v.stale && __1`, `false`}}},
	{"kinds: a definition without the version keeps the objects of the one before", "TestRows", "./kinds", []edit{
		{"kinds gate.outlived", `s.stand == withheld`, `false`}}},
	{"kinds: all that was seen is of the definition that was listed", "TestFound", "./kinds", []edit{
		{"kinds gate.outlived", `g.catalog.endedAfter(__)`, `true`}}},
	{"kinds: without rights nobody asks discovery", "TestCatalogRows", "./kinds", []edit{
		{"kinds begin", `!apierrors.IsForbidden(err) && !apierrors.IsNotFound(err)`, `!apierrors.IsNotFound(err)`}}},
	{"kinds: a list that is cut off is a failure, if the kind is back", "TestBackAsItWas", "./kinds", []edit{
		{"kinds gate.list", `errors.Is(err, context.Canceled) || __1`, `__1`}}},
	{"kinds: a kind that goes is a failure of its watch", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.watch", `!has(t.moved)`, `err != nil || !has(t.moved)`}}},
	{"kinds: the witness of a version that is not served is asked", "TestHistories", "./kinds", []edit{
		{"kinds gate.Hints", `h.StillHas, h.Progress = nil, nil`, ``}}},
	{"kinds: news end no pause after a question", "TestFound", "./kinds", []edit{
		{"kinds gate.end", `g.memory(ctx)`, `g.recall(ctx)`}}},
	{"kinds: the witness of a definition that is gone is believed", "TestRows", "./kinds", []edit{
		{"kinds gate.Hints", `g.replaced(__)`, `false, error(nil)`}}},
	{"kinds: a version of a definition that is gone is a failure", "TestRows|TestAround", "./kinds", []edit{
		{"kinds gate.watch", `g.replaced(__)`, `false, error(nil)`}}},
	{"kinds: what is wanted of a kind that nobody serves is a failure", "TestAround", "./kinds", []edit{
		{". hub.admit", `at == 0 && !none`, `at == 0 && (!none || true)`}}},
	{"kinds: objects are lent between decoders", "TestLends", "./kinds", []edit{
		{"kinds gate.lend", `mixed || __1`, `mixed && false || __1`}}},
	{"kinds: requests that were not made count", "TestComesAndGoes", "./kinds", []edit{
		{". statusRecorder.ended", `errors.Is(err, request.ErrUnasked)`, `errors.Is(err, request.ErrUnasked) && false`}}},
	{"serve: what is gone with its collection was not there", "TestUnservedCollection", "./serve", []edit{
		{"serve feed.Begin", `f.history.extent().here + 1`, `f.history.extent().here`}}},
	{"serve: a collection that nobody serves ends the relay", "TestUnservedCollection", "./serve", []edit{
		{"serve feed.Progress", `version == "" && f.items.Len() == 0`, `false`}}},
}
