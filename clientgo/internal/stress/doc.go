// Package stress has tests that decode objects of every form and encoding for as long as one likes,
// while the garbage collector runs all the time:
//
//	GOGC=5 GODEBUG=clobberfree=1 go test -stress.for 1h -stress.seed $RANDOM ./internal/stress
//
// A wrong address in package decode ends the process, and a value that is used again too early is
// another value later. Each object is compared with what apimachinery makes of the same bytes, at
// once and again later.
package stress
