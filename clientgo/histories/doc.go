// Package histories puts client-go's informer and lw's through the same histories and judges both by the same rules. Its tests keep
// the table in docs/client-go.md:
//
//	cd clientgo && go test ./histories -update
//
// writes it anew, and without -update they fail where it no longer says what happens. -histories=N is how many random histories
// are run, -v prints the table.
package histories
