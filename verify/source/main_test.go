package source_test

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
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

func added(text string) widgetEvent {
	w := stamped(text)
	return widgetEvent{Type: watch.Added, Object: w, ResourceVersion: w.ResourceVersion}
}

func modified(text string) widgetEvent { return rig.Modified(stamped(text)) }

func deleted(text string) widgetEvent { return rig.Deleted(stamped(text)) }

// page is a list that goes on at more, if that is not "".
func page(rv, more, widgets string) rig.Reply {
	r := listed(rv, widgets)
	r.Meta.Continue = more
	return r
}

// sizes are those of the widgets of a text: "a1 b2".
func sizes(text string) map[lw.Key]int {
	all := map[lw.Key]int{}
	for _, w := range rig.Widgets(text) {
		all[lw.KeyOf(w)] = w.Size
	}
	return all
}

// mustHold checks the widgets of r, such as "a1 b2", and its version.
func mustHold(t *testing.T, r lw.Reader[*rig.Widget], rv, widgets string) {
	t.Helper()
	rig.Same(t, "store at "+rv, sizes(widgets), rig.Sizes(r))
	rig.Same(t, "version of the store", rv, r.ResourceVersion())
}

// oneByOne gives streams one after the other, and then the last one again and again.
func oneByOne(streams ...rig.Stream) func() rig.Stream {
	n := 0
	return func() rig.Stream { n++; return streams[min(n, len(streams))-1] }
}

// expiring is a watch that sends events, and after d says that its position has expired.
func expiring(d time.Duration, evs ...widgetEvent) rig.Stream {
	return rig.Stream{Events: evs, After: d, Err: rig.Expired().Err}
}

// within checks that a number is in a range.
func within[N cmp.Ordered](t *testing.T, what string, least, got, most N) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: %v, want %v to %v", what, got, least, most)
	}
}
