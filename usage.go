package lw

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"unique"
)

// A PackUsage says what fills a [PackLimit]: all of it, or what the objects of one informer have of
// it, as [Status] says.
type PackUsage struct {
	Limit    int64       // PackLimit.Bytes
	Bytes    int64       // packed bytes of the objects that may be let go
	LetGo    int64       // how many objects have their metadata alone
	Requests uint64      // for objects that were let go
	Gone     uint64      // how many of these had no object any more
	Failed   uint64      // reads without an error that have returned metadata alone
	Largest  []PackShare // the largest first
}

// A PackShare is what the objects of one collection and one namespace have of a PackUsage.
type PackShare struct {
	URL       string // of the collection
	Namespace string
	Objects   int // that are whole, and may be let go
	Bytes     int64
	LetGo     int // objects
}

// and adds what another source of the same informer has.
func (u *PackUsage) and(o PackUsage) {
	u.Limit = max(u.Limit, o.Limit)
	u.Bytes += o.Bytes
	u.LetGo += o.LetGo
	u.Requests += o.Requests
	u.Gone += o.Gone
	u.Failed += o.Failed
	u.Largest = append(u.Largest, o.Largest...)
	u.sort()
}

func (u *PackUsage) sort() {
	slices.SortFunc(u.Largest, func(a, b PackShare) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.LetGo, a.LetGo), cmp.Compare(a.URL, b.URL),
			cmp.Compare(a.Namespace, b.Namespace))
	})
}

// packTotals are what a PackLimit counts.
type packTotals struct {
	kept    atomic.Int64 // bytes of bodies that are there
	letGone atomic.Int64 // how many are not

	mu      sync.Mutex
	sources map[*limitedSource]struct{} // guarded by mu
}

// limitedSource is what the objects of one source have of a limit.
type limitedSource struct {
	limit                  *packTotals
	bytes                  *int64 // PackLimit.Bytes
	url                    string
	requests, gone, failed atomic.Uint64
	shares                 map[unique.Handle[string]]*limitedShare // by namespace; guarded by limit.mu
}

// limitedShare is what those of one namespace have.
type limitedShare struct{ objects, bytes, letGo atomic.Int64 }

// leave forgets the source.
func (s *limitedSource) leave() {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	delete(s.limit.sources, s)
}

// usage returns what the source has.
func (s *limitedSource) usage() PackUsage {
	u := PackUsage{Limit: *s.bytes, Requests: s.requests.Load(), Gone: s.gone.Load(), Failed: s.failed.Load()}
	s.limit.mu.Lock()
	u.Largest = s.sharesLocked()
	s.limit.mu.Unlock()
	for _, share := range u.Largest {
		u.Bytes += share.Bytes
		u.LetGo += int64(share.LetGo)
	}
	u.sort()
	return u
}

// sharesLocked returns what each namespace has, and forgets those that have nothing.
func (s *limitedSource) sharesLocked() (all []PackShare) {
	for ns, share := range s.shares {
		of := PackShare{URL: s.url, Namespace: ns.Value(), Objects: int(share.objects.Load()), Bytes: share.bytes.Load(),
			LetGo: int(share.letGo.Load())}
		if of.Objects <= 0 && of.LetGo <= 0 {
			delete(s.shares, ns)
			continue
		}
		all = append(all, of)
	}
	return all
}

// shareLocked returns that of the namespace ns.
func (s *limitedSource) shareLocked(ns unique.Handle[string]) *limitedShare {
	share := s.shares[ns]
	if share == nil {
		share = new(limitedShare)
		s.shares[ns] = share
	}
	return share
}

// counted are the bytes of a body as its limit and its namespace count them. It outlives the body.
type counted struct {
	limit *packTotals
	share *limitedShare
	n     atomic.Int64 // 0: the body was let go, or another version has its place
	out   atomic.Bool  // it was let go
}

// keep counts a body of n bytes.
func (c *counted) keep(n int64) {
	c.n.Store(n)
	c.limit.kept.Add(n)
	c.share.bytes.Add(n)
	c.share.objects.Add(1)
	c.back()
}

// forget counts the bytes no more.
func (c *counted) forget() {
	if n := c.n.Swap(0); n > 0 {
		c.limit.kept.Add(-n)
		c.share.bytes.Add(-n)
		c.share.objects.Add(-1)
	}
}

// letGo counts the object as one that was let go, and back as none.
func (c *counted) letGo() {
	c.forget()
	if !c.out.Swap(true) {
		c.limit.letGone.Add(1)
		c.share.letGo.Add(1)
	}
}

func (c *counted) back() {
	if c.out.Swap(false) {
		c.limit.letGone.Add(-1)
		c.share.letGo.Add(-1)
	}
}

// leave counts nothing, since the store or everybody has left the object.
func (c *counted) leave() {
	c.forget()
	c.back()
}
