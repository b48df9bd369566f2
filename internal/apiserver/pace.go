package apiserver

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/history"
)

// A pace is a watch whose events come some time after they have happened, and which ends at a time.
// It belongs to the goroutine of its request.
type pace struct {
	watch  *history.Watch[*content]
	trail  time.Duration
	queued []underway // what has happened and is not due yet, oldest first
	over   bool       // nothing more happens
	end    *timedEnd
	endAt  time.Time
}

// An underway is an event, or the end of the watch, that the client gets when it is due.
type underway struct {
	due time.Time
	ev  history.Event[*content]
	err error
}

// A timedEnd is the end of a watch some time after its beginning: the error of a pace that has come
// to it, with the unit that meets the effect.
type timedEnd struct {
	in   time.Duration
	do   UnitEffect
	unit Unit
}

func (e *timedEnd) Error() string { return "apiserver: the time of the watch is over" }

// paced returns Next of w at a pace, if it is to have one.
func paced(w *history.Watch[*content], trail time.Duration, end *timedEnd) nextEvent {
	if trail == 0 && end == nil {
		return w.Next
	}
	p := &pace{watch: w, trail: trail, end: end}
	if end != nil {
		p.endAt = time.Now().Add(end.in)
	}
	return p.next
}

// nextEvent waits for the next event of a watch.
type nextEvent = func(context.Context) (history.Event[*content], error)

// next is Next of the watch at this pace.
func (p *pace) next(ctx context.Context) (history.Event[*content], error) {
	for {
		if err := ctx.Err(); err != nil {
			return history.Event[*content]{}, err
		}
		now := time.Now()
		if p.end != nil && !p.endAt.After(now) {
			end := p.end
			end.unit, p.end = Unit{Type: watch.Bookmark}, nil
			if len(p.queued) > 0 && p.queued[0].err == nil {
				end.unit = unitOf(p.queued[0].ev)
			}
			return history.Event[*content]{}, end
		}
		if len(p.queued) > 0 && !p.queued[0].due.After(now) {
			first := p.queued[0]
			p.queued = p.queued[1:]
			return first.ev, first.err
		}
		p.wait(ctx)
	}
}

// wait returns when something has happened, when something is due, or when ctx is done.
func (p *pace) wait(ctx context.Context) {
	due := p.endAt
	if len(p.queued) > 0 && (p.end == nil || p.queued[0].due.Before(due)) {
		due = p.queued[0].due
	}
	if p.over {
		sleep(ctx, time.Until(due))
		return
	}
	until, cancel := ctx, context.CancelFunc(func() {})
	if p.end != nil || len(p.queued) > 0 {
		until, cancel = context.WithDeadline(ctx, due)
	}
	defer cancel()
	ev, err := p.watch.Next(until)
	if err != nil && until.Err() != nil {
		return
	}
	p.over = err != nil
	p.queued = append(p.queued, underway{time.Now().Add(p.trail), ev, err})
}
