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

// follower is an informer with an index, a handler that counts and one that keeps what it is told, and a reader.
type follower[T lw.Object] struct {
	informer *lw.Informer[T]
	replayed *lw.Registration
	index    *lw.Index[string, T]
	indexed  string
	told     map[lw.Key]T // written by the handler; read after the informer has stopped
	line     line
	start    time.Time
	traffic  traffic

	adds, updates, deletes, lookups, backwards atomic.Int64

	outages []time.Duration // written by recovery
}

func newFollower[T lw.Object](src lw.Source[T], indexed string, key func(T) string) *follower[T] {
	f := &follower[T]{indexed: indexed, told: map[lw.Key]T{}, start: time.Now()}
	f.informer = lw.NewInformer(src, &lw.Options{
		Metrics: &f.traffic,
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
		Add:    func(obj T) { f.told[lw.KeyOf(obj)] = obj },
		Update: func(_, obj T) { f.told[lw.KeyOf(obj)] = obj },
		Delete: func(obj T) { delete(f.told, lw.KeyOf(obj)) },
	})
	return f
}

// run follows until ctx is done, and then closes the channel that it returns.
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

// read looks things up all the while, and shows how it goes.
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
				// The index is read after the snapshot: what it shows may be newer, but never older.
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

func (f *follower[T]) show() {
	s := f.informer.Status()
	f.line.show("%6.1fs  %-9s  version %-8s  %6d objects  +%d ~%d -%d  %d waiting  %d lookups", time.Since(f.start).Seconds(), s.Phase,
		s.ResourceVersion, s.Objects, f.adds.Load(), f.updates.Load(), f.deletes.Load(), s.Pending, f.lookups.Load())
}

func (f *follower[T]) since() time.Duration { return time.Since(f.start).Round(time.Millisecond) }

func (f *follower[T]) keys() (n int) {
	for range f.index.Keys() {
		n++
	}
	return n
}

// recovery waits, in a goroutine, until the store shows the server's version: the trouble that began then is over.
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

// report prints what has happened.
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
	row("events from the server", "%d", s.Events)
	row("told to the handlers", "%d added, %d updated, %d deleted", f.adds.Load(), f.updates.Load(), f.deletes.Load())
	streams, relists := f.traffic.streams.Load(), max(0, f.traffic.replaced.Load()-1)
	row("lists", "%d streamed, %d in pages; %d of them relists", streams, f.traffic.replaced.Load()-streams, relists)
	row("watches resumed", "%d", s.Watches-uint64(streams))
	for i, d := range f.outages {
		row(fmt.Sprintf("outage %d", i+1), "%v until the store showed what was written after it", d)
	}
	row("lookups by "+f.indexed, "%d while all this went on", f.lookups.Load())
	if n := f.backwards.Load(); n > 0 {
		row("WRONG", "%d lookups showed two objects of one version", n)
	}
}

// traffic counts lists. It is a lw.Metrics.
type traffic struct{ streams, replaced atomic.Int64 }

func (t *traffic) Request(_, op string, _ time.Duration, err error) {
	if op == "stream" && err == nil {
		t.streams.Add(1)
	}
}

func (t *traffic) Replaced(string, int, int) { t.replaced.Add(1) }

// followCluster follows any collection until ctx is done. Metadata is all that it asks the server for.
func followCluster(ctx context.Context, url string) error {
	f := newFollower(&lw.HTTP[*metav1.PartialObjectMetadata]{URL: url}, "namespace", lw.Namespace[*metav1.PartialObjectMetadata])
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
