package lw

import (
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A fakeClient is what a ListWatch does differently because its functions are those of a client-go
// fake: a fake clientset, a fake dynamic or metadata client, or a function of a test that returns
// one of apimachinery's fake watches. The package cannot import client-go, so it tells a fake by
// its methods, or by the type of its watches. What the fakes do, as of client-go v0.37:
//
//   - The generated clients of a fake clientset embed testing.Fake, a recorder of actions that has
//     a method ClearActions. Real clients have none. Some fakes also have a method that says
//     whether streamed lists are supported. If it is there, only its answer counts.
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
type fakeClient struct {
	// known says that the functions are those of a fake. FromClient sets it, or the first watch
	// that is a fake.
	known atomic.Bool
	// refused is the watch that was refused last and is still open; nil: there is none.
	refused atomic.Pointer[watch.Interface]
}

// hints returns the hints of the ListWatch.
func (f *fakeClient) hints() SourceHints {
	known := f.known.Load()
	return SourceHints{NoStream: known, Unversioned: known, Unnamed: known}
}

// opened is called with each watch that WatchFunc has returned. If it returns errNoStream, the
// caller must neither read nor stop the watch: a later call of opened stops it.
func (f *fakeClient) opened(w watch.Interface, opts metav1.ListOptions) error {
	if before := f.refused.Swap(nil); before != nil && *before != w {
		(*before).Stop()
	}
	if !isFakeWatch(w) {
		return nil
	}
	f.known.Store(true)
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		f.refused.Store(&w)
		return errNoStream
	}
	return nil
}

// isFake reports whether c is a client of a client-go fake.
func isFake(c any) bool {
	if f, ok := c.(interface{ IsWatchListSemanticsUnSupported() bool }); ok {
		return f.IsWatchListSemanticsUnSupported()
	}
	_, ok := c.(interface{ ClearActions() })
	return ok
}

// isFakeWatch reports whether w is one of apimachinery's fake watches, which client-go's fakes
// return.
func isFakeWatch(w watch.Interface) bool {
	switch w.(type) {
	case *watch.RaceFreeFakeWatcher, *watch.FakeWatcher:
		return true
	}
	return false
}
