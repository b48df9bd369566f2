package wire

import (
	"fmt"

	"github.com/go-lw/lw/bench/internal/compare"
)

const (
	share    = "lw, Share"
	shareCut = "lw, Share and Drop"
)

// Cases returns the cases over HTTP on the loopback interface, with n pods of 8.5 KiB of JSON each;
// 0 means the default. Each side runs in a process of its own, with one handler that does nothing.
// One side is client-go's typed clientset and shared informer factory, the other lw's HTTP source.
// Both use the transport that client-go makes, and the same encoding. The server's CPU is not
// counted.
func Cases(n int) []compare.Case {
	return []compare.Case{streamJSON(n, false), listJSON(n), streamProtobuf(n), listProtobuf(n), streamJSON(n, true)}
}

// streamJSON measures a streamed list, and then updates as fast as they are read, in JSON. If tls
// is set they come over TLS and HTTP/2.
func streamJSON(n int, tls bool) compare.Case {
	c := compare.Case{Name: "JSON, streamed", Profiles: true, Lines: []compare.Line{
		{Row: 1, What: "JSON watch event, another status, socket to handler: CPU", Unit: compare.Nanoseconds, Key: "event.cpu", Goal: compare.TimesLess(20), Chart: true},
		{Row: 1, What: "JSON watch event, another status, Share: CPU", Unit: compare.Nanoseconds, Key: "event.cpu", Side: share},
		{Row: 1, What: "JSON watch event, another version: CPU", Unit: compare.Nanoseconds, Key: "touch.cpu", Goal: compare.TimesLess(30)},
		{Row: 2, What: "JSON streamed sync: CPU an object", Unit: compare.Nanoseconds, Key: "sync.cpu", Goal: compare.TimesLess(7), Chart: true},
		{Row: 2, What: "JSON streamed sync: wall time an object", Unit: compare.Nanoseconds, Key: "sync.wall", Goal: compare.TimesLess(6)},
		{Row: 2, What: "JSON streamed sync, Share: CPU an object", Unit: compare.Nanoseconds, Key: "sync.cpu", Side: share},
		{Row: 4, What: "JSON watch event: allocations", Unit: compare.Count, Key: "event.allocs"},
		{Row: 4, What: "JSON watch event: bytes", Unit: compare.Bytes, Key: "event.bytes"},
		{Row: 4, What: "JSON watch event, Share: allocations", Unit: compare.Count, Key: "event.allocs", Side: share, Goal: compare.TimesLess(7)},
		{Row: 4, What: "JSON watch event, Share: bytes", Unit: compare.Bytes, Key: "event.bytes", Side: share, Goal: compare.TimesLess(2.5)},
		{Row: 9, What: "live heap a cached pod", Unit: compare.Bytes, Key: "live"},
		{Row: 9, What: "live heap a cached pod, after an event of each sort", Unit: compare.Bytes, Key: "live.events"},
		{Row: 9, What: "live heap a cached pod, Share", Unit: compare.Bytes, Key: "live", Side: share, Goal: compare.TimesLess(1.5), Chart: true},
		{Row: 9, What: "live heap a cached pod, Share and managedFields dropped", Unit: compare.Bytes, Key: "live", Side: shareCut, Goal: compare.TimesLess(2)},
	}}
	sides := []string{compare.ClientGo, compare.LW, share, shareCut}
	if tls {
		c = compare.Case{Name: "JSON, streamed, TLS and HTTP/2", Profiles: true, Lines: []compare.Line{
			{Row: 1, What: "JSON watch event, another status, over TLS and HTTP/2: CPU", Unit: compare.Nanoseconds, Key: "event.cpu"},
			{Row: 1, What: "JSON watch event, another version, over TLS and HTTP/2: CPU", Unit: compare.Nanoseconds, Key: "touch.cpu"},
			{Row: 2, What: "JSON streamed sync over TLS and HTTP/2: CPU an object", Unit: compare.Nanoseconds, Key: "sync.cpu"},
		}}
		sides = sides[:2]
	}
	c.Setup = setup(c.Name, job{Path: streamed, Format: JSON, Pods: n}, true, tls, sides)
	return c
}

// listJSON measures the first list of a server without streamed lists, in JSON. client-go asks for
// any version and gets the list in one response. lw asks for the newest version in pages.
func listJSON(n int) compare.Case {
	const name = "JSON, list"
	return compare.Case{
		Name: name, Profiles: true,
		Lines: []compare.Line{
			{Row: 3, What: "JSON list sync: CPU an object", Unit: compare.Nanoseconds, Key: "sync.cpu", Goal: compare.TimesLess(4), Chart: true},
			{Row: 8, What: "JSON list sync: peak RSS", Unit: compare.Bytes, Key: "peak"},
			{Row: 8, What: "JSON list sync, Share: peak RSS", Unit: compare.Bytes, Key: "peak", Side: share, Goal: compare.Part(0.5), Chart: true},
			{Row: 8, What: "JSON list sync: peak RSS to live heap", Unit: compare.Ratio, Key: "peak/live", Goal: compare.Most(1.3)},
		},
		Setup: setup(name, job{Path: listed, Format: JSON, Pods: n}, false, false, []string{compare.ClientGo, compare.LW, share}),
	}
}

// streamProtobuf is streamJSON in protobuf.
func streamProtobuf(n int) compare.Case {
	const name = "protobuf, streamed"
	return compare.Case{
		Name: name, Profiles: true,
		Lines: []compare.Line{
			{Row: 5, What: "protobuf watch event, another status, socket to handler: CPU", Unit: compare.Nanoseconds, Key: "event.cpu", Goal: compare.TimesLess(3), Chart: true},
			{Row: 5, What: "protobuf watch event, another status, Share: CPU", Unit: compare.Nanoseconds, Key: "event.cpu", Side: share},
			{Row: 5, What: "protobuf watch event, another version: CPU", Unit: compare.Nanoseconds, Key: "touch.cpu", Goal: compare.TimesLess(6)},
			{Row: 6, What: "protobuf streamed sync: CPU an object", Unit: compare.Nanoseconds, Key: "sync.cpu", Goal: compare.TimesLess(1.7)},
			{Row: 7, What: "protobuf watch event, another status: bytes", Unit: compare.Bytes, Key: "event.bytes", Goal: compare.Most(6 << 10)},
			{Row: 7, What: "protobuf watch event, another status: allocations", Unit: compare.Count, Key: "event.allocs", Goal: compare.Most(25)},
			{Row: 7, What: "protobuf watch event, Share: allocations", Unit: compare.Count, Key: "event.allocs", Side: share, Goal: compare.TimesLess(3.5)},
		},
		Setup: setup(name, job{Path: streamed, Format: Protobuf, Pods: n}, true, false, []string{compare.ClientGo, compare.LW, share}),
	}
}

// listProtobuf is listJSON in protobuf.
func listProtobuf(n int) compare.Case {
	const name = "protobuf, list"
	return compare.Case{
		Name: name, Profiles: true,
		Lines: []compare.Line{
			{Row: 6, What: "protobuf list sync: CPU an object", Unit: compare.Nanoseconds, Key: "sync.cpu", Goal: compare.TimesLess(1.3)},
			{Row: 8, What: "protobuf list sync: peak RSS", Unit: compare.Bytes, Key: "peak"},
		},
		Setup: setup(name, job{Path: listed, Format: Protobuf, Pods: n}, false, false, []string{compare.ClientGo, compare.LW}),
	}
}

// setup returns the Setup function of a case. It starts a server, and returns a side for each of
// names.
func setup(caseName string, j job, events, tls bool, names []string) func(compare.Config) ([]compare.Side, func()) {
	return func(cfg compare.Config) ([]compare.Side, func()) {
		j := j
		if j.Pods == 0 {
			j.Pods = cfg.N(10_000, 2_000)
		}
		if events {
			j.Events = cfg.N(10_000, 2_000)
		}
		s, err := newServer(j.Pods)
		if err != nil {
			panic("wire: " + err.Error())
		}
		j.URL = s.plain.URL
		if tls {
			j.URL, j.CA = s.tls.URL, s.ca()
		}
		var sides []compare.Side
		for _, name := range names {
			own := j
			own.LW = name != compare.ClientGo
			if followers[name] != nil {
				own.Follower = name
			}
			own.Share = name == share || name == shareCut
			own.Profile = cfg.ProfileOf(caseName, name)
			if name == shareCut {
				own.Drop = []string{"metadata.managedFields"}
			}
			sides = append(sides, compare.Side{Name: name, Measure: func() compare.Sample {
				sample, err := own.run()
				if err != nil {
					panic(fmt.Sprintf("wire: %s: %v", name, err))
				}
				return sample
			}})
		}
		return sides, s.close
	}
}
