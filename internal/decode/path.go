package decode

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// maxPath is the most bytes of a path that an error shows: one half for the elements next to
	// the object, one for those next to the value.
	maxPath = 2 << 10
	// maxName is the most bytes of one element of the path. A map's key may be of any size.
	maxName = 256
	// maxText is the most bytes of the reason. It may quote the value.
	maxText = 2 << 10
	// ellipsis stands for what is left out.
	ellipsis = "…"
)

// A FieldError says which value of an object does not fit its type. A caller may keep it for as
// long as the object stays broken, so its size has a limit: a server may send names and values of
// megabytes.
type FieldError struct {
	// Offset is the number of the byte behind the value, in the stream. It is -1 in protobuf.
	Offset int64
	// Err is the reason, without a path.
	Err error

	// The path is collected from the value outwards, as the calls of the decoders return, and
	// joined only when Path is called. To join it at each level would take time that grows with the
	// square of the depth.
	//
	// inner has the elements next to the value, until it is full. outer has those next to the
	// object; where it is full, the oldest element goes, and elided is set. Both are in the order
	// from the value outwards.
	inner, outer         []string
	innerSize, outerSize int
	elided               bool
}

// Path is the way from the object to the value, such as spec.containers[0].image. It is empty for
// the object itself.
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

// Error implements error: path, offset and reason, as far as they are known.
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

// Unwrap returns the reason why the value does not fit.
func (e *FieldError) Unwrap() error { return e.Err }

// add puts the element name before the path: the value of the error is a part of the value called
// name.
func (e *FieldError) add(name string) {
	if len(name) > maxName {
		// A new string: a substring would keep all of a huge name alive. It must not end inside a
		// character.
		name = strings.ToValidUTF8(name[:maxName], "") + ellipsis
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

// fieldError returns err as the reason why the value that ends at offset does not fit.
func fieldError(offset int64, err error) error { return &FieldError{Offset: offset, Err: shorten(err)} }

// shorten returns err, or an error with the start of its text if the text is long. Errors of
// apimachinery quote the value, which may be as large as the object.
func shorten(err error) error {
	if text := err.Error(); len(text) > maxText {
		return errors.New(strings.ToValidUTF8(text[:maxText], "") + ellipsis)
	}
	return err
}

// mismatch returns err as an error of the value that ends at the parser's position; nil stays nil.
func (d *Decoder) mismatch(err error) error {
	if err == nil {
		return nil
	}
	return fieldError(d.p.base+int64(d.p.pos), err)
}

// in adds the name of a member to the path of err, and returns err. Errors of other types have no
// path: they end the stream.
func in(name string, err error) error {
	if e, ok := err.(*FieldError); ok {
		e.add(name)
	}
	return err
}

// inElement is in for element i of a list.
func inElement(i int, err error) error { return in("["+strconv.Itoa(i)+"]", err) }
