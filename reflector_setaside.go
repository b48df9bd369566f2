package lw

// setAsideObjects are the objects that could not be decoded, transformed or indexed. The target
// keeps each as it was, until a later version or a list can be applied. Only the goroutine of Run
// uses it.
type setAsideObjects struct {
	// recorder has the keys of these objects and their errors, because Status shows them.
	recorder *statusRecorder
	// holding has those keys for which the target may have an older object than it should: an event
	// or an item of a list was not applied. While there is one, the reported version stays before
	// that event or list. Other objects may be newer than the reported version, but no read is
	// older than it.
	holding map[Key]struct{}
}

// holds reports whether an object holds back the reported version.
func (a *setAsideObjects) holds() bool { return len(a.holding) > 0 }

// empty reports whether nothing is set aside.
func (a *setAsideObjects) empty() bool { return len(a.recorder.setAside) == 0 }

// has reports whether key is set aside.
func (a *setAsideObjects) has(key Key) bool {
	_, ok := a.recorder.setAside[key]
	return ok
}

// add sets key aside because of err, and calls report with that. If hold is true, key holds back
// the reported version. If hold is false, which is so for an item of a list, report is not called
// for a key that is set aside already because of the same error.
func (a *setAsideObjects) add(key Key, err error, hold bool, report func(*Error)) {
	known := a.recorder.setAside[key]
	a.recorder.addAside(key, err)
	if hold {
		a.hold(key)
	}
	if known == nil || hold || known.Error() != err.Error() {
		report(asError(key, err))
	}
}

// hold makes key, which is set aside, hold back the reported version.
func (a *setAsideObjects) hold(key Key) {
	if a.holding == nil {
		a.holding = map[Key]struct{}{}
	}
	a.holding[key] = struct{}{}
}

// remove removes key, and reports whether it was set aside. It must be called before the change is
// applied: a goroutine that sees the change must not find the object in Status.SetAside any more.
func (a *setAsideObjects) remove(key Key) bool {
	if _, ok := a.recorder.setAside[key]; !ok {
		return false
	}
	delete(a.holding, key)
	a.recorder.removeAside(key)
	return true
}

// listed replaces the set-aside objects by bad, the failures of a new list. Keys that still fail go
// on holding back the version if they did before.
func (a *setAsideObjects) listed(bad map[Key]error, report func(*Error)) {
	for key := range a.recorder.setAside {
		if _, ok := bad[key]; !ok {
			a.remove(key)
		}
	}
	for key, err := range bad {
		a.add(key, err, false, report)
	}
}

// release ends the holding back of the reported version. It is called in a new epoch, in which the
// version before means nothing. The objects stay set aside.
func (a *setAsideObjects) release() { clear(a.holding) }
