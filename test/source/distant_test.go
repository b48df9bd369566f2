package source_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/rig"
)

// A distant source is a Memory that is far away: its answers and events come late, and fail.
type distant struct {
	*lw.Memory[*rig.Widget]

	mu     sync.Mutex
	before time.Duration                               // guarded by mu, as all below: of a list, until the server sees it
	after  time.Duration                               // until its answer comes
	lag    time.Duration                               // of events
	fails  int                                         // how many requests fail
	parts  []string                                    // the field selectors of lists of parts
	lists  int                                         // of all
	cut    chan struct{}                               // ends the watch
	gone   bool                                        // the next watch is refused as expired
	pages  func(token string) (metav1.ListMeta, error) // what a list of a part in pages gets; nil: what it asks for
}

func newDistant(names ...string) *distant {
	d := &distant{Memory: lw.NewMemory[*rig.Widget](), cut: make(chan struct{})}
	d.Rewind("1")
	for _, name := range names {
		if _, err := d.Create(context.Background(), rig.NewWidget(name, 1)); err != nil {
			panic(err)
		}
	}
	return d
}

func (d *distant) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// failing reports whether the request fails.
func (d *distant) failing() error {
	if d.fails > 0 {
		d.fails--
		return errors.New("broken line")
	}
	return nil
}

func (d *distant) List(ctx context.Context, opts metav1.ListOptions, yield func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	d.mu.Lock()
	before, after, pages, err := d.before, d.after, d.pages, d.failing()
	if request.PartOf(ctx) != nil {
		d.parts = append(d.parts, opts.FieldSelector)
	} else if !request.IsProbe(ctx) {
		d.lists++
	}
	d.mu.Unlock()
	if err != nil {
		return metav1.ListMeta{}, err
	}
	if pages != nil && request.PartOf(ctx) != nil && opts.Limit > 0 {
		return pages(opts.Continue)
	}
	_ = rest(ctx, before)
	var got []*rig.Widget
	meta, err := d.Memory.List(ctx, opts, func(w *rig.Widget, _ error) error {
		got = append(got, w)
		return nil
	})
	if err := rest(ctx, after); err != nil {
		return meta, err
	}
	for _, w := range got {
		if err == nil {
			err = yield(w, nil)
		}
	}
	return meta, err
}

func (d *distant) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*rig.Widget]) error) error {
	d.mu.Lock()
	cut, err, gone := d.cut, d.failing(), d.gone
	d.gone = false
	d.mu.Unlock()
	if gone {
		return apierrors.NewResourceExpired("too old")
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-cut:
			cancel()
		case <-ctx.Done():
		}
	}()
	return d.Memory.Watch(ctx, opts, func(ev lw.WatchEvent[*rig.Widget]) error {
		d.mu.Lock()
		lag := d.lag
		d.mu.Unlock()
		if err := rest(ctx, lag); err != nil {
			return err
		}
		return yield(ev)
	})
}

// rest sleeps, at most until ctx is done, which it returns.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (d *distant) breakWatch(gone bool) {
	d.set(func() {
		close(d.cut)
		d.cut, d.gone = make(chan struct{}), gone
	})
}

// shown is what an informer shows of names: "a=1", or the state of what it does not show.
func shown(inf *lw.Informer[*rig.Widget], names ...string) string {
	var all []string
	for _, name := range names {
		text := name + ":" + inf.KeyState(rig.Key(name)).String()
		if w, ok := inf.Store().Get(rig.Key(name)); ok {
			text += fmt.Sprint("=", w.Size)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}
