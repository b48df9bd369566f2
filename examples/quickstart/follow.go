package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

// follower is an informer with an index and two handlers. One handler counts its calls, the other
// builds a replica of the collection from them. A goroutine reads the store and the index
// meanwhile.
type follower[T lw.Object] struct {
	informer *lw.Informer[T]
	replayed *lw.Registration
	index    *lw.Index[string, T]
	indexed  string
	replica  map[lw.Key]T // written by the replay handler; read when the informer has stopped
	line     line
	start    time.Time

	adds, updates, deletes, lookups, backwards atomic.Int64

	outages []time.Duration // how long each recovery took; written by recovery
}

// newFollower returns a follower of src whose index has the keys that key returns. indexed is the
// name of these keys in the report.
func newFollower[T lw.Object](src lw.Source[T], indexed string, key func(T) string) *follower[T] {
	f := &follower[T]{indexed: indexed, replica: map[lw.Key]T{}, start: time.Now()}
	f.informer = lw.NewInformer(src, &lw.Options{
		OnError: func(err error) { f.line.print("  %v", err) },
	})
	f.index = lw.NewIndex(f.informer, key)
	f.informer.AddHandler(lw.Handler[T]{
		Name:   "counter",
		Add:    func(T) { f.adds.Add(1) },
		Update: func(_, _ T) { f.updates.Add(1) },
		Delete: func(T) { f.deletes.Add(1) },
	})
	f.replayed = f.informer.AddHandler(lw.Handler[T]{
		Name:   "replay",
		Add:    func(obj T) { f.replica[lw.KeyOf(obj)] = obj },
		Update: func(_, obj T) { f.replica[lw.KeyOf(obj)] = obj },
		Delete: func(obj T) { delete(f.replica, lw.KeyOf(obj)) },
	})
	return f
}

// run starts the informer and the reader. When ctx is done and both have ended, it closes the
// channel that it returns.
func (f *follower[T]) run(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	read := make(chan struct{})
	go func() { defer close(read); f.read(ctx) }()
	go func() {
		defer close(done)
		f.informer.Run(ctx)
		<-read
	}()
	return done
}

// read looks up every key of the index once a millisecond, and shows the status line ten times a
// second.
func (f *follower[T]) read(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			f.line.end()
			return
		case <-tick.C:
		}
		snap := f.informer.Store().Snapshot()
		for key := range f.index.Keys() {
			for obj := range f.index.Lookup(key) {
				// The index is read after the snapshot, so its object is the snapshot's or a newer
				// one. Two different objects with one version would be an error of the library.
				if old, ok := snap.Get(lw.KeyOf(obj)); ok && old != obj && old.GetResourceVersion() == obj.GetResourceVersion() {
					f.backwards.Add(1)
				}
			}
			f.lookups.Add(1)
		}
		if n%100 == 0 {
			f.show()
		}
	}
}

// show shows the informer's status in the status line.
func (f *follower[T]) show() {
	s := f.informer.Status()
	f.line.show("%6.1fs  %-9s  version %-8s  %6d objects  +%d ~%d -%d  %d waiting  %d lookups", time.Since(f.start).Seconds(), s.Phase,
		s.ResourceVersion, s.Objects, f.adds.Load(), f.updates.Load(), f.deletes.Load(), s.Pending, f.lookups.Load())
}

// since returns the time since the follower was made.
func (f *follower[T]) since() time.Duration { return time.Since(f.start).Round(time.Millisecond) }

// keys returns the number of keys in the index.
func (f *follower[T]) keys() (n int) {
	for range f.index.Keys() {
		n++
	}
	return n
}

// recovery starts a goroutine that waits until the store shows version, and then prints how long
// that took since began. The channel receives the result of the wait.
func (f *follower[T]) recovery(ctx context.Context, began time.Time, version string) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := f.informer.WaitForResourceVersion(ctx, version)
		took := time.Since(began).Round(time.Millisecond)
		if err == nil {
			f.line.print("  the store shows what was written after it, %v after it began", took)
			f.outages = append(f.outages, took)
		}
		done <- err
	}()
	return done
}

// report prints a summary. changes is the number of writes, or 0 if it is not known.
func (f *follower[T]) report(changes int) {
	f.line.end()
	s := f.informer.Status()
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer t.Flush()
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(t)
	if changes > 0 {
		row("changes on the server", "%d", changes)
	}
	row("events from the server", "%v", s.Events)
	row("told to the handlers", "%d added, %d updated, %d deleted", f.adds.Load(), f.updates.Load(), f.deletes.Load())
	row("requests for a list", "%d streamed, %d pages", s.Requests["stream"].Started, s.Requests["list"].Started)
	row("lists by cause", "%v", s.ListCauses)
	row("watches resumed", "%d", s.Requests["watch"].Started)
	for i, d := range f.outages {
		row(fmt.Sprintf("outage %d", i+1), "%v until the store showed what was written after it", d)
	}
	row("lookups by "+f.indexed, "%d while all this went on", f.lookups.Load())
	if n := f.backwards.Load(); n > 0 {
		row("WRONG", "%d lookups showed two objects of one version", n)
	}
}

// followCluster follows the collection at url until ctx is done. It asks the server only for the
// metadata of the objects, so it works for a collection of any type.
func followCluster(ctx context.Context, url string) error {
	f := newFollower(&lw.HTTP[*metav1.PartialObjectMetadata]{URL: url}, "namespace", (*metav1.PartialObjectMetadata).GetNamespace)
	done := f.run(ctx)
	if err := lw.WaitForSync(ctx, f.informer, f.replayed); err != nil {
		<-done
		return err
	}
	f.line.print("synced: %d objects in %d namespaces after %v; Ctrl-C ends it", f.informer.Store().Len(), f.keys(), f.since())
	<-done
	f.report(0)
	return nil
}
