package wire

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/compare"
)

// mixedSet has pods of many small workloads, each of another shape.
const mixedSet = "mixed"

func init() {
	sets[mixedSet] = &set{mixedKind, map[string]side{
		compare.ClientGo: {follow: podsByClientGo(nil)},
		compare.LW:       {follow: byLW(func() *lw.HTTP[*corev1.Pod] { return &lw.HTTP[*corev1.Pod]{} })},
	}}
}

// streamMixed measures what streamJSON does with pods of mixed shapes, three a workload: no pod has
// the fields of the one before but by chance, or because it is of the same workload.
func streamMixed(n int, format Format) compare.Case {
	name, least := "JSON", 10.
	if format == Protobuf {
		name, least = "protobuf", 2
	}
	return measured(compare.Case{Name: "mixed shapes, " + name + ", streamed", Lines: []compare.Line{
		{Row: 49, What: "pods of mixed shapes, " + name + " streamed sync: CPU an object", Unit: compare.Nanoseconds,
			Key: "sync.cpu", Goal: compare.Times(least)},
		{Row: 49, What: "pods of mixed shapes, " + name + " streamed sync: allocations an object", Unit: compare.Count,
			Key: "sync.allocs"},
		{Row: 49, What: "pods of mixed shapes, " + name + ": live heap a cached pod", Unit: compare.Bytes, Key: "live"},
		{Row: 49, What: "pods of mixed shapes, " + name + " watch event, another status: CPU", Unit: compare.Nanoseconds,
			Key: "status.cpu"},
		{Row: 49, What: "pods of mixed shapes, " + name + " watch event, another version: CPU", Unit: compare.Nanoseconds,
			Key: "version.cpu"},
	}}, job{Set: mixedSet, Path: streamed, Format: format, N: n, Changes: usual}, compare.ClientGo, compare.LW)
}

// listMixed is streamMixed with a list.
func listMixed(n int, format Format) compare.Case {
	name := map[Format]string{JSON: "JSON", Protobuf: "protobuf"}[format]
	return measured(compare.Case{Name: "mixed shapes, " + name + ", list", Lines: []compare.Line{
		{Row: 49, What: "pods of mixed shapes, " + name + " list sync: CPU an object", Unit: compare.Nanoseconds,
			Key: "sync.cpu"},
	}}, job{Set: mixedSet, Path: listed, Format: format, N: n}, compare.ClientGo, compare.LW)
}
