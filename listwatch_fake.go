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
//     whether streamed lists are supported, which counts more.
//   - A watch that asks for a streamed list (sendInitialEvents) sends the objects that exist, but
//     never the bookmark that ends them: a reflector would wait for that for ever. So such a watch
//     is refused with errNoStream, and for a client that is known as a fake the hints say in
//     advance that there are no streamed lists.
//   - A list has a version, but the objects in it, and those of events, have the versions that the
//     test wrote into them, which mostly is none. So the hints say that versions mean nothing:
//     events count in the order of their arrival.
//   - The watch of an object tracker has a channel of 100 events. A write panics with "channel
//     full" when they have not been read, in the goroutine of the test. A watch that nobody reads
//     must therefore be stopped soon.
//   - A watch that a test made by itself, and returns from each call of Watch, is of no use once it
//     is stopped: its channel is closed. Such a watch may be the only one that the test has. So a
//     refused watch stays open until the next one is there, and is stopped only if that is another.
type fakeClient struct {
	known atomic.Bool
	// refused is the watch that was refused last, which is still open; nil: none is.
	refused atomic.Pointer[watch.Interface]
}

// hints returns the hints of the ListWatch.
func (f *fakeClient) hints() SourceHints {
	known := f.known.Load()
	return SourceHints{NoStream: known, Unversioned: known}
}

// opened is called with each watch that WatchFunc has returned. It returns errNoStream for one that
// must not be read, and must not be stopped by the caller.
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

// isFakeWatch reports whether w is one of apimachinery's fakes.
func isFakeWatch(w watch.Interface) bool {
	switch w.(type) {
	case *watch.RaceFreeFakeWatcher, *watch.FakeWatcher:
		return true
	}
	return false
}
