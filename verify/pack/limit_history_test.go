package pack_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// Whatever happens, what is opened of a cache with a limit is what the server has had, whole, in a
// version that is not older than the store's, or says that it is no more than metadata; handlers
// have whole new objects, and each old one is the last new one; nothing is missing in lists and
// indexes; and at rest all is as the server has it. Two informers share the limit, what the server
// has answered is told, and a collector runs all the time.
func TestPackLimitHistories(t *testing.T) {
	leak.Collect(t, 10*time.Millisecond)
	rapid.Check(t, func(rt *rapid.T) {
		accept := rapid.SampledFrom([]string{"application/json", "", "application/cbor"}).Draw(rt, "accept")
		wrong := ""
		synctest.Test(t, func(t *testing.T) {
			h := newLimitHistory(t, rt, accept)
			for range rapid.IntRange(1, 20).Draw(rt, "steps") {
				h.step()
			}
			h.rest()
			wrong = h.failed()
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// A limitHistory is one history of a server and two informers with one limit.
type limitHistory struct {
	*limited[*carp.Carp]
	t      *testing.T
	rt     *rapid.T
	other  *lw.Informer[*lw.Packed[*carp.Carp]]
	byHost *lw.Index[string, *lw.Packed[*carp.Carp]]
	writes int

	mu       sync.Mutex // of what the handler uses as well
	wrong    string
	had      map[string][]*carp.Carp // what the server has had, by name and version
	restored bool                    // versions may go back
	shown    map[lw.Key]string       // the version that the handler was called with last
}

func newLimitHistory(t *testing.T, rt *rapid.T, accept string) *limitHistory {
	h := &limitHistory{limited: newLimited[*carp.Carp](t, accept, 8), t: t, rt: rt, writes: 100,
		had: map[string][]*carp.Carp{}, shown: map[lw.Key]string{}}
	h.limit.OnError = func(error) {}
	// With the least nothing stays; with the most nothing is let go for a while.
	h.limit.Bytes = int64(rapid.SampledFrom([]int{1, 4 << 10, 16 << 10, 32 << 10, 64 << 10}).Draw(rt, "limit"))
	h.byHost = lw.NewIndex(h.inf, func(p *lw.Packed[*carp.Carp]) string { return p.Open().Spec.Hostname })
	src := h.objects.Source()
	src.Accept = accept
	h.other = lw.NewInformer(lw.Pack(src, lw.PackOptions{Limit: h.limit}), &lw.Options{List: lw.ListPages, PageSize: 3})
	for c := range h.objects.All() {
		h.noteLocked(c) // nobody else is there yet
	}
	h.inf.AddHandler(lw.Handler[*lw.Packed[*carp.Carp]]{
		Add:    func(now *lw.Packed[*carp.Carp]) { h.handled(nil, now) },
		Update: h.handled,
		Delete: func(old *lw.Packed[*carp.Carp]) { h.handled(old, nil) },
	})
	rig.Start(t, h.inf)
	rig.Start(t, h.other)
	return h
}

func (h *limitHistory) fail(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wrong == "" {
		h.wrong = fmt.Sprintf(format, args...)
	}
}

func (h *limitHistory) failed() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wrong
}

func (h *limitHistory) noteLocked(c *carp.Carp) {
	id := c.Name + " " + c.ResourceVersion
	h.had[id] = append(h.had[id], c)
}

// known reports whether the server has had c.
func (h *limitHistory) known(c *carp.Carp) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, had := range h.had[c.Name+" "+c.ResourceVersion] {
		if reflect.DeepEqual(had, c) {
			return true
		}
	}
	return false
}

// whole checks what was opened of p.
func (h *limitHistory) whole(p *lw.Packed[*carp.Carp], c *carp.Carp) {
	h.mu.Lock()
	restored := h.restored
	h.mu.Unlock()
	was, _ := strconv.Atoi(p.GetResourceVersion())
	now, _ := strconv.Atoi(c.ResourceVersion)
	if !h.known(c) || c.UID != p.GetUID() || now < was && !restored {
		h.fail("%s at version %s was opened as %s at version %s, a message of %d bytes", p.GetName(), p.GetResourceVersion(),
			c.Name, c.ResourceVersion, len(c.Status.Message))
	}
}

// part checks what was opened of p without an error: it may be metadata that says so.
func (h *limitHistory) part(p *lw.Packed[*carp.Carp], c *carp.Carp) {
	if c.ResourceVersion != "let-go" && c.ResourceVersion != "let-go-and-gone" {
		h.whole(p, c)
	} else if c.UID != p.GetUID() || lw.KeyOf(c) != lw.KeyOf(p) || c.Status.Message != "" || c.Labels["name"] != p.GetName() {
		h.fail("of %s is left %+v", p.GetName(), c.ObjectMeta)
	}
}

// open returns what p is read as.
func (h *limitHistory) open(p *lw.Packed[*carp.Carp]) (*carp.Carp, error) {
	ctx, cancel := context.WithTimeout(h.t.Context(), 10*time.Second)
	defer cancel()
	c, err := p.OpenContext(ctx)
	if err == nil {
		h.whole(p, c)
	}
	return c, err
}

// handled is called with each change.
func (h *limitHistory) handled(old, now *lw.Packed[*carp.Carp]) {
	key, was, is := lw.Key{}, "", ""
	if old != nil {
		key, was = lw.KeyOf(old), old.GetResourceVersion()
		if c, whole := old.OpenKept(); whole != (c.ResourceVersion == was) || whole && !h.known(c) {
			h.fail("the old %s at version %s is %+v, a message of %d bytes", key, was, c.ObjectMeta, len(c.Status.Message))
		} else {
			h.part(old, c)
		}
	}
	if now != nil {
		key, is = lw.KeyOf(now), now.GetResourceVersion()
		_, _ = h.open(now) // it checks what it opens
	}
	h.mu.Lock()
	last := h.shown[key]
	h.shown[key] = is
	h.mu.Unlock()
	if was != last {
		h.fail("a handler has a change of %s from version %q to %q after one to %q", key, was, is, last)
	}
}

// step does one thing, or lets one happen.
func (h *limitHistory) step() {
	steps := []string{"write", "write", "write", "remove", "relist", "restore", "outage", "stall", "fail", "gc", "read", "read", "rest"}
	switch step := rapid.SampledFrom(steps).Draw(h.rt, "step"); step {
	case "write":
		h.write()
	case "remove":
		c := newCarp(fmt.Sprint("c", rapid.IntRange(0, 7).Draw(h.rt, "name")), 0)
		now, err := h.objects.Get(lw.KeyOf(c))
		if err == nil && h.objects.Delete(lw.KeyOf(c)) == nil && rapid.Bool().Draw(h.rt, "tell") {
			_ = h.inf.TellDeleted(lw.KeyOf(c), now.UID, h.server.ResourceVersion())
		}
	case "relist":
		h.server.Advance(3)
		h.server.Compact()
		h.server.Break()
	case "restore":
		h.mu.Lock()
		h.restored = true
		h.mu.Unlock()
		_ = h.server.Restore(uint64(rapid.IntRange(1, 3).Draw(h.rt, "versions"))) // or they were compacted
		h.server.Advance(10)                                                      // no version is another one's
		h.server.Compact()                                                        // and nobody misses that it was restored
	case "outage":
		outages := lwtest.Outages()
		o := outages[rapid.IntRange(0, len(outages)-1).Draw(h.rt, "outage")]
		h.rt.Log(o.Name)
		o.Do(h.server)
	case "stall":
		h.server.Stall()
	case "fail":
		h.server.Inject(lwtest.Fault{Verb: lwtest.List, Times: 3, Effect: lwtest.Fail(apierrors.NewServiceUnavailable("away"))})
	case "gc":
		runtime.GC()
	case "read":
		h.read()
	case "rest":
		h.rest()
	}
	if rapid.Bool().Draw(h.rt, "settle") {
		time.Sleep(time.Second)
		synctest.Wait()
	}
}

func (h *limitHistory) write() {
	h.writes++
	size := rapid.SampledFrom([]int{100, 8 << 10, 20 << 10}).Draw(h.rt, "size")
	c := newNoise(fmt.Sprint("c", rapid.IntRange(0, 7).Draw(h.rt, "name")), h.writes, size)
	var err error
	h.mu.Lock() // a handler may see it at once
	if _, err = h.objects.Get(lw.KeyOf(c)); err != nil {
		c, err = h.objects.Create(c)
	} else {
		c, err = h.objects.Update(c)
	}
	h.noteLocked(c)
	h.mu.Unlock()
	rig.OK(h.t, err)
	if rapid.Bool().Draw(h.rt, "tell") {
		_ = h.inf.Tell(c) // it may have stopped knowing versions
	}
}

// read reads all in each way, or some.
func (h *limitHistory) read() {
	way := rapid.IntRange(0, 3).Draw(h.rt, "way")
	for i, p := range append(h.inf.Store().List(), h.other.Store().List()...) {
		switch {
		case way == 0:
			_, _ = h.open(p)
		case i%3 != rand.IntN(3): // each may take a minute
		case way == 1:
			h.part(p, p.Open())
		case way == 2:
			c := p.Copy()
			h.part(p, c)
			c.Status.Message = "nobody else has it"
		default:
			if labels := p.GetLabels(); labels["name"] != p.GetName() {
				h.fail("%s has the labels %v", p.GetName(), labels)
			}
		}
	}
}

// rest waits until nothing happens any more, and compares.
func (h *limitHistory) rest() {
	h.server.Clear()
	time.Sleep(20 * time.Minute)
	synctest.Wait()
	want := map[lw.Key]*carp.Carp{}
	hosts := map[string]int{}
	for c := range h.objects.All() {
		want[lw.KeyOf(c)] = c
		hosts[c.Spec.Hostname]++
	}
	for name, inf := range map[string]*lw.Informer[*lw.Packed[*carp.Carp]]{"the first": h.inf, "the other": h.other} {
		got := map[lw.Key]*carp.Carp{}
		for _, p := range inf.Store().List() {
			c, err := h.open(p)
			if err != nil {
				h.fail("at rest: %v", err)
				return
			}
			got[lw.KeyOf(c)] = c
		}
		if diff := cmp.Diff(want, got); diff != "" {
			h.fail("at rest %s (-server +cache):\n%s", name, diff)
		}
	}
	for host, n := range hosts {
		if got := h.byHost.Len(host); got != n {
			h.fail("at rest the index has %d of %d objects of %s", got, n, host)
		}
	}
	h.mu.Lock()
	for key, c := range want {
		if h.shown[key] != c.ResourceVersion {
			h.wrong += fmt.Sprintf("at rest a handler has %s at version %q, and the server at %s", key, h.shown[key], c.ResourceVersion)
		}
	}
	h.mu.Unlock()
	if u := h.limit.Usage(); u.Bytes > h.limit.Bytes*3/4 && u.Bytes > 24<<10 {
		h.fail("at rest: %+v", u)
	}
}
