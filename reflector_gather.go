package lw

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// gathered is a list on its way: the pages that have come, or the initial events of a stream.
type gathered[T Object] struct {
	objs    []T
	at      map[Key]int   // where in objs; nil until a stream changes what it has sent
	bad     map[Key]error // objects that could not be decoded or transformed
	omitted int           // objects that a Transform left out, with which nothing is wrong
	version string        // of the whole list

	// Of a stream.

	newest  position // of what it has sent
	changes bool     // it has sent something that is no object of the list, so that all that is newest is none either

	// Of pages.

	pages  int
	items  int                 // objects, bad ones and those left out
	tokens map[string]struct{} // with which pages continued
	firsts map[identity]struct{}
}

// identity tells an object of a list from all others of it.
type identity struct {
	key Key
	uid types.UID
}

// gather begins a list, with room for as many objects as the last one had.
func (r *Reflector[T]) gather() *gathered[T] {
	return &gathered[T]{objs: make([]T, 0, r.expected+r.expected/64)}
}

// take adds an item of a page. It does not look at it: see sift.
func (g *gathered[T]) take(obj T, err error) {
	g.items++
	if err != nil {
		g.fail(err)
		return
	}
	g.objs = append(g.objs, obj)
}

// omit counts an item that a Transform left out.
func (g *gathered[T]) omit() {
	g.items++
	g.omitted++
}

// turn refuses a page that goes back to where the list was before: of its objs those from on are the page's, and the next
// page is to be asked for with token. Such a list would never end.
func (g *gathered[T]) turn(token string, from int) error {
	if _, ok := g.tokens[token]; ok {
		return protocolErrorf("a page continues where an earlier one did")
	}
	if g.tokens == nil {
		g.tokens, g.firsts = map[string]struct{}{}, map[identity]struct{}{}
	}
	g.tokens[token] = struct{}{}
	var zero T
	if from == len(g.objs) || g.objs[from] == zero {
		return nil
	}
	first := identity{KeyOf(g.objs[from]), g.objs[from].GetUID()}
	if _, ok := g.firsts[first]; ok {
		return protocolErrorf("two pages begin with %s", keyString(first.key))
	}
	g.firsts[first] = struct{}{}
	return nil
}

// sift sets aside the items of all pages that cannot stand in a collection. Those of a source that decodes whole lists have
// left the processor's cache, and a loop that does nothing else waits for many of them at a time.
func (g *gathered[T]) sift() {
	kept := 0
	for i, obj := range g.objs {
		if err := unusable(obj); err != nil {
			g.fail(err)
			continue
		}
		if kept != i {
			g.objs[kept] = obj
		}
		kept++
	}
	clear(g.objs[kept:])
	g.objs = g.objs[:kept]
}

// usable returns why a list that has objects has none that can be used, or nil. It is taken for a list of something else, or
// for one that nobody here can read: to show it as empty would be a lie.
func (g *gathered[T]) usable() error {
	if len(g.objs) > 0 || g.omitted > 0 || len(g.bad) == 0 {
		return nil
	}
	return newUselessError(g.bad)
}

// add adds what a stream has sent.
func (g *gathered[T]) add(obj T, err error) {
	if err == nil {
		err = unusable(obj)
	}
	if err != nil {
		g.fail(err)
		return
	}
	if g.at != nil {
		g.at[KeyOf(obj)] = len(g.objs)
	}
	g.objs = append(g.objs, obj)
}

func (g *gathered[T]) fail(err error) {
	if g.bad == nil {
		g.bad = map[Key]error{}
	}
	key := keyOfError(err)
	if before := g.bad[key]; before != nil && key == (Key{}) {
		err = oneMore(before, err)
	}
	g.bad[key] = err
}

// progress is what an event before the end of the initial ones says of how far the list has come.
type progress int

const (
	// noProgress: a change. Changes come for as long as the collection is in use, whether the list does or not.
	noProgress progress = iota
	// someProgress: an ADDED event that is newer than all before: an object of the list, or one that was created just now.
	someProgress
	// sureProgress: an ADDED event that is older than another, which only an object of the list is.
	sureProgress
)

// change applies an initial event, or a change that happened while they were being sent.
func (g *gathered[T]) change(ev *WatchEvent[T], h SourceHints) (progress, error) {
	key := ev.Key()
	if ev.Type != watch.Added {
		g.index()
	}
	if ev.Omitted {
		g.omitted++
	}
	listed := ev.Type == watch.Added || ev.Omitted
	g.changes = g.changes || !listed
	older := false
	if !h.Unversioned && ev.ResourceVersion != "" {
		var err error
		if older, err = g.check(ev, key, h); err != nil {
			return noProgress, err
		}
	}
	made := noProgress
	switch {
	case listed && older:
		made = sureProgress
	case listed && !g.changes:
		made = someProgress
	}
	if ev.Err == nil && g.at == nil && len(g.bad) == 0 {
		g.add(ev.Object, nil)
		return made, nil
	}
	g.index()
	i, known := g.at[key]
	if known || g.bad[key] != nil {
		made = noProgress
	}
	if key != (Key{}) {
		delete(g.bad, key)
	}
	switch here := ev.Err == nil && ev.Type != watch.Deleted; {
	case known && here && unusable(ev.Object) == nil:
		g.objs[i] = ev.Object
		return made, nil
	case known:
		g.remove(i, key)
	}
	if ev.Err != nil || ev.Type != watch.Deleted {
		g.add(ev.Object, ev.Err)
	}
	return made, nil
}

// remove puts the last object in the place of the one at i, which is key's: a gap for each would grow with the changes.
func (g *gathered[T]) remove(i int, key Key) {
	var zero T
	last := len(g.objs) - 1
	delete(g.at, key)
	if i != last {
		g.objs[i] = g.objs[last]
		g.at[KeyOf(g.objs[i])] = i
	}
	g.objs[last] = zero
	g.objs = g.objs[:last]
}

// index makes at, which only a stream that changes what it has sent needs.
func (g *gathered[T]) index() {
	if g.at != nil {
		return
	}
	g.at = make(map[Key]int, len(g.objs))
	for i, obj := range g.objs {
		g.at[KeyOf(obj)] = i
	}
}

// check refuses an event of before. The objects of a list have versions in any order; a change is newer than all that has come,
// and of an object that has come. It returns whether ev is older than something that has come.
func (g *gathered[T]) check(ev *WatchEvent[T], key Key, h SourceHints) (older bool, err error) {
	to, newest, before := positionAt(ev.ResourceVersion), g.newest, false
	if newest.version == "" {
		g.newest = to
	} else if newer, ordered := newest.before(to); newer {
		g.newest = to
	} else {
		before = ordered
		older, _ = to.before(newest)
	}
	i, known := g.at[key]
	switch {
	case ev.Omitted || ev.Type == watch.Added && !known:
		return older, nil // an object of the list, which a Transform may have left out
	case ev.Type == watch.Added:
		held := positionAt(g.objs[i].GetResourceVersion())
		if newer, ordered := held.before(to); ordered && !newer {
			return older, protocolErrorf("%s event of %s at resource version %s came after %s", ev.Type, keyString(key), to.version, held.version)
		}
		return older, nil
	}
	// One transaction of the server's store may give several objects one version, but not one object twice.
	again := known && newest.version == to.version && g.objs[i].GetResourceVersion() != to.version
	if before && !again {
		return older, protocolErrorf("%s event of %s at resource version %s came after %s", ev.Type, keyString(key), to.version, newest.version)
	}
	first := newest.version == "" && len(g.bad) == 0
	if known || g.bad[key] != nil || g.bad[Key{}] != nil || h.Partial && !first {
		return older, nil
	}
	return older, protocolErrorf("%s event of %s, which was not there", ev.Type, keyString(key))
}

// errEmptyPages says that to ask for pages is of no use.
var errEmptyPages = fmt.Errorf("%d pages in a row were empty", maxEmpty)
