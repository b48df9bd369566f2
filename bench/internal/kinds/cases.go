// Package kinds has the cases of many small informers: a program that follows 200 kinds of custom
// resources, each by an informer of unstructured objects.
package kinds

import (
	"fmt"

	"github.com/go-lw/lw/bench/internal/compare"
)

// row is the row of the goal table.
const row = 34

// share is the side of lw with HTTP.Share.
const share = "lw, Share"

// Cases returns the cases of 200 kinds: of one object each, and of 20. Both sides use the transport
// that client-go makes, and the same encoding. What a kind costs is counted with what the transport
// needs for its stream or connection.
func Cases() []compare.Case {
	return []compare.Case{idle(1, true), idle(20, true), idle(1, false)}
}

// idle measures what an informer of n objects of 2.3 KiB costs that waits for events, as one of 200
// in a process that does nothing else: heap and stack in use after collections, and goroutines. One
// side is client-go's dynamic shared informer factory, the other lw's HTTP source of
// *unstructured.Unstructured. Each informer has one handler, which does nothing but count. If tls
// is set all kinds share one connection of HTTP/2, as with an API server. Otherwise each watch has
// a connection of HTTP/1.1, with two goroutines and two buffers of 4 KiB of net/http. A bare watch
// is one that only the transport knows of; it is measured in the same process.
//
// An event is one of 20 of each kind, another status of one object, as fast as all kinds receive
// them.
func idle(n int, tls bool) compare.Case {
	transport := "HTTP/1.1"
	if tls {
		transport = "HTTP/2"
	}
	what := func(s string) string {
		if n == 1 {
			return fmt.Sprintf("200 kinds of 1 object, %s: %s", transport, s)
		}
		return fmt.Sprintf("200 kinds of %d objects, %s: %s", n, transport, s)
	}
	memory := compare.Line{Row: row, What: what("heap and stack a kind"), Unit: compare.Bytes, Key: "memory"}
	shared := compare.Line{Row: row, What: what("heap and stack a kind, Share"), Unit: compare.Bytes, Key: "memory",
		Side: share}
	routines := compare.Line{Row: row, What: what("goroutines a kind"), Unit: compare.Count, Key: "goroutines"}
	switch {
	case n > 1:
		shared.Goal = compare.Times(1 / 0.6)
	case tls:
		memory.Goal, routines.Goal = compare.Most(40<<10), compare.Most(3)
	}
	name := what("an idle informer")
	return compare.Case{
		Name: name, Profiles: true,
		Lines: []compare.Line{
			memory, shared, routines,
			{Row: row, What: what("heap and stack a kind, without a bare watch's"), Unit: compare.Bytes, Key: "own"},
			{Row: row, What: what("stack alone, a kind"), Unit: compare.Bytes, Key: "stack"},
			{Row: row, What: what("heap and stack a kind, after 40 events"), Unit: compare.Bytes, Key: "memory.events"},
			{Row: row, What: what("CPU to start a kind"), Unit: compare.Nanoseconds, Key: "start.cpu"},
			{Row: row, What: what("CPU of an event"), Unit: compare.Nanoseconds, Key: "event.cpu"},
			{Row: row, What: what("allocations of an event"), Unit: compare.Count, Key: "event.allocs"},
		},
		Setup: func(cfg compare.Config) ([]compare.Side, func()) {
			s := newServer(n)
			j := job{Kinds: cfg.N(200, 50), Objects: n, Events: 20}
			j.URL, j.CA = s.Address(tls)
			var sides []compare.Side
			for _, side := range []string{compare.ClientGo, compare.LW, share} {
				own := j
				own.LW, own.Share = side != compare.ClientGo, side == share
				if file := cfg.ProfileOf(name, side); file != "" {
					own.Profile = file + "-heap.pprof"
				}
				sides = append(sides, compare.Side{Name: side, Measure: func() compare.Sample {
					sample, err := own.run()
					if err != nil {
						panic("kinds: " + err.Error())
					}
					return sample
				}})
			}
			return sides, s.Close
		},
	}
}
