package oracle

import "slices"

// A Tell is what the program told a copy of one object, as the server had answered it. From then on
// the copy shows it, until it has reached the version itself: U1.
type Tell struct {
	Copy    int
	Key     Key
	Version uint64
	Item    *Item // as a reader must see it; nil: deleted, or left out
	// Phantom: the server's collection never has the item, because it leaves out what the program was
	// told of, which neither the program nor the copy knows.
	Phantom bool
	// Loose: the copy was told of a deletion without the version, so it may have had other news.
	Loose bool

	epoch, call, ret int // ret is 0 if the copy has refused it, or not answered yet
}

// Tells records that the copy is being told, and end that it has accepted.
func (l *Log) Tells(t Tell) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.call, t.epoch = l.next(), l.truth.now().epoch
	l.tells = append(l.tells, &t)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		t.ret = l.next()
	}
}

// toldBeyond returns what a read at p may show of key because the copy was told of it. must is
// false if it may as well show the server's state. lax says that the copy may hold back its
// version, so that it may have been told by the server of a later epoch.
func (l *Log) toldBeyond(read *Read, p point, key Key, lax bool) (all []*Tell, must bool) {
	least := uint64(0)
	for _, t := range l.tells {
		if t.Copy == read.Copy && t.Key == key && (t.epoch == p.epoch || lax && t.epoch > p.epoch) && t.Version > p.version &&
			t.call < read.Ret {
			all = append(all, t)
			if done := t.ret != 0 && t.ret < read.Call; done && t.epoch == p.epoch && !t.Loose && !read.Graph && !read.Held {
				must, least = true, max(least, t.Version)
			}
		}
	}
	newest := all[:0]
	for _, t := range all {
		if t.Version >= least {
			newest = append(newest, t)
		}
	}
	return newest, must
}

// mayShow reports whether a read at p may show got, or nothing, of key, where lax says that the
// copy may hold back its version. want is the server's state.
func (l *Log) mayShow(r *Result, read *Read, p point, key Key, got, want *Item, lax bool) bool {
	is := func(want *Item) bool {
		there := want != nil && (read.Of == nil || read.Of(*want))
		return there == (got != nil) && (!there || want.is(*got))
	}
	told, must := l.toldBeyond(read, p, key, lax)
	if must && r != nil {
		r.met("U1")
	}
	for _, t := range told {
		if is(t.Item) {
			return true
		}
	}
	return is(want) && !must || lax && l.mayBe(read, p, key, got)
}

// wasTold reports whether a copy was told of item.
func (l *Log) wasTold(item Item) bool {
	return slices.ContainsFunc(l.tells, func(t *Tell) bool { return t.Item != nil && t.Item.is(item) })
}

// Lags records that a list may show an older state. If the copy does not know when an object was
// deleted, it believes such a list.
func (l *Log) Lags() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lagged = true
}

// takenBack reports whether a copy may have been told of something of key that the collection does
// not have.
func (l *Log) takenBack(key Key) bool {
	return slices.ContainsFunc(l.tells, func(t *Tell) bool { return t.Key == key && (t.Phantom || t.Loose && l.lagged) })
}
