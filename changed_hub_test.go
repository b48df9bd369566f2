package lw

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/table"
)

// A write is one change that the model test makes to a hub.
type write struct {
	kind  string // "set", "other UID", "remove" or "replace"
	names []string
	pause bool // after it, until the readers wait
}

var writes = rapid.Custom(func(t *rapid.T) write {
	name := rapid.SampledFrom([]string{"0", "1", "2", "3"})
	w := write{kind: rapid.SampledFrom([]string{"set", "set", "other UID", "remove", "replace"}).Draw(t, "kind"),
		pause: rapid.Bool().Draw(t, "pause")}
	if w.kind == "replace" {
		w.names = rapid.SliceOfDistinct(name, rapid.ID[string]).Draw(t, "names")
	} else {
		w.names = []string{name.Draw(t, "name")}
	}
	return w
})

// group is the value that the model test's indexes have of a ball: it changes with the version.
func group(b *ball) string { return strconv.Itoa(int(decimal(b.ResourceVersion)) % 3) }

// groups are two of them.
func groups(b *ball) iter.Seq[string] {
	return slices.Values([]string{group(b), "of " + b.Name})
}

// TestChangedModel writes to a hub at random, while readers each take a channel, read, and wait for
// the channel. Whoever has read what is not the newest state must have a closed channel, and nobody
// whose state is still the newest.
func TestChangedModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := rapid.SliceOfN(writes, 1, 60).Draw(rt, "writes")
		var failures sync.Map
		rapid.SyncTest(rt, func(rt *rapid.T) {
			h := newHub[*ball]((&Options{}).withDefaults("ball"), new(sync.Mutex))
			h.status = func() Status { return Status{} }
			ctx, cancel := context.WithCancel(context.Background())
			one := &Index[string, *ball]{groups: table.NewGroupsOfOne(group)}
			many := &Index[string, *ball]{groups: table.NewGroups(func(b *ball, add func(string) bool) { groups(b)(add) })}
			h.store.store.Add(one.groups)
			h.store.store.Add(many.groups)
			inf := &Informer[*ball]{hub: h}

			done := make(chan struct{})
			fail := func(what string) { failures.Store(what, true) }
			var readers sync.WaitGroup
			reader := func(what string, changed func() <-chan struct{}, locked, read func() []*ball) {
				one := strings.HasSuffix(what, "one object")
				readers.Go(func() { waitInStep(what, one, done, changed, locked, read, fail) })
			}
			for _, name := range []string{"0", "1", "4"} {
				key := Key{Namespace: "default", Name: name}
				changed := func() <-chan struct{} { return inf.Changed(ctx, key) }
				locked := func() []*ball { return some(h.store.Snapshot().Get(key)) }
				reader("Get of one object", changed, locked, func() []*ball { return some(h.store.Get(key)) })
				reader("Snapshot of one object", changed, locked, locked)
			}
			everything := func() []*ball { return inOrder(h.store.List()) }
			reader("List", func() <-chan struct{} { return inf.Changed(ctx) }, everything, everything)
			for _, key := range []string{"0", "1"} {
				lookup := func() []*ball { return inOrder(one.List(key)) }
				reader("an index of one", func() <-chan struct{} { return one.Changed(ctx, key) }, lookup, lookup)
			}
			for _, key := range []string{"2", "of 1"} {
				lookup := func() []*ball { return inOrder(many.List(key)) }
				reader("an index of many", func() <-chan struct{} { return many.Changed(ctx, key) }, lookup, lookup)
			}

			uid := map[string]int{}
			for i, w := range all {
				version := strconv.Itoa(i + 2)
				var objs []*ball
				for _, name := range w.names {
					if w.kind == "other UID" {
						uid[name]++
					}
					objs = append(objs, newBall(name, uid[name], i+2))
				}
				switch {
				case w.kind == "replace" || i == 0:
					// What is even stays, of those that the list has.
					same := table.Comparison[*ball]{Same: func(_, new *ball) bool { return new.Name == "0" }, Distrust: true}
					h.commit(h.store.store.Compare(objs, same), version, version, func() {})
				case w.kind == "remove":
					h.remove(KeyOf(objs[0]), version, version)
				default:
					h.set(KeyOf(objs[0]), objs[0], version, version)
				}
				if w.pause {
					synctest.Wait()
				}
			}
			close(done)
			readers.Wait()
			cancel()
			synctest.Wait()
			if n := h.changes.Len() + one.groups.Waiting() + many.groups.Waiting(); n != 0 {
				fail(strconv.Itoa(n) + " channels are left")
			}
		})
		failures.Range(func(what, _ any) bool { rt.Error(what); return true })
	})
}

// waitInStep is a reader of the model test. It returns when it has read the newest state after done
// was closed.
func waitInStep(what string, one bool, done <-chan struct{}, take func() <-chan struct{}, locked, read func() []*ball,
	fail func(string)) {
	for {
		before := locked()
		changed := take()
		seen := read()
		// A read that takes a lock shows no change whose channels are still open.
		if !slices.Equal(seen, locked()) && !isClosed(changed) {
			fail(what + ": what was read is old, and the channel is open")
		}
		select {
		case <-changed:
			// An object that was replaced or removed never comes back.
			if one && len(before) > 0 && slices.Equal(before, locked()) {
				fail(what + ": the channel is closed, and nothing has changed")
			}
			continue
		case <-done:
		}
		if isClosed(changed) {
			continue
		}
		if !slices.Equal(seen, locked()) {
			fail(what + ": what was read at the end is old, and the channel is open")
		}
		return
	}
}

func some(b *ball, ok bool) []*ball {
	if !ok {
		return nil
	}
	return []*ball{b}
}

func inOrder(balls []*ball) []*ball {
	slices.SortFunc(balls,
		func(a, b *ball) int { return int(decimal(a.ResourceVersion)) - int(decimal(b.ResourceVersion)) })
	return balls
}

// TestChangedOrder expects that channels are open while the store does not show the change, which
// is when the functions of indexes run, and closed when the change is appended to the log, from
// which a handler may read it at once. The last thing before that is to compare the UIDs.
func TestChangedOrder(t *testing.T) {
	var look func(stage string)
	h := newHub[*looking]((&Options{}).withDefaults("looking"), new(sync.Mutex))
	ix := &Index[string, *looking]{groups: table.NewGroupsOfOne((*looking).GetName)}
	h.store.store.Add(ix.groups)
	h.store.store.Add(table.NewGroupsOfOne(func(*looking) string { look("index"); return "" }))
	inf := &Informer[*looking]{hub: h}

	obj := func(uid int) *looking { return &looking{*newBall("a", uid, uid), func() { look("UID") }} }
	look = func(string) {}
	h.replace([]*looking{obj(1)}, "1", "1")
	for i, name := range []string{"set", "replace"} {
		look = func(string) {}
		o := obj(i + 2)
		key := KeyOf(o)
		channels := map[string]<-chan struct{}{
			"Changed":       inf.Changed(t.Context(), key),
			"Changed, any":  inf.Changed(t.Context()),
			"Index.Changed": ix.Changed(t.Context(), "a"),
		}
		before := orNil(h.store.Get(key))
		last := map[string]bool{}
		look = func(stage string) {
			for what, changed := range channels {
				closed := isClosed(changed)
				if stage == "index" && closed {
					t.Errorf("%s: %s is closed before the change", name, what)
				}
				if closed && orNil(h.store.Get(key)) == before {
					t.Errorf("%s: %s is closed, and the store does not show the change", name, what)
				}
				last[what] = closed
			}
		}
		if name == "set" {
			h.set(key, o, "2", "2")
		} else {
			h.replace([]*looking{o}, "3", "3")
		}
		for what := range channels {
			if !last[what] {
				t.Errorf("%s: %s is open when the log gets the change", name, what)
			}
		}
	}
}

// looking is a ball that notices when its UID is looked at.
type looking struct {
	ball
	look func()
}

func (l *looking) GetUID() types.UID { l.look(); return l.UID }

func orNil(l *looking, _ bool) *looking { return l }

// TestChangedUnused expects that a write allocates nothing for channels that nobody has asked for,
// nor for those of other keys.
func TestChangedUnused(t *testing.T) {
	h := newTestHub(new(sync.Mutex))
	ix := &Index[string, *ball]{groups: table.NewGroupsOfOne(func(b *ball) string { return b.Name })}
	h.store.store.Add(ix.groups)
	balls := []*ball{newBall("a", 1, 2), newBall("a", 1, 3)}
	i, batch := 0, h.store.store.NewBatch()
	set := func() {
		batch.Put(KeyOf(balls[i%2]), balls[i%2])
		h.write(batch, &move[*ball]{version: "2", report: "2"})
		batch.Release()
		i++
	}
	set()
	if got := testing.AllocsPerRun(1000, set); got != 0 {
		t.Errorf("unused: %v allocations", got)
	}
	h.changes.Wait(t.Context(), nil, Key{Name: "another"})
	ix.Changed(t.Context(), "another")
	set()
	if got := testing.AllocsPerRun(1000, set); got != 0 {
		t.Errorf("of another key: %v allocations", got)
	}
}

// TestChangedOfContexts expects that a write calls a context's methods when it holds no lock: they
// may read and write.
func TestChangedOfContexts(t *testing.T) {
	h := newTestHub(new(sync.Mutex), newBall("a", 1, 1), newBall("b", 1, 1))
	ix := &Index[string, *ball]{groups: table.NewGroupsOfOne(func(b *ball) string { return b.Name })}
	h.store.store.Add(ix.groups)
	var used atomic.Int32
	ctx := &watched{Context: t.Context(), using: func() {
		used.Add(1)
		if !h.mu.TryLock() { // which is held with all other locks of a write
			t.Error("a context is used under the lock")
			return
		}
		h.mu.Unlock()
		ix.List("a")
		ix.List("b")
		h.set(Key{Name: "c"}, newBall("c", 1, 1), "2", "2")
	}}
	a, b := newBall("a", 1, 2), newBall("b", 1, 2)
	for name, change := range map[string]func(){
		"set":     func() { h.set(KeyOf(a), a, "3", "3") },
		"remove":  func() { h.remove(KeyOf(a), "4", "4") },
		"replace": func() { h.replace([]*ball{a, b}, "5", "5") },
	} {
		h.set(KeyOf(a), newBall("a", 1, 1), "2", "2")
		h.changes.Wait(ctx, nil, KeyOf(a))
		ix.Changed(ctx, "a")
		used.Store(0)
		change()
		if used.Load() != 2 {
			t.Errorf("%s: the contexts were used %d times, want 2", name, used.Load())
		}
	}
}

// watched is a context of a type of its own, that notices when it is used.
type watched struct {
	context.Context
	using func()
}

func (w *watched) Done() <-chan struct{} { return make(chan struct{}) }

func (w *watched) AfterFunc(func()) (stop func() bool) {
	return func() bool { w.using(); return true }
}

// set stores obj under key, as an event does; obj is the zero T for a deletion.
func (h *hub[T]) set(key Key, obj T, version, report string) {
	batch := h.store.store.NewBatch()
	defer batch.Release()
	batch.Put(key, obj)
	h.write(batch, &move[T]{version: version, report: report})
}

func (h *hub[T]) remove(key Key, version, report string) { h.set(key, *new(T), version, report) }
