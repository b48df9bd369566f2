package lw

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Options tune an [Informer] or a [Reflector]. Nil and the zero value mean the defaults.
type Options struct {
	Name string // in errors and logs; default: T's name

	// Logger is told, at Info, of the first sync and of each recovery, with how long they took, and where OnError is nil, at
	// Warn, of failures: the first of a kind at once, and then at growing intervals, with how many there have been.
	// Default: slog.Default(), and nothing is logged where OnError is set.
	Logger *slog.Logger

	List         ListMode      // how the initial list is asked for; default: ListAuto
	PageSize     int64         // objects a page; default: 500
	SyncBudget   time.Duration // a streamed list without an object for so long falls back to pages; default: 10 s
	WatchTimeout time.Duration // a watch lasts so long to twice as long, drawn anew each time; default: 5 min

	// Backoff returns the pause after so many failures in a row, from 1 on. A server's Retry-After is waited for where it is
	// longer. Default: 0.8 s doubling to 30 s, of which a random half is taken off or added.
	Backoff func(failures int) time.Duration

	// OnError is told of every failure once, as an *Error, in the goroutine that reads from the server: it should not block.
	// Default: see Logger.
	OnError func(err error)
	// OnPanic is told of a panic in a callback of a handler or of an index, in that callback's goroutine; the handler goes
	// on with the next event, and an object that an index panicked at is set aside. Default (nil): the panic crashes the
	// program, as any would.
	OnPanic func(p *Panic)

	// DetectMutation keeps a copy of every object, and reports one that somebody changed in the cache to OnError, with the
	// paths of what is different. Package lwtest has the whole diff. It is for tests: it doubles the memory.
	DetectMutation bool
}

// ListMode says how an initial list is asked for.
type ListMode int

const (
	// ListAuto streams the list where the server can, and falls back to pages, for good, where it cannot.
	ListAuto ListMode = iota
	// ListStream always streams the list, as the initial events of the watch (https://kep.k8s.io/3157).
	ListStream
	// ListPages lists in pages of Options.PageSize, all of one resource version.
	ListPages
	// ListWhole asks for the list in one response.
	ListWhole
)

func (m ListMode) String() string {
	switch m {
	case ListAuto:
		return "auto"
	case ListStream:
		return "stream"
	case ListPages:
		return "pages"
	case ListWhole:
		return "whole"
	}
	return fmt.Sprintf("ListMode(%d)", int(m))
}

// withDefaults returns a copy of o in which no field but Logger, OnError and OnPanic is zero: see newFailureLog.
func (o *Options) withDefaults(name string) *Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Name == "" {
		d.Name = name
	}
	if d.Logger == nil && d.OnError == nil {
		d.Logger = slog.Default()
	}
	if d.PageSize <= 0 {
		d.PageSize = 500
	}
	if d.SyncBudget <= 0 {
		d.SyncBudget = 10 * time.Second
	}
	if d.WatchTimeout <= 0 {
		d.WatchTimeout = 5 * time.Minute
	}
	if d.Backoff == nil {
		d.Backoff = defaultBackoff
	}
	return &d
}

// defaultBackoff doubles from 0.8 s to 30 s and draws from the half below to the half above that, so that informers that a
// server has lost at the same moment do not come back at the same moment.
func defaultBackoff(failures int) time.Duration {
	const first, most = 800 * time.Millisecond, 30 * time.Second
	d := most
	if failures < 7 {
		d = min(first<<max(failures-1, 0), most)
	}
	return d/2 + rand.N(d)
}
