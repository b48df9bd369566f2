// Package histories runs client-go's informer and lw's through the same histories, and judges both
// by the same rules. The result is the table in README.md of this folder, which
//
//	cd clientgo && go test ./histories -update
//
// writes. Without -update the tests fail if the table differs from the result. -histories=N is the
// number of random histories; -v prints the table.
package histories
