package lw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/judge"
)

// A Widget is a type of a user's own: Meta makes it an Object.
type Widget struct {
	lw.Meta
	Size int
}

func widget(name string, size int) *Widget {
	return &Widget{Meta: lw.Meta{Namespace: "default", Name: name}, Size: size}
}

func key(name string) lw.Key { return lw.Key{Namespace: "default", Name: name} }

// stamped is a widget as a server hands it out.
func stamped(name string, size int, rv string) *Widget {
	w := widget(name, size)
	w.UID, w.ResourceVersion = types.UID("uid-"+name), rv
	return w
}

func create(t *testing.T, m *lw.Memory[*Widget], name string, size int) *Widget {
	t.Helper()
	w, err := m.Create(widget(name, size))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func update(t *testing.T, m *lw.Memory[*Widget], name string, size int) *Widget {
	t.Helper()
	w, ok := m.Get(key(name))
	if !ok {
		t.Fatalf("no widget %s", name)
	}
	w.Size = size
	w, err := m.Update(w)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func remove(t *testing.T, m *lw.Memory[*Widget], name string) {
	t.Helper()
	if err := m.Delete(key(name)); err != nil {
		t.Fatal(err)
	}
}

// start runs r, an informer or a reflector, in the bubble until the test ends.
func start(t *testing.T, r interface{ Run(context.Context) error }) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// run starts an informer of src and waits until it has synced.
func run(t *testing.T, src lw.Source[*Widget], opts *lw.Options) *lw.Informer[*Widget] {
	t.Helper()
	inf := lw.NewInformer(src, opts)
	start(t, inf)
	if err := inf.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return inf
}

// paged runs an informer of src that lists in pages for so long.
func paged(t *testing.T, src *script, d time.Duration) (*lw.Informer[*Widget], *errorLog) {
	t.Helper()
	errs := &errorLog{}
	inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: errs.add})
	start(t, inf)
	sleep(d)
	synctest.Wait()
	return inf, errs
}

// sleep lets time pass, and all that it brings about happen.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func sizes(r lw.Reader[*Widget]) map[lw.Key]int {
	out := map[lw.Key]int{}
	for w := range r.All() {
		out[lw.KeyOf(w)] = w.Size
	}
	return out
}

func mustHold(t *testing.T, r lw.Reader[*Widget], rv string, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	for w := range r.All() {
		got[w.Name] = w.Size
	}
	if diff := cmp.Diff(want, got); diff != "" || r.ResourceVersion() != rv {
		t.Errorf("store at %s, want %s (-want +got):\n%s", r.ResourceVersion(), rv, diff)
	}
}

// errorLog is an OnError.
type errorLog struct {
	mu   sync.Mutex
	errs []error
}

func (l *errorLog) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *errorLog) all() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errs[:len(l.errs):len(l.errs)]
}

func (l *errorLog) mustHave(t *testing.T, text string) {
	t.Helper()
	for _, err := range l.all() {
		if strings.Contains(err.Error(), text) {
			return
		}
	}
	t.Errorf("no error says %q: %v", text, l.all())
}

func (l *errorLog) mustBe(t *testing.T, target error) {
	t.Helper()
	for _, err := range l.all() {
		if errors.Is(err, target) {
			return
		}
	}
	t.Errorf("no error is %q: %v", target, l.all())
}

// calls writes down what handlers are told: "add a1", "update a1 a2", "delete a2", "synced".
type calls struct {
	mu  sync.Mutex
	got []string
}

func (c *calls) handler() lw.Handler[*Widget] {
	return lw.Handler[*Widget]{
		Add:    func(w *Widget) { c.note("add", w) },
		Update: func(old, w *Widget) { c.note("update", old, w) },
		Delete: func(w *Widget) { c.note("delete", w) },
		Synced: func() { c.note("synced") },
	}
}

func (c *calls) note(what string, objs ...*Widget) {
	for _, w := range objs {
		what += fmt.Sprintf(" %s%d", w.Name, w.Size)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, what)
}

func (c *calls) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.got)
}

// mustBe compares the calls since the last mustBe.
func (c *calls) mustBe(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, c.take()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// take returns the calls since the last one.
func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = nil
	return got
}

// sorted does the same where the order of the calls is nobody's business.
func (c *calls) sorted(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	got := c.take()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// newStory returns a check of what a handler is told, which fails t.
func newStory(t *testing.T) *judge.Story[*Widget] {
	return judge.NewStory[*Widget](func(err error) { t.Error(err) })
}

// mustAddUp checks that what a handler was told adds up to objects of these sizes.
func mustAddUp(t *testing.T, s *judge.Story[*Widget], want map[lw.Key]int) {
	t.Helper()
	got := map[lw.Key]int{}
	for k, w := range s.Objects() {
		got[k] = w.Size
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what a handler was told adds up to (-want +got):\n%s", diff)
	}
}

// script is a Source that gives scripted answers; the last of each kind is given again and again.
type script struct {
	lists   []reply
	watches []stream
	list    func() reply  // instead of lists
	watch   func() stream // instead of watches
	stream  func() stream // for streamed lists

	mu      sync.Mutex
	nList   int
	nWatch  int
	at      []time.Time
	options []metav1.ListOptions
}

type reply struct {
	obj  []*Widget
	bad  []error // yielded after the objects, each in place of one
	meta metav1.ListMeta
	err  error
	hang bool
}

type stream struct {
	events []lw.WatchEvent[*Widget]
	after  time.Duration
	err    error
	open   bool // until the context is done
}

func list(rv string, objs ...*Widget) reply {
	return reply{obj: objs, meta: metav1.ListMeta{ResourceVersion: rv}}
}

func forever() stream { return stream{open: true} }
func expired() stream { return stream{err: apierrors.NewResourceExpired("too old")} }
func expiredAfter(d time.Duration) stream {
	return stream{after: d, err: apierrors.NewResourceExpired("too old")}
}

func added(name, rv string) lw.WatchEvent[*Widget] {
	return lw.WatchEvent[*Widget]{Type: watch.Added, Object: stamped(name, 1, rv), ResourceVersion: rv}
}

func modified(w *Widget) lw.WatchEvent[*Widget] {
	return lw.WatchEvent[*Widget]{Type: watch.Modified, Object: w, ResourceVersion: w.ResourceVersion}
}

func deleted(w *Widget) lw.WatchEvent[*Widget] {
	return lw.WatchEvent[*Widget]{Type: watch.Deleted, Object: w, ResourceVersion: w.ResourceVersion}
}

func bookmark(rv string) lw.WatchEvent[*Widget] {
	return lw.WatchEvent[*Widget]{Type: watch.Bookmark, ResourceVersion: rv}
}

func end(rv string) lw.WatchEvent[*Widget] {
	return lw.WatchEvent[*Widget]{Type: watch.Bookmark, ResourceVersion: rv, InitialEventsEnd: true}
}

func events(evs ...lw.WatchEvent[*Widget]) stream {
	return stream{events: evs, open: true}
}

func (s *script) List(ctx context.Context, opts metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta, error) {
	s.mu.Lock()
	s.at = append(s.at, time.Now())
	s.options = append(s.options, opts)
	var r reply
	if s.list != nil {
		r = s.list()
	} else {
		r = s.lists[min(s.nList, len(s.lists)-1)]
	}
	s.nList++
	s.mu.Unlock()
	if r.hang {
		<-ctx.Done()
		return metav1.ListMeta{}, ctx.Err()
	}
	if r.err != nil {
		return metav1.ListMeta{}, r.err
	}
	for _, w := range r.obj {
		if w != nil {
			own := *w
			w = &own
		}
		if err := yield(w, nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	for _, err := range r.bad {
		if err := yield(nil, err); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return r.meta, nil
}

func (s *script) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*Widget]) error) error {
	s.mu.Lock()
	s.at = append(s.at, time.Now())
	s.options = append(s.options, opts)
	var w stream
	switch {
	case opts.SendInitialEvents != nil && s.stream != nil:
		w = s.stream()
	case s.watch != nil:
		w = s.watch()
	case len(s.watches) > 0:
		w = s.watches[min(s.nWatch, len(s.watches)-1)]
	default:
		w = forever()
	}
	s.nWatch++
	s.mu.Unlock()
	for _, ev := range w.events {
		if err := yield(ev); err != nil {
			return err
		}
	}
	if w.after > 0 {
		select {
		case <-time.After(w.after):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if w.open {
		<-ctx.Done()
		return ctx.Err()
	}
	return w.err
}

func (s *script) listed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nList
}

// log is what was asked for, in order: "list v limit", "watch v" or "stream".
func (s *script) log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var log []string
	for _, o := range s.options {
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

func mustLog(t *testing.T, src *script, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, src.log()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func (s *script) requests() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[:len(s.at):len(s.at)]
}

// mustBeBounded checks that requests came no faster than ten in a second and sixty in a minute.
func mustBeBounded(t *testing.T, at []time.Time) {
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
