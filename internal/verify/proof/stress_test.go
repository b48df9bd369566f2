package proof

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/judge"
)

// TestStress lets real goroutines at one informer, for the race detector and for what no bubble
// shows: writers of the server, readers of every kind, handlers, loops over Events and indexes that
// come and go, waits. What is read is compared with what the server had, on line, and what was read
// once must not change. With -stress it goes on for so long, and heap and goroutines must not grow
// after a third of that.
func TestStress(t *testing.T) {
	duration := *stressFor
	if testing.Short() {
		duration /= 5
	}
	s := newStress(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var users sync.WaitGroup
	for _, use := range []func(context.Context){
		s.write, s.write, s.disturb, s.wait, s.wait,
		s.snapshots, s.snapshots, s.lists, s.gets, s.gets, s.lookups, s.held,
		s.handlers, s.handlers, s.events, s.indexes,
	} {
		users.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				use(ctx)
				s.uses.Add(1)
				runtime.Gosched()
			}
		})
	}
	// On a machine that is busy with something else it goes on until it has proved something.
	enough := func() bool { return s.truth.Judged() >= 100 && s.told.Load() >= 100 }
	var early usage
	for begun := time.Now(); !t.Failed(); time.Sleep(duration / 100) {
		took := time.Since(begun)
		if early.heap == 0 && took >= duration/3 {
			early = use()
		}
		if took >= duration && (enough() || took > 100*duration) {
			break
		}
	}
	if late := use(); duration >= time.Minute && (late.heap > early.heap+early.heap/4+8<<20 ||
		late.goroutines > early.goroutines+50) {
		t.Errorf("grown from %+v to %+v", early, late)
	}
	cancel()
	users.Wait()
	s.settle()
	t.Logf("%d uses, %d reads judged", s.uses.Load(), s.truth.Judged())
	if !enough() {
		t.Errorf("only %d reads were judged and %d handler calls made", s.truth.Judged(), s.told.Load())
	}
}

var stressFor = flag.Duration("stress", 2500*time.Millisecond, "how long TestStress takes")

// usage is what is reachable, in bytes, and what runs.
type usage struct {
	heap       uint64
	goroutines int
}

func use() usage {
	runtime.GC()
	runtime.GC() // a sync.Pool gives its objects up only at the second collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{m.HeapAlloc, runtime.NumGoroutine()}
}

type stress struct {
	t      *testing.T
	server *lw.Memory[*Part]
	truth  *judge.Truth
	inf    *lw.Informer[*Part]
	other  *lw.Informer[*Part]      // of the same server, with a handler that is blocked
	all    *lw.Index[string, *Part] // everything under one key
	names  atomic.Int64
	uses   atomic.Int64
	told   atomic.Uint64

	mu   sync.Mutex
	kept map[*Part]uint64 // some of what was read, with its hash then; guarded by mu
}

func newStress(t *testing.T) *stress {
	s := &stress{t: t, server: lw.NewMemory[*Part](), kept: map[*Part]uint64{}}
	s.truth = judge.New(1, 1<<20)
	for i := range 300 {
		s.put(strconv.Itoa(i), i)
	}
	s.inf = lw.NewInformer(s.server,
		&lw.Options{PageSize: 50, Backoff: func(int) time.Duration { return time.Millisecond },
			OnError: func(error) {}})
	s.all = lw.NewIndex(s.inf, func(*Part) string { return "all" })
	s.other = lw.NewInformer(s.server, &lw.Options{Backoff: func(int) time.Duration { return time.Millisecond },
		OnError: func(error) {}})
	ctx, cancel := context.WithCancel(context.Background())
	s.other.AddHandler(lw.Handler[*Part]{Add: func(*Part) { <-ctx.Done() }})
	done := make(chan error)
	go func() { done <- s.inf.Run(ctx) }()
	go func() { done <- s.other.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, <-done); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}

func hashPart(p *Part) uint64 {
	return judge.Hash(p.Namespace, p.Name, string(p.UID), p.ResourceVersion, p.Group, strconv.Itoa(p.Size))
}

func stateOf(parts iter.Seq[*Part]) (state judge.State) {
	for p := range parts {
		state.Add(hashPart(p))
	}
	return state
}

// must reports what is wrong, from any goroutine.
func (s *stress) must(err error) {
	if err != nil {
		s.t.Error(err)
	}
}

func (s *stress) put(name string, size int) (version uint64) {
	return s.truth.Write(name, func() (uint64, uint64) {
		before := s.server.ResourceVersion()
		p, err := s.server.Create(context.Background(), newPart(name, "x", size))
		if err != nil {
			p, err = s.server.Update(context.Background(), newPart(name, "x", size))
		}
		s.must(err)
		if err != nil || before == s.server.ResourceVersion() {
			return 0, 0
		}
		return s.version(), hashPart(p)
	})
}

// version is the server's. It is exact while the truth is written.
func (s *stress) version() uint64 {
	v, err := strconv.ParseUint(s.server.ResourceVersion(), 10, 64)
	s.must(err)
	return v
}

func (s *stress) write(context.Context) {
	name := strconv.Itoa(rand.IntN(400))
	switch rand.IntN(4) {
	case 0:
		s.truth.Write(name, func() (uint64, uint64) {
			if _, err := s.server.Delete(context.Background(), partKey(name), ""); err != nil {
				return 0, 0
			}
			return s.version(), 0
		})
	default:
		s.put(name, rand.IntN(1000))
	}
	if rand.IntN(50) == 0 {
		time.Sleep(time.Millisecond)
	}
}

func (s *stress) disturb(context.Context) {
	time.Sleep(rand.N(50 * time.Millisecond))
	switch rand.IntN(4) {
	case 0:
		s.server.Disconnect()
	case 1:
		s.server.Compact()
	case 2:
		s.server.Bookmark()
	case 3:
		s.server.Fail(errors.New("refused"))
		time.Sleep(time.Millisecond)
		s.server.Fail(nil)
	}
}

// wait reads its own write. A version that is lost to the test's end is not waited for.
func (s *stress) wait(ctx context.Context) {
	version := s.put("w"+strconv.Itoa(rand.IntN(20)), rand.IntN(1000))
	if version == 0 {
		return
	}
	if err := s.inf.WaitForResourceVersion(ctx, strconv.FormatUint(version, 10)); err != nil {
		if ctx.Err() == nil {
			s.t.Error(err)
		}
		return
	}
	if got, err := strconv.ParseUint(s.inf.Store().ResourceVersion(), 10, 64); err != nil || got < version {
		s.t.Errorf("a wait for version %d ended at %d (%v)", version, got, err)
	}
}

func (s *stress) snapshots(context.Context) {
	r := s.truth.Begin()
	snap := s.inf.Store().Snapshot()
	s.must(s.truth.End(r, snap.ResourceVersion(), stateOf(snap.All())))
	for p := range snap.All() {
		s.keep(p)
		break
	}
}

// lists and lookups do not say which version they are of, but it is one between those before and
// after.
func (s *stress) lists(context.Context) {
	store, r := s.inf.Store(), s.truth.Begin()
	from := store.ResourceVersion()
	list := store.List()
	s.must(s.truth.EndWithin(r, from, store.ResourceVersion(), stateOf(func(yield func(*Part) bool) {
		for _, p := range list {
			if !yield(p) {
				return
			}
		}
	})))
}

func (s *stress) lookups(context.Context) {
	store, r := s.inf.Store(), s.truth.Begin()
	from := store.ResourceVersion()
	state := stateOf(s.all.Lookup("all"))
	s.must(s.truth.EndWithin(r, from, store.ResourceVersion(), state))
}

// gets follows one object: what is read must not go back.
func (s *stress) gets(ctx context.Context) {
	k := partKey(strconv.Itoa(rand.IntN(400)))
	last := uint64(0)
	for range 200 {
		p, ok := s.inf.Store().Get(k)
		if !ok {
			continue
		}
		version, err := strconv.ParseUint(p.ResourceVersion, 10, 64)
		if err != nil || version < last {
			s.t.Errorf("Get(%v) went back from version %d to %s (%v)", k, last, p.ResourceVersion, err)
			return
		}
		last = version
	}
}

// held reads a snapshot twice, with time in between.
func (s *stress) held(context.Context) {
	snap := s.inf.Store().Snapshot()
	before := stateOf(snap.All())
	time.Sleep(rand.N(20 * time.Millisecond))
	if stateOf(snap.All()) != before {
		s.t.Errorf("the snapshot at %s has changed", snap.ResourceVersion())
	}
}

func (s *stress) keep(p *Part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) < 10000 {
		s.kept[p] = hashPart(p)
	}
}

// handlers come, are told for a while, and go. Some are slow, some are removed by themselves.
func (s *stress) handlers(ctx context.Context) {
	story := judge.NewStory[*Part](s.must)
	slow, own := rand.IntN(3) == 0, rand.IntN(2) == 0
	var reg *lw.Registration
	ready := make(chan struct{})
	called := func() {
		s.told.Add(1)
		if slow {
			time.Sleep(50 * time.Microsecond)
		}
		if own && rand.IntN(200) == 0 {
			<-ready
			reg.Remove()
		}
	}
	reg = s.inf.AddHandler(lw.Handler[*Part]{
		Add:         func(p *Part) { story.Add(p); s.keep(p); called() },
		Update:      func(old, p *Part) { story.Update(old, p); called() },
		Delete:      func(p *Part) { story.Delete(p); called() },
		EveryUpdate: rand.IntN(2) == 0,
	})
	close(ready)
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(100 * time.Millisecond)):
	}
	reg.Remove()
	<-reg.Done()
	calls := story.Calls()
	runtime.Gosched()
	if got := story.Calls(); got != calls {
		s.t.Errorf("%d calls after Done", got-calls)
	}
}

func (s *stress) events(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, rand.N(100*time.Millisecond))
	defer cancel()
	story := judge.NewStory[*Part](s.must)
	for ev := range s.inf.Events(ctx) {
		story.Tell(ev)
	}
}

// indexes are made on the live informer, and are complete at once.
func (s *stress) indexes(ctx context.Context) {
	if s.names.Add(1) > 30 { // each is kept up to date for ever
		time.Sleep(time.Millisecond)
		return
	}
	store, r := s.inf.Store(), s.truth.Begin()
	from := store.ResourceVersion()
	ix := lw.NewIndex(s.inf, func(p *Part) bool { return true })
	state := stateOf(ix.Lookup(true))
	s.must(s.truth.EndWithin(r, from, store.ResourceVersion(), state))
}

// settle checks that all adds up when the writers are gone.
func (s *stress) settle() {
	s.server.Fail(nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	story := judge.NewStory[*Part](s.must)
	reg := s.inf.AddHandler(story.Handler())
	version, want := s.truth.Now()
	if err := errors.Join(
		s.inf.WaitForResourceVersion(ctx, strconv.FormatUint(version, 10)),
		s.other.WaitForResourceVersion(ctx, strconv.FormatUint(version, 10)),
		reg.WaitForSync(ctx),
	); err != nil {
		s.t.Fatal(err)
	}
	for reg.Pending() > 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	reg.Remove()
	<-reg.Done()
	for name, got := range map[string]judge.State{
		"store": stateOf(s.inf.Store().All()), "other store": stateOf(s.other.Store().All()),
		"index": stateOf(s.all.Lookup("all")), "handler": story.State(hashPart),
	} {
		if got != want {
			s.t.Errorf("the %s does not show the server's state at %d", name, version)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, hash := range s.kept {
		if hashPart(p) != hash {
			s.must(fmt.Errorf("%s at %s was changed after it was read", p.Name, p.ResourceVersion))
		}
	}
}
