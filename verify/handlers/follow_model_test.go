package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A followWorld is a server whose history the test knows, an informer of it, and its followers. The
// widget "other" is not shown, so its writes move the version on without a change. A widget of a
// negative size cannot be used.
type followWorld struct {
	memory *lw.Memory[*rig.Widget]
	inf    *lw.Informer[*rig.Widget]
	stop   func()
	ran    chan error

	mu        sync.Mutex
	seen      map[string]int           // what the histories had, so that a rare thing is not missing from all of them
	epochs    []map[int]map[string]int // of each epoch of the server the sizes of its widgets, by version
	highest   int                      // the highest version of all epochs
	broken    bool                     // there was a widget of a negative size
	failed    string                   // what is wrong
	followers []*modelFollower

	// The test's goroutine alone has these.

	breaks   bool // widgets may be broken
	down     bool
	size     int
	believed int // epochs of the informer at the last settle
}

// A modelFollower is a Follower that holds what it is told against the history.
type modelFollower struct {
	w      *followWorld
	pause  func() time.Duration // before it takes what it is told
	cancel context.CancelFunc
	ended  chan error

	// Guarded by w.mu.

	content  map[string]*rig.Widget // nil before the first Begin
	version  string                 // of the last Progress
	due      bool                   // a Begin or a Change has come since
	epoch    int                    // the server had at least so many epochs before the one of the content
	told     int                    // epochs that it was told of since the last settle
	settled  bool                   // it was there at the last settle
	upto     int                    // no change of content is newer
	heard    map[int]bool           // the versions of the changes since the last Progress
	unseen   bool                   // it was told since then that it may have missed what came and went, or of a new content
	progress int
	begins   int
}

func (f *modelFollower) lock() func() {
	if d := f.pause(); d > 0 {
		time.Sleep(d)
	}
	f.w.mu.Lock()
	return f.w.mu.Unlock
}

func (w *followWorld) failLocked(format string, args ...any) {
	if w.failed == "" {
		w.failed = fmt.Sprintf(format, args...)
	}
}

func (f *modelFollower) Begin(snap *lw.Snapshot[*rig.Widget], epoch bool) {
	defer f.lock()()
	f.begins++
	if epoch {
		f.told++
		f.epoch++
		if f.content == nil {
			f.w.failLocked("the first Begin tells of an epoch")
		}
	}
	f.content = map[string]*rig.Widget{}
	for w := range snap.All() {
		f.content[w.Name] = w
	}
	// While a widget is set aside the content is newer than its version says.
	f.upto, f.due, f.unseen = f.w.highest, true, true
}

func (f *modelFollower) Unseen() {
	defer f.lock()()
	f.unseen = true
	f.w.seen["unseen"]++
}

func (f *modelFollower) Change(d lw.Delta[*rig.Widget]) {
	defer f.lock()()
	name := d.Key().Name
	if was := f.content[name]; was != d.Old {
		f.w.failLocked("%v of %s from %v, and it was %v", d.Type, name, d.Old, was)
	}
	if d.Cause != lw.CauseWatch {
		f.w.failLocked("%v of %s is told as %v", d.Type, name, d.Cause)
	}
	if d.Type == lw.Deleted {
		delete(f.content, name)
	} else {
		f.content[name] = d.New
	}
	f.upto, f.due = max(f.upto, number(d.ResourceVersion)), true
	f.heard[number(d.ResourceVersion)] = true
}

func (f *modelFollower) Progress(version string) {
	defer f.lock()()
	w := f.w
	if !f.due && version == f.version {
		w.failLocked("Progress(%s) a second time", version)
	}
	v := number(version)
	if !f.unseen && !w.broken && len(w.epochs) == 1 {
		for missed := number(f.version) + 1; missed <= v; missed++ {
			if is, noted := w.epochs[0][missed]; noted && !maps.Equal(is, w.epochs[0][missed-1]) && !f.heard[missed] {
				w.failLocked("from %s to %s nothing was told of the change at %d", f.version, version, missed)
			}
		}
	}
	f.version, f.due, f.unseen = version, false, false
	clear(f.heard)
	f.progress++
	if w.broken && v < f.upto {
		for name, is := range f.content {
			if !w.everLocked(name, is.Size) {
				w.failLocked("at %s %s has the size %d, which it never had", version, name, is.Size)
			}
		}
		return
	}
	var diffs string
	for _, states := range w.epochs[min(f.epoch, len(w.epochs)-1):] {
		want, ok := states[v]
		if !ok {
			continue
		}
		got := map[string]int{}
		for name, is := range f.content {
			if want[name] >= 0 { // else it is what it was when it could be used
				got[name] = is.Size
			}
		}
		want = maps.Clone(want)
		maps.DeleteFunc(want, func(_ string, size int) bool { return size < 0 })
		diff := cmp.Diff(want, got)
		if diff == "" {
			return
		}
		diffs += diff
	}
	w.failLocked("what was told at %s is not what the server had (-want +got):\n%s", version, diffs)
}

// saw counts that a history has had it.
func (w *followWorld) saw(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[what]++
}

// everLocked reports whether the widget ever had that size.
func (w *followWorld) everLocked(name string, size int) bool {
	for _, states := range w.epochs {
		for _, state := range states {
			if state[name] == size {
				return true
			}
		}
	}
	return false
}

func newFollowWorld(t *rapid.T, seen map[string]int) *followWorld {
	w := &followWorld{memory: lw.NewMemory[*rig.Widget](), seen: seen, ran: make(chan error, 1)}
	w.breaks = rapid.Bool().Draw(t, "breaks")
	w.epochs = []map[int]map[string]int{{number(w.memory.ResourceVersion()): {}}}
	w.inf = lw.NewInformer(choosy(but(w.memory, "other")), &lw.Options{OnError: func(error) {}})
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	go func() { w.ran <- w.inf.Run(ctx) }()
	return w
}

// noteLocked notes the present state of the server.
func (w *followWorld) noteLocked() {
	state := map[string]int{}
	for is := range w.memory.All() {
		if is.Name != "other" {
			state[is.Name] = is.Size
			w.broken = w.broken || is.Size < 0
		}
	}
	now := number(w.memory.ResourceVersion())
	w.epochs[len(w.epochs)-1][now] = state
	w.highest = max(w.highest, now)
}

// Write writes a few widgets.
func (w *followWorld) Write(t *rapid.T) {
	for range rapid.IntRange(1, 5).Draw(t, "writes") {
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "other", "other"}).Draw(t, "name")
		w.size++
		size := w.size
		if w.breaks && rapid.IntRange(0, 5).Draw(t, "break") == 0 {
			size = -size
			w.saw("broken")
		}
		w.mu.Lock()
		is, gone := w.memory.Get(context.Background(), rig.Key(name))
		var err error
		switch {
		case gone != nil:
			_, err = w.memory.Create(context.Background(), rig.NewWidget(name, size))
		case rapid.IntRange(0, 3).Draw(t, "delete") == 0:
			_, err = w.memory.Delete(context.Background(), rig.Key(name), "")
		default:
			is.Size = size
			_, err = w.memory.Update(context.Background(), is)
		}
		w.noteLocked()
		w.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "wait") {
			synctest.Wait()
		}
	}
}

func (w *followWorld) Bookmark(*rapid.T) { w.memory.Bookmark() }

func (w *followWorld) Disconnect(*rapid.T) { w.memory.Disconnect() }

// Relist has the informer list anew: with differences, or without, where something may have come
// and gone.
func (w *followWorld) Relist(t *rapid.T) {
	w.memory.Fail(errors.New("away"))
	if rapid.Bool().Draw(t, "differences") {
		w.Write(t)
	} else {
		w.mu.Lock()
		w.size++
		w.memory.Transact(context.Background(), []*rig.Widget{rig.NewWidget("other", w.size)})
		w.noteLocked()
		if rapid.Bool().Draw(t, "come and go") {
			w.memory.Create(context.Background(), rig.NewWidget("gone", 1))
			w.noteLocked()
			w.memory.Delete(context.Background(), rig.Key("gone"), "")
			w.noteLocked()
		}
		w.mu.Unlock()
	}
	w.memory.Compact()
	w.memory.Fail(nil)
	w.down = false
	w.saw("relist")
}

// Fail has the server refuse all requests, or ends that.
func (w *followWorld) Fail(*rapid.T) {
	var err error
	if w.down = !w.down; w.down {
		err = errors.New("away")
	}
	w.memory.Fail(err)
}

// Rewind restores a backup. It is written to again when the informer has noticed.
func (w *followWorld) Rewind(t *rapid.T) {
	if w.down || rapid.Bool().Draw(t, "not now") {
		return
	}
	w.mu.Lock()
	now := w.epochs[len(w.epochs)-1]
	versions := slices.Sorted(maps.Keys(now))
	to := rapid.SampledFrom(versions).Draw(t, "version")
	if err := w.memory.Rewind(fmt.Sprint(to)); err != nil {
		w.mu.Unlock()
		return // compacted
	}
	next := map[int]map[string]int{}
	for version, state := range now {
		if version <= to {
			next[version] = state
		}
	}
	w.epochs = append(w.epochs, next)
	w.mu.Unlock()
	time.Sleep(10 * time.Minute)
	w.saw("rewind")
}

func (w *followWorld) Sleep(t *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "ms")) * time.Millisecond)
}

// Follow adds a follower, which may be slow.
func (w *followWorld) Follow(t *rapid.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f := &modelFollower{w: w, cancel: cancel, ended: make(chan error, 1), heard: map[int]bool{},
		pause: func() time.Duration { return 0 }}
	if rapid.Bool().Draw(t, "slow") {
		n, every := 0, rapid.IntRange(1, 4).Draw(t, "every")
		pause := time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond
		f.pause = func() time.Duration {
			if n++; n%every == 0 {
				return pause
			}
			return 0
		}
	}
	w.mu.Lock()
	w.followers = append(w.followers, f)
	w.mu.Unlock()
	go func() { f.ended <- lw.Follow(ctx, w.inf, f) }()
}

// Leave ends a follower.
func (w *followWorld) Leave(t *rapid.T) {
	if len(w.followers) < 2 {
		return
	}
	at := rapid.IntRange(0, len(w.followers)-1).Draw(t, "follower")
	f := w.followers[at]
	f.cancel()
	if err := <-f.ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("Follow returned %v", err)
	}
	w.followers = slices.Delete(w.followers, at, at+1)
}

// CatchUp expects that a store that has caught up is as new as the server was.
func (w *followWorld) CatchUp(t *rapid.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	before := number(w.memory.ResourceVersion())
	version, err := w.inf.CatchUp(ctx)
	if err != nil {
		w.saw("not caught up")
		return
	}
	w.saw("caught up")
	if now := number(w.inf.Store().ResourceVersion()); number(version) < before || now < before {
		t.Fatalf("CatchUp returned %s, and the store is at %d, but the server was at %d", version, now, before)
	}
}

func (w *followWorld) Check(t *rapid.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != "" {
		t.Fatal(w.failed)
	}
}

// Settle waits until everybody has everything, and compares.
func (w *followWorld) Settle(t *rapid.T) {
	w.memory.Fail(nil)
	w.down = false
	time.Sleep(30 * time.Minute)
	synctest.Wait()
	w.compare(t)
	now := w.inf.Status().Epoch
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.followers {
		if f.settled && (f.told > 0) != (now != w.believed) || f.told > now-w.believed {
			t.Fatalf("a follower was told of %d epochs, and there were %d", f.told, now-w.believed)
		}
		w.seen["epochs"] += f.told
		f.told, f.settled = 0, true
	}
	w.believed = now
}

func (w *followWorld) compare(t *rapid.T) {
	w.Check(t)
	want := map[string]*rig.Widget{}
	for is := range w.inf.Store().All() {
		want[is.Name] = is
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.followers {
		if !maps.Equal(want, f.content) || f.version != w.inf.Store().ResourceVersion() {
			t.Fatalf("a follower is at %s, the store at %s (-store +follower):\n%s", f.version, w.inf.Store().ResourceVersion(),
				cmp.Diff(want, f.content))
		}
		w.seen["progress"] += f.progress
		w.seen["begins"] += f.begins
		f.progress, f.begins = 0, 0
	}
}

// end stops the informer: every follower gets all there is.
func (w *followWorld) end(t *rapid.T) {
	w.stop()
	if err := <-w.ran; err != nil {
		t.Fatal(err)
	}
	synced := w.inf.Status().Synced
	for _, f := range w.followers {
		if err := <-f.ended; err != lw.ErrStopped {
			t.Fatalf("Follow returned %v", err)
		}
		f.cancel()
	}
	if synced {
		w.compare(t)
	}
}

// TestFollowModel: whatever the server does, at each version that a follower is told it has what
// the server had.
func TestFollowModel(t *testing.T) {
	seen := map[string]int{}
	histories := 0
	for range 5 {
		rapid.Check(t, func(t *rapid.T) {
			histories++
			rapid.SyncTest(t, func(t *rapid.T) {
				w := newFollowWorld(t, seen)
				defer w.end(t)
				t.Repeat(map[string]func(*rapid.T){
					"write": w.Write, "write more": w.Write, "write again": w.Write, "bookmark": w.Bookmark,
					"disconnect": w.Disconnect,
					"relist":     w.Relist, "fail": w.Fail, "rewind": w.Rewind, "sleep": w.Sleep, "follow": w.Follow, "leave": w.Leave,
					"catch up": w.CatchUp, "settle": w.Settle, "": w.Check,
				})
			})
		})
	}
	t.Log(histories, seen)
	for _, what := range []string{"broken", "relist", "rewind", "epochs", "caught up", "progress", "begins", "unseen"} {
		if histories >= 500 && seen[what] == 0 {
			t.Errorf("in %d histories there was no %s", histories, what)
		}
	}
}
