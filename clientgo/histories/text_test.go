package histories_test

// head and tail are what stands around the tables.
const (
	head = `# client-go's informer and lw's, under the same histories

Both follow the same servers, one after the other or side by side, at their defaults, and are judged by the same code: what their
one handler is told, what the store shows, and what an hour later is still wrong. The rules are those of the tables at the end; a
cell names the rules that were broken, with the first way in which each was. This page is written by

    cd clientgo && go test ./histories -update

and the same test without -update fails where the page no longer says what happens.

client-go is good software: on a server that is right it never loses an object, and its store is what the server had. Some of what
it does differently is its contract (an Update may lead from one object to another of the same name; a relist updates everything).
Over its own REST client some of the broken streams below cannot reach it, because its decoder refuses them first.
`
	tail = `
H12 is in the first table only. Not judged here: that each read in between shows one state of the server, which client-go's
interface does not let one ask (it has no version that belongs to a read), and what it costs: see bench.
`
)
