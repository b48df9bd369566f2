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

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A dictated source does what the words of a test say; see dictation.
type dictated struct {
	events chan func(yield func(lw.WatchEvent[*rig.Widget]) error) error

	mu      sync.Mutex
	list    []*rig.Widget // guarded by mu, as all below
	version string
	server  string        // the version that a probe answers; "": it fails
	slow    time.Duration // until the answer of a list comes
	probes  int           // how often its version was asked for
}

func (s *dictated) List(ctx context.Context, opts metav1.ListOptions,
	yield func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	s.mu.Lock()
	list, version, server, slow := s.list, s.version, s.server, s.slow
	s.mu.Unlock()
	if request.IsProbe(ctx) {
		list, version, slow = nil, server, 0
		s.mu.Lock()
		s.probes++
		s.mu.Unlock()
	}
	if version == "" {
		return metav1.ListMeta{}, errors.New("no answer")
	}
	time.Sleep(slow)
	for _, w := range list {
		c := *w
		if err := yield(&c, nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: version}, nil
}

func (s *dictated) Watch(ctx context.Context, _ metav1.ListOptions,
	yield func(lw.WatchEvent[*rig.Widget]) error) error {
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

var eventTypes = map[string]watch.EventType{"A": watch.Added, "M": watch.Modified, "D": watch.Deleted,
	"E": watch.Modified, "X": watch.Deleted, "B": watch.Bookmark}

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
		d.src.mu.Unlock()
		if d.inf.Status().Phase == "watching" {
			d.send(func(func(lw.WatchEvent[*rig.Widget]) error) error { return apierrors.NewResourceExpired("too old") })
		}
		if verb == "list" {
			rig.Sleep(time.Minute)
		}
	case "server": // the version that it says it has
		d.src.mu.Lock()
		d.src.server = strings.Join(rest, "")
		d.src.mu.Unlock()
	case "slow": // how long its lists take from now on
		d.src.mu.Lock()
		d.src.slow, err = time.ParseDuration(rest[0])
		d.src.mu.Unlock()
	case "sleep":
		rig.Sleep(rig.Must[time.Duration](d.t)(time.ParseDuration(rest[0])))
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
