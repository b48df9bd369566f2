// Package simulate runs an unmodified controller, in a go test, under every order of events, every
// staleness of its caches and every crash, and says what it does wrong then.
//
// [Run] runs the program of a [World] in a testing/synctest bubble: its real manager, caches, queue
// and client, on a [lwtest.Server] in memory. Between the two is a gate, which holds each request,
// each answer and each event of a watch. When all goroutines of the program wait, a scheduler lets
// exactly one thing happen: an event arrives, a request is answered, an actor of the cluster acts,
// time passes. A history is the series of these choices. It has no faults at first, which is the
// calm run, and then some: a watch that lags, a crash before or after a write, a conflict, an
// answer that is lost.
//
// What the calm run does is right. A history fails if it ends in another state, does not come to
// rest, makes something twice, loses what others wrote, or leaves something that a restart mends. A
// failure is shrunk, printed step by step, and kept in testdata/simulate, from where each later run of
// the test repeats it.
package simulate
