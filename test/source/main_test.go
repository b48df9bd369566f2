package source_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/leak"
	"github.com/go-lw/lw/internal/rig"
)

func TestMain(m *testing.M) {
	history.FromOne = true // tests name the versions of a Memory
	leak.Main(m)
}

// A widgetEvent is what a watch of widgets yields.
type widgetEvent = lw.WatchEvent[*rig.Widget]

// told runs an informer of src, whose handler's calls it notes, until the test ends.
func told(t *testing.T, src lw.Source[*rig.Widget], opts *lw.Options) (*lw.Informer[*rig.Widget], *rig.Calls) {
	inf, calls := lw.NewInformer(src, opts), &rig.Calls{}
	inf.AddHandler(calls.Handler())
	rig.Start(t, inf)
	return inf, calls
}

// every is an Options.Backoff of one pause.
func every(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

// mustSay checks what the Status of r says.
func mustSay(t *testing.T, r interface{ Status() lw.Status }, ok func(s lw.Status) bool) {
	t.Helper()
	if s := r.Status(); !ok(s) {
		t.Errorf("status: %+v", s)
	}
}

// mustCount checks how many errors there are.
func mustCount(t *testing.T, errs *rig.Errors, want int) {
	t.Helper()
	if all := errs.All(); len(all) != want {
		t.Errorf("%d errors, want %d: %v", len(all), want, all)
	}
}

// mustEnd checks the error that a call has ended with.
func mustEnd(t *testing.T, what string, want, err error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// listed is a list at version rv of widgets with versions: "a1@9 b2@8".
func listed(rv, widgets string) rig.Reply {
	var objs []*rig.Widget
	for text := range strings.FieldsSeq(widgets) {
		objs = append(objs, stamped(text))
	}
	return rig.List(rv, objs...)
}

// stamped is the widget of such a text: name, size and version.
func stamped(text string) *rig.Widget {
	text, rv, _ := strings.Cut(text, "@")
	name := strings.TrimRight(text, "-0123456789")
	size, err := strconv.Atoi(text[len(name):])
	if err != nil {
		panic(err)
	}
	return rig.Stamped(name, size, rv)
}

func modified(text string) widgetEvent { return rig.Modified(stamped(text)) }

func deleted(text string) widgetEvent { return rig.Deleted(stamped(text)) }
