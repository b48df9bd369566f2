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
		{"kinds gate.end", `_, m.unwake = g.catalog.listen(__)`, `m.unwake = func() {}`}}},
	{"kinds: 404 is a failure at once", "TestRows|TestCatalogRows|TestHistories", "./kinds", []edit{
		{"kinds gate.quietly", `time.Since(since) >= quiet`, `time.Since(since) >= 0`}}},
	{"kinds: 429 of a kind that has just come is a failure", "TestRows|TestCatalogRows", "./kinds", []edit{
		{"kinds gate.quietly", `busy := __1`, `busy := false`}}},
	{"kinds: 404 is no doubt", "TestRows|TestCatalogRows|TestHistories", "./kinds", []edit{
		{"kinds gate.quietly", `g.catalog.doubt(__)`, ``}}},
	{"kinds: nobody says that a kind is absent", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.Hints", `h.Unserved = __1`, `_ = __1`}}},
	{"kinds: the end of a kind Deletes nothing", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.Watch", `t.stand == absent && m.made != ""`, `false`},
		{"kinds gate.watch", `now.stand == absent`, `false`}}},
	{"kinds: a watch goes on from the definition before", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.Watch", `initial || m.made == t.made`, `true`}}},
	{"kinds: a list that waits for the catalog is stalled", "TestRows|TestCatalogRows", "./kinds", []edit{
		{"kinds waitFor", `request.LeftOut(ctx)()`, ``}}},
	{"kinds: without rights nobody asks discovery", "TestCatalogRows", "./kinds", []edit{
		{"kinds begin", `!apierrors.IsForbidden(err) && !apierrors.IsNotFound(err)`, `!apierrors.IsNotFound(err)`}}},
	{"kinds: a kind that goes is a failure of its watch", "TestRows|TestHistories", "./kinds", []edit{
		{"kinds gate.watch", `return request.ErrMoved`, `return err`}}},
	{"kinds: the witness of a version that is not served is asked", "TestHistories", "./kinds", []edit{
		{"kinds gate.Hints", `h.StillHas, h.Progress = nil, nil`, ``}}},
}
