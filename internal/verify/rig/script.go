package rig

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// Script is a Source that gives scripted answers; the last of each kind is given again and again.
type Script struct {
	Lists    []Reply
	Watches  []Stream
	OnList   func() Reply  // instead of lists
	OnWatch  func() Stream // instead of watches
	OnStream func() Stream // for streamed lists

	Mu      sync.Mutex
	NList   int
	nWatch  int
	At      []time.Time
	Options []metav1.ListOptions
}

func (s *Script) List(ctx context.Context, opts metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta,
	error) {
	s.Mu.Lock()
	s.At = append(s.At, time.Now())
	s.Options = append(s.Options, opts)
	var r Reply
	if s.OnList != nil {
		r = s.OnList()
	} else {
		r = s.Lists[min(s.NList, len(s.Lists)-1)]
	}
	s.NList++
	s.Mu.Unlock()
	if r.Hang {
		<-ctx.Done()
		return metav1.ListMeta{}, ctx.Err()
	}
	if r.Err != nil {
		return metav1.ListMeta{}, r.Err
	}
	for _, w := range r.Obj {
		if w != nil {
			own := *w
			w = &own
		}
		if err := yield(w, nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	for _, err := range r.Bad {
		if err := yield(nil, err); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return r.Meta, nil
}

func (s *Script) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*Widget]) error) error {
	s.Mu.Lock()
	s.At = append(s.At, time.Now())
	s.Options = append(s.Options, opts)
	var w Stream
	switch {
	case opts.SendInitialEvents != nil && s.OnStream != nil:
		w = s.OnStream()
	case s.OnWatch != nil:
		w = s.OnWatch()
	case len(s.Watches) > 0:
		w = s.Watches[min(s.nWatch, len(s.Watches)-1)]
	default:
		w = Forever()
	}
	s.nWatch++
	s.Mu.Unlock()
	for _, ev := range w.Events {
		if err := yield(ev); err != nil {
			return err
		}
	}
	if w.After > 0 {
		select {
		case <-time.After(w.After):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if w.Open {
		<-ctx.Done()
		return ctx.Err()
	}
	return w.Err
}

func (s *Script) Listed() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.NList
}

// Log is what was asked for, in order: "list v limit", "watch v" or "stream".
func (s *Script) Log() []string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	var log []string
	for _, o := range s.Options {
		switch {
		case o.SendInitialEvents != nil:
			log = append(log, strings.TrimSpace("stream "+o.ResourceVersion))
		case o.AllowWatchBookmarks:
			log = append(log, strings.TrimSpace("watch "+o.ResourceVersion))
		default:
			entry := "list"
			if o.ResourceVersion != "" {
				entry += " at " + o.ResourceVersion
			}
			if o.Limit != 0 {
				entry += fmt.Sprint(" limit ", o.Limit)
			}
			if o.Continue != "" {
				entry += " continue " + o.Continue
			}
			log = append(log, entry)
		}
	}
	return log
}

func (s *Script) Requests() []time.Time {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.At[:len(s.At):len(s.At)]
}

type Reply struct {
	Obj  []*Widget
	Bad  []error // yielded after the objects, each in place of one
	Meta metav1.ListMeta
	Err  error
	Hang bool
}

type Stream struct {
	Events []lw.WatchEvent[*Widget]
	After  time.Duration
	Err    error
	Open   bool // until the context is done
}

func List(rv string, objs ...*Widget) Reply {
	return Reply{Obj: objs, Meta: metav1.ListMeta{ResourceVersion: rv}}
}

// Forever is a watch that ends with its context.
func Forever() Stream { return Stream{Open: true} }

func Expired() Stream { return Stream{Err: apierrors.NewResourceExpired("too old")} }

func ExpiredAfter(d time.Duration) Stream {
	return Stream{After: d, Err: apierrors.NewResourceExpired("too old")}
}

func Added(name, rv string) lw.WatchEvent[*Widget] {
	return lw.WatchEvent[*Widget]{Type: watch.Added, Object: Stamped(name, 1, rv), ResourceVersion: rv}
}

func Modified(w *Widget) lw.WatchEvent[*Widget] {
	return lw.WatchEvent[*Widget]{Type: watch.Modified, Object: w, ResourceVersion: w.ResourceVersion}
}

func Deleted(w *Widget) lw.WatchEvent[*Widget] {
	return lw.WatchEvent[*Widget]{Type: watch.Deleted, Object: w, ResourceVersion: w.ResourceVersion}
}

func Bookmark(rv string) lw.WatchEvent[*Widget] {
	return lw.WatchEvent[*Widget]{Type: watch.Bookmark, ResourceVersion: rv}
}

func End(rv string) lw.WatchEvent[*Widget] {
	return lw.WatchEvent[*Widget]{Type: watch.Bookmark, ResourceVersion: rv, InitialEventsEnd: true}
}

func Events(evs ...lw.WatchEvent[*Widget]) Stream {
	return Stream{Events: evs, Open: true}
}

func MustLog(t *testing.T, src *Script, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, src.Log()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// MustBeBounded checks that requests came no faster than ten in a second and sixty in a minute.
func MustBeBounded(t *testing.T, at []time.Time) {
	t.Helper()
	for i := range at {
		if i >= 10 && at[i].Sub(at[i-10]) < time.Second {
			t.Fatalf("more than 10 requests in a second at %d of %d", i, len(at))
		}
		if i >= 60 && at[i].Sub(at[i-60]) < time.Minute {
			t.Fatalf("more than 60 requests in a minute at %d of %d", i, len(at))
		}
	}
}

// Unreadable is an error event, or an item of a list, of an object that cannot be decoded.
func Unreadable(name string) error {
	return &lw.Error{Op: "decode", Key: Key(name), Err: errors.New(name + " is no widget")}
}

func BadEvent(name, rv string) lw.WatchEvent[*Widget] {
	return lw.WatchEvent[*Widget]{Type: watch.Modified, ResourceVersion: rv, Err: Unreadable(name)}
}

// Fed is a source whose watches yield what the test sends.
type Fed struct {
	Events  chan lw.WatchEvent[*Widget]
	Version string
	Objs    []*Widget
}

func (f *Fed) Send(ev lw.WatchEvent[*Widget]) {
	f.Events <- ev
	synctest.Wait()
}

func (f *Fed) List(_ context.Context, _ metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta, error) {
	for _, w := range f.Objs {
		if err := yield(w, nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: f.Version}, nil
}

func (f *Fed) Watch(ctx context.Context, _ metav1.ListOptions, yield func(lw.WatchEvent[*Widget]) error) error {
	for {
		select {
		case ev := <-f.Events:
			if err := yield(ev); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
