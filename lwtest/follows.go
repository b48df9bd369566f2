package lwtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-lw/lw"
	"pgregory.net/rapid"
)

// A followed is a random history of a source that is only followed: an informer reads it, and what
// the informer shows is compared with what was written.
type followed[T lw.Object] struct {
	rt *rapid.T
	Subject[T]
	truth  *truth[T]
	steps  []string
	n      int
	at     int  // the first state that what was shown last may be
	breaks bool // a call of Disconnect or Compact may be the cause of an error

	mu    sync.Mutex
	shown []map[lw.Key]T // not checked yet; guarded by mu, as are the errors
	errs  []error
	more  chan struct{} // receives a value when there is something in shown

	// These are used by the goroutine of lw.Follow alone.
	held  map[lw.Key]T
	moved bool // held has changed since it was shown
}

// follow runs one history.
func follow[T lw.Object](rt *rapid.T, s Subject[T]) {
	f := &followed[T]{rt: rt, Subject: s, more: make(chan struct{}, 1)}
	f.truth = &truth[T]{equal: s.Equal}
	if s.Close != nil {
		defer s.Close()
	}
	inf := lw.NewInformer(s.Source(), &lw.Options{Name: "lwtest", OnError: f.failed})
	ctx, cancel := context.WithCancelCause(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	running.Go(func() { _ = inf.Run(ctx) })
	patience, end := context.WithTimeoutCause(ctx, s.Patience, fmt.Errorf("after %v", s.Patience))
	defer end()
	if err := inf.WaitForSync(patience); err != nil {
		rt.Fatal(f.report("the informer has not synced: List, or a streamed list, must yield the whole collection and return its version; an empty one must say that it is empty: %v", err))
	}
	running.Go(func() { _ = lw.Follow(ctx, inf, lw.Follower[T](f)) })
	first := f.await(0, time.After(s.Patience))
	f.truth.states = []map[lw.Key]T{first}
	f.steps = append(f.steps, fmt.Sprintf("start with %d objects", len(first)))
	lag := rapid.Bool().Draw(rt, "the informer may fall behind")
	steps := map[string]func(*rapid.T){
		"put": f.put, "put too": f.put, "delete": f.delete, "recreate": f.recreate, "transact": f.transact,
		"catch up": func(*rapid.T) { f.catchUp() },
		"": func(*rapid.T) {
			if !lag {
				f.catchUp()
			}
		},
	}
	for name, do := range map[string]func(){"disconnect": s.Disconnect, "compact": s.Compact} {
		if do != nil {
			steps[name] = func(*rapid.T) {
				f.breaks = true
				f.steps = append(f.steps, name)
				do()
			}
		}
	}
	rt.Repeat(steps)
	f.catchUp()
}

// report returns the text of a failure, with all steps.
func (f *followed[T]) report(format string, args ...any) string {
	var b strings.Builder
	fmt.Fprintf(&b, "lwtest: %s\nThe history:\n", fmt.Sprintf(format, args...))
	for i, s := range f.steps {
		fmt.Fprintf(&b, "%4d. %s\n", i+1, s)
	}
	return b.String()
}

// failed is the informer's OnError.
func (f *followed[T]) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

// Begin is part of [lw.Follower].
func (f *followed[T]) Begin(snap *lw.Snapshot[T], _ bool) {
	f.held, f.moved = map[lw.Key]T{}, true
	for obj := range snap.All() {
		f.held[lw.KeyOf(obj)] = obj
	}
}

// Change is part of [lw.Follower].
func (f *followed[T]) Change(d lw.Delta[T]) {
	f.moved = true
	var none T
	if d.New == none {
		delete(f.held, d.Key())
	} else {
		f.held[d.Key()] = d.New
	}
}

// Progress is part of [lw.Follower]. A Poll makes progress without a change, and faster than the
// states can be checked.
func (f *followed[T]) Progress(string) {
	if !f.moved {
		return
	}
	f.moved = false
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shown = append(f.shown, maps.Clone(f.held))
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// await returns the state of that number among those that are shown and not checked; nil: patience
// was over before it came.
func (f *followed[T]) await(i int, patience <-chan time.Time) map[lw.Key]T {
	for {
		f.mu.Lock()
		shown := f.shown
		f.mu.Unlock()
		if i < len(shown) {
			return shown[i]
		}
		select {
		case <-f.more:
		case <-patience:
			return nil
		}
	}
}

// catchUp waits until the informer shows what was written last, and checks all that it has shown.
func (f *followed[T]) catchUp() {
	last := len(f.truth.states) - 1
	var why error
	patience := time.NewTimer(f.Patience)
	defer patience.Stop()
	for i := 0; ; i++ {
		f.mu.Lock()
		waiting := len(f.shown) > i
		f.mu.Unlock()
		if !waiting && f.same(f.at, last) {
			// What is shown may also be an earlier state, if writes came to nothing. Those between may be
			// shown later, so at stays where it is.
			f.check()
			f.mu.Lock()
			f.shown = f.shown[i:]
			f.mu.Unlock()
			break
		}
		state := f.await(i, patience.C)
		f.check()
		if state == nil {
			f.rt.Fatal(f.report("after %v the informer does not show what was written: %v", f.Patience, why))
		}
		objs := slices.Collect(maps.Values(state))
		found := slices.IndexFunc(f.truth.states[f.at:], func(s map[lw.Key]T) bool { return f.differs(s, objs) == nil })
		if found < 0 {
			f.rt.Fatal(f.report("the informer shows a state that the collection never had, or had before: a watch must yield each change once, in order, and those of one version as Open: %v",
				f.differs(f.truth.states[last], objs)))
		}
		if f.at += found; found > 0 {
			patience.Reset(f.Patience) // not for an old state that is shown again
		}
		why = f.differs(f.truth.states[last], objs)
	}
	f.steps = append(f.steps, "the informer has caught up")
}

// same reports whether two states are equal.
func (f *followed[T]) same(a, b int) bool {
	return a == b || f.differs(f.truth.states[a], slices.Collect(maps.Values(f.truth.states[b]))) == nil
}

// differs says how objs differ from state, apart from versions and UIDs.
func (f *followed[T]) differs(state map[lw.Key]T, objs []T) error {
	var wrong []string
	for _, obj := range objs {
		if want, ok := state[lw.KeyOf(obj)]; !ok {
			wrong = append(wrong, fmt.Sprintf("%v is there, and should not be", lw.KeyOf(obj)))
		} else if !f.Equal(want, obj) {
			wrong = append(wrong, fmt.Sprintf("%v is %s, want %s", lw.KeyOf(obj), show(obj), show(want)))
		}
	}
	if len(objs) < len(state)+len(wrong) && len(objs) != len(state) {
		for key := range state {
			if !slices.ContainsFunc(objs, func(obj T) bool { return lw.KeyOf(obj) == key }) {
				wrong = append(wrong, fmt.Sprintf("%v is not there", key))
			}
		}
	}
	if wrong == nil {
		return nil
	}
	slices.Sort(wrong)
	return errors.New(strings.Join(wrong, "; "))
}

// check fails the history if the informer has reported what a correct source does not do.
func (f *followed[T]) check() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, err := range f.errs {
		if !f.breaks || strings.Contains(err.Error(), "protocol error") {
			f.rt.Fatal(f.report("the informer reports: %v", err))
		}
	}
	f.errs = nil
}

// wrote notes the state after a write.
func (f *followed[T]) wrote(what string, err error, change func(state map[lw.Key]T)) {
	if err != nil {
		f.rt.Fatal(f.report("%s: %v", what, err))
	}
	state := maps.Clone(f.truth.now())
	change(state)
	f.truth.states = append(f.truth.states, state)
	f.steps = append(f.steps, what)
}

func (f *followed[T]) drawKey(rt *rapid.T) lw.Key { return rapid.SampledFrom(f.Keys).Draw(rt, "key") }

func (f *followed[T]) put(rt *rapid.T) { f.store(f.drawKey(rt)) }

func (f *followed[T]) store(key lw.Key) {
	f.n++
	obj, kept := f.Object(key, f.n), f.Object(key, f.n)
	what, write := "create", f.Create
	if _, exists := f.truth.now()[key]; exists {
		what, write = "update", f.Update
	}
	_, err := write(obj)
	f.wrote(fmt.Sprintf("%s %v", what, key), err, func(state map[lw.Key]T) { state[key] = kept })
}

func (f *followed[T]) delete(rt *rapid.T) {
	key := f.drawKey(rt)
	if _, exists := f.truth.now()[key]; !exists {
		rt.Skip("it is not there")
	}
	f.wrote(fmt.Sprintf("delete %v", key), f.Delete(key), func(state map[lw.Key]T) { delete(state, key) })
}

func (f *followed[T]) recreate(rt *rapid.T) {
	key := f.drawKey(rt)
	if _, exists := f.truth.now()[key]; !exists {
		rt.Skip("it is not there")
	}
	f.wrote(fmt.Sprintf("delete %v", key), f.Delete(key), func(state map[lw.Key]T) { delete(state, key) })
	f.store(key)
}

func (f *followed[T]) transact(rt *rapid.T) {
	if f.Transact == nil {
		rt.Skip("no Transact")
	}
	var puts, kept []T
	for _, key := range f.Keys {
		if rapid.Bool().Draw(rt, "put") {
			f.n++
			puts, kept = append(puts, f.Object(key, f.n)), append(kept, f.Object(key, f.n))
		}
	}
	_, _, err := f.Subject.Transact(puts, nil)
	f.wrote(fmt.Sprintf("transact %d objects", len(puts)), err, func(state map[lw.Key]T) {
		for _, obj := range kept {
			state[lw.KeyOf(obj)] = obj
		}
	})
}

// equalApartFromVersions compares the JSON of two objects, without their versions and UIDs.
func equalApartFromVersions[T lw.Object](a, b T) bool {
	return reflect.DeepEqual(withoutVersions(a), withoutVersions(b))
}

func withoutVersions(obj any) any {
	text, err := json.Marshal(obj)
	if err != nil {
		return obj
	}
	var fields map[string]any
	if json.Unmarshal(text, &fields) != nil {
		return obj
	}
	for _, in := range []any{fields, fields["metadata"], fields["Meta"]} {
		if m, ok := in.(map[string]any); ok {
			delete(m, "resourceVersion")
			delete(m, "uid")
		}
	}
	return fields
}
