package lw

import (
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A fakeClient is what a ListWatch does differently because its functions are those of a client-go
// fake: a fake clientset, a fake dynamic or metadata client, or a function of a test that returns
// one of apimachinery's fake watches. The package cannot import client-go, so it tells a fake by
// its methods, by the type of its watches, or by its objects. What the fakes do, as of client-go
// v0.37:
//
//   - The generated clients of a fake clientset embed testing.Fake, a recorder of actions that has
//     a method ClearActions. Real clients have none.
//   - Some clients have a method that says whether streamed lists are supported, and its answer
//     counts. Fakes have it, and so have wrappers of real clients that want whole lists. So no
//     means only that lists are not streamed, and yes that the client is no fake.
//   - A watch that asks for a streamed list (sendInitialEvents) sends the objects that exist, but
//     never the bookmark that ends them. A reflector would wait for that bookmark for ever. So
//     such a watch is refused with errNoStream. As soon as a client is known to be a fake, the
//     hints say that there are no streamed lists, and no reflector asks for one.
//   - A list has a version. The objects in it, and those of events, have the versions that the test
//     wrote into them, mostly none. So the hints say that versions mean nothing, and events count
//     in the order of their arrival.
//   - An object that was created with a generateName has no name: nobody generates one. So the
//     hints say that objects may be unnamed. A tracker has at most one such object in a namespace.
//   - The watch of an object tracker has a channel with room for 100 events. If nobody reads them,
//     the next write panics with "channel full", in the goroutine of the test. So a watch that
//     nobody reads must be stopped soon.
//   - A test may have made one watch, and return it from each call of Watch. Once it is stopped its
//     channel is closed, and the test has no other. So a refused watch stays open until WatchFunc
//     returns the next one, and is stopped only if the next one is a different watch.
//
// A watch.ProxyWatcher is a channel of somebody else's. In a test it is a fake watch, so the first
// streamed list over one is refused as well, before an event is lost to it. But it may also wrap a
// real watch. So its versions count if its objects have any, and who asks for a second streamed
// list gets it.
type fakeClient struct {
	// known says that the functions are those of a fake. FromClient sets it, or the first watch
	// that is a fake.
	known atomic.Bool
	// noStream says that lists are not streamed, although this may be no fake.
	noStream atomic.Bool
	// versions is what the objects have shown; see listed and came.
	versions atomic.Uint32
	// unnamed says that a list had an object for which nobody has generated a name.
	unnamed atomic.Bool
	// refused is the watch that was refused last and is still open; nil: there is none.
	refused atomic.Pointer[watch.Interface]
}

// The values of fakeClient.versions. No server has objects without a resource version.
const (
	noObjects   uint32 = iota // none has come
	versioned                 // they have versions
	unversioned               // they have none
)

// hints returns the hints of the ListWatch.
func (f *fakeClient) hints() SourceHints {
	known := f.known.Load()
	return SourceHints{
		NoStream:    known || f.noStream.Load(),
		Unversioned: known || f.versions.Load() == unversioned,
		Unnamed:     known || f.unnamed.Load(),
	}
}

// of notes what the methods of a client say of it.
func (f *fakeClient) of(client any) {
	_, fake := client.(interface{ ClearActions() })
	if c, ok := client.(interface{ IsWatchListSemanticsUnSupported() bool }); ok {
		no := c.IsWatchListSemanticsUnSupported()
		f.noStream.Store(no)
		fake = fake && no
	}
	f.known.Store(fake)
}

// opened is called with each watch that WatchFunc has returned. If it returns errNoStream, the
// caller must neither read nor stop the watch: a later call of opened stops it.
func (f *fakeClient) opened(w watch.Interface, opts metav1.ListOptions) error {
	if before := f.refused.Swap(nil); before != nil && *before != w {
		(*before).Stop()
	}
	refuse := false
	switch w.(type) {
	case *watch.RaceFreeFakeWatcher, *watch.FakeWatcher: // what client-go's fakes return
		f.known.Store(true)
		refuse = true
	case *watch.ProxyWatcher:
		refuse = !f.noStream.Swap(true)
	}
	if refuse && opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		f.refused.Store(&w)
		return errNoStream
	}
	return nil
}

// A listing is what is known of the versions of the objects of one list.
type listing struct {
	of       *fakeClient
	versions uint32
}

// item notes an object of the list. Nothing is to be noted of one with a name after one with a
// version.
func (l *listing) item(obj Identified) {
	if obj.GetResourceVersion() != "" {
		l.versions = versioned
	} else if l.versions == noObjects {
		l.versions = unversioned
	}
	if g, ok := obj.(interface{ GetGenerateName() string }); ok && obj.GetName() == "" && g.GetGenerateName() != "" {
		l.of.unnamed.Store(true)
	}
}

// end notes the end of the list. A list is believed whatever came before, unless it is empty: an
// object of it that has a version shows that versions mean something.
func (l *listing) end() {
	if l.versions != noObjects {
		l.of.versions.Store(l.versions)
	}
}

// came notes the version of the object of an event. It says something only if no object has come
// before: a server that leaves out the version of one event has made a mistake.
func (f *fakeClient) came(version string) {
	switch {
	case f.versions.Load() != noObjects:
	case version == "":
		f.versions.Store(unversioned)
	default:
		f.versions.Store(versioned)
	}
}
