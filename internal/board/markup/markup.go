// Package markup writes HTML. What it writes is well-formed XML as well: every element is closed,
// and all text is escaped.
//
// It is here because html/template, which reads its templates with reflection, keeps the linker
// from leaving out unused methods. A program that does nothing with templates itself grows by a
// third.
package markup

import (
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Name is the name of an element or an attribute. It is a type of its own so that only a constant
// becomes one without a conversion.
type Name string

// An Attr is an attribute of an element. Its value may be any text. It must not be one that a
// browser runs or follows, such as onclick or href, unless the value is the program's own.
type Attr struct {
	Name  Name
	Value string
}

// A Writer writes a document. The zero value is an empty one.
type Writer struct {
	b    strings.Builder
	open []Name
}

// Open begins an element.
func (w *Writer) Open(name Name, attrs ...Attr) {
	w.start(name, attrs)
	w.b.WriteByte('>')
	w.open = append(w.open, name)
}

// Close ends the innermost element that is open.
func (w *Writer) Close() {
	last := len(w.open) - 1
	w.b.WriteString("</" + string(w.open[last]) + ">")
	w.open = w.open[:last]
}

// Void writes an element that never has content, such as meta.
func (w *Writer) Void(name Name, attrs ...Attr) {
	w.start(name, attrs)
	w.b.WriteString("/>")
}

// Element writes an element that has only text.
func (w *Writer) Element(name Name, text string, attrs ...Attr) {
	w.Open(name, attrs...)
	w.Text(text)
	w.Close()
}

// Text writes text. What cannot be printed becomes U+FFFD: control characters, which XML does not
// allow, and those that change the direction of the text around them.
func (w *Writer) Text(text string) { w.b.WriteString(html.EscapeString(printable(text))) }

// Verbatim writes what must not be escaped, such as a style sheet. It must be the program's own.
func (w *Writer) Verbatim(markup string) { w.b.WriteString(markup) }

// Line begins a new line, for whoever reads the source.
func (w *Writer) Line() { w.b.WriteByte('\n') }

// String returns the document. It panics if an element is still open.
func (w *Writer) String() string {
	if len(w.open) > 0 {
		panic("markup: " + string(w.open[len(w.open)-1]) + " is not closed")
	}
	return w.b.String()
}

func (w *Writer) start(name Name, attrs []Attr) {
	w.b.WriteString("<" + string(name))
	for _, a := range attrs {
		w.b.WriteString(" " + string(a.Name) + `="`)
		w.Text(a.Value)
		w.b.WriteByte('"')
	}
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || strconv.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text)
}
