package main

// kindBugs are those of kinds that come and go.
var kindBugs = []bug{
	{"kinds: a version that is withdrawn Deletes what is there", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.refusal", `s.stand == withheld`, `false`}}},
	{"kinds: an APIService that is withdrawn Deletes what is there", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.List", `t.stand == orphaned && (m == nil || !m.listed)`, `t.stand == orphaned`}}},
	{"kinds: a scope is frozen", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds turn.heard", `s.Namespaced != t.Namespaced`, `false`},
		{"kinds gate.isOfLocked", `g.made.Namespaced == s.Namespaced`, `true`}}},
	{"kinds: a plural is frozen", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.isOfLocked", `g.made.Resource == s.Resource`, `true`}}},
	{"kinds: the decoder of the kind before decodes the next", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.isOfLocked", `g.made.kind == s.kind`, `true`}}},
	{"kinds: objects of one decoder are lent to another", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.lend", `mixed || __1`, `__1`}}},
	{"kinds: news end no pause", "TestRows|TestCatalogRows|TestHistories", "./kinds", []edit{
		{"kinds gate.end", `_, m.unwake = g.catalog.listen(__)`, `m.unwake = func() {}`}}},
	{"kinds: one answer of discovery without a kind is its end", "TestCatalogRows|TestHistories", "./kinds", []edit{
		{"kinds discovery.stateOf", `time.Since(e.missing) < goneAfter`, `false`}}},
	{"kinds: a stale answer of discovery counts", "TestCatalogRows|TestPlainDiscovery", "./kinds", []edit{
		{"kinds discovery.find", `stale = __1`, `_ = __1`}}},
	{"kinds: 404 is a failure at once", "TestRows|TestCatalogRows|TestHistories", "./kinds", []edit{
		{"kinds gate.quietly", `time.Since(since) >= quiet`, `true`}}},
	{"kinds: 429 of a kind that has just come is a failure", "TestRows|TestCatalogRows", "./kinds", []edit{
		{"kinds gate.quietly", `busy := __1`, `busy := false`}}},
	{"kinds: 404 is no doubt", "TestRows|TestCatalogRows|TestHistories", "./kinds", []edit{
		{"kinds gate.quietly", `g.catalog.doubt(__)`, ``}}},
	{"kinds: nobody says that a kind is absent", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.Hints", `h.Unserved = __1`, `_ = __1`}}},
	{"kinds: the end of a kind Deletes nothing", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.Watch", `t.stand == absent && m.made != ""`, `false`},
		{"kinds gate.watch", `now.stand == absent`, `false`}}},
	{"kinds: a definition that is made again amid a list is the one before", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.elsewhere", `s.made != t.made`, `false`},
		{"kinds turn.heard", `s.made != t.made`, `false`}}},
	{"kinds: a watch goes on from the definition before", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.Watch", `initial || m.made == t.made`, `true`}}},
	{"kinds: a list that waits for the catalog is stalled", "TestRows|TestCatalogRows", "./kinds", []edit{
		{"kinds waitFor", `request.LeftOut(ctx)()`, ``}}},
	{"kinds: what was listed of a definition that is not known yet is Deleted", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.List", `m.version != ""`, `m.version == "none"`}}},
	{"kinds: requests that are not made count", "TestFound", "./kinds", []edit{
		{"internal/pace Limiter.Refund", `l.tokens = __1`, `_ = __1`}}},
	{"kinds: without rights nobody asks discovery", "TestCatalogRows", "./kinds", []edit{
		{"kinds begin", `!apierrors.IsForbidden(err) && !apierrors.IsNotFound(err)`, `!apierrors.IsNotFound(err)`}}},
	{"kinds: a kind that goes is a failure of its watch", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.watch", `return request.ErrMoved`, `return err`}}},
	{"kinds: the witness of a version that is not served is asked", "TestHistories", "./kinds", []edit{
		{"kinds gate.Hints", `h.StillHas, h.Progress = nil, nil`, ``}}},
}
