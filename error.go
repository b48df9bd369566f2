package lw

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/request"
)

// ErrStarted is what a second call of Run returns, or wraps.
var ErrStarted = errors.New("lw: already started")

// startedError is the ErrStarted of the informer or reflector that has this name.
type startedError string

func (e startedError) Error() string { return "lw: " + string(e) + ": already started" }

func (e startedError) Unwrap() error { return ErrStarted }

// ErrStopped is the cause if a wait ended because the informer has stopped, and of a [Cursor] that
// was closed or whose log has ended.
var ErrStopped = errors.New("lw: stopped")

// ErrRewound is the cause of the [Error] that reports a new epoch: the server's state went back in
// time, as after the restore of a backup. The next list is then believed, also an older one. Waits
// for a version of the former epoch end with it. A Source may return it if it knows of such a
// restore.
var ErrRewound = errors.New("lw: the server went back in time")

// ErrPermanent is in the error of a Source that no retry can mend, such as that of a malformed URL.
// It ends the Run of a [Reflector] and of an [Informer] at once. A Source of your own wraps it
// beside the cause: fmt.Errorf("%w: %w", lw.ErrPermanent, err).
var ErrPermanent = errors.New("lw: no retry can help")

// ErrUnwanted is the cause if a wait for an object ended because nobody wants it; see [Wanted].
var ErrUnwanted = errors.New("lw: nobody wants it")

// ErrKeep is what the function of a [Transform] returns, or wraps, for a version that is not to be
// shown: what is there stays until the next one, and nothing is reported. Of what is not there yet
// nothing comes: the object is absent, also for [Informer.WaitForKey].
var ErrKeep = errors.New("lw: keep what is there")

// isKeep reports whether err says that an object stays as it is.
func isKeep(err error) bool { return errors.Is(err, ErrKeep) }

// permanent returns an error with the text and the chain of err, in which errors.Is also finds
// ErrPermanent.
func permanent(err error) error { return permanentError{err} }

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

func (e permanentError) Is(target error) bool { return target == ErrPermanent }

// The values of Error.Op.
const (
	opList      = "list"
	opProbe     = "probe" // only for Status, which counts probes apart; their Error has opList
	opStream    = "stream"
	opWatch     = "watch"
	opDecode    = "decode"
	opOpen      = "open"
	opTransform = "transform"
	opShard     = "shard"
	opIndex     = "index"
	opMutation  = "mutation"
	opDerive    = "derive"
	opTell      = "tell"
)

// An Error says what failed, and where. Options.OnError gets each once, and errors.As finds it in
// the errors of waits. It unwraps to its cause, such as the API's status error.
type Error struct {
	Informer string // Options.Name
	Op       string // list, stream, watch, decode, transform, shard, index, mutation, derive or tell
	// Failures is how many attempts have failed in a row; 0 for a single object, or for a good
	// watch that broke and is resumed at once.
	Failures int
	Key      Key       // of the object that failed; zero if it was a request, or the key is unknown
	UID      types.UID // of that object; "" if it is unknown
	Err      error     // never nil
}

// Error returns "lw: <informer>: <op> <key>: <cause>", of what is known.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("lw: ")
	if e.Informer != "" {
		b.WriteString(e.Informer)
		b.WriteString(": ")
	}
	b.WriteString(e.Op)
	if e.Key != (Key{}) {
		b.WriteString(" ")
		b.WriteString(keyString(e.Key))
	}
	if e.Failures > 1 {
		fmt.Fprintf(&b, " (failure %d in a row)", e.Failures)
	}
	b.WriteString(": ")
	b.WriteString(strings.TrimPrefix(e.Err.Error(), "lw: "))
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// A Panic describes a panic in a callback, for Options.OnPanic.
type Panic struct {
	Informer string
	Handler  string // Handler.Name, or "index" for the function of an index
	Key      Key    // of the object that the callback was called with
	Value    any    // what was passed to panic
	Stack    []byte // debug.Stack() of the goroutine that panicked
}

// Error returns what panicked and its value.
func (p *Panic) Error() string {
	return fmt.Sprintf("lw: %s: %s panicked at %s: %v", p.Informer, p.Handler, keyString(p.Key), p.Value)
}

// Unwrap returns the value if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// keyOfError returns the key of the *Error in the chain of err; zero if there is none.
func keyOfError(err error) Key {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Key
	}
	return Key{}
}

// asError returns err as an Error of the object key. If err is an Error already, it belongs to the
// source. asError copies it, because report writes the informer's name into it.
func asError(key Key, err error) *Error {
	if e, ok := err.(*Error); ok {
		c := *e
		return &c
	}
	return &Error{Op: opDecode, Key: key, Err: err}
}

// keyString returns k as kubectl prints it: without a slash if the object has no namespace.
func keyString(k Key) string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// errUnverified ends a watch whose server is to be asked for its version first. It is no failure.
var errUnverified = errors.New("the watch may be on another server")

// errNoVersions says why an informer cannot catch up with its server.
var errNoVersions = fmt.Errorf("the versions of the source mean nothing: %w", errors.ErrUnsupported)

// errHastened ends a watch whose next one is to tell the server's version soon. It is no failure.
var errHastened = errors.New("a wait asks for a newer version")

// errAhead ends a watch that a list follows: the server has not reached a version that the program
// told of long ago. It is no failure.
var errAhead = errors.New("the server has not reached what was told")

// isOwnEnd reports whether err is how the reflector itself ends a watch that has not failed.
func isOwnEnd(err error) bool {
	return errors.Is(err, errUnverified) || errors.Is(err, errHastened) || errors.Is(err, errAhead) || request.IsGate(err)
}

// errNoStream is the error of a Watch that was asked for a streamed list but whose source has none.
// The reflector then lists in pages.
var errNoStream = errors.New("lw: the source cannot stream its initial list")

// A protocolError is an answer that no correct server gives. What follows it cannot be trusted, so
// the reflector lists again.
type protocolError struct {
	msg string
	gap bool // it shows that events were not sent
	old bool // an event is not newer than the position
}

func (e *protocolError) Error() string { return "protocol error: " + e.msg }

func protocolErrorf(format string, args ...any) error {
	return &protocolError{msg: fmt.Sprintf(format, args...)}
}

// gapErrorf returns the error of an event which shows that events before it were not sent.
func gapErrorf(format string, args ...any) error {
	return &protocolError{msg: fmt.Sprintf(format, args...), gap: true}
}

// usable reports whether obj can be in a collection: it is not nil, and has a name.
func usable[T Identified](obj T) bool {
	return !equal.IsZero(obj) && obj.GetName() != ""
}

// unusable returns nil if obj is usable, else the error that says why it is not.
func unusable[T Identified](obj T) error {
	switch {
	case usable(obj):
		return nil
	case equal.IsZero(obj):
		return &Error{Op: opDecode, Err: errors.New("the object is nil")}
	}
	return &Error{Op: opDecode, Key: KeyOf(obj), UID: obj.GetUID(), Err: errNoName("object")}
}

// errNoName returns the error of what has no name: an object, or the result of a Transform.
func errNoName(what string) error { return fmt.Errorf("the %s has no name", what) }

const (
	// maxReasons is how many different reasons an error names, and maxReason is how many bytes of
	// each.
	maxReasons = 3
	maxReason  = 300
)

// reasons is what is wrong with n objects: the first few reasons that differ.
type reasons struct {
	errs []error
	n    int
}

func (r *reasons) add(err error) {
	r.n++
	if len(r.errs) >= maxReasons {
		return
	}
	text := err.Error()
	for _, known := range r.errs {
		if known.Error() == text {
			return
		}
	}
	r.errs = append(r.errs, err)
}

func (r *reasons) String() string {
	var b strings.Builder
	for i, err := range r.errs {
		if i > 0 {
			b.WriteString("; ")
		}
		text := strings.TrimPrefix(err.Error(), "lw: ")
		if len(text) > maxReason {
			text = strings.ToValidUTF8(text[:maxReason], "") + "..."
		}
		b.WriteString(text)
	}
	return b.String()
}

// manyErrors is what is wrong with several objects whose keys are unknown. They are reported as
// one, because a list may be full of them.
type manyErrors struct{ reasons }

func (m *manyErrors) Error() string {
	if more := m.n - len(m.errs); more > 0 {
		return fmt.Sprintf("%s (and %d more without a key)", &m.reasons, more)
	}
	return m.String()
}

func (m *manyErrors) Unwrap() []error { return m.errs }

// oneMore returns a manyErrors of err and of what known has: one error, or a manyErrors.
func oneMore(known, err error) error {
	m, ok := known.(*manyErrors)
	if !ok {
		m = &manyErrors{}
		m.add(causeOfObject(known))
	}
	m.add(causeOfObject(err))
	return m
}

// causeOfObject returns the cause of an *Error that has no key, and any other err as it is. What an
// Error says beside its cause is the same for all such objects.
func causeOfObject(err error) error {
	if e, ok := err.(*Error); ok && e.Key == (Key{}) {
		return e.Err
	}
	return err
}

// A uselessError says that a list has objects, but none that can be used.
type uselessError struct{ reasons }

func newUselessError(bad map[Key]error) error {
	e := &uselessError{}
	keys := slices.SortedFunc(maps.Keys(bad), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, key := range keys {
		if m, ok := bad[key].(*manyErrors); ok {
			for _, err := range m.errs {
				e.add(err)
			}
			e.n += m.n - len(m.errs)
			continue
		}
		e.add(asError(key, bad[key]))
	}
	return e
}

func (e *uselessError) Error() string {
	if e.n == 1 {
		return fmt.Sprintf("the list has one object, which cannot be used: %s", &e.reasons)
	}
	return fmt.Sprintf("the list has %d objects, of which none can be used, such as: %s", e.n, &e.reasons)
}

func (e *uselessError) Unwrap() []error { return e.errs }
