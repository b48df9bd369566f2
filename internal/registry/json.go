package registry

import (
	"bytes"
	"encoding/json"
	"reflect"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"
)

// tidy returns JSON without white space, in which all decoders see the same: no object has a name
// twice, no name is escaped, numbers are whole and short or as encoding/json writes them. Most JSON
// is so, with few members in an object, and is copied. All else is decoded and encoded again. It
// returns an error for each name that comes twice; the last one counts.
func tidy(data []byte) (out []byte, twice []error, err error) {
	if json.Valid(data) && utf8.Valid(data) {
		s := scan{in: data, out: make([]byte, 0, len(data))}
		if s.value(); !s.odd {
			return s.out, nil, nil
		}
	}
	var v any
	if twice, err = kjson.UnmarshalStrict(data, &v, kjson.DisallowDuplicateFields); err != nil {
		return nil, nil, err
	}
	out, err = encode(v)
	return out, twice, err
}

// encode returns a value as tidy JSON.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// A scan copies JSON, which must be valid, without its white space.
type scan struct {
	in, out []byte
	at      int
	names   [][]byte // of the objects around, the innermost last
	odd     bool     // something is not as tidy wants it
}

func (s *scan) space() {
	for s.at < len(s.in) && s.in[s.at] <= ' ' {
		s.at++
	}
}

// take copies the next byte, and the white space after it is passed over.
func (s *scan) take() {
	s.out = append(s.out, s.in[s.at])
	s.at++
	s.space()
}

func (s *scan) value() {
	s.space()
	switch c := s.in[s.at]; c {
	case '"':
		s.text()
	case '[':
		for s.take(); s.in[s.at] != ']'; {
			if s.value(); s.in[s.at] == ',' {
				s.take()
			}
		}
		s.take()
	case '{':
		s.object()
	default:
		from := s.at
		for s.at < len(s.in) && s.in[s.at] > ' ' && s.in[s.at] != ',' && s.in[s.at] != ']' && s.in[s.at] != '}' {
			s.at++
		}
		token := s.in[from:s.at]
		s.out = append(s.out, token...)
		if (c == '-' || c >= '0' && c <= '9') && (len(token) > 18 || bytes.ContainsAny(token, ".eE") || string(token) == "-0") {
			s.odd = true
		}
		s.space()
	}
}

// text copies a string and returns it.
func (s *scan) text() []byte {
	from := s.at
	for s.at++; s.in[s.at] != '"'; s.at++ {
		if s.in[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
	text := s.in[from:s.at]
	s.out = append(s.out, text...)
	s.space()
	return text
}

func (s *scan) object() {
	base := len(s.names)
	for s.take(); s.in[s.at] != '}'; {
		name := s.text()
		s.odd = s.odd || bytes.IndexByte(name, '\\') >= 0 || len(s.names)-base > 64
		for i := base; i < len(s.names) && !s.odd; i++ {
			s.odd = bytes.Equal(name, s.names[i])
		}
		s.names = append(s.names, name)
		s.take() // the colon
		if s.value(); s.in[s.at] == ',' {
			s.take()
		}
	}
	s.names = s.names[:base]
	s.take()
}

// equal reports whether two values, which are tidy, are the same but for the order of members and
// the way in which strings are written.
func equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if bytes.IndexByte(a, '\\') < 0 && bytes.IndexByte(b, '\\') < 0 {
		var count [256]int // of each byte: another order has the same bytes
		for _, c := range a {
			count[c]++
		}
		for _, c := range b {
			count[c]--
		}
		if count != [256]int{} {
			return false
		}
	}
	var x, y any
	return kjson.UnmarshalCaseSensitivePreserveInts(a, &x) == nil &&
		kjson.UnmarshalCaseSensitivePreserveInts(b, &y) == nil && reflect.DeepEqual(x, y)
}
