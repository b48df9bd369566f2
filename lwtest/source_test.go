package lwtest_test

import (
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// A Widget is what the sources of these tests hold.
type Widget struct {
	lw.Meta
	Labels map[string]string
	Size   int
}

func (w *Widget) GetLabels() map[string]string { return w.Labels }

func newWidget(key lw.Key, n int) *Widget {
	return &Widget{
		Meta:   lw.Meta{Namespace: key.Namespace, Name: key.Name},
		Labels: map[string]string{"even": map[bool]string{true: "yes", false: "no"}[n%2 == 0]},
		Size:   n,
	}
}

// subject is a Memory, as which others go wrong.
func subject(wrap func(lw.Source[*Widget]) lw.Source[*Widget]) lwtest.Subject[*Widget] {
	m := lw.NewMemory(newWidget(lw.Key{Namespace: "old", Name: "one"}, 0))
	return lwtest.Subject[*Widget]{
		Source:     func() lw.Source[*Widget] { return wrap(m) },
		Object:     newWidget,
		Create:     m.Create,
		Update:     m.Update,
		Delete:     m.Delete,
		Compact:    m.Compact,
		Disconnect: m.Disconnect,
		Bookmark:   m.Bookmark,
		Selectors: []lwtest.Selector[*Widget]{
			{Labels: "even=yes", Matches: func(w *Widget) bool { return w.Size%2 == 0 }},
			{Fields: "metadata.namespace=lwtest-a", Matches: func(w *Widget) bool { return w.Namespace == "lwtest-a" }},
		},
	}
}

func TestMemory(t *testing.T) {
	lwtest.Source(t, func() lwtest.Subject[*Widget] {
		return subject(func(src lw.Source[*Widget]) lw.Source[*Widget] { return src })
	})
}
