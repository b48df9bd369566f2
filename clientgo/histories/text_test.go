package histories_test

// head and tail are the text before and after the tables.
const (
	head = `# What did client-go's informer and lw's do under the same histories?

Both informers have their default options. They follow the same servers, one after the other or at the
same time, and the same code judges both: the calls of their one handler, what the store shows, and
what is still wrong an hour later. The rules are in the last table. A cell names the rules that were
broken, each with the first way in which it was. This page is written by

    cd clientgo && go test ./histories -update

The same test without -update fails if the page differs from what happens.

client-go is good software: with a correct server it never loses an object, and its store equals the
server. Some of the differences are its contract: an Update may lead from one object to another of the
same name, and a relist updates everything. Over its own REST client some of the broken streams below
cannot reach it, because its decoder refuses them first.
`
	tail = `
H12 is in the first table only. Two things are not judged here. Whether each read shows one state of the
server cannot be tested with client-go, because its reads have no version. For the costs see bench.
`
)
