package table

import (
	"slices"

	"github.com/google/go-cmp/cmp"
)

// obj is an object of the tests: one version of one key, with the values that the indexes give for it.
type obj struct {
	key     Key
	version int
	one     string
	many    []string
}

func keyOf(o *obj) Key { return o.key }

func byOne(o *obj, add func(string) bool) { add(o.one) }

func byMany(o *obj, add func(string) bool) { slices.Values(o.many)(add) }

// tb is what a *testing.T and a *rapid.T have in common here.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// check fails the test if the store is not what its own comments say, or an index not what its function gives.
func check[K comparable](t tb, s *Store[*obj], indexes ...*Groups[K, *obj]) {
	t.Helper()
	for i := range s.shards {
		sh := &s.shards[i]
		table := s.tables.Load()[i].Load()
		live, slots := 0, 0
		for slot := range table.all {
			slots++
			p := slot.Position()
			if p >= sh.objs.Len() {
				t.Fatalf("%v is at %d of %d", slot.key(), p, sh.objs.Len())
			}
			o := s.unbox(slot.Load())
			if o != sh.objs.At(p) {
				t.Fatalf("%v: the table has %v, the vector %v", slot.key(), o, sh.objs.At(p))
			}
			if o == nil {
				continue
			}
			live++
			if o.key != slot.key() {
				t.Fatalf("%v has the slot of %v", o.key, slot.key())
			}
			if got := table.Find(s.hash(o.key), o.key); got != slot {
				t.Fatalf("%v: found %v, want %v", o.key, got, slot)
			}
		}
		if live != sh.objs.Live() {
			t.Fatalf("shard %d: Live() = %d, want %d", i, sh.objs.Live(), live)
		}
		if slots != sh.objs.Len() || table != nil && slots != table.used {
			t.Fatalf("shard %d: %d slots, used %d, for %d positions", i, slots, table.used, sh.objs.Len())
		}
		if sparse(&sh.objs) {
			t.Fatalf("shard %d: %d positions for %d objects", i, sh.objs.Len(), sh.objs.Live())
		}
		if sh.claimed {
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
		for p := range max(objs.Len(), len(g.memberships[i])) {
			var values []K
			if p < objs.Len() && objs.At(p) != nil {
				g.values(objs.At(p), func(v K) bool { values = append(values, v); return true })
				values = distinct(values)
				for _, v := range values {
					want[v] = append(want[v], objs.At(p))
				}
			}
			m := g.at(i, p)
			if !m.are(values) {
				t.Fatalf("shard %d, position %d: not a member of %v", i, p, values)
			}
			for ; m != nil; m = m.next {
				if m.group.members[m.at] != m || m.group.objs.At(m.at) != objs.At(p) {
					t.Fatalf("shard %d, position %d: not where it should be in %v", i, p, m.group.value)
				}
			}
		}
	}
	got := make(map[K][]*obj)
	for i := range g.stripes {
		st := &g.stripes[i]
		if st.next != nil {
			t.Fatal("still staging")
		}
		for v, b := range st.groups {
			if b.objs.Len() == 0 || b.objs.Len() != len(b.members) || b.staged || b.stripe != st || b.number != i || b.value != v {
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

// diff compares objects as pointers, in any order.
func diff[K comparable](t tb, what string, want, got map[K][]*obj) {
	t.Helper()
	if d := cmp.Diff(describe(want), describe(got)); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
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
	vs := make([]version, 0, len(objs))
	for _, o := range objs {
		vs = append(vs, version{o.key, o.version})
	}
	slices.SortFunc(vs, func(a, b version) int {
		if c := slices.Compare([]string{a.Key.Namespace, a.Key.Name}, []string{b.Key.Namespace, b.Key.Name}); c != 0 {
			return c
		}
		return a.Version - b.Version
	})
	return vs
}
