package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// A follower is an informer on a real server with all that is known about it from outside.
type follower[T lw.Object] struct {
	*lw.Informer[T]
	t      testing.TB
	client *client
	path   string // of the collection
	opts   followOptions
	start  time.Time
	errs   *errorLog
	early  *replay[T] // added before Run
	late   *replay[T] // added after the first sync
	ended  chan error // what Run returned
	cancel context.CancelFunc
}

type followOptions struct {
	lw.Options
	// view makes of an object what T shows of it; nil: all.
	view func(object map[string]any) map[string]any
	// of says which of the objects at path the informer should have; nil: all.
	of func(*servers.Object) bool
}

// follow starts an informer on src, which sends its requests through c. path is where an
// independent reader finds the same collection.
func follow[T lw.Object](t testing.TB, c *client, path string, src lw.Source[T], opts followOptions) *follower[T] {
	t.Helper()
	f := &follower[T]{t: t, client: c, path: path, opts: opts, start: time.Now(), errs: &errorLog{},
		ended: make(chan error, 1)}
	if opts.Name == "" {
		opts.Name = c.wire.name
	}
	opts.OnError = f.errs.add
	f.Informer = lw.NewInformer(src, &opts.Options)
	f.early = newReplay[T]("early")
	f.AddHandler(f.early.handler())
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go func() { f.ended <- f.Run(ctx) }()
	t.Cleanup(f.stop)
	return f
}

// stop ends the informer and checks that it does so at once.
func (f *follower[T]) stop() {
	f.cancel()
	select {
	case err := <-f.ended:
		if err != nil {
			f.t.Errorf("%s: Run returned %v", f.name(), err)
		}
		f.ended <- err
	case <-time.After(5 * time.Second * slowdown):
		f.t.Errorf("%s: Run did not return within 5 s of its cancellation", f.name())
	}
	f.client.http.CloseIdleConnections()
	for _, misuse := range f.errs.misuses() {
		f.t.Errorf("%s: OnError: %s", f.name(), misuse)
	}
	if f.t.Failed() {
		f.t.Logf("%s: status %+v\nerrors:\n%v\nrequests:\n%v", f.name(), f.Status(), lastLines(f.errs), lastLines(f.client))
	}
}

func (f *follower[T]) name() string { return f.client.wire.name }

// synced waits for the first sync and then adds the late handler.
func (f *follower[T]) synced() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f.WaitForSync(ctx); err != nil {
		f.t.Fatalf("%s: %v", f.name(), err)
	}
	if f.late == nil {
		f.late = newReplay[T]("late")
		f.AddHandler(f.late.handler())
	}
}

// unsynced waits until the informer, which has nothing yet, says why: in its status, and to those
// who wait for it. A stream that is refused is no failure yet, as a list is asked for at once; so
// OnError may be told some time before.
func (f *follower[T]) unsynced(why func(error) bool) {
	f.t.Helper()
	rig.Until(f.t, patience, func() string {
		if st := f.Status(); st.Synced || !why(st.Err) {
			return fmt.Sprintf("%s: status does not say why there is nothing: %+v", f.name(), st)
		}
		err := f.WaitForSync(within(f.t, 10*time.Millisecond))
		if _, ok := errors.AsType[*lw.Error](err); !ok || !why(err) {
			return fmt.Sprintf("%s: WaitForSync does not say why: %v", f.name(), err)
		}
		return ""
	})
}

// same waits until the store equals what an independent reader sees, while nobody writes. Then it
// checks everything else of the informer: each object in full, the replays of both handlers, the
// indexes, and the status.
func (f *follower[T]) same(r *servers.Reader) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var want map[string]*servers.Object
	rig.Until(f.t, patience, func() string {
		var err error
		if want, _, err = r.List(ctx, f.path); err != nil {
			return fmt.Sprintf("%s: independent list: %v", f.name(), err)
		}
		if f.opts.of != nil {
			maps.DeleteFunc(want, func(_ string, obj *servers.Object) bool { return !f.opts.of(obj) })
		}
		got := map[string]string{}
		for obj := range f.Store().All() {
			got[keyString(obj)] = string(obj.GetUID()) + " " + obj.GetResourceVersion()
		}
		versions := map[string]string{}
		for key, obj := range want {
			versions[key] = obj.UID + " " + obj.ResourceVersion
		}
		if diff := cmp.Diff(versions, got); diff != "" {
			return fmt.Sprintf("%s: the store is not the server's (-server +store):\n%s\nstatus %+v", f.name(), diff, f.Status())
		}
		return ""
	})
	different := 0
	for _, obj := range f.Store().List() {
		if diff := cmp.Diff(f.view(want[keyString(obj)].Content), f.view(content(f.t, obj))); diff != "" {
			if different++; different == 1 {
				f.t.Errorf("%s: content of %s (-server +store):\n%s", f.name(), keyString(obj), diff)
			}
		}
		if got, ok := f.Store().Get(lw.KeyOf(obj)); !ok || got != obj {
			f.t.Errorf("%s: Get of %s is not the object of List", f.name(), keyString(obj))
		}
	}
	if different > 1 {
		f.t.Errorf("%s: the content of %d objects is not the server's", f.name(), different)
	}
	for _, r := range []*replay[T]{f.early, f.late} {
		if r == nil {
			continue
		}
		rig.Until(f.t, patience, func() string {
			if diff := r.diff(f.Store().All()); diff != "" {
				return fmt.Sprintf("%s: replay of the %s handler (-store +replay):\n%s", f.name(), r.name, diff)
			}
			return ""
		})
		for _, fault := range r.wrong() {
			f.t.Errorf("%s: %s handler: %s", f.name(), r.name, fault)
		}
	}
	f.healthy(len(want))
}

// inStep waits until each has synced, and then is the same as what the reader sees.
func inStep[F interface {
	synced()
	same(r *servers.Reader)
}](t testing.TB, r *servers.Reader, all ...F) {
	t.Helper()
	for _, f := range all {
		f.synced()
		f.same(r)
	}
}

// recovered waits until the status shows no failure. That may be a moment after the store has
// caught up.
func (f *follower[T]) recovered() {
	f.t.Helper()
	rig.Until(f.t, patience, func() string {
		s := f.Status()
		if s.Phase != "watching" || !s.Synced || s.Failures != 0 || s.Err != nil || s.SetAside != nil {
			return fmt.Sprintf("%s: status %+v, want Watching, Synced and no failure", f.name(), s)
		}
		return ""
	})
}

// healthy is recovered, for a collection of so many objects to which nobody writes.
func (f *follower[T]) healthy(objects int) {
	f.t.Helper()
	f.recovered()
	if s := f.Status(); s.Objects != objects {
		f.t.Errorf("%s: status reports %d objects, want %d", f.name(), s.Objects, objects)
	}
	if newer(f.newest(), f.Status().ResourceVersion) {
		f.t.Errorf("%s: status reports version %s, but an object has %s", f.name(), f.Status().ResourceVersion, f.newest())
	}
}

// newest returns the highest resource version of an object in the store.
func (f *follower[T]) newest() string {
	most := "0"
	for obj := range f.Store().All() {
		if newer(obj.GetResourceVersion(), most) {
			most = obj.GetResourceVersion()
		}
	}
	return most
}

func (f *follower[T]) view(object map[string]any) map[string]any {
	if f.opts.view == nil {
		return object
	}
	return f.opts.view(object)
}

// calls returns how often each function of the handler that was there from the start was called.
func (f *follower[T]) calls() (adds, updates, deletes int) { return f.early.calls() }

// called checks what a handler that was there from the start was told. No change is far enough
// behind to be folded.
func (f *follower[T]) called(adds, updates, deletes int) {
	f.t.Helper()
	gotAdds, gotUpdates, gotDeletes := f.calls()
	if diff := cmp.Diff([]int{adds, updates, deletes}, []int{gotAdds, gotUpdates, gotDeletes}); diff != "" {
		f.t.Errorf("%s: calls of Add, Update, Delete (-want +got):\n%s", f.name(), diff)
	}
}

// requested waits until n of its requests match. what names them.
func (f *follower[T]) requested(n int, what string, match func(request) bool) {
	f.t.Helper()
	rig.Until(f.t, patience, func() string {
		if got := f.client.count(match); got < n {
			return fmt.Sprintf("%s: %d %s, want %d", f.name(), got, what, n)
		}
		return ""
	})
}

// told waits until OnError has received an error that matches. what names that error.
func (f *follower[T]) told(what string, match func(error) bool) {
	f.t.Helper()
	rig.Until(f.t, patience, func() string {
		if f.errs.has(match) {
			return ""
		}
		return fmt.Sprintf("%s: OnError was not told of %s, but of:\n%v", f.name(), what, f.errs)
	})
}

// bounded checks that the informer has made at most so many lists, watches and streams, and has not
// asked for the server's version more than once for each watch. Of a list in pages only the first
// page counts.
func (f *follower[T]) bounded(lists, watches int) {
	f.t.Helper()
	if n := f.client.count(isVerb(verbList)); n > lists {
		f.t.Errorf("%s: %d lists, want at most %d", f.name(), n, lists)
	}
	n := f.client.count(isVerb(verbStream, verbWatch))
	if n > watches {
		f.t.Errorf("%s: %d watches and streams, want at most %d", f.name(), n, watches)
	}
	if probes := f.client.count(isVerb(verbProbe)); probes > n {
		f.t.Errorf("%s: the version was asked for %d times after %d watches", f.name(), probes, n)
	}
}

// paced checks the bound that holds whatever a server does: a burst, then one request in 1.1 s.
// Pages after the first one of a list are not counted. With client-go's client the bound is one
// request a second: after a 429 that client repeats the request by itself, when the second is over
// that the server asks for.
func (f *follower[T]) paced() {
	f.t.Helper()
	elapsed := time.Since(f.start)
	most := 6 + int(elapsed.Seconds()/1.1)
	if f.client.wire.clientset {
		most = 6 + int(elapsed.Seconds())
	}
	if n := f.client.count(isVerb(verbList, verbProbe, verbStream, verbWatch)); n > most {
		f.t.Errorf("%s: %d requests in %v, want at most %d", f.name(), n, elapsed, most)
	}
}

// attempts returns the largest number of requests in a time in which each fails at once. Between
// them are the pauses of the default backoff at their shortest: 0.4, 0.8, 1.6 … 15 s.
func attempts(outage time.Duration) int {
	n := 1
	for pause := 400 * time.Millisecond; outage >= pause; n++ {
		outage -= pause
		pause = min(2*pause, 15*time.Second)
	}
	return n
}

func keyString[T lw.Object](obj T) string {
	if obj.GetNamespace() == "" {
		return obj.GetName()
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}

// content returns obj as its JSON says it, without kind and apiVersion.
func content[T lw.Object](t testing.TB, obj T) map[string]any {
	t.Helper()
	data := rig.Must[[]byte](t)(json.Marshal(obj))
	o := rig.Must[*servers.Object](t)(servers.ParseObject(data))
	return o.Content
}

// newer reports whether resource version a is newer than b, both decimals.
func newer(a, b string) bool {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	return errA == nil && errB == nil && x > y
}
