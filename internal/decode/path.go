package decode

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// maxPath is the most bytes of a path that are told: half of them those next to the object, half those next to the value.
	maxPath = 2 << 10
	// maxName is the most bytes of one element of it.
	maxName = 256
	// maxText is the most bytes that are told of why a value does not fit, which may quote it.
	maxText = 2 << 10
	// gap stands for what is not told.
	ellipsis = "…"
)

// A FieldError says which value of an object does not fit its type. Err has no path of its own.
type FieldError struct {
	Offset int64 // behind the value, in the stream; -1 in protobuf
	Err    error

	// The path is found from within, and joined when it is asked for: joined at each level it would cost the square of the depth.
	inner, outer         []string // the elements next to the value, and those next to the object; both from within
	innerSize, outerSize int      // their bytes
	elided               bool     // elements between them are left out
}

// Path is the way to the value, as in spec.containers[0].image; it is empty for the object itself.
func (e *FieldError) Path() string {
	var b strings.Builder
	add := func(elements []string) {
		for i := len(elements) - 1; i >= 0; i-- {
			if b.Len() > 0 && !strings.HasPrefix(elements[i], "[") {
				b.WriteByte('.')
			}
			b.WriteString(elements[i])
		}
	}
	add(e.outer)
	if e.elided {
		add([]string{ellipsis})
	}
	add(e.inner)
	return b.String()
}

func (e *FieldError) Error() string {
	switch path := e.Path(); {
	case path == "":
		return fmt.Sprintf("at byte %d: %v", e.Offset, e.Err)
	case e.Offset < 0:
		return fmt.Sprintf("%s: %v", path, e.Err)
	default:
		return fmt.Sprintf("%s: at byte %d: %v", path, e.Offset, e.Err)
	}
}

// Unwrap returns why the value does not fit.
func (e *FieldError) Unwrap() error { return e.Err }

// add makes the value of the error one of element name.
func (e *FieldError) add(name string) {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + ellipsis // in memory of its own
	}
	if len(e.outer) == 0 && e.innerSize+len(name) <= maxPath/2 {
		e.inner = append(e.inner, name)
		e.innerSize += len(name)
		return
	}
	e.outer = append(e.outer, name)
	for e.outerSize += len(name); e.outerSize > maxPath/2; e.elided = true {
		e.outerSize -= len(e.outer[0])
		e.outer = e.outer[1:]
	}
}

// fieldError returns why a value does not fit.
func fieldError(offset int64, err error) error { return &FieldError{Offset: offset, Err: shorten(err)} }

// shorten returns err, or one that has the start of its text where that is long: it may quote all of a large value, and is kept.
func shorten(err error) error {
	if text := err.Error(); len(text) > maxText {
		return errors.New(strings.ToValidUTF8(text[:maxText], "") + ellipsis)
	}
	return err
}

// mismatch returns err, if any, as an error of the value before pos.
func (d *Decoder) mismatch(err error) error {
	if err == nil {
		return nil
	}
	return fieldError(d.p.base+int64(d.p.pos), err)
}

// in returns err as an error of the member name of a value.
func in(name string, err error) error {
	if e, ok := err.(*FieldError); ok {
		e.add(name)
	}
	return err
}

// inElement returns err as an error of element i.
func inElement(i int, err error) error { return in("["+strconv.Itoa(i)+"]", err) }
