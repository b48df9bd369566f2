package main

// doorBugs are those of the modules and tools around.
var doorBugs = []bug{
	{"the simulated server knows all versions", "TestRestart|TestTakeOver", "./bench/internal/simulate", []edit{
		{"bench/internal/simulate transport.RoundTrip", `from < s.oldest`, `from < s.oldest && false`}}},
	{"a deletion has the version of the call before", "TestVersionOfDeletion", "./clientgo", []edit{
		{"clientgo deletedAt", `version != ""`, `version == "none"`}}},
	{"a kind that nobody has asked an informer of is guessed", "TestRESTMapping", "./internal/guess", []edit{
		{"internal/guess Mapper.RESTMapping", `!ok`, `!ok && gk.Group == ""`}}},
	{"a narrow cache is told another scope than before", "TestNarrowAndForget", "./internal/guess", []edit{
		{"internal/guess Mapper.RESTMapping", `m.scopes.LoadOrStore(of, scope)`, `any(scope), false`}}},
	{"engine: the managers of another version are read as those of the request's", "TestManagersOfVersions", "./lwtest", []edit{
		{"internal/registry conversion.ConvertToVersion", `from == version`, `from != version`}}},
	{"lwtest: a wait that returns a copy of what is read is refused", "TestCollections/a_Reader_of_copies", "./lwtest", []edit{
		{"lwtest collected.wait", `!sameObject(got, now)`, `got != now`}}},
	{"engine: an object of an older version stays as it is stored", "TestStoredAnew", "./lwtest", []edit{
		{"internal/registry Write.replace", `unchanged && !old.Outdated`, `unchanged`}}},
	{"an index function gets the cell of a packed object", "TestPackedReads", "./clientgo", []edit{
		{"clientgo indexer.Index", `x.reading(ix.values)(obj)`, `ix.values(obj)`}}},
	{"a factory follows what nobody wants", "TestUseAll$", "./clientgo", []edit{
		{"clientgo lazyInformer.RunWithContext", `select { case <-l.wanted: case <-ctx.Done(): }`, `select { default: case <-ctx.Done(): }`}}},
	{"tellwrites: a question about one object is taken for what the informer selects", "TestTellWritesDuringOtherRequests", "./clientgo", []edit{
		{"internal/request TellerOf", `IsProbe(ctx)`, `IsProbe(ctx) && false`}}},
	{"a controller has synced before its handler was told", "TestControllerSyncs", "./clientgo", []edit{
		{"clientgo ownController.HasSyncedChecker", `c.handle == nil`, `true`}}},
	{"the gauge of the process's provider is not set while nothing waits", "TestMetricsOfTheProcess", "./clientgo", []edit{
		{"clientgo processQueued.Set", `!q.set`, `false`}}},
	{"a store that was called synced is read before its list", "TestUseAllAfterAWait", "./clientgo", []edit{
		{"clientgo lazyInformer.GetIndexer", `!l.promised || l.owned.HasSynced()`, `true`}}},
	{"a ListerWatcher that opts out of streams has no versions", "TestOptOut", "./clientgo", []edit{
		{"clientgo source.Hints", `h.NoStream = h.NoStream || !s.stream`, `__0; h.Unversioned = h.Unversioned || !s.stream`}}},
	{"a list of which an object was changed is taken for unchanged", "TestDecoderOfAListerWatcherThatChanges", "./clientgo", []edit{
		{"clientgo capturedSource.changedList", `!sameObject(sent[i], item)`, `false && !sameObject(sent[i], item)`}}},
	{"a list that a store has refused is not made again", "TestReflectorOfAStoreThatRefuses", "./clientgo", []edit{
		{"clientgo storeSink.Replace", `s.failed.Store(__)`, ``}}},
	{"a factory waits for what nobody wants", "TestUseAll$", "./clientgo", []edit{
		{"clientgo lazyInformer.HasSyncedChecker", `calledBy(__) && l.promise() && !isClosed(__)`, `false`}}},
	{"a store is told that what was modified is new", "TestReflectorStories", "./clientgo", []edit{
		{"clientgo storeSink.Apply", `s.store.Update`, `s.store.Add`}}},
	{"a factory's list options are lost", "TestUseAllRefuses", "./clientgo", []edit{
		{"clientgo UseAll", `o.TweakListOptions == nil`, `namespace == "none"`}}},
	{"a dynamic factory starts informers after its shutdown", "TestFactories", "./clientgo/factories", []edit{
		{"clientgo/factories factory.StartWithContext", `!i.started && !f.shut`, `!i.started`}}},
	{"a second cache of one board conflicts", "TestOptionsMetrics", "./controllerruntime", []edit{
		{"controllerruntime Options.settings", `__1 == collector`, `__1 == nil`}}},
	{"a cache of packed objects waits for the leader", "TestNewCacheNeedsNoLeaderElection", "./controllerruntime", []edit{
		{"controllerruntime packedCache.NeedLeaderElection", `return false`, `return true`}}},
	{"the settings of one kind are those of all", "TestOptionsB", "./controllerruntime", []edit{
		{"controllerruntime settings.of", `own := s.byForm[f]`, `var own lw.Options; for _, own = range s.byForm {}`}}},
	{"board: a graph does not show what is wrong with its collections", "TestStates", "./internal/board", []edit{
		{"internal/board Graph.judge", `c.State.rank() < state.rank()`, `c.State.rank() < state.rank() && g.Synced && false`}}},
	{"board: the page is not of the worst first", "TestVerdict", "./internal/board", []edit{
		{"internal/board worstFirst", `cmp.Compare(__)`, `cmp.Compare(state(b).rank(), state(a).rank())`}}},
	{"board: what cannot be printed stays", "TestPrintable|TestEscape", "./internal/board/markup", []edit{
		{"internal/board/markup printable", `__1 || __2(r)`, `__1 || !__2(r) || true`}}},
	{"board: JSON for whoever accepts it beside a page", "TestBoardForms", "./lwdebug", []edit{
		{"lwdebug wantsJSON", `__1 && !strings.Contains(__)`, `__1`}}},
	{"board: a key with a namespace is taken for a name", "TestObjects", "./lwdebug", []edit{
		{"lwdebug page.object", `in = lw.Key{Namespace: namespace, Name: name}`, `_, _ = namespace, name`}}},
	{"Prometheus: two handlers of one name have one series", "TestNames", "./prom", []edit{
		{"prom handlers", `handler(to, h, informer, graph, collection, __1)`, `_ = __1; handler(to, h, informer, graph, collection, h.Name)`}}},
	{"engine: a write that meets another one is not tried again", "TestRaces", "./internal/registry", []edit{
		{"internal/registry Write.Run", `!errors.As(__)`, `true`}}},
	{"engine: a generated name that is taken is an error", "TestGeneratedNames", "./internal/registry", []edit{
		{"internal/registry Write.Run", `w.generates()`, `!w.generates()`}}},
	{"lwenvtest: a role gives more than its maker has", "TestEscalation", "./cmd/lwenvtest/internal/access", []edit{
		{"cmd/lwenvtest/internal/access Access.checkEscalation", `registry.EscalationAllowed(__) || isOfCollector(__)`, `true`}}},
	{"lwenvtest: who aggregates roles needs no rights", "TestEscalation", "./cmd/lwenvtest/internal/access", []edit{
		{"cmd/lwenvtest/internal/access Access.checkRole", `aggregates && __1`, `aggregates && false && __1`}}},
	{"lwenvtest: a Secret keeps its stringData", "TestSecret", "./cmd/lwenvtest/internal/builtin", []edit{
		{"cmd/lwenvtest/internal/builtin kind.fill", `replace(a.Object, w.obj)`,
			`legacyscheme.Scheme.Convert(w.obj, a.Object, nil)`}}},
	{"lwenvtest: a new volume may go while it is used", "TestPlugins", "./cmd/lwenvtest/internal/builtin", []edit{
		{"cmd/lwenvtest/internal/builtin Plugins.fill", `return protect(w)`, `return nil`}}},
	{"the server does not show the bindings that it takes", "TestDiscovery$", "./internal/apiserver", []edit{
		{"internal/apiserver Server.discovered", `c.Resource.groupResource() == pods`, `false`}}},
	{"the UID in one of bindings is compared with the Pod's", "TestSubresources", "./lwtest", []edit{
		{"internal/apiserver exchange.bind", `x.req.Name, binding.Metadata.UID = binding.Metadata.Name, ""`,
			`x.req.Name = binding.Metadata.Name`}}},
	{"an evicted Pod does not say why it goes", "TestSubresources", "./lwtest", []edit{
		{"internal/apiserver exchange.evict", `len(options.DryRun) == 0`, `false`}}},
	{"lwenvtest: a webhook sees an eviction as a change of its Pod", "TestWebhooks", "./cmd/lwenvtest/internal/admission", []edit{
		{"cmd/lwenvtest/internal/admission kind.view", `a.Subresource == "eviction" && isPod`, `false`}}},
	{"lwenvtest: a webhook of deletions is asked about evictions", "TestWebhooks", "./cmd/lwenvtest/internal/admission", []edit{
		{"internal/apiserver exchange.evict", `registry.Request{Verb: registry.Delete, Key: x.key(), Options: options, Admitted: true}`,
			`registry.Request{Verb: registry.Delete, Key: x.key(), Options: options}`}}},
	{"a Pod loses its labels as it is bound", "TestSubresources", "./lwtest", []edit{
		{"internal/apiserver exchange.assign", `len(b.Metadata.Labels) > 0`, `true`}}},
	{"a Binding makes its client a manager of the Pod", "TestSubresources", "./lwtest", []edit{
		{"internal/registry Write.manage", `w.byServer()`, `false`}}},
	{"a write of the status of a built-in object takes no finalizer away", "TestSubresources", "./lwtest", []edit{
		{"internal/registry Write.carry", `k.Native && !statusAlone.Has(resource)`, `false && resource != ""`}}},
	{"a write of the status of a Pod takes its owners away", "TestSubresources", "./lwtest", []edit{
		{"internal/registry Write.carry", `resource != "pods"`, `true`}}},
	{"a Pod that is bound does not say where its Node is", "TestSubresources", "./lwtest", []edit{
		{"internal/apiserver Server.place", `all[name] = value`, `_ = value`}}},
	{"lwenvtest: a new Pod does not say where its Node is", "TestPlugins", "./cmd/lwenvtest/internal/builtin", []edit{
		{"cmd/lwenvtest/internal/builtin plugins", `podtopologylabels.Register`, `func(*admission.Plugins) {}`}}},
	{"lwenvtest: a new claim has no class", "TestDefaultClass", "./cmd/lwenvtest/internal/builtin", []edit{
		{"cmd/lwenvtest/internal/builtin plugins", `registerClaimClasses`, `func(*admission.Plugins) {}`}}},
	{"lwenvtest: a claim that asks for no class has one", "TestDefaultClass", "./cmd/lwenvtest/internal/builtin", []edit{
		{"cmd/lwenvtest/internal/builtin claimClasses.Admit", `helper.PersistentVolumeClaimHasClass(claim)`,
			`helper.PersistentVolumeClaimHasClass(claim) && claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName != ""`}}},
	{"lwenvtest: the oldest default class is taken", "TestNewestDefault", "./cmd/lwenvtest/internal/builtin", []edit{
		{"cmd/lwenvtest/internal/builtin newestDefault", `slices.MinFunc`, `slices.MaxFunc`}}},
	{"lwenvtest: an APIService does not say who has written it", "TestAPIServices", "./cmd/lwenvtest/internal/front", []edit{
		{"cmd/lwenvtest/internal/definitions Resources",
			`services.Type, services.Managed, services.Status = __1, true, true`,
			`services.Type, services.Managed, services.Status = __1, false, true`}}},
	{"lwenvtest: an APIService may have any name", "TestAPIServices", "./cmd/lwenvtest/internal/front", []edit{
		{"cmd/lwenvtest/internal/builtin strategies", `withStatus(apiservice.NewStrategy(__1), __2)`, `withStatus(nil, __2)`}}},
	{"lwenvtest: an APIService is shown without its server", "TestTable", "./cmd/lwenvtest/internal/builtin", []edit{
		{"cmd/lwenvtest/internal/builtin kind.table", `k.resource.Plural == "apiservices"`, `k.resource.Plural == ""`}}},
	{"lwenvtest: a Pod may name a priority that there is not", "TestPlugins", "./cmd/lwenvtest/internal/builtin", []edit{
		{"cmd/lwenvtest/internal/builtin kind.fill", `k.plugins.fill(w)`, `(*Plugins)(nil).fill(w)`}}},
	{"lwenvtest: the defaults of a status are lost", "TestPlugins", "./cmd/lwenvtest/internal/builtin", []edit{
		{"cmd/lwenvtest/internal/builtin kind.fill", `legacyscheme.Scheme.Default(a.Object)
	return nil`, `return nil`}}},
	{"lwenvtest: the first of several flags counts", "TestFlags", "./cmd/lwenvtest/internal/early", []edit{
		{"cmd/lwenvtest/internal/early Flags.Last", `v[len(v)-1]`, `v[0]`}}},
	{"lwenvtest: the Events of events.k8s.io are others", "TestEvents", "./cmd/lwenvtest/internal/front", []edit{
		{"cmd/lwenvtest/internal/builtin Also", `r.Also = []lwtest.Resource{change(other)}`, `_ = change(other)`}}},
	{"lwenvtest: the server has the name of its authority", "TestAuthority", "./cmd/lwenvtest", []edit{
		{"cmd/lwenvtest newAuthority", `pkix.Name{CommonName: "lwenvtest-ca"}`, `pkix.Name{CommonName: "lwenvtest"}`}}},
	{"lwenvtest: envtest is told that etcd is at no path", "TestCommand", "./cmd/lwenvtest", []edit{
		{"cmd/lwenvtest runCommand", `slices.DeleteFunc(slices.Clone(env), elsewhere)`, `slices.Clone(env)`}}},
	{"registry: a version in a creation counts before what is wrong", "TestFunctions", "./internal/registry", []edit{
		{"internal/registry Write.create", `err == nil && version != "" && __`, `version != "" && version != "0"`}}},
	{"registry: no rule is asked about a value out of bounds", "TestValuesAndRules", "./internal/registry", []edit{
		{"internal/registry/values Values.Rules", `return errs, true`, `return errs, false`}}},
	{"registry: what a rule says hides what is wrong with a value", "TestValuesAndRules", "./internal/registry", []edit{
		{"internal/registry Write.ask", `err = besides(wrong, err)`, `_ = wrong`}}},
	{"registry: what is wrong with the values hides what is wrong with the metadata", "TestAllThatIsWrong", "./internal/registry", []edit{
		{"internal/registry Write.checkValues", `append(wrong, k.schema.values.Check(object.Object, was, w.req.Subresource == SubStatus)...)`,
			`k.schema.values.Check(object.Object, was, w.req.Subresource == SubStatus)`}}},
	{"registry: an object within another needs no kind", "TestAllThatIsWrong", "./internal/registry", []edit{
		{"internal/registry/values Values.Check", `v.objects && !onlyStatus`, `false`}}},
	{"registry: the metadata of an object within another has any fields", "TestEmbeddedMetadata", "./internal/registry", []edit{
		{"internal/registry pruneMember", `pruneMeta(object, at, unknown)`, ``}}},
	{"lwenvtest: who makes a policy need not be allowed to read its parameters", "TestPolicies", "./cmd/lwenvtest/internal/builtin", []edit{
		{"cmd/lwenvtest/internal/builtin asker.Authorize", `return running.may.Authorize(ctx, of)`, `return authorizer.DecisionAllow, "", nil`}}},
	{"lwenvtest: the server itself is a user whom nobody knows", "TestPolicies", "./cmd/lwenvtest/internal/builtin", []edit{
		{"cmd/lwenvtest/internal/builtin Asker", `u.Username == ""`, `false`}}},
	{"lwenvtest: a webhook gives a new object a status", "TestStatusOfAWebhook", "./cmd/lwenvtest/internal/definitions", []edit{
		{"cmd/lwenvtest/internal/definitions kind.fill", `delete(obj, "status")`, ``}}},
	{"lwenvtest: a webhook is asked about what has a wrong value", "TestWrongIsNotAdmitted", "./cmd/lwenvtest/internal/definitions", []edit{
		{"simulate/crd Version.Validate", `values.Wrong(ctx)`, `values.Wrong(ctx)[:0]`}}},
	{"lwenvtest: watches end as often as it is drawn", "TestEndsAreCounted", "./cmd/lwenvtest/internal/unkind", []edit{
		{"cmd/lwenvtest/internal/unkind running.end", `len(ends) == maxEnds`, `false`}}},
}
