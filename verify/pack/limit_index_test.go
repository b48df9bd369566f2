package pack_test

import (
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// The functions of indexes are called while an object is there, though it is let go at once: no
// list, event or Tell asks for one of them, and no index has less than the server.
func TestPackLimitIndexes(t *testing.T) {
	// Nothing is there by chance: what nobody has is collected at once.
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	for _, mode := range []lw.ListMode{lw.ListStream, lw.ListPages, lw.ListWhole} {
		for _, bytes := range []int64{1, 60 << 10} { // nothing fits; a third
			t.Run(fmt.Sprint(mode, bytes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testPackLimitIndexes(t, mode, bytes) })
			})
		}
	}
}

func testPackLimitIndexes(t *testing.T, mode lw.ListMode, bytes int64) {
	type packed = *lw.Packed[*carp.Carp]
	l := newLimited[*carp.Carp](t, "application/json", 30)
	l.limit.Bytes = bytes
	l.inf = lw.NewInformer(lw.Pack(l.objects.Source(), lw.PackOptions{Limit: l.limit}),
		&lw.Options{List: mode, PageSize: 7, OnError: func(error) {}})
	var calls atomic.Int32
	hosts := lw.NewIndex(l.inf, func(p packed) string {
		calls.Add(1)
		return p.Open().Spec.Hostname
	})
	words := lw.NewMultiIndex(l.inf, func(p packed) iter.Seq[string] {
		c := p.Open()
		return slices.Values([]string{c.Name, c.Spec.Hostname, c.Name})
	})
	order := lw.NewSortedIndex(l.inf, func(p packed) string { return p.Open().Status.Message })
	check := func(when string) {
		t.Helper()
		synctest.Wait()
		all := map[lw.Key]string{}
		for c := range l.objects.All() {
			key := lw.KeyOf(c)
			all[key] = c.Status.Message
			for name, found := range map[string]iter.Seq[packed]{"host": hosts.Lookup(c.Spec.Hostname), "name": words.Lookup(c.Name),
				"word": words.Lookup(c.Spec.Hostname)} {
				if !slices.ContainsFunc(slices.Collect(found), func(p packed) bool { return lw.KeyOf(p) == key }) {
					t.Errorf("%s: %s is not at its %s", when, c.Name, name)
				}
			}
		}
		was := ""
		for p := range order.Up(0, 100) {
			if now := all[lw.KeyOf(p)]; now < was || now == "" {
				t.Errorf("%s: %s is not at its place", when, p.GetName())
			} else {
				was = now
			}
		}
		rig.Same(t, when+": objects in order", len(all), order.Len())
		if diff := cmp.Diff(uint64(0), l.limit.Usage().Requests); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", when, diff)
		}
	}
	rig.Start(t, l.inf)
	rig.OK(t, l.inf.WaitForSync(t.Context()))
	if u := l.limit.Usage(); u.LetGo < 15 {
		t.Errorf("after the list: %+v", u)
	}
	check("after the list")
	rig.Same(t, "calls", 30, int(calls.Load()))

	for i := range 20 {
		rig.Must[*carp.Carp](t)(l.objects.Update(newNoise(fmt.Sprint("c", i), 100+i, 8<<10)))
	}
	rig.Must[*carp.Carp](t)(l.objects.Create(newNoise("new", 200, 8<<10)))
	check("after events")

	l.server.SetDown(true) // and a relist
	for i := range 10 {
		rig.Must[*carp.Carp](t)(l.objects.Update(newNoise(fmt.Sprint("c", i), 300+i, 8<<10)))
	}
	rig.OK(t, l.objects.Delete(lw.Key{Namespace: "lake", Name: "c29"}))
	l.server.Compact()
	l.server.SetDown(false)
	time.Sleep(5 * time.Minute)
	before := calls.Load()
	check("after a relist")

	l.server.Advance(3) // and one of the same versions
	l.server.Compact()
	l.server.Break()
	time.Sleep(5 * time.Minute)
	check("after a second relist")
	rig.Same(t, "calls for what a relist has not changed", 0, int(calls.Load()-before))

	// What is told, and what comes back in its place.
	l.server.Stall()
	told := rig.Must[*carp.Carp](t)(l.objects.Update(newNoise("c3", 400, 8<<10)))
	for range 3 {
		rig.OK(t, l.inf.Tell(told))
		runtime.GC()
	}
	check("after Tell")
	l.server.Clear()
	time.Sleep(5 * time.Minute)
	check("after what was told has come")

	// An index that comes later opens what was let go.
	late := lw.NewIndex(l.inf, func(p packed) string { return p.Open().Spec.Hostname })
	if bytes == 1 && l.limit.Usage().Requests == 0 {
		t.Error("a late index has made no request: the test shows nothing")
	}
	for c := range l.objects.All() {
		if late.Len(c.Spec.Hostname) == 0 {
			t.Errorf("%s is not in the late index", c.Name)
		}
	}
}

// A server that was restored may have another object at a version that was let go: the indexes have
// that one.
func TestPackLimitRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited[*carp.Carp](t, "application/json", 10)
		l.limit.Bytes = 1
		hosts := lw.NewIndex(l.inf, func(p *lw.Packed[*carp.Carp]) string { return p.Open().Spec.Hostname })
		rig.Start(t, l.inf)
		rig.OK(t, l.inf.WaitForSync(t.Context()))
		first := rig.Must[*carp.Carp](t)(l.objects.Update(newNoise("c1", 100, 8<<10)))
		rig.Must[*carp.Carp](t)(l.objects.Update(newNoise("c3", 101, 8<<10))) // by which the restore is found
		synctest.Wait()
		rig.Same(t, "at the first host", 1, hosts.Len(first.Spec.Hostname))
		l.server.SetDown(true)
		time.Sleep(time.Minute)
		rig.OK(t, l.server.Restore(2))
		second := rig.Must[*carp.Carp](t)(l.objects.Update(newNoise("c1", 200, 8<<10)))
		rig.Same(t, "version", first.ResourceVersion, second.ResourceVersion)
		rig.Must[*carp.Carp](t)(l.objects.Update(newNoise("c2", 200, 8<<10)))
		rig.Must[*carp.Carp](t)(l.objects.Update(newNoise("c4", 201, 8<<10)))
		l.server.SetDown(false)
		time.Sleep(20 * time.Minute)
		rig.Same(t, "at the first host", 0, hosts.Len(first.Spec.Hostname))
		rig.Same(t, "at the second host", 2, hosts.Len(second.Spec.Hostname))
		rig.Same(t, "requests", uint64(0), l.limit.Usage().Requests)
	})
}
