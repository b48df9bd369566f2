package lw

import "fmt"

// Share returns the informer that g has for objects of type T under key. If it has none, Share
// makes one, of the source that source returns; so source is called for the first user only, in the
// goroutine of that user. opts are the options of the new informer, as for [NewInformer], except
// that the default of Options.Name is T's name and key, such as Pod[web].
//
// The informer starts with the group, or at once if the group runs. If the group has stopped, the
// informer is stopped too.
//
// Each user calls release when it does not need the informer any more. The release of the last user
// takes the informer out of the group, stops it, and returns when its Run has returned. So release
// must not be called by a handler of that informer. Calls after the first do nothing, but wait as
// well. A user that releases while others go on removes its handlers before. Its indexes stay until
// the informer stops.
//
// A Share that begins after the last release, even if the informer is still stopping, makes a new
// one. While source runs, others that ask for the same key wait. So source may use g, but must not
// wait for the informer of its own key. If source panics, nothing is shared: the next user's source
// is called.
//
// Share panics if g or source is nil, if source returns nil, and if key is not equal to itself.
func Share[T Object, K comparable](g *Group, key K, source func() Source[T], opts *Options) (inf *Informer[T], release func()) {
	if g == nil {
		panic("lw: Share: nil group")
	}
	if source == nil {
		panic("lw: Share: nil function")
	}
	k := any(sharedKey[T, K]{key})
	if again := k; again != k { // a NaN; it could not be found again
		panic(fmt.Sprintf("lw: Share: key %v is not equal to itself", key))
	}
	m := g.share(k, func() AnyInformer {
		src := source()
		if isNil(src) {
			panic("lw: Share: nil source")
		}
		var o Options
		if opts != nil {
			o = *opts
		}
		if o.Name == "" {
			o.Name = fmt.Sprintf("%s[%v]", typeName[T](), key)
		}
		return NewInformer(src, &o)
	})
	return m.inf.(*Informer[T]), once(func() { g.release(m) })
}

// A sharedKey is a key in Group.shared. Its type tells apart equal keys of informers of different
// types.
type sharedKey[T Identified, K comparable] struct{ key K }

// share returns the member of key, which then has one more user. If there is none, it makes one
// with an informer of build.
func (g *Group) share(key any, build func() AnyInformer) *member {
	for {
		m, first := g.use(key)
		if first {
			g.build(m, build)
			return m
		}
		<-m.built
		if m.inf != nil {
			return m
		}
		// The source of the first user has panicked. Now this one may be the first.
	}
}

// use notes one more user of the member of key. If there is none it makes one without an informer.
func (g *Group) use(key any) (m *member, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m = g.shared[key]; m != nil {
		m.users++
		return m, false
	}
	m = newMember()
	m.key, m.built, m.users = key, make(chan struct{}), 1
	if g.shared == nil {
		g.shared = map[any]*member{}
	}
	g.shared[key] = m
	return m, true
}

// build gives m an informer, and adds it to the members. If build panics, m is forgotten.
func (g *Group) build(m *member, build func() AnyInformer) {
	defer close(m.built)
	defer func() {
		if m.inf == nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			delete(g.shared, m.key)
		}
	}()
	m.inf = build()
	g.join(m)
}

// release notes one user less of m, and removes m after the last.
func (g *Group) release(m *member) {
	g.mu.Lock()
	m.users--
	last := m.users == 0
	if last {
		delete(g.shared, m.key)
	}
	g.mu.Unlock()
	if last {
		g.part(m)
	}
}
