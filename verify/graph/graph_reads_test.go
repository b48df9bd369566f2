package graph_test

import (
	stdcmp "cmp"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// No read waits for a long commit: each is answered from the state before it, also of a collection
// that is changed already, and all of them from the state after it when it is done. A read that
// waited would wait for ever here: it is made by the goroutine that commits.
func TestReadsDuringALongCommit(t *testing.T) {
	const objects = 1000
	board := &lw.Board{}
	inGraph(t, &lw.GraphOptions{Board: board}, "", "", func(t *testing.T, b *graphBench) {
		for i := range objects {
			rig.Create(t, b.left, fmt.Sprint("w", i), 1)
		}
		all := []*lw.Derived[*rig.Sum]{lw.Derive(b.g, b.l, rig.SumOf, "first")}
		all = append(all,
			lw.Derive(b.g, all[0], func(s *rig.Sum) *rig.Sum { return &rig.Sum{Meta: s.Meta, Sum: -s.Sum} }, "second"),
			lw.GroupBy(b.g, all[0], allInOne, rig.AddedUp, rig.TotalOf, "total"))
		var bySum []*lw.Index[int, *rig.Sum]
		var sorted []*lw.SortedIndex[int, *rig.Sum]
		for _, d := range all {
			bySum = append(bySum, lw.NewIndex(d, func(s *rig.Sum) int { return s.Sum }))
			sorted = append(sorted, lw.NewSortedIndex(d, func(s *rig.Sum) int { return s.Sum }))
		}
		var before map[string]any
		// state reads everything in every way, and expects all ways to agree.
		state := func() map[string]any {
			t.Helper()
			s := b.g.Snapshot()
			seen := map[string]any{"vector": s.ResourceVersion(b.l)}
			status := b.g.Status()
			for i, d := range all {
				list := d.Store().List()
				sums := map[int]int{}
				for _, o := range list {
					sums[o.Sum]++
					if got, ok := d.Store().Get(lw.KeyOf(o)); !ok || got != o {
						t.Errorf("Get of %s shows %v, and List %v", o.Name, got, o)
					}
					if got, ok := d.At(s).Get(lw.KeyOf(o)); !ok || got != o {
						t.Errorf("a snapshot has %v of %s, and List %v", got, o.Name, o)
					}
				}
				byIndex := map[int]int{}
				for n := range bySum[i].Keys() {
					byIndex[n] = bySum[i].Len(n)
					if got := len(bySum[i].List(n)); got != byIndex[n] {
						t.Errorf("%d objects of %d in the index, and its Len is %d", got, n, byIndex[n])
					}
				}
				if diff := cmp.Diff(sums, byIndex); diff != "" {
					t.Errorf("collection %d (-List +index):\n%s", i, diff)
				}
				slices.SortFunc(list, func(a, b *rig.Sum) int { return stdcmp.Or(a.Sum-b.Sum, stdcmp.Compare(a.Name, b.Name)) })
				if got := slices.Collect(sorted[i].Up(0, len(list)+1)); !slices.Equal(got, list) {
					t.Errorf("collection %d: the order of %d objects is another one than that of List, which has %d", i,
						len(got), len(list))
				}
				if got := slices.Collect(sorted[i].At(d.Store().Snapshot()).Up(0, len(list)+1)); !slices.Equal(got, list) {
					t.Errorf("collection %d: the order of a snapshot has %d objects, and List %d", i, len(got), len(list))
				}
				if n := d.Store().Len(); n != len(list) || n != d.At(s).Len() || n != status.Collections[i].Objects ||
					n != len(slices.Collect(d.Store().All())) {
					t.Errorf("collection %d: Len is %d, List has %d, and the status %d", i, n, len(list),
						status.Collections[i].Objects)
				}
				seen[fmt.Sprint("sums ", i)] = sums
				seen[fmt.Sprint("version ", i)] = d.Store().ResourceVersion()
				if v := d.Store().Snapshot().ResourceVersion(); v != d.Store().ResourceVersion() || v != d.At(s).ResourceVersion() {
					t.Errorf("collection %d: versions %s and %s", i, v, d.Store().ResourceVersion())
				}
			}
			for range board.Graphs() {
			}
			seen["steps"] = status.Steps
			return seen
		}
		met := 0
		inside.MidCommit(b.g, func() {
			met++
			if before == nil {
				before = state() // the first one: all is empty
				for i := range all {
					if n := all[i].Store().Len(); n != 0 {
						t.Errorf("collection %d has %d objects in the first commit", i, n)
					}
				}
				return
			}
			if diff := cmp.Diff(before, state()); diff != "" {
				t.Errorf("in a commit (-before +in it):\n%s", diff)
			}
		})
		inside.AfterStep(b.g, func() { before = state() })
		rig.Start(t, b.l)
		rig.Start(t, b.g)
		synctest.Wait()
		// Many changes in one step: the informer has made them while the graph was held.
		for round := range 4 {
			hold := make(chan struct{})
			held := lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
				<-hold
				return nil
			}, "held")
			synctest.Wait()
			for i := range objects {
				name := fmt.Sprint("w", i)
				switch {
				case round == 2 && i%3 == 0:
					rig.Remove(t, b.left, name)
				case round == 3 && i%3 == 0:
					rig.Create(t, b.left, name, 7)
				default:
					rig.Update(t, b.left, name, 2+round+i%5)
				}
			}
			synctest.Wait()
			close(hold)
			synctest.Wait()
			held.Close()
			synctest.Wait()
			if got := before["sums 2"]; !cmp.Equal(got, map[int]int{sumOfAll(b.left): 1}) {
				t.Errorf("round %d: the total is %v, want %d", round, got, sumOfAll(b.left))
			}
		}
		if met < 5 {
			t.Errorf("%d long commits, want 5", met)
		}
	})
}

func sumOfAll(m *lw.Memory[*rig.Widget]) (n int) {
	for w := range m.All() {
		n += w.Size
	}
	return n
}

// A brief commit takes no snapshots before. So whoever reads in the midst of it waits for its end,
// however it reads: it would see some collections as they were, and others as they will be.
func TestReadsDuringABriefCommit(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		d := lw.Derive(b.g, b.l, rig.SumOf, "sums")
		bySum := lw.NewIndex(d, func(s *rig.Sum) int { return s.Sum })
		sorted := lw.NewSortedIndex(d, func(s *rig.Sum) int { return s.Sum })
		reads := map[string]func() bool{ // each reports whether it shows the sum 2
			"Get":           func() bool { s, ok := d.Store().Get(rig.Key("a")); return ok && s.Sum == 2 },
			"Len":           func() bool { return d.Store().Len() == 1 },
			"Version":       func() bool { return d.Store().ResourceVersion() == "2" },
			"List":          func() bool { l := d.Store().List(); return len(l) == 1 && l[0].Sum == 2 },
			"Index.Lookup":  func() bool { return len(bySum.List(2)) == 1 },
			"Index.Len":     func() bool { return bySum.Len(2) == 1 },
			"Index.Keys":    func() bool { return slices.Equal(slices.Collect(bySum.Keys()), []int{2}) },
			"SortedIndex":   func() bool { return sorted.Before(2) == 0 && sorted.Len() == 1 },
			"GraphSnapshot": func() bool { s, ok := d.At(b.g.Snapshot()).Get(rig.Key("a")); return ok && s.Sum == 2 },
		}
		var over atomic.Int32
		done, changing := make(chan struct{}), false
		inside.MidBrief(b.g, func() {
			if !changing {
				return
			}
			changing = false
			// On one processor every read has its turn between two of ours, however busy the machine is.
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			for how, read := range reads {
				go func() {
					shows := read()
					over.Add(1)
					if !shows {
						t.Errorf("%s in a brief commit shows the state before", how)
					}
					done <- struct{}{}
				}()
			}
			for range 1000 {
				runtime.Gosched() // time for a read that does not wait
			}
			if n := over.Load(); n > 0 {
				t.Errorf("%d of %d reads have not waited for a brief commit", n, len(reads))
			}
		})
		rig.Start(t, b.l)
		rig.Start(t, b.g)
		synctest.Wait()
		changing = true
		rig.Update(t, b.left, "a", 2)
		for range reads {
			<-done
		}
	})
}
