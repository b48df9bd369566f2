package wire

import (
	"fmt"

	"github.com/go-lw/lw/bench/internal/compare"
)

const (
	share    = "lw, Share"
	shareCut = "lw, Share and Drop"
	standard = "lw, Standard"
)

// Cases returns the cases over HTTP on the loopback interface, with n objects each; 0 means the
// default. Each side runs in a process of its own, with one handler that does nothing. Both sides
// use the transport that client-go makes, and the same encoding unless a case says otherwise. The
// server's CPU is not counted.
//
// The objects are pods of 8.5 KiB of JSON unless a case says otherwise. There one side is
// client-go's typed clientset and shared informer factory, the other lw's HTTP source.
func Cases(n int) []compare.Case {
	return []compare.Case{
		secureJSON(n), secureProtobuf(n), streamJSON(n), listJSON(n), streamProtobuf(n), listProtobuf(n),
		streamWidgets(n), streamPlaces(n), streamMasked(n, JSON), streamMasked(n, Protobuf),
		streamMixed(n, JSON), streamMixed(n, Protobuf), listMixed(n, JSON), listMixed(n, Protobuf),
		byStandard(n, JSON), byStandard(n, Protobuf),
		relist(n, streamed, JSON), relist(n, listed, JSON), relist(n, streamed, Protobuf),
	}
}

// streamJSON measures a streamed list, and then updates as fast as they are read, in JSON.
func streamJSON(n int) compare.Case {
	return measured(compare.Case{Name: "JSON, streamed", Lines: []compare.Line{
		{Row: 1, What: "JSON watch event, another status, socket to handler: CPU", Unit: compare.Nanoseconds,
			Key: "status.cpu", Goal: compare.Times(20)},
		{Row: 1, What: "JSON watch event, another status, Share: CPU", Unit: compare.Nanoseconds, Key: "status.cpu",
			Side: share},
		{Row: 1, What: "JSON watch event, another version: CPU", Unit: compare.Nanoseconds, Key: "version.cpu",
			Goal: compare.Times(30)},
		{Row: 1, What: "JSON watch event, another label: CPU", Unit: compare.Nanoseconds, Key: "label.cpu"},
		{Row: 2, What: "JSON streamed sync: CPU an object", Unit: compare.Nanoseconds, Key: "sync.cpu",
			Goal: compare.Times(7)},
		{Row: 2, What: "JSON streamed sync: wall time an object", Unit: compare.Nanoseconds, Key: "sync.wall",
			Goal: compare.Times(6)},
		{Row: 2, What: "JSON streamed sync, Share: CPU an object", Unit: compare.Nanoseconds, Key: "sync.cpu", Side: share},
		{Row: 4, What: "JSON watch event: allocations", Unit: compare.Count, Key: "status.allocs"},
		{Row: 4, What: "JSON watch event: bytes", Unit: compare.Bytes, Key: "status.bytes"},
		{Row: 4, What: "JSON watch event, Share: allocations", Unit: compare.Count, Key: "status.allocs", Side: share,
			Goal: compare.Times(7)},
		{Row: 4, What: "JSON watch event, Share: bytes", Unit: compare.Bytes, Key: "status.bytes", Side: share,
			Goal: compare.Times(2.5)},
		{Row: 9, What: "live heap a cached pod", Unit: compare.Bytes, Key: "live"},
		{Row: 9, What: "live heap a cached pod, after an event of each sort", Unit: compare.Bytes, Key: "live.events"},
		{Row: 9, What: "live heap a cached pod, Share", Unit: compare.Bytes, Key: "live", Side: share,
			Goal: compare.Times(1.5), Chart: true},
		{Row: 9, What: "live heap a cached pod, Share and managedFields dropped", Unit: compare.Bytes, Key: "live",
			Side: shareCut, Goal: compare.Times(2)},
	}}, job{Set: podSet, Path: streamed, Format: JSON, N: n, Changes: everyChange}, compare.ClientGo, compare.LW,
		share, shareCut)
}

// secureJSON is streamJSON over TLS and HTTP/2.
func secureJSON(n int) compare.Case {
	return measured(compare.Case{Name: "JSON, streamed, TLS and HTTP/2", Lines: []compare.Line{
		{Row: 1, What: "JSON watch event, another status, over TLS and HTTP/2: CPU", Unit: compare.Nanoseconds,
			Key: "status.cpu", Chart: true},
		{Row: 1, What: "JSON watch event, another version, over TLS and HTTP/2: CPU", Unit: compare.Nanoseconds,
			Key: "version.cpu"},
		{Row: 2, What: "JSON streamed sync over TLS and HTTP/2: CPU an object", Unit: compare.Nanoseconds, Key: "sync.cpu",
			Chart: true},
	}}, job{Set: podSet, Path: streamed, Format: JSON, N: n, TLS: true, Changes: usual}, compare.ClientGo, compare.LW)
}

// listJSON measures the first list of a server without streamed lists, in JSON. client-go asks for
// any version and gets the list in one response. lw asks for the newest version in pages.
func listJSON(n int) compare.Case {
	return measured(compare.Case{Name: "JSON, list", Lines: []compare.Line{
		{Row: 3, What: "JSON list sync: CPU an object", Unit: compare.Nanoseconds, Key: "sync.cpu", Goal: compare.Times(4),
			Chart: true},
		{Row: 8, What: "JSON list sync: peak RSS", Unit: compare.Bytes, Key: "peak"},
		{Row: 8, What: "JSON list sync, Share: peak RSS", Unit: compare.Bytes, Key: "peak", Side: share,
			Goal: compare.Times(1 / 0.5), Chart: true},
		{Row: 8, What: "JSON list sync: peak RSS to live heap", Unit: compare.Ratio, Key: "peak/live",
			Goal: compare.Most(1.3)},
	}}, job{Set: podSet, Path: listed, Format: JSON, N: n}, compare.ClientGo, compare.LW, share)
}

// streamProtobuf is streamJSON in protobuf.
func streamProtobuf(n int) compare.Case {
	return measured(compare.Case{Name: "protobuf, streamed", Lines: []compare.Line{
		{Row: 5, What: "protobuf watch event, another status, socket to handler: CPU", Unit: compare.Nanoseconds,
			Key: "status.cpu", Goal: compare.Times(3)},
		{Row: 5, What: "protobuf watch event, another status, Share: CPU", Unit: compare.Nanoseconds, Key: "status.cpu",
			Side: share},
		{Row: 5, What: "protobuf watch event, another version: CPU", Unit: compare.Nanoseconds, Key: "version.cpu",
			Goal: compare.Times(6)},
		{Row: 5, What: "protobuf watch event, another label: CPU", Unit: compare.Nanoseconds, Key: "label.cpu"},
		{Row: 6, What: "protobuf streamed sync: CPU an object", Unit: compare.Nanoseconds, Key: "sync.cpu",
			Goal: compare.Times(1.7)},
		{Row: 7, What: "protobuf watch event, another status: bytes", Unit: compare.Bytes, Key: "status.bytes",
			Goal: compare.Most(6 << 10)},
		{Row: 7, What: "protobuf watch event, another status: allocations", Unit: compare.Count, Key: "status.allocs",
			Goal: compare.Most(25)},
		{Row: 7, What: "protobuf watch event, Share: allocations", Unit: compare.Count, Key: "status.allocs", Side: share,
			Goal: compare.Times(3.5)},
	}}, job{Set: podSet, Path: streamed, Format: Protobuf, N: n, Changes: everyChange}, compare.ClientGo,
		compare.LW, share)
}

// secureProtobuf is streamProtobuf over TLS and HTTP/2.
func secureProtobuf(n int) compare.Case {
	return measured(compare.Case{Name: "protobuf, streamed, TLS and HTTP/2", Lines: []compare.Line{
		{Row: 5, What: "protobuf watch event, another status, over TLS and HTTP/2: CPU", Unit: compare.Nanoseconds,
			Key: "status.cpu", Chart: true},
		{Row: 5, What: "protobuf watch event, another version, over TLS and HTTP/2: CPU", Unit: compare.Nanoseconds,
			Key: "version.cpu"},
		{Row: 6, What: "protobuf streamed sync over TLS and HTTP/2: CPU an object", Unit: compare.Nanoseconds,
			Key: "sync.cpu"},
	}}, job{Set: podSet, Path: streamed, Format: Protobuf, N: n, TLS: true, Changes: usual}, compare.ClientGo, compare.LW)
}

// listProtobuf is listJSON in protobuf.
func listProtobuf(n int) compare.Case {
	return measured(compare.Case{Name: "protobuf, list", Lines: []compare.Line{
		{Row: 6, What: "protobuf list sync: CPU an object", Unit: compare.Nanoseconds, Key: "sync.cpu",
			Goal: compare.Times(1.3)},
		{Row: 8, What: "protobuf list sync: peak RSS", Unit: compare.Bytes, Key: "peak"},
	}}, job{Set: podSet, Path: listed, Format: Protobuf, N: n}, compare.ClientGo, compare.LW)
}

// streamWidgets is streamJSON with custom resources of 2.3 KiB of JSON, which neither side has a Go
// type for: client-go's dynamic informer, and lw's HTTP source of *unstructured.Unstructured.
func streamWidgets(n int) compare.Case {
	return measured(compare.Case{Name: "custom resources, streamed", Lines: []compare.Line{
		{Row: 30, What: "unstructured watch event, another status: CPU", Unit: compare.Nanoseconds, Key: "status.cpu",
			Goal: compare.Times(15), Chart: true},
		{Row: 30, What: "unstructured watch event, another status, Share: CPU", Unit: compare.Nanoseconds, Key: "status.cpu",
			Side: share},
		{Row: 30, What: "unstructured watch event, another version: CPU", Unit: compare.Nanoseconds, Key: "version.cpu"},
		{Row: 30, What: "unstructured watch event, another status: allocations", Unit: compare.Count, Key: "status.allocs"},
		{Row: 30, What: "unstructured watch event, another status: bytes", Unit: compare.Bytes, Key: "status.bytes"},
		{Row: 30, What: "unstructured streamed sync: CPU an object", Unit: compare.Nanoseconds, Key: "sync.cpu"},
		{Row: 30, What: "unstructured streamed sync: allocations an object", Unit: compare.Count, Key: "sync.allocs"},
		{Row: 30, What: "unstructured: live heap an object", Unit: compare.Bytes, Key: "live"},
		{Row: 30, What: "unstructured, Share: live heap an object", Unit: compare.Bytes, Key: "live", Side: share},
	}}, job{Set: widgetSet, Path: streamed, Format: JSON, N: n, Changes: usual}, compare.ClientGo, compare.LW, share)
}

// relist measures a relist that changes nothing: the watch ends with 410 Gone, and the server has
// the same objects still. It sends them as initial events of the next watch, or in a list.
func relist(n int, path string, format Format) compare.Case {
	how := map[string]string{streamed: "streamed", listed: "list"}[path]
	name := map[Format]string{JSON: "JSON", Protobuf: "protobuf"}[format] + ", unchanged relist, " + how
	cpu, added, number := compare.Times(10), compare.Most(0.1), 0
	if format == Protobuf { // client-go needs a minute for as many in JSON
		cpu, added, number = compare.Goal{}, compare.Goal{}, 100_000
	}
	return measured(compare.Case{Name: name, Lines: []compare.Line{
		{Row: 32, What: name + ": CPU an object", Unit: compare.Nanoseconds, Key: "relist.cpu", Goal: cpu},
		{Row: 32, What: name + ": allocations an object", Unit: compare.Count, Key: "relist.allocs"},
		{Row: 32, What: name + ": bytes an object", Unit: compare.Bytes, Key: "relist.bytes"},
		{Row: 32, What: name + ": added to the RSS", Unit: compare.Bytes, Key: "relist.added"},
		{Row: 32, What: name + ": added to the RSS, of the live heap", Unit: compare.Ratio, Key: "relist.added/live",
			Goal: added},
	}}, job{Set: podSet, Path: path, Format: format, N: n, Default: number, Relist: true}, compare.ClientGo, compare.LW)
}

// byStandard measures what HTTP.Standard costs, of which each line has the ratio to client-go or to
// lw without it.
func byStandard(n int, format Format) compare.Case {
	name := map[Format]string{JSON: "JSON", Protobuf: "protobuf"}[format]
	c := compare.Case{Name: "Standard, " + name + ", streamed"}
	for _, of := range []string{compare.ClientGo, compare.LW} {
		for _, l := range []compare.Line{
			{What: " watch event, another status: CPU", Unit: compare.Nanoseconds, Key: "status.cpu"},
			{What: " watch event, another status: allocations", Unit: compare.Count, Key: "status.allocs"},
			{What: " streamed sync: CPU an object", Unit: compare.Nanoseconds, Key: "sync.cpu"},
			{What: " streamed sync: allocations an object", Unit: compare.Count, Key: "sync.allocs"},
			{What: ": live heap a cached pod", Unit: compare.Bytes, Key: "live"},
		} {
			l.Row, l.What, l.Base, l.Side = 50, "Standard against "+of+", "+name+l.What, of, standard
			c.Lines = append(c.Lines, l)
		}
	}
	of := job{Set: podSet, Path: streamed, Format: format, N: n, Changes: usual}
	return measured(c, of, compare.ClientGo, compare.LW, standard)
}

// usual is what the events of most cases change, in turn.
var usual = []string{changedStatus, changedVersion}

var everyChange = []string{changedStatus, changedVersion, changedLabel}

// measured returns c with sides that do j, each in a child process, on a server that all share. How
// many events there are depends on how much is to be measured, and so does j.N if it is 0.
func measured(c compare.Case, j job, names ...string) compare.Case {
	c.Profiles = true
	c.Setup = func(cfg compare.Config) ([]compare.Side, func()) {
		j := j
		if j.N == 0 {
			full := max(j.Default, 10_000)
			j.N = cfg.N(full, max(2_000, full/10))
		}
		if len(j.Changes) > 0 {
			j.Events = cfg.N(10_000, 2_000)
		}
		set := sets[j.Set]
		jobs := make([]job, len(names))
		var formats []Format
		for i, name := range names {
			jobs[i] = j
			jobs[i].Side, jobs[i].Profile = name, cfg.ProfileOf(c.Name, name)
			if format := set.sides[name].format; format != "" {
				jobs[i].Format = format
			}
			formats = append(formats, jobs[i].Format)
		}
		s, err := newServer(set.kind, formats, j.N, min(j.N, max(j.Events, 1)))
		if err != nil {
			panic("wire: " + err.Error())
		}
		var sides []compare.Side
		for _, own := range jobs {
			own.URL, own.CA = s.Address(own.TLS)
			sides = append(sides, compare.Side{Name: own.Side, Measure: func() compare.Sample {
				sample, err := own.run()
				if err != nil {
					panic(fmt.Sprintf("wire: %s: %v", own.Side, err))
				}
				return sample
			}})
		}
		return sides, s.Close
	}
	return c
}
