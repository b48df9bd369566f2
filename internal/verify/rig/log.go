package rig

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/judge"
)

// TakeSorted returns the texts of the errors since the last call.
func (l *Errors) TakeSorted() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var texts []string
	for _, err := range l.errs {
		texts = append(texts, err.Error())
	}
	l.errs = nil
	slices.Sort(texts)
	return texts
}

// Errors is an OnError.
type Errors struct {
	mu   sync.Mutex
	errs []error
}

func (l *Errors) Add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *Errors) All() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errs[:len(l.errs):len(l.errs)]
}

func (l *Errors) MustHave(t *testing.T, text string) {
	t.Helper()
	for _, err := range l.All() {
		if strings.Contains(err.Error(), text) {
			return
		}
	}
	t.Errorf("no error says %q: %v", text, l.All())
}

func (l *Errors) MustBe(t *testing.T, target error) {
	t.Helper()
	for _, err := range l.All() {
		if errors.Is(err, target) {
			return
		}
	}
	t.Errorf("no error is %q: %v", target, l.All())
}

// Mutations returns what OnError was told of changed objects.
func (l *Errors) Mutations() []*lw.Error {
	var out []*lw.Error
	for _, err := range l.All() {
		if e, ok := err.(*lw.Error); ok && e.Op == "mutation" {
			out = append(out, e)
		}
	}
	return out
}

// Calls writes down what handlers are told: "add a1", "update a1 a2", "delete a2", "synced".
type Calls struct {
	mu  sync.Mutex
	got []string
}

func (c *Calls) Handler() lw.Handler[*Widget] {
	return lw.Handler[*Widget]{
		Add:    func(w *Widget) { c.Note("add", w) },
		Update: func(old, w *Widget) { c.Note("update", old, w) },
		Delete: func(w *Widget) { c.Note("delete", w) },
		Synced: func() { c.Note("synced") },
	}
}

// OfChanges returns a handler whose one function records all changes as those of Handler do.
func (c *Calls) OfChanges() lw.Handler[*Widget] {
	return lw.Handler[*Widget]{Change: func(d lw.Delta[*Widget]) {
		what := map[lw.EventType]string{lw.Added: "add", lw.Updated: "update", lw.Deleted: "delete"}[d.Type]
		c.Note(what, slices.DeleteFunc([]*Widget{d.Old, d.New}, func(w *Widget) bool { return w == nil })...)
	}}
}

func (c *Calls) Note(what string, objs ...*Widget) {
	for _, w := range objs {
		what += fmt.Sprintf(" %s%d", w.Name, w.Size)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, what)
}

func (c *Calls) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.got)
}

// MustBe compares the calls since the last mustBe.
func (c *Calls) MustBe(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, c.Take()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// Take returns the calls since the last one.
func (c *Calls) Take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = nil
	return got
}

// Sorted does the same where the order of the calls is nobody's business.
func (c *Calls) Sorted(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	got := c.Take()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// NewStory returns a check of what a handler is told, which fails t.
func NewStory(t *testing.T) *judge.Story[*Widget] {
	return judge.NewStory[*Widget](func(err error) { t.Error(err) })
}

// MustAddUp checks that what a handler was told adds up to objects of these sizes.
func MustAddUp(t *testing.T, s *judge.Story[*Widget], want map[lw.Key]int) {
	t.Helper()
	got := map[lw.Key]int{}
	for k, w := range s.Objects() {
		got[k] = w.Size
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what a handler was told adds up to (-want +got):\n%s", diff)
	}
}
