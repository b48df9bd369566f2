package handlers_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/rig"
)

// A dictated source does what the words of a test say; see dictation.
type dictated struct {
	events chan func(yield func(lw.WatchEvent[*rig.Widget]) error) error

	mu      sync.Mutex
	list    []*rig.Widget // guarded by mu, as all below
	version string
	server  string // the version that a probe answers; "": it fails
}

func (s *dictated) List(ctx context.Context, opts metav1.ListOptions, yield func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if request.IsProbe(ctx) {
		if s.server == "" {
			return metav1.ListMeta{}, errors.New("no answer")
		}
		return metav1.ListMeta{ResourceVersion: s.server}, nil
	}
	if s.version == "" {
		return metav1.ListMeta{}, errors.New("no list")
	}
	for _, w := range s.list {
		c := *w
		if err := yield(&c, nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: s.version}, nil
}

func (s *dictated) Watch(ctx context.Context, _ metav1.ListOptions, yield func(lw.WatchEvent[*rig.Widget]) error) error {
	for {
		select {
		case do := <-s.events:
			if err := do(yield); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *dictated) Told(obj lw.Identified) (*rig.Widget, bool, error) {
	c := *obj.(*rig.Widget)
	return &c, true, nil
}

// widgetOf reads a@7/v=3: the name, the version, the UID (u) and the size.
func widgetOf(text string) *rig.Widget {
	text, size, _ := strings.Cut(text, "=")
	text, uid, _ := strings.Cut(text, "/")
	name, version, _ := strings.Cut(text, "@")
	n, _ := strconv.Atoi(size)
	w := rig.Stamped(name, n, version)
	w.UID = types.UID(cmp.Or(uid, "u"))
	return w
}

func wordOf(w *rig.Widget) string {
	text := w.Name + "@" + w.ResourceVersion
	if w.UID != "u" {
		text += "/" + string(w.UID)
	}
	return text
}

// A dictation is an informer of a dictated source, and what it shows and tells.
type dictation struct {
	t   *testing.T
	src *dictated
	inf *lw.Informer[*rig.Widget]
	err rig.Errors

	mu    sync.Mutex
	calls []string // guarded by mu
}

// dictate begins an informer, of src if that is not nil.
func dictate(t *testing.T, turns bool, opts *lw.Options) *dictation {
	d := &dictation{t: t, src: &dictated{events: make(chan func(func(lw.WatchEvent[*rig.Widget]) error) error)}}
	var src lw.Source[*rig.Widget] = d.src
	if turns {
		src = lw.Transform(src, func(w *rig.Widget) (*rig.Widget, error) {
			switch w.Size {
			case 70:
				return nil, nil
			case 71:
				return nil, lw.ErrKeep
			case 72:
				return nil, errors.New("cannot turn it")
			}
			return w, nil
		})
	}
	if opts == nil {
		opts = &lw.Options{}
	}
	opts.List, opts.OnError = lw.ListWhole, d.err.Add
	d.inf = lw.NewInformer(src, opts)
	return d
}

func (d *dictation) start() {
	d.t.Helper()
	rig.Start(d.t, d.inf)
	go func() {
		for ev := range d.inf.Events(context.Background()) {
			var text string
			switch ev.Type {
			case lw.Added:
				text = "+" + wordOf(ev.New)
			case lw.Updated:
				text = wordOf(ev.Old) + ">" + wordOf(ev.New)
			case lw.Deleted:
				text = "-" + wordOf(ev.Old)
			}
			d.mu.Lock()
			d.calls = append(d.calls, text+" "+ev.Cause.String())
			d.mu.Unlock()
		}
	}()
	synctest.Wait()
}

func (d *dictation) send(do func(func(lw.WatchEvent[*rig.Widget]) error) error) {
	d.src.events <- do
	synctest.Wait()
}

// run does what lines, which commas separate, say.
func (d *dictation) run(t *testing.T, script string) {
	t.Helper()
	for line := range strings.SplitSeq(script, ",") {
		if err := d.step(line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

var eventTypes = map[string]watch.EventType{"A": watch.Added, "M": watch.Modified, "D": watch.Deleted, "E": watch.Modified, "X": watch.Deleted, "B": watch.Bookmark}

// step does what one line says.
func (d *dictation) step(line string) (err error) {
	words := strings.Fields(line)
	open := words[0] == "open"
	if open {
		words = words[1:]
	}
	verb, rest := words[0], words[1:]
	switch verb {
	case "start":
		d.start()
	case "tell":
		err = d.inf.Tell(widgetOf(rest[0]))
	case "gone":
		w := widgetOf(rest[0])
		err = d.inf.TellDeleted(lw.KeyOf(w), w.UID, w.ResourceVersion)
	case "A", "M", "D", "E", "X", "B":
		ev := lw.WatchEvent[*rig.Widget]{Type: eventTypes[verb], Open: open}
		if ev.ResourceVersion = rest[0]; verb != "B" {
			w := widgetOf(rest[0])
			switch ev.ResourceVersion = w.ResourceVersion; verb {
			case "E", "X":
				ev.Err = &lw.Error{Op: "decode", Key: lw.KeyOf(w), UID: w.UID, Err: errors.New("unreadable")}
			default:
				ev.Object = w
			}
		}
		d.send(func(yield func(lw.WatchEvent[*rig.Widget]) error) error { return yield(ev) })
	case "list", "stale": // what a list has from now on, and a reason for one
		d.src.mu.Lock()
		d.src.version, d.src.list = rest[0], nil
		for _, text := range rest[1:] {
			d.src.list = append(d.src.list, widgetOf(text))
		}
		running := fmt.Sprint(d.inf.Status().Phase) == "watching"
		d.src.mu.Unlock()
		if running {
			d.send(func(func(lw.WatchEvent[*rig.Widget]) error) error { return apierrors.NewResourceExpired("too old") })
		}
		if verb == "list" {
			rig.Sleep(time.Minute)
		}
	case "server": // the version that it says it has
		d.src.mu.Lock()
		d.src.server = strings.Join(rest, "")
		d.src.mu.Unlock()
	case "sleep":
		took, perr := time.ParseDuration(rest[0])
		if perr != nil {
			d.t.Fatal(perr)
		}
		rig.Sleep(took)
	default:
		d.t.Fatalf("what is %q?", line)
	}
	synctest.Wait()
	return err
}

// shows returns what is shown, how much of it is ahead, and what has been told since the last time.
func (d *dictation) shows() string {
	var all []string
	for _, w := range d.inf.Store().List() {
		all = append(all, wordOf(w))
	}
	slices.Sort(all)
	d.mu.Lock()
	defer d.mu.Unlock()
	text := "[" + strings.Join(all, " ") + "]"
	if n := d.inf.Status().Ahead; n > 0 {
		text += fmt.Sprintf(" ahead %d", n)
	}
	if len(d.calls) > 0 {
		if strings.HasSuffix(d.calls[0], " initial") {
			slices.Sort(d.calls)
		}
		text += ": " + strings.Join(d.calls, ", ")
	}
	d.calls = nil
	return text
}

// TestTell has each rule of what becomes of what an informer is told, as a line of what is done, and
// after => what is shown then, how many keys are ahead, and what handlers are told.
func TestTell(t *testing.T) {
	for _, tt := range []struct {
		name   string
		turns  bool // with a Transform
		script string
	}{
		{"not newer than the watch", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@4 => [a@5]
			tell a@10/w => [a@5]
			B 12 => [a@5]
			tell a@12 => [a@5]`},
		{"not newer than what was told", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			tell a@12 => [a@12] ahead 1
			tell a@11/w => [a@12] ahead 1`},
		{"an update, an event of before and its own event", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			M a@11 => [a@12] ahead 1
			M a@12 => [a@12]
			M a@13 => [a@13]: a@12>a@13 watch`},
		{"one more, before the first has come", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			tell a@14 => [a@14] ahead 1: a@12>a@14 told
			M a@12 => [a@14] ahead 1
			M a@13 => [a@14] ahead 1
			M a@14 => [a@14]`},
		{"a create", false, `
			list 10
			start => []
			tell a@12 => [a@12] ahead 1: +a@12 told
			A a@12 => [a@12]
			D a@13 => []: -a@12 watch`},
		{"a new UID", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12/v => [a@12/v] ahead 1: -a@5 told, +a@12/v told
			D a@11 => [a@12/v] ahead 1
			A a@12/v => [a@12/v]`},
		{"overwritten before the event", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			M a@13 => [a@13]: a@12>a@13 watch`},
		{"deleted before the event", false, `
			list 10
			start => []
			tell a@12 => [a@12] ahead 1: +a@12 told
			A a@12 => [a@12]
			tell a@14 => [a@14] ahead 1: a@12>a@14 told
			D a@15 => []: -a@14 watch`},
		{"the write moves it out of the selection", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			D a@12 => []: -a@12 watch`},
		{"created outside of the selection", false, `
			list 10 b@3
			start => [b@3]: +b@3 initial
			tell a@12 => [a@12 b@3] ahead 1: +a@12 told
			M b@12 => [a@12 b@12] ahead 1: b@3>b@12 watch
			M b@13 => [b@13]: b@12>b@13 watch, -a@12 watch`},
		{"a bookmark passes it", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			B 11 => [a@12] ahead 1
			B 12 => [a@5]: a@12>a@5 watch`},
		{"a bookmark passes what was told of another object", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12/v => [a@12/v] ahead 1: -a@5 told, +a@12/v told
			B 13 => [a@5]: -a@12/v watch, +a@5 watch`},
		{"a transaction without the key", false, `
			list 10 b@3 c@4
			start => [b@3 c@4]: +b@3 initial, +c@4 initial
			tell a@12 => [a@12 b@3 c@4] ahead 1: +a@12 told
			open M b@12 => [a@12 b@3 c@4] ahead 1
			M c@12 => [b@12 c@12]: b@3>b@12 watch, c@4>c@12 watch, -a@12 watch`},
		{"a transaction with the key", false, `
			list 10 b@3
			start => [b@3]: +b@3 initial
			tell a@12 => [a@12 b@3] ahead 1: +a@12 told
			open M b@12 => [a@12 b@3] ahead 1
			A a@12 => [a@12 b@12]: b@3>b@12 watch`},
		{"the base moves under it", false, `
			list 10 a@5 b@3
			start => [a@5 b@3]: +a@5 initial, +b@3 initial
			tell a@15 => [a@15 b@3] ahead 1: a@5>a@15 told
			M a@12 => [a@15 b@3] ahead 1
			M b@16 => [a@12 b@16]: b@3>b@16 watch, a@15>a@12 watch`},
		{"the base goes under it", false, `
			list 10 a@5 b@3
			start => [a@5 b@3]: +a@5 initial, +b@3 initial
			tell a@15 => [a@15 b@3] ahead 1: a@5>a@15 told
			D a@12 => [a@15 b@3] ahead 1
			M b@16 => [b@16]: b@3>b@16 watch, -a@15 watch`},
		{"left out", true, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12=70 => [] ahead 1: -a@5 told
			M a@11 => [] ahead 1
			M a@12=70 => []
			M a@13 => [a@13]: +a@13 watch`},
		{"left out, and passed", true, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12=70 => [] ahead 1: -a@5 told
			B 13 => [a@5]: +a@5 watch`},
		{"kept by the Transform", true, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12=71 => [a@5]
			tell a@13 => [a@13] ahead 1: a@5>a@13 told
			M a@12=71 => [a@13] ahead 1
			M a@13=71 => [a@13]
			B 14 => [a@13]`},
		{"the Transform fails", true, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12=72 => [a@5]! lw: Widget: transform default/a: cannot turn it`},
		{"before the first list", false, `
			tell a@12 => [] ahead 1
			tell b@20 => [] ahead 2
			list 15 a@14 c@3 => [] ahead 2
			start => [a@14 b@20 c@3] ahead 1: +a@14 initial, +b@20 initial, +c@3 initial
			A b@20 => [a@14 b@20 c@3]`},
		{"an unreadable event of before", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@13 => [a@13] ahead 1: a@5>a@13 told
			E a@12 => [a@13] ahead 1
			M a@13 => [a@13]
			M a@14 => [a@14]: a@13>a@14 watch`},
		{"an unreadable event of before, and passed", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@13 => [a@13] ahead 1: a@5>a@13 told
			E a@12 => [a@13] ahead 1
			B 14 => [a@5]: a@13>a@5 watch`},
		{"the same version of another object", false, `
			list 10
			start => []
			tell a@12 => [a@12] ahead 1: +a@12 told
			A a@12/v => [a@12/v]: -a@12 watch, +a@12/v watch`},
		{"two events of one version", false, `
			list 10 a@5 b@3
			start => [a@5 b@3]: +a@5 initial, +b@3 initial
			tell a@12 => [a@12 b@3] ahead 1: a@5>a@12 told
			M b@12 => [a@12 b@12] ahead 1: b@3>b@12 watch
			M a@12 => [a@12 b@12]
			M a@13 => [a@13 b@12]: a@12>a@13 watch`},
		{"a list of before keeps it", true, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@20 => [a@20] ahead 1: a@5>a@20 told
			list 15 a@14=71 => [a@20] ahead 1
			B 21 => [a@5]: a@20>a@5 watch`},
		{"told and deleted before the first list", false, `
			tell a@12 => [] ahead 1
			gone a => [] ahead 1
			server 20 => [] ahead 1
			list 11 a@11/t => [] ahead 1
			start => [] ahead 1
			B 19 => [] ahead 1
			B 20 => [a@11/t]: +a@11/t watch`},
		{"told of in another order", false, `
			list 10
			start => []
			tell a@20 => [a@20] ahead 1: +a@20 told
			tell b@12 => [a@20 b@12] ahead 2: +b@12 told
			B 13 => [a@20] ahead 1: -b@12 watch`},
		{"an event of the version is kept", true, `
			list 10 b@3
			start => [b@3]: +b@3 initial
			tell a@12 => [a@12 b@3] ahead 1: +a@12 told
			M b@12=71 => [a@12 b@3] ahead 1
			A a@13 => [a@13 b@3]: a@12>a@13 watch`},
		{"a deletion whose event is unreadable", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			gone a => [] ahead 1: -a@5 told
			X a@12 => [] ahead 1
			server 12 => [] ahead 1
			sleep 31s => []`},
		{"an unreadable event of it", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@13 => [a@13] ahead 1: a@5>a@13 told
			E a@13 => [a@13]
			B 14 => [a@13]`},
		{"a list of before", false, `
			list 10 a@5 b@3
			start => [a@5 b@3]: +a@5 initial, +b@3 initial
			tell a@20 => [a@20 b@3] ahead 1: a@5>a@20 told
			tell b@21/v => [a@20 b@21/v] ahead 2: -b@3 told, +b@21/v told
			list 15 a@14 c@12 => [a@20 b@21/v c@12] ahead 2: +c@12 relist
			A b@21/v => [a@14 b@21/v c@12]: a@20>a@14 watch
			D a@22 => [b@21/v c@12]: -a@14 watch`},
		{"a list that has it", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			list 12 a@12 => [a@12]`},
		{"a list that has passed it", false, `
			list 10
			start => []
			tell a@12 => [a@12] ahead 1: +a@12 told
			list 13 => []: -a@12 relist`},
		{"a list that is refused", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			stale 8 a@5 => [a@12] ahead 1
			list 11 a@5 => [a@12] ahead 1
			M a@12 => [a@12]`},
		{"a version of another server", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@999 => [a@999] ahead 1: a@5>a@999 told
			list 11 a@11 => [a@999] ahead 1
			server 11
			sleep 11m => [a@999] ahead 1
			list 12 a@11 => [a@11]: a@999>a@11 relist`},
		{"a new epoch", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			list 7 a@5 => [a@5]: a@12>a@5 relist
			tell a@9 => [a@9] ahead 1: a@5>a@9 told
			M a@9 => [a@9]`},
		{"a deletion at a version", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			gone a@12 => [] ahead 1: -a@5 told
			M a@11 => [] ahead 1
			tell a@11 => [] ahead 1
			tell a@13 => [] ahead 1
			D a@12 => []`},
		{"a deletion at a version, not seen yet", false, `
			list 10
			start => []
			gone a@12 => [] ahead 1
			A a@11 => [] ahead 1
			D a@12 => []`},
		{"a deletion at a version that is old", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			gone a@9 => [a@5]`},
		{"a deletion at a version, and created again", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			gone a@12 => [] ahead 1: -a@5 told
			tell a@14/v => [a@14/v] ahead 1: +a@14/v told
			D a@12 => [a@14/v] ahead 1
			A a@14/v => [a@14/v]`},
		{"a deletion of another object", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			gone a/v => [a@5]
			gone b => [a@5]`},
		{"a deletion, and the server's version is known first", false, `
			list 10 a@5 b@3
			server 14
			start => [a@5 b@3]: +a@5 initial, +b@3 initial
			gone a => [b@3] ahead 1: -a@5 told
			M a@11 => [b@3] ahead 1
			D a@12 => [b@3] ahead 1
			M b@13 => [b@13] ahead 1: b@3>b@13 watch
			M b@14 => [b@14]: b@13>b@14 watch`},
		{"a deletion, and the events come first", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			gone a => [] ahead 1: -a@5 told
			D a@12 => [] ahead 1
			server 12 => [] ahead 1
			sleep 31s => []`},
		{"only marked for deletion", false, `
			list 10 a@5
			server 12
			start => [a@5]: +a@5 initial
			gone a => [] ahead 1: -a@5 told
			M a@11 => [] ahead 1
			B 12 => [a@11]: +a@11 watch`},
		{"only marked for deletion, and the events come first", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			gone a => [] ahead 1: -a@5 told
			M a@11 => [] ahead 1
			B 12 => [] ahead 1
			server 12 => [] ahead 1
			sleep 31s => [a@11]: +a@11 watch`},
		{"a deletion, and another object", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			gone a => [] ahead 1: -a@5 told
			D a@12 => [] ahead 1
			A a@13/v => [a@13/v]: +a@13/v watch`},
		{"a deletion of what was told, with late events", false, `
			list 10 a@5/t
			start => [a@5/t]: +a@5/t initial
			tell a@14 => [a@14] ahead 1: -a@5/t told, +a@14 told
			gone a => [] ahead 1: -a@14 told
			D a@11/t => [] ahead 1
			A a@12/s => [] ahead 1
			D a@13/s => [] ahead 1
			A a@14 => [] ahead 1
			D a@15 => [] ahead 1
			server 15 => [] ahead 1
			sleep 31s => []`},
		{"a deletion, and told of another object", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			gone a => [] ahead 1: -a@5 told
			tell a@11 => [] ahead 1
			tell a@13/v => [a@13/v] ahead 1: +a@13/v told
			D a@12 => [a@13/v] ahead 1
			A a@13/v => [a@13/v]`},
		{"a deletion, and a list of before that", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			server 20
			gone a => [] ahead 1: -a@5 told
			list 12 a@11 => [] ahead 1
			list 20 => []`},
		{"a deletion, and nobody says the version", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			gone a => [] ahead 1: -a@5 told
			sleep 1s => [] ahead 1
			list 12 a@11 => [a@11]: +a@11 relist`},
		{"a deletion, and a list with another object", false, `
			list 10 a@5
			server 20
			start => [a@5]: +a@5 initial
			gone a => [] ahead 1: -a@5 told
			list 12 a@11/v => [a@11/v]: +a@11/v relist`},
		{"a gap shows under what was told", false, `
			list 10
			start => []
			tell a@12 => [a@12] ahead 1: +a@12 told
			M a@13 => [a@13]: a@12>a@13 watch
			list 13 a@13 => [a@13]`},
		{"an object that was told and set aside", false, `
			list 10 a@5
			start => [a@5]: +a@5 initial
			E b@11 => [a@5]
			D a@12 => []: -a@5 watch
			tell a@11 => []`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := dictate(t, tt.turns, nil)
				var got, want []string
				for line := range strings.Lines(tt.script) {
					if line = strings.TrimSpace(line); line == "" {
						continue
					}
					do, shows, checked := strings.Cut(line, " => ")
					err := d.step(do)
					now := d.shows()
					if err != nil {
						now += "! " + err.Error()
					}
					if !checked {
						shows = now
					}
					got, want = append(got, do+" => "+now), append(want, do+" => "+shows)
				}
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestTellRefuses has who cannot be told, and why.
func TestTellRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := widgetOf("a@12")
		check := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		d := dictate(t, false, nil)
		for _, line := range []string{"list 10 a@5", "start"} {
			check(line, d.step(line), nil)
		}
		check("a version that is no number", d.inf.Tell(widgetOf("a@x")), errors.ErrUnsupported)
		check("a deletion at such a version", d.inf.TellDeleted(rig.Key("a"), "u", "x"), errors.ErrUnsupported)
		if err := d.inf.Tell((*rig.Widget)(nil)); err == nil {
			t.Error("a nil object is told")
		}
		if err := d.inf.Tell(widgetOf("@12")); err == nil {
			t.Error("an object without a name is told")
		}

		opaque := dictate(t, false, nil)
		opaque.step("list abc a@5")
		opaque.step("start")
		check("a collection of such a version", opaque.inf.Tell(told), errors.ErrUnsupported)

		ctx, cancel := context.WithCancel(t.Context())
		f := &heard{}
		done := make(chan error, 1)
		check("an object", d.inf.Tell(told), nil)
		go func() { done <- lw.Follow(ctx, d.inf, f) }()
		synctest.Wait()
		f.MustBe(t) // it waits until nothing is ahead
		check("a followed collection", d.inf.Tell(widgetOf("b@13")), errors.ErrUnsupported)
		check("a deletion in one", d.inf.TellDeleted(rig.Key("a"), "u", ""), errors.ErrUnsupported)
		d.step("M a@12")
		f.MustBe(t, "begin 12 a0", "progress 12")
		cancel()
		<-done
		check("a collection that is followed no more", d.inf.Tell(widgetOf("b@13")), nil)

		for what, src := range map[string]lw.Source[*rig.Widget]{
			"a source of an unknown kind": &rig.Fed{Version: "1"},
			"a Transform of one":          lw.Transform(lw.Source[*rig.Widget](&rig.Fed{Version: "1"}), func(w *rig.Widget) (*rig.Widget, error) { return w, nil }),
			"options of one":              lw.WithListOptions[*rig.Widget](&rig.Fed{Version: "1"}),
			"a Shard of one":              lw.Shard[*rig.Widget](&rig.Fed{Version: "1"}, 0, 2),
			"a Poll":                      lw.Poll(func(context.Context) ([]*rig.Widget, error) { return nil, nil }, time.Hour),
		} {
			inf := lw.NewInformer(src, nil)
			check(what, inf.Tell(told), errors.ErrUnsupported)
			check(what, inf.TellDeleted(rig.Key("a"), "u", ""), errors.ErrUnsupported)
			check(what, inf.TellDeleted(rig.Key("a"), "u", "12"), errors.ErrUnsupported)
			if inf.Status().Ahead != 0 {
				t.Errorf("%s: something is ahead", what)
			}
		}

		m := lw.NewMemory[*rig.Widget]()
		inf := lw.NewInformer[*rig.Widget](m, nil)
		stop := rig.Begin(t, inf)
		synctest.Wait()
		stop()
		check("one that has stopped", inf.Tell(told), lw.ErrStopped)
		check("one that has stopped", inf.TellDeleted(rig.Key("a"), "u", "12"), lw.ErrStopped)
	})
}

// TestTellIndex: indexes, waits and derived collections have what was told, and a function that
// panics is the error of Tell.
func TestTellIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dictate(t, false, nil)
		bySize := lw.NewIndex(d.inf, func(w *rig.Widget) int {
			if w.Size == 13 {
				panic("unlucky")
			}
			return w.Size
		})
		g := lw.NewGraph(nil)
		sums := lw.Derive(g, lw.Collection[*rig.Widget](d.inf), rig.SumOf, "sums")
		rig.Start(t, g)
		d.step("list 10 a@5=1")
		d.step("start")
		changed := d.inf.Changed(t.Context(), rig.Key("a"))
		mine := widgetOf("a@12=2")
		if err := d.inf.Tell(mine); err != nil {
			t.Fatal(err)
		}
		mine.Size, mine.Name = 99, "mine" // it was copied
		<-changed
		if n, m := bySize.Len(1), bySize.Len(2); n != 0 || m != 1 {
			t.Errorf("the index has %d of size 1 and %d of size 2", n, m)
		}
		if err := g.WaitForStep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s, _ := sums.Store().Get(rig.Key("a")); s == nil || s.Sum != 2 {
			t.Errorf("derived is %v", s)
		}
		if got, err := lw.WaitFor(t.Context(), lw.Collection[*rig.Widget](d.inf), rig.Key("a"), func(w *rig.Widget) bool { return w.Size == 2 }); err != nil || got.Name != "a" {
			t.Errorf("WaitFor: %v, %v", got, err)
		}
		if s := d.inf.Status(); s.ResourceVersion != "10" || d.inf.Store().Snapshot().ResourceVersion() != "10" {
			t.Errorf("the reported version is %s, want 10", s.ResourceVersion)
		}
		var p *lw.Panic
		if err := d.inf.Tell(widgetOf("a@14=13")); !errors.As(err, &p) || p.Handler != "index" {
			t.Errorf("an index panics: %v", err)
		}
		if got := d.shows(); !strings.HasPrefix(got, "[a@12] ahead 1") {
			t.Errorf("after that: %s", got)
		}
	})
}

// TestTellDuringAnEvent: what is told while the function of an index works on an older event of the
// object is not overwritten by it.
func TestTellDuringAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dictate(t, false, nil)
		held := make(chan struct{})
		lw.NewIndex(d.inf, func(w *rig.Widget) int {
			if w.ResourceVersion == "11" {
				<-held
			}
			return w.Size
		})
		d.step("list 10 a@5")
		d.step("start")
		d.step("M a@11")
		if err := d.step("tell a@12"); err != nil {
			t.Fatal(err)
		}
		close(held)
		synctest.Wait()
		if got, want := d.shows(), "[a@12] ahead 1: +a@5 initial, a@5>a@12 told"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		d.step("M a@12")
		d.step("M a@13")
		if got, want := d.shows(), "[a@13]: a@12>a@13 watch"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestSkipTold: a handler that skips what was told is called for all other changes, and also if it is
// far behind.
func TestSkipTold(t *testing.T) {
	for _, far := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := dictate(t, false, nil)
			var calls rig.Calls
			gate := make(chan struct{})
			h := calls.Handler()
			h.SkipTold = true
			h.Synced = func() { <-gate }
			d.inf.AddHandler(h)
			d.step("list 10 a@5=5 b@5=5 c@5=5 d@5=5")
			d.step("start")
			if !far {
				close(gate)
				synctest.Wait()
			}
			calls.Take()
			for _, line := range []string{
				"tell a@11=11", "M a@11=11", "M a@12=12", // an update of its own and one of another's
				"gone b@13", "D b@13", // a deletion of its own
				"tell e@14=14", "A e@14=14", "D e@15=15", // another deletes what it has created
				"tell c@16=16", "D c@16=16", // its write moves it away
				"tell f@17=17", "B 18", // a write that the collection leaves out
				"tell a@20=20", "M a@19=19", "M a@20=20", // what was told has another's change, which is left out with it
				"M d@21=19", "tell d@22=20", // its own after another's
			} {
				if err := d.step(line); err != nil {
					t.Fatal(err)
				}
			}
			if far {
				for i := range 1100 {
					d.step(fmt.Sprintf("M d@%d=20", 23+i))
				}
				close(gate)
				synctest.Wait()
			}
			last := "update d5 d19"
			if far {
				last = "update d5 d20"
			}
			calls.Sorted(t, "delete c16", "delete e14", "delete f17", "update a11 a12", last)
		})
	}
}
