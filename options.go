package lw

import (
	"cmp"
	"log/slog"
	"time"
)

// Options are the settings of an [Informer] or a [Reflector], which copies them. A nil *Options and
// the zero value of each field mean the default.
type Options struct {
	Name  string // in errors and logs, and on the Board; default: the name of T, such as Pod
	Board *Board // where the informer is listed while it runs; default: nowhere

	// Logger gets the first sync and each recovery, at level Info, and failures at level Warn if
	// OnError is nil. Default: slog.Default() if OnError is nil, else none.
	Logger *slog.Logger

	List     ListMode // how to request a list; default: ListAuto
	PageSize int64    // the number of objects in a page; default: 500
	// SyncBudget is how long a streamed list may go without an object before it falls back to
	// pages; default: 10 s, and 90 s once the server has streamed a whole list.
	SyncBudget   time.Duration
	WatchTimeout time.Duration // the least duration of a watch, which is up to twice that; default: 5 min

	// Backoff returns how long to pause when so many requests in a row have failed, at least 1. A
	// longer Retry-After of the server takes precedence. Default: random pauses that grow with the
	// failures, to 45 s, and depend on what has failed. docs/operate.md has the numbers.
	Backoff func(failures int) time.Duration

	// OnError is called once for every failure, with an *[Error], in the goroutine that reads from
	// the server; with DetectMutation also in another. It should not block. Default: see Logger.
	OnError func(err error)
	// OnPanic is called when a callback of a handler or the function of an index panics, in the
	// goroutine that called it. A handler then goes on with its next event. An object at which an
	// index panicked is set aside. Default: the panic crashes the program.
	OnPanic func(p *Panic)

	// DetectMutation, which is for tests, finds code that changes cached objects, and reports the
	// paths of the fields to OnError; package lwtest has the whole diff. It doubles the memory.
	DetectMutation bool
}

// ListMode says how an informer requests a list.
type ListMode string

const (
	ListAuto   ListMode = "auto"   // streams the list, or uses pages from the moment on that the server cannot
	ListStream ListMode = "stream" // always streams the list (https://kep.k8s.io/3157)
	ListPages  ListMode = "pages"  // requests pages of Options.PageSize objects, all of one resource version
	ListWhole  ListMode = "whole"  // requests the list in one response
)

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
	s.warn()
	if s.List == "" {
		s.List = ListAuto
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

// warn logs what can only be a mistake.
func (o *Options) warn() {
	what := "informer " + o.Name
	if o.PageSize < 0 {
		warnOf(o.Logger, what, "PageSize", o.PageSize, "is negative, and the default is used")
	}
	for _, d := range []struct {
		option string
		value  time.Duration
	}{{"SyncBudget", o.SyncBudget}, {"WatchTimeout", o.WatchTimeout}} {
		switch {
		case d.value < 0:
			warnOf(o.Logger, what, d.option, d.value, "is negative, and the default is used")
		case 0 < d.value && d.value < time.Second:
			warnOfUnit(o.Logger, what, d.option, d.value)
		}
	}
}

// warnOfUnit logs that a duration is less than a second.
func warnOfUnit(logger *slog.Logger, whose, option string, value time.Duration) {
	warnOf(logger, whose, option, value, "is less than a second: a number without a unit is in nanoseconds")
}

// warnOf logs what is wrong with an option. If nobody has set a logger it uses the default, since
// nothing else tells of the mistake.
func warnOf(logger *slog.Logger, whose, option string, value any, wrong string) {
	cmp.Or(logger, slog.Default()).Warn("lw: "+whose+": "+option+" "+wrong, slog.Any("value", value))
}
