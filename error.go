package lw

import (
	"errors"
	"fmt"
	"strings"
)

// ErrStarted is returned by Run when it is called a second time.
var ErrStarted = errors.New("lw: already started")

// ErrStopped is the cause of a wait, or of a read from a [Cursor], that ended because the informer stopped.
var ErrStopped = errors.New("lw: stopped")

// ErrRewound is the cause of the [Error] that reports a new epoch: the server's state went back in time (a restored backup, a
// wiped store), a consistent read confirmed it, and the store now shows the older state. Waits for a resource version of the
// epoch before it end with this error.
var ErrRewound = errors.New("lw: the server went back in time")

// ErrPermanent is what errors.Is finds in the error of a [Source] that no retry can mend: a malformed URL, a selector that does
// not parse, a field to drop that T does not have. A [Reflector] and an [Informer] end with such an error at once. A Source of
// your own returns one by wrapping it beside the cause: fmt.Errorf("%w: %w", lw.ErrPermanent, err).
var ErrPermanent = errors.New("lw: no retry can help")

// permanent returns err, which says what is wrong, as an ErrPermanent.
func permanent(err error) error { return permanentError{err} }

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

func (e permanentError) Is(target error) bool { return target == ErrPermanent }

// The values of Error.Op.
const (
	opList      = "list"
	opProbe     = "probe" // in an Error it is a list
	opStream    = "stream"
	opWatch     = "watch"
	opDecode    = "decode"
	opTransform = "transform"
	opIndex     = "index"
	opMutation  = "mutation"
)

// An Error says what failed, where. It reaches Options.OnError once, and is found by errors.As in what the waits return.
// It unwraps to the cause: the API's status error (errors.As to apierrors.APIStatus), the network's or the decoder's.
type Error struct {
	Informer string // Options.Name
	Op       string // what was tried: list, stream, watch, decode, transform, index or mutation
	Failures int    // how many attempts have failed in a row, this one included; 0 where the failure is one object's
	Key      Key    // the object that it is about, where it is one object and its key is known
	Err      error  // never nil
}

// Error returns "lw: <informer>: <op> <key>: <cause>", without the parts that are not known.
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

// A Panic is what a callback panicked with, as it reaches Options.OnPanic.
type Panic struct {
	Informer string
	Handler  string // Handler.Name, or the index
	Key      Key    // the object that the callback was called for
	Value    any    // what was passed to panic
	Stack    []byte // debug.Stack() of the goroutine that panicked
}

// Error returns what panicked and its value.
func (p *Panic) Error() string {
	return fmt.Sprintf("lw: %s: %s panicked at %s: %v", p.Informer, p.Handler, keyString(p.Key), p.Value)
}

// Unwrap returns the value where it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

func keyOfError(err error) Key {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Key
	}
	return Key{}
}

// keyString is a key as kubectl prints it: without a slash for an object of the cluster's scope.
func keyString(k Key) string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// errNoStream is the error of a Watch that was asked for a streamed list by a reflector that did not
// know that the source has none. The reflector then lists in pages.
var errNoStream = errors.New("lw: the source cannot stream its initial list")

// A protocolError is an answer that no server may give. What follows it cannot be trusted, so the
// reflector lists again.
type protocolError struct{ msg string }

func (e *protocolError) Error() string { return "protocol error: " + e.msg }

func protocolErrorf(format string, args ...any) error {
	return &protocolError{fmt.Sprintf(format, args...)}
}

// unusable returns the error of an object that cannot be in a collection, because it is nil or has
// no name. It returns nil for any other object.
func unusable[T Object](obj T) error {
	var zero T
	if obj == zero {
		return &Error{Op: opDecode, Err: errors.New("the object is nil")}
	}
	if !named(obj) {
		return &Error{Op: opDecode, Key: KeyOf(obj), Err: errNoName("object")}
	}
	return nil
}

// named reports whether obj, which is not nil, has a name. Every object of a server has one.
func named[T Object](obj T) bool { return obj.GetName() != "" }

// errNoName returns the error of what has no name: an object, or the result of a Transform.
func errNoName(what string) error { return fmt.Errorf("the %s has no name", what) }
