package table

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// In TestSessions several writers make one change after another. Each reader remembers the last
// change of each writer that it has seen. None of its later reads, of any kind, may show a state
// before that, and each must show a state that there was.
//
// Change n of a writer is to its object n%span. In round n/span it stores version n of the object;
// with deletes, it deletes the object if the round is odd. So a state follows from its number
// alone.
const span = 40

type session struct {
	writers int
	deletes bool
	// versions: the one writer reports versions, and replaces all now and then.
	versions bool
	owned    bool

	store  *Store[*obj]
	group  *Groups[int, *obj] // by a value that never changes
	parity *Groups[int, *obj] // by one that always does
	order  *Order[int, *obj]  // likewise
}

// A number names a key.
type number struct{ writer, object int }

func (n number) key() Key {
	return Key{Namespace: strconv.Itoa(n.writer), Name: strconv.Itoa(n.object)}
}

func numberOf(o *obj) (n number) {
	n.writer, _ = strconv.Atoi(o.key.Namespace)
	n.object, _ = strconv.Atoi(o.key.Name)
	return n
}

func byGroup(o *obj, add func(int) bool)  { add(numberOf(o).object % 4) }
func byParity(o *obj, add func(int) bool) { add(o.version / span % 2) }

// last returns the last change to an object in state n.
func last(n, object int) int { return n - (n-object)%span }

// object returns an object in state n, or nil.
func (s *session) object(n int, of number) *obj {
	change := last(n, of.object)
	if s.deletes && change/span%2 == 1 {
		return nil
	}
	return &obj{key: of.key(), version: change}
}

func (s *session) write(writer int, done *atomic.Bool) {
	for n := 3 * span; !done.Load(); n++ {
		version := ""
		if s.versions {
			version = strconv.Itoa(n)
		}
		of := number{writer, n % span}
		switch o := s.object(n, of); {
		case s.versions && rand.N(20) == 0:
			n += rand.N(2 * span)
			var all []*obj
			for i := range span {
				if o := s.object(n, number{writer, i}); o != nil {
					all = append(all, o)
				}
			}
			s.store.Replace(all, strconv.Itoa(n),
				Comparison[*obj]{Same: func(old, new *obj) bool { return old.version == new.version }})
		case o == nil:
			s.store.Remove(of.key(), version)
		default:
			s.store.Set(o, version)
		}
	}
}

// A reader has seen a state of each writer.
type reader struct {
	*session
	seen []int
}

func (r *reader) saw(writer, n int) { r.seen[writer] = max(r.seen[writer], n) }

func (r *reader) get(o *obj, of number) error {
	before := last(r.seen[of.writer], of.object)
	switch {
	case o != nil && o.version < before:
		return fmt.Errorf("Get: version %d after change %d", o.version, before)
	case o != nil:
		r.saw(of.writer, o.version)
	case !r.deletes:
		return fmt.Errorf("Get: %v is lost", of)
	case before/span%2 == 0:
		r.saw(of.writer, before+span)
	}
	return nil
}

// all checks the objects for which in is true. They must be those of the state exact, or of any
// state if exact is negative.
func (r *reader) all(what string, objs []*obj, exact int, in func(*obj) bool) error {
	type found [span]*obj
	byWriter := make([]found, r.writers)
	for _, o := range objs {
		of := numberOf(o)
		if byWriter[of.writer][of.object] != nil {
			return fmt.Errorf("%s: %v twice", what, of)
		}
		if !in(o) {
			return fmt.Errorf("%s: %v does not belong there", what, o)
		}
		byWriter[of.writer][of.object] = o
	}
	for writer := range r.writers {
		is := func(n int) bool {
			for i := range span {
				want := r.object(n, number{writer, i})
				if want != nil && !in(want) {
					want = nil
				}
				got := byWriter[writer][i]
				if (got == nil) != (want == nil) || got != nil && got.version != want.version {
					return false
				}
			}
			return true
		}
		// The state that is shown is at most two rounds past the newest object in it; or it is the
		// one seen, or near it.
		newest := r.seen[writer]
		for _, o := range byWriter[writer] {
			if o != nil {
				newest = max(newest, o.version)
			}
		}
		n := newest
		if exact >= 0 {
			if n = exact; n < r.seen[writer] || !is(n) {
				return fmt.Errorf("%s is not state %d, %d was seen", what, n, r.seen[writer])
			}
		} else {
			for !is(n) {
				if n++; n > newest+2*span {
					return fmt.Errorf("%s is no state from %d on: %v", what, r.seen[writer], versions(objs))
				}
			}
			// An empty group may be of any later round.
			if len(objs) == 0 {
				continue
			}
		}
		r.saw(writer, n)
	}
	return nil
}

// await reads the version, or the object of a writer's next change, until that change shows: most
// often this is while it is still being made.
func (r *reader) await(writer int) error {
	seen := r.seen[writer]
	if r.versions && rand.N(2) == 0 {
		for range 1000 {
			if err := r.readVersion(); err != nil {
				return err
			}
			if n := r.seen[0]; n > seen {
				of := number{0, n % span}
				o, _ := r.store.Get(of.key())
				return r.get(o, of)
			}
		}
		return nil
	}
	of := number{writer, (seen + 1) % span}
	key := of.key()
	for range 1000 {
		o, _ := r.store.Get(key)
		if err := r.get(o, of); err != nil || r.seen[writer] > seen {
			return err
		}
	}
	return nil
}

func (r *reader) readVersion() error {
	n, err := strconv.Atoi(r.store.Version())
	if err != nil || n < r.seen[0] {
		return fmt.Errorf("Version() = %d after %d: %v", n, r.seen[0], err)
	}
	r.saw(0, n)
	return nil
}

func (r *reader) read() error {
	if err := r.await(rand.N(r.writers)); err != nil {
		return err
	}
	of := number{rand.N(r.writers), rand.N(span)}
	switch g := rand.N(4); rand.N(9) {
	case 0:
		o, _ := r.store.Get(of.key())
		return r.get(o, of)
	case 2:
		return r.all("group", r.group.View(g).AppendTo(nil), -1, func(o *obj) bool { return numberOf(o).object%4 == g })
	case 3:
		return r.all("parity", r.parity.View(g%2).AppendTo(nil), -1, func(o *obj) bool { return o.version/span%2 == g%2 })
	case 1, 4:
		if r.versions {
			return r.readVersion()
		}
	case 5:
		if n := r.store.Len(); !r.deletes && n != r.writers*span {
			return fmt.Errorf("Len() = %d", n)
		}
	case 8:
		now := r.order.Ordered()
		objs := slices.Collect(now.Up(0, now.Len()))
		if !slices.IsSortedFunc(objs, func(a, b *obj) int { return a.version - b.version }) {
			return fmt.Errorf("not in order: %v", versions(objs))
		}
		return r.all("order", objs, -1, func(*obj) bool { return true })
	case 6:
		late := NewGroups(byGroup)
		if len(*r.store.indexes.Load()) < 7 {
			r.store.Add(late)
			return r.all("late", late.View(g).AppendTo(nil), -1, func(o *obj) bool { return numberOf(o).object%4 == g })
		}
	default:
		snap := r.store.Snapshot()
		o, _ := snap.Get(of.key())
		exact := -1
		if r.versions {
			exact, _ = strconv.Atoi(snap.Version())
		}
		objs := snap.List()
		if err := r.all("snapshot", objs, exact, func(*obj) bool { return true }); err != nil {
			return err
		}
		if len(objs) != snap.Len() {
			return fmt.Errorf("snapshot of %d objects lists %d", snap.Len(), len(objs))
		}
		slices.SortFunc(objs, func(a, b *obj) int {
			return cmp.Or(a.version-b.version, cmp.Compare(a.key.Namespace, b.key.Namespace))
		})
		if in := slices.Collect(r.order.In(snap).Up(0, len(objs)+1)); !slices.Equal(objs, in) {
			return fmt.Errorf("snapshot of %v has the order %v", versions(objs), versions(in))
		}
		for _, same := range objs {
			if same.key == of.key() && same != o {
				return fmt.Errorf("snapshot has %v, but gets %v", same, o)
			}
		}
	}
	return nil
}

func TestSessions(t *testing.T) {
	for _, s := range []session{
		{writers: 1, versions: true},
		{writers: 1, versions: true, deletes: true},
		{writers: 1, versions: true, owned: true},
		{writers: 1, versions: true, deletes: true, owned: true},
		{writers: 3},
		{writers: 3, deletes: true},
	} {
		t.Run(fmt.Sprintf("writers=%d,versions=%v,deletes=%v,owned=%v", s.writers, s.versions, s.deletes, s.owned),
			func(t *testing.T) {
				s.store = NewStore(keyOf)
				if s.owned {
					s.store = NewOwned(keyOf, versionIDOf, new(sync.Mutex))
				}
				s.group, s.parity = NewGroups(byGroup), NewGroups(byParity)
				s.store.Add(s.group)
				s.store.Add(s.parity)
				s.order = NewOrder(keyOf, func(o *obj) int { return o.version })
				s.store.Add(s.order)
				for writer := range s.writers {
					for i := range span {
						if o := s.object(3*span-1, number{writer, i}); o != nil {
							s.store.Set(o, strconv.Itoa(3*span-1))
						}
					}
				}
				var done atomic.Bool
				var writers, readers sync.WaitGroup
				for writer := range s.writers {
					writers.Go(func() { s.write(writer, &done) })
				}
				var reads atomic.Int64
				for range 4 {
					readers.Go(func() {
						r := &reader{&s, make([]int, s.writers)}
						for i := range r.seen {
							r.seen[i] = 3*span - 1
						}
						for !done.Load() {
							if err := r.read(); err != nil {
								t.Error(err)
								done.Store(true)
							}
							reads.Add(1)
						}
					})
				}
				for start := time.Now(); !done.Load() && (time.Since(start) < 400*time.Millisecond || reads.Load() < 1000); {
					time.Sleep(10 * time.Millisecond)
				}
				done.Store(true)
				readers.Wait()
				writers.Wait()
				check(t, s.store, s.group, s.parity)
			})
	}
}

// TestClaims runs writers beside a goroutine that replaces all objects and one that adds indexes,
// and checks what is left.
func TestClaims(t *testing.T) {
	s := NewStore(keyOf)
	var done atomic.Bool
	var all sync.WaitGroup
	objects := func(n, version int) (objs []*obj) {
		for i := range n {
			objs = append(objs, &obj{key: number{version % 3, i}.key(), version: version})
		}
		return objs
	}
	for writer := range 3 {
		all.Go(func() {
			for n := writer; !done.Load(); n += 3 {
				for i, o := range objects(100, n) {
					if i%5 == n%5 {
						s.Remove(o.key, "")
					} else {
						s.Set(o, "")
					}
				}
			}
		})
	}
	all.Go(func() {
		for n := 0; !done.Load(); n++ {
			s.Replace(objects(n%300, n), "", Comparison[*obj]{})
		}
	})
	var indexes []*Groups[int, *obj]
	for range 20 {
		time.Sleep(10 * time.Millisecond)
		g := NewGroups([]func(*obj, func(int) bool){byGroup, byParity}[rand.N(2)])
		s.Add(g)
		indexes = append(indexes, g)
	}
	done.Store(true)
	all.Wait()
	check(t, s, indexes...)
}

// TestProgress moves the version and expects to read it back, beside writers and snapshots of the
// same objects.
func TestProgress(t *testing.T) {
	s := NewStore(keyOf)
	var done atomic.Bool
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for i := 0; !done.Load(); i++ {
				if s.Snapshot(); i%8 == 0 {
					s.Set(&obj{key: number{0, i % 10}.key()}, "")
				}
			}
		})
	}
	for n, end := 0, time.Now().Add(200*time.Millisecond); time.Now().Before(end); n++ {
		s.Progress(strconv.Itoa(n))
		if got := s.Snapshot().Version(); got != strconv.Itoa(n) || got != s.Version() {
			t.Errorf("version %s of the snapshot, %s of the store, want %d", got, s.Version(), n)
		}
	}
	done.Store(true)
	all.Wait()
}
