package table

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/verify/leak"
)

// obj is an object of the tests: one version of one key, with the values that the indexes give for
// it.
type obj struct {
	key     Key
	version int
	one     string
	many    []string
}

func TestMain(m *testing.M) { leak.Main(m) }

func keyOf(o *obj) Key { return o.key }

func byOne(o *obj) string { return o.one }

func byMany(o *obj, add func(string) bool) { slices.Values(o.many)(add) }

// tb is what a *testing.T and a *rapid.T have in common here.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// versionIDOf knows the version of two objects of three.
func versionIDOf(o *obj) (version uint64, identity string) {
	if o.version%3 != 0 {
		version = uint64(o.version)
	}
	return version, o.one
}

// replace makes list the content of a store that has no owner.
func replace(s *Store[*obj], list []*obj, version string, c Comparison[*obj]) *Replacement[*obj] {
	r := s.Compare(list, c)
	s.lock()
	r.CommitLocked(version)
	s.unlock()
	r.Release()
	return r
}

// commit commits a batch, to be shown apart or at once.
func commit(b *Batch[*obj], owner *sync.Mutex, apart bool) {
	b.Compute()
	owner.Lock()
	b.CommitLocked(apart)
	b.ShowLocked()
	b.SettleLocked()
	owner.Unlock()
	b.Release()
}

// check fails the test if the store breaks one of its invariants, or if an index differs from what
// its function returns for the objects.
func check[K comparable](t tb, s *Store[*obj], indexes ...*Groups[K, *obj]) {
	t.Helper()
	for i := range s.shards {
		sh := s.shards[i]
		table := s.tables.Load()[i].Load()
		used := 0
		if table != nil {
			used = table.used
		}
		if used != sh.objs.Len() || used > table.room() {
			t.Fatalf("shard %d: %d slots of %d used for %d positions", i, used, table.room(), sh.objs.Len())
		}
		for p := range used {
			o := sh.objs.At(p)
			at := table.entryAt(p)
			key := table.key(at)
			if got := unbox[*obj](table.load(at), s.boxed); got != o {
				t.Fatalf("%v: the table has %v, the vector %v", key, got, o)
			}
			if o != nil {
				// The version of what a Replace with Distrust has kept is not believed any more.
				got, want := table.versionID(p), s.versionID(o)
				if o.key != key || got != want && got != (VersionID{Identity: want.Identity}) {
					t.Fatalf("%v has VersionID %v at the position of %v", o, got, key)
				}
			}
			if got := table.Find(hashOf(s.seed, key), key); got != at {
				t.Fatalf("%v: found %d, want %d", key, got, at)
			}
		}
		for _, g := range indexes {
			if got := len(g.members[i].first); got != table.room() {
				t.Fatalf("shard %d: %d memberships, want %d", i, got, table.room())
			}
		}
		if sparse(&sh.objs) {
			t.Fatalf("shard %d: %d positions for %d objects", i, sh.objs.Len(), sh.objs.Live())
		}
		if sh.claims.claimed {
			t.Fatalf("shard %d is claimed", i)
		}
		checkVector(t, &sh.objs)
	}
	for _, g := range indexes {
		checkGroups(t, s, g)
	}
}

func checkGroups[K comparable](t tb, s *Store[*obj], g *Groups[K, *obj]) {
	t.Helper()
	if g.staging || g.staged != nil {
		t.Fatal("still staging")
	}
	want := make(map[K][]*obj)
	for i := range s.shards {
		objs := &s.shards[i].objs
		m := &g.members[i]
		more := make(map[*membership[K, *obj]]bool)
		for p := range m.first {
			var values []K
			if p < objs.Len() && objs.At(p) != nil {
				if g.value != nil {
					values = append(values, g.value(objs.At(p)))
				} else {
					g.values(objs.At(p), func(v K) bool { values = append(values, v); return true })
					values = equal.Distinct(values)
				}
				for _, v := range values {
					want[v] = append(want[v], objs.At(p))
				}
			}
			if !m.are(p, values) {
				t.Fatalf("shard %d, position %d: not a member of %v", i, p, values)
			}
			for ms := m.of(p); ms != nil; ms = m.next(ms) {
				if ms != &m.first[p] {
					more[ms] = true
				}
				if g.membership(ms.group.members[ms.place]) != ms || ms.group.objs.At(int(ms.place)) != objs.At(p) {
					t.Fatalf("shard %d, position %d: not where it should be in %v", i, p, ms.group.value)
				}
			}
		}
		for _, i := range m.free {
			if ms := &m.more[i]; more[ms] || *ms != (membership[K, *obj]{}) {
				t.Fatalf("%+v is not free", ms)
			}
			more[&m.more[i]] = true
		}
		if len(more) != len(m.more) {
			t.Fatalf("%d memberships are used or free, want %d", len(more), len(m.more))
		}
	}
	got := make(map[K][]*obj)
	for i := range g.stripes {
		st := &g.stripes[i]
		if st.next != nil {
			t.Fatal("still staging")
		}
		for v, b := range st.groups {
			if b.objs.Len() == 0 || b.objs.Len() != len(b.members) || b.staged || b.coming != 0 || b.stripe != st ||
				b.number != i || b.value != v {
				t.Fatalf("group %v is %+v", v, b)
			}
			checkVector(t, &b.objs)
			got[v] = b.objs.View().AppendTo(nil)
		}
	}
	diff(t, "groups", want, got)
}

func checkVector(t tb, v *Vector[*obj]) {
	t.Helper()
	n, live := 0, 0
	for i, c := range v.chunks {
		if i < len(v.chunks)-1 && len(c.vals) != chunkSize || len(c.vals) == 0 || c.era > v.era {
			t.Fatalf("chunk %d of %d has %d values of era %d of %d", i, len(v.chunks), len(c.vals), c.era, v.era)
		}
		if len(v.chunks) == 1 && cap(c.vals) >= 8 && cap(c.vals) >= 4*len(c.vals) || cap(c.vals) > chunkSize {
			t.Fatalf("room for %d values, of %d", cap(c.vals), len(c.vals))
		}
		n += len(c.vals)
		for _, val := range c.vals {
			live += one(val)
		}
	}
	if n != v.n || live != v.live {
		t.Fatalf("vector of %d, %d live, has n = %d, live = %d", n, live, v.n, v.live)
	}
}

// same compares what a test wants with what it got.
func same[V any](t tb, what string, want, got V) {
	t.Helper()
	if d := gocmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// diff compares objects as pointers, in any order.
func diff[K comparable](t tb, what string, want, got map[K][]*obj) {
	t.Helper()
	if a, b := describe(want), describe(got); !maps.EqualFunc(a, b, slices.Equal) {
		t.Fatalf("%s (-want +got):\n%s", what, gocmp.Diff(a, b))
	}
}

func describe[K comparable](groups map[K][]*obj) map[K][]version {
	all := make(map[K][]version, len(groups))
	for v, objs := range groups {
		all[v] = versions(objs)
	}
	return all
}

type version struct {
	Key     Key
	Version int
}

func versions(objs []*obj) []version {
	var vs []version
	for _, o := range objs {
		vs = append(vs, version{o.key, o.version})
	}
	slices.SortFunc(vs, func(a, b version) int {
		return cmp.Or(strings.Compare(a.Key.Namespace, b.Key.Namespace), strings.Compare(a.Key.Name, b.Key.Name),
			a.Version-b.Version)
	})
	return vs
}
