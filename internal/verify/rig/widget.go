// Package rig is what the tests of package lw share: a type of objects and a source that follows a
// script, records of what handlers and OnError are told, and the running of informers in a bubble
// of testing/synctest.
package rig

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
)

// A Widget is a type of a user's own: Meta makes it an Object.
type Widget struct {
	lw.Meta
	Size int
}

// NewWidget returns a widget of the namespace "default".
func NewWidget(name string, size int) *Widget {
	return &Widget{Meta: lw.Meta{Namespace: "default", Name: name}, Size: size}
}

// Widgets returns widgets of such names and sizes: "a1 b2".
func Widgets(text string) (all []*Widget) {
	for word := range strings.FieldsSeq(text) {
		name := strings.TrimRight(word, "0123456789")
		size, err := strconv.Atoi(word[len(name):])
		if err != nil {
			panic(err)
		}
		all = append(all, NewWidget(name, size))
	}
	return all
}

// Key is the key of such a widget.
func Key(name string) lw.Key { return lw.Key{Namespace: "default", Name: name} }

// Stamped is a widget as a server hands it out.
func Stamped(name string, size int, rv string) *Widget {
	w := NewWidget(name, size)
	w.UID, w.ResourceVersion = types.UID("uid-"+name), rv
	return w
}

// Create, Update and Remove change a Memory, or end the test.
func Create(t *testing.T, m *lw.Memory[*Widget], name string, size int) *Widget {
	t.Helper()
	w, err := m.Create(t.Context(), NewWidget(name, size))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func Update(t *testing.T, m *lw.Memory[*Widget], name string, size int) *Widget {
	t.Helper()
	w, gone := m.Get(t.Context(), Key(name))
	if gone != nil {
		t.Fatalf("no widget %s", name)
	}
	w.Size = size
	w, err := m.Update(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func Remove(t *testing.T, m *lw.Memory[*Widget], name string) {
	t.Helper()
	if _, err := m.Delete(t.Context(), Key(name), ""); err != nil {
		t.Fatal(err)
	}
}

// Relist makes the informers of m list again, after change.
func Relist(m *lw.Memory[*Widget], change func()) {
	m.Fail(errors.New("down"))
	change()
	m.Compact()
	m.Fail(nil)
	Sleep(time.Minute)
}

// A Plain is a Memory whose writes have no contexts, as an lwtest.Subject wants them.
type Plain[T lw.Object] struct{ *lw.Memory[T] }

// Create is that of the Memory, as Update and Delete are.
func (p Plain[T]) Create(obj T) (T, error) { return p.Memory.Create(context.Background(), obj) }

func (p Plain[T]) Update(obj T) (T, error) { return p.Memory.Update(context.Background(), obj) }

func (p Plain[T]) Delete(key lw.Key) error {
	_, err := p.Memory.Delete(context.Background(), key, "")
	return err
}

// Sizes are the sizes of the widgets of r.
func Sizes(r lw.Reader[*Widget]) map[lw.Key]int {
	out := map[lw.Key]int{}
	for w := range r.All() {
		out[lw.KeyOf(w)] = w.Size
	}
	return out
}

// MustHold checks the sizes of the widgets of r by their names, and its version.
func MustHold(t *testing.T, r lw.Reader[*Widget], rv string, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	for w := range r.All() {
		got[w.Name] = w.Size
	}
	if diff := cmp.Diff(want, got); diff != "" || r.ResourceVersion() != rv {
		t.Errorf("store at %s, want %s (-want +got):\n%s", r.ResourceVersion(), rv, diff)
	}
}

// A Sum is what the tests of graphs derive: the sizes of some widgets.
type Sum struct {
	lw.Meta
	Sum   int
	Names string
}

// SumOf makes a sum of a widget.
func SumOf(w *Widget) *Sum {
	return &Sum{Meta: lw.Meta{Namespace: w.Namespace, Name: w.Name}, Sum: w.Size}
}

// BySize makes an object whose key is the size of a widget.
func BySize(w *Widget) *Sum {
	if w.Size == 0 {
		return nil
	}
	return &Sum{Meta: lw.Meta{Namespace: "default", Name: fmt.Sprint("size", w.Size)}, Names: w.Name}
}

// AddedUp is the Aggregate of the sums of a group.
var AddedUp = lw.Aggregate[*Sum, int]{
	Add:    func(acc int, s *Sum) int { return acc + s.Sum },
	Remove: func(acc int, s *Sum) int { return acc - s.Sum },
}

// TotalOf makes the sum of a group.
func TotalOf(key lw.Key, acc int) *Sum { return &Sum{Meta: lw.Meta{Name: key.Name}, Sum: acc} }

// An object that embeds Base has its Meta in a struct that it embeds.
type Base struct{ lw.Meta }

// A ReadOnly object can be read, but nothing can be written to it.
type ReadOnly struct{ Meta *lw.Meta }

func (r *ReadOnly) GetNamespace() string       { return r.Meta.Namespace }
func (r *ReadOnly) GetName() string            { return r.Meta.Name }
func (r *ReadOnly) GetUID() types.UID          { return r.Meta.UID }
func (r *ReadOnly) GetResourceVersion() string { return r.Meta.ResourceVersion }
