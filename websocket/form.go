package websocket

import (
	"bytes"
	"encoding/binary"
	"mime"
	"slices"
	"strings"

	coder "github.com/coder/websocket"
)

// A form is how the events of a watch are encoded: each in a message, or one after the other in a
// body.
type form struct {
	// contentType is that of a body. of is the same without parameters, and also those media types
	// that a client asks for it with.
	contentType string
	of          []string
	message     coder.MessageType
	// line says that each message ends with a line break, in a body.
	line bool
	// prefix says that the length of each message, in four bytes, comes before it, in a body.
	prefix bool
}

var (
	jsonForm     = form{contentType: "application/json", of: []string{"application/json"}, message: coder.MessageText, line: true}
	protobufForm = form{
		contentType: "application/vnd.kubernetes.protobuf;stream=watch", of: []string{"application/vnd.kubernetes.protobuf"},
		message: coder.MessageBinary, prefix: true,
	}
	// Each item of CBOR says itself where it ends.
	cborForm = form{contentType: "application/cbor-seq", of: []string{"application/cbor-seq", "application/cbor"}, message: coder.MessageBinary}

	forms = []*form{&jsonForm, &protobufForm, &cborForm}
)

// formOf returns the form of a media type, or nil if there is none.
func formOf(mediaType string) *form {
	if t, _, err := mime.ParseMediaType(mediaType); err == nil {
		for _, f := range forms {
			if slices.Contains(f.of, t) {
				return f
			}
		}
	}
	return nil
}

// onlyForm returns the form that Accept headers ask for, or nil if they leave a choice. A server
// without a preference of the client sends JSON.
func onlyForm(accept []string) *form {
	var only *form
	for t := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		if strings.TrimSpace(t) == "" {
			continue
		}
		f := formOf(t)
		if f == nil || only != nil && f != only {
			return nil
		}
		only = f
	}
	if only == nil {
		return &jsonForm
	}
	return only
}

// formOfBinary returns the form of a binary message that begins with first. An event in CBOR is a
// map (0xa0 and above) or has a tag (0xc0 and above). An event in protobuf begins with the tag of
// its field 1 or 2, which is less.
func formOfBinary(first byte) *form {
	if first >= 0xa0 {
		return &cborForm
	}
	return &protobufForm
}

// cut returns the first message of a body, and what is behind it. ok is false if the message is not
// complete.
func (f *form) cut(body []byte) (message, after []byte, ok bool) {
	if f.line {
		i := bytes.IndexByte(body, '\n')
		return body[:i+1], body[i+1:], i >= 0
	}
	if len(body) < 4 {
		return nil, body, false
	}
	n, body := binary.BigEndian.Uint32(body), body[4:]
	if uint64(len(body)) < uint64(n) {
		return nil, body, false
	}
	return body[:n], body[n:], true
}
