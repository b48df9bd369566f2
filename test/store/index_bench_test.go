package store_test

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// benchRows returns n objects in 50 namespaces, on n/100 nodes.
func benchRows(n int) []*row {
	rows := make([]*row, n)
	for i := range rows {
		rows[i] = &row{
			Meta: lw.Meta{
				Namespace:       "namespace-" + strconv.Itoa(i%50),
				Name:            "deployment-7d4b9c6f5-" + strconv.Itoa(i),
				ResourceVersion: strconv.Itoa(i + 1),
			},
			Node: "node-" + strconv.Itoa(i*7919%n/100),
		}
	}
	return rows
}

// again returns the next version of each row.
func again(rows []*row) []*row {
	next := make([]*row, len(rows))
	for i, r := range rows {
		copied := *r
		copied.ResourceVersion = strconv.Itoa(len(rows) + i + 1)
		next[i] = &copied
	}
	return next
}

func benchIndexes(x *lw.Indexer[*row], n int) *lw.Index[string, *row] {
	var first *lw.Index[string, *row]
	for i := range n {
		key := []func(*row) string{(*row).node, (*row).GetNamespace, func(r *row) string { return r.Zone }}[i]
		if ix := lw.NewIndex(x, key); first == nil {
			first = ix
		}
	}
	return first
}

func BenchmarkIndexerGet(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			rows := benchRows(n)
			keys := make([]lw.Key, n)
			for i := range keys { // in an order that no cache guesses, and not the strings that the store has
				r := rows[i*7919%n]
				keys[i] = lw.Key{Namespace: string([]byte(r.Namespace)), Name: string([]byte(r.Name))}
			}
			x := lw.NewIndexer(rows...)
			plain := make(map[lw.Key]*row, n)
			for _, r := range rows {
				plain[r.Key()] = r
			}
			b.Run("indexer", func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, ok := x.Get(keys[i%n]); !ok {
						b.Fatal("lost")
					}
				}
			})
			b.Run("snapshot", func(b *testing.B) {
				s := x.Snapshot()
				for i := 0; b.Loop(); i++ {
					if _, ok := s.Get(keys[i%n]); !ok {
						b.Fatal("lost")
					}
				}
			})
			b.Run("map", func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					if _, ok := plain[keys[i%n]]; !ok {
						b.Fatal("lost")
					}
				}
			})
		})
	}
}

func BenchmarkIndexerRead(b *testing.B) {
	const n = 100_000
	x := lw.NewIndexer(benchRows(n)...)
	nodes := benchIndexes(x, 1)
	count := 0
	b.Run("List", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			count += len(x.List())
		}
	})
	b.Run("All", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			count += countAll(x)
		}
	})
	b.Run("Snapshot", func(b *testing.B) {
		for b.Loop() {
			count += x.Snapshot().Len()
		}
	})
	b.Run("SnapshotAfterWrite", func(b *testing.B) {
		b.ReportAllocs()
		r, _ := x.Get(lw.Key{Namespace: "namespace-0", Name: "deployment-7d4b9c6f5-0"})
		for b.Loop() {
			x.Set(r)
			count += x.Snapshot().Len()
		}
	})
	b.Run("LookupList", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			count += len(nodes.List("node-7"))
		}
	})
	b.Run("Lookup", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			count += countOf(nodes, "node-7")
		}
	})
}

// The loops are functions of their own because b.Loop keeps the compiler from inlining what is in its body.

func countAll(x *lw.Indexer[*row]) (n int) {
	for r := range x.All() {
		if r != nil {
			n++
		}
	}
	return n
}

func countOf(nodes *lw.Index[string, *row], node string) (n int) {
	for r := range nodes.Lookup(node) {
		if r != nil {
			n++
		}
	}
	return n
}

func BenchmarkIndexerSet(b *testing.B) {
	const n = 10_000
	for _, indexes := range []int{0, 1, 3} {
		rows := benchRows(n)
		next := again(rows)
		b.Run(fmt.Sprint("update/", indexes), func(b *testing.B) {
			x := lw.NewIndexer(rows...)
			benchIndexes(x, indexes)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.Set(next[i*7919%n])
			}
		})
		b.Run(fmt.Sprint("delete+add/", indexes), func(b *testing.B) {
			x := lw.NewIndexer(rows...)
			benchIndexes(x, indexes)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r := rows[i*7919%n]
				x.Delete(r.Key())
				x.Set(r)
			}
		})
	}
}

func BenchmarkIndexerReplace(b *testing.B) {
	const n = 100_000
	rows := benchRows(n)
	copies := make([]*row, n)
	for i, r := range rows {
		copied := *r
		copies[i] = &copied
	}
	next := again(rows)
	for _, indexes := range []int{0, 1, 3} {
		b.Run(fmt.Sprint("load/", indexes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x := lw.NewIndexer[*row]()
				benchIndexes(x, indexes)
				x.Replace(rows, "1")
			}
			perObject(b, n)
		})
		b.Run(fmt.Sprint("set/", indexes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x := lw.NewIndexer[*row]()
				benchIndexes(x, indexes)
				for _, r := range rows {
					x.Set(r)
				}
			}
			perObject(b, n)
		})
		b.Run(fmt.Sprint("unchanged/", indexes), func(b *testing.B) {
			x := lw.NewIndexer(rows...)
			benchIndexes(x, indexes)
			b.ReportAllocs()
			for b.Loop() {
				x.Replace(copies, "2")
			}
			perObject(b, n)
		})
		b.Run(fmt.Sprint("changed/", indexes), func(b *testing.B) {
			x := lw.NewIndexer(rows...)
			benchIndexes(x, indexes)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.Replace([][]*row{next, rows}[i%2], "2")
			}
			perObject(b, n)
		})
	}
}

func perObject(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/object")
}

// BenchmarkIndexerMemory reports what the store costs for each object, without the object.
func BenchmarkIndexerMemory(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		rows := benchRows(n)
		for _, indexes := range []int{0, 1, 3} {
			b.Run(fmt.Sprint(n, "/", indexes), func(b *testing.B) {
				var x *lw.Indexer[*row]
				for b.Loop() {
					before := rig.Heap()
					x = lw.NewIndexer[*row]()
					benchIndexes(x, indexes)
					for _, r := range rows {
						x.Set(r)
					}
					b.ReportMetric((rig.Heap()-before)/float64(n), "B/object")
					runtime.KeepAlive(x)
				}
			})
		}
		runtime.KeepAlive(rows)
	}
}
