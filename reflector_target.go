package lw

// A target is what a reflector writes to: an informer's hub ([informerTarget]), or a user's Sink
// ([sinkTarget]). Only the goroutine of the reflector's Run calls its methods, except version,
// which any goroutine may call.
type target[T Identified] interface {
	// replace takes over a whole list.
	replace(l replacement[T])
	// apply makes the change ev to the object of key, and moves the reported version to version
	// unless that is "". An event with Err changes no object.
	//
	// It returns whether the object existed before. If known is false, the target cannot tell. If
	// err is not nil, nothing has changed; the reflector sets the object aside and calls heldBack.
	apply(ev *WatchEvent[T], key Key, version string) (existed, known bool, err error)
	// heldBack notes that an event of this version has come, and that its version is not reported
	// because apply has failed.
	heldBack(version string)
	// notify wakes whoever waits for changes. The reflector calls it after an apply, or after the
	// last of several that follow each other at once.
	notify()
	// get returns the object that the target has for key. Ok is also false if it cannot tell.
	get(key Key) (obj T, ok bool)
	// newest returns the identity of the object with the newest version, or the zero Meta if there
	// is none or the target cannot tell. skip says of which keys the target may have an older object
	// than the server had.
	newest(skip func(Key) bool) Meta
	// version returns the reported version.
	version() string
}

// A replacement is a whole list for a target.
type replacement[T Identified] struct {
	objs     []T
	version  string        // to report: listed, or an older one while an object holds it back
	listed   string        // the list's own version
	keep     map[Key]error // keys that stay as they are although objs lacks them, and why
	epoch    bool          // the server went back in time
	distrust bool          // equal versions may be of different objects

	// duplicate is called with each key that objs has more than once.
	duplicate func(key Key)
	// failed is called with the key of an object at which an index panicked, before anything has
	// changed. The target then keeps that object as it was. failed returns the version to report in
	// place of version.
	failed func(key Key, err error) (version string)
	// done is called once, when nothing can fail any more. It updates Status. The target of an
	// informer calls it under hub.mu, before a handler or a wait learns of the list. A user's Sink
	// may show the list a little earlier.
	done func()
}
