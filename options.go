package lw

import (
	"fmt"
	"log/slog"
	"time"
)

// Options are the settings of an [Informer] or a [Reflector]. A nil *Options and the zero value of
// each field mean the default. An Options is copied, so one value may serve many informers.
type Options struct {
	// Name is the name in errors and logs, and on the Board. Default: the name of T, such as Pod.
	Name string
	// Board is where the informer is listed while it runs. Default: nowhere.
	Board *Board

	// Logger gets messages of level Info for the first sync and for each recovery, with how long it
	// took. If OnError is nil it also gets failures, at level Warn: the first failure of a kind at
	// once, the next ones at growing intervals, with their number. Default: slog.Default() if
	// OnError is nil, and no logging if OnError is set.
	Logger *slog.Logger

	// List says how to request a list. Default: ListAuto.
	List ListMode
	// PageSize is the number of objects in a page. Default: 500.
	PageSize int64
	// SyncBudget is how long a streamed list may go without an object before it falls back to
	// pages. It is for servers that do not stream lists although they do not refuse to: once a
	// server has streamed a whole list, the next ones may go without an object for 90 s, as a list
	// in pages may. Default: 10 s.
	SyncBudget time.Duration
	// WatchTimeout is the least duration of a watch. Each watch lasts a random duration in
	// [WatchTimeout, 2*WatchTimeout), so that the watches of many informers do not end together.
	// Default: 5 min.
	WatchTimeout time.Duration

	// Backoff returns how long to pause when so many requests in a row have failed; failures is at
	// least 1. A longer Retry-After of the server takes precedence.
	//
	// Default: a random duration between half and one and a half times a base; the first one is up
	// to 2 s. The base begins at 0.8 s and doubles with each failure, up to 30 s. If no connection
	// can be made it is 2 s at most at first and grows with the outage, up to 8 s. If the server
	// says that it is busy, and asks for a pause (Retry-After), the pause is once to twice that, and
	// grows from the ninth time on. These three sorts of failures are counted apart.
	Backoff func(failures int) time.Duration

	// OnError is called once for every failure, with an *[Error], in the goroutine that reads from
	// the server. With DetectMutation another goroutine calls it too, perhaps at the same time. It
	// should not block. Default: failures are logged; see Logger.
	OnError func(err error)
	// OnPanic is called when a callback of a handler or the function of an index panics, in the
	// goroutine that called it. A handler then goes on with its next event. An object at which an
	// index panicked is set aside. Default: the panic crashes the program, as any panic does.
	OnPanic func(p *Panic)

	// DetectMutation finds code that changes cached objects. The informer keeps a copy of every
	// object, compares, and reports each change to OnError with the paths of the fields that
	// differ; package lwtest has the whole diff. It doubles the memory, so it is for tests.
	DetectMutation bool
}

// ListMode says how an informer requests a list.
type ListMode int

const (
	// ListAuto streams the list. If the server cannot stream lists it uses pages from then on.
	ListAuto ListMode = iota
	// ListStream always streams the list: its objects are the initial events of the watch
	// (https://kep.k8s.io/3157).
	ListStream
	// ListPages requests pages of Options.PageSize objects, all of one resource version.
	ListPages
	// ListWhole requests the list in one response.
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

// withDefaults returns a copy of o, which may be nil, with the defaults filled in. name is the
// default of Name. OnPanic may be nil in it, and so may one of Logger and OnError: newFailureLog sets
// OnError later if it is nil. A nil Backoff means the default; see pauseAfter.
func (o *Options) withDefaults(name string) *Options {
	s := &Options{}
	if o != nil {
		*s = *o
	}
	if s.Name == "" {
		s.Name = name
	}
	if s.Logger == nil && s.OnError == nil {
		s.Logger = slog.Default()
	}
	if s.PageSize <= 0 {
		s.PageSize = 500
	}
	if s.SyncBudget <= 0 {
		s.SyncBudget = 10 * time.Second
	}
	if s.WatchTimeout <= 0 {
		s.WatchTimeout = 5 * time.Minute
	}
	return s
}
