package shard

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// The fields whose hash a selector may select by.
const (
	UID       = "object.metadata.uid"
	Namespace = "object.metadata.namespace"
)

// A Selector selects the objects whose field has a hash in one of the ranges.
type Selector struct {
	Field  string // UID or Namespace
	Ranges []Range
}

// String returns the selector as a request has it, and as a server echoes it.
func (s *Selector) String() string {
	terms := make([]string, len(s.Ranges))
	for i, r := range s.Ranges {
		end := fmt.Sprintf("0x%016x", r.Last+1)
		if r.Last == math.MaxUint64 {
			end = beyond
		}
		terms[i] = fmt.Sprintf("shardRange(%s, '0x%016x', '%s')", s.Field, r.First, end)
	}
	return strings.Join(terms, " || ")
}

// Matches reports whether the selector selects an object of that UID and namespace.
func (s *Selector) Matches(uid, namespace string) bool {
	value := uid
	if s.Field == Namespace {
		value = namespace
	}
	hash := Hash(value)
	for _, r := range s.Ranges {
		if r.Contains(hash) {
			return true
		}
	}
	return false
}

// beyond is the end of a range that goes up to the last hash: 2^64.
const beyond = "0x10000000000000000"

// term matches one range of a selector. Its submatches are the field, the first hash, and the end.
var term = regexp.MustCompile(`^\s*shardRange\(\s*([\w.]+)\s*,\s*['"](\w*)['"]\s*,\s*['"](\w*)['"]\s*\)\s*$`)

// Parse parses a selector. A server reads it as an expression of CEL, of which it allows only
// shardRange and ||. Parse reads that part, without parentheses and comments.
func Parse(text string) (*Selector, error) {
	s := &Selector{}
	for part := range strings.SplitSeq(text, "||") {
		m := term.FindStringSubmatch(part)
		if m == nil {
			return nil, fmt.Errorf("%q is not shardRange(field, 'start', 'end')", strings.TrimSpace(part))
		}
		field := m[1]
		if field != UID && field != Namespace {
			return nil, fmt.Errorf("unsupported field %q: want %s or %s", field, UID, Namespace)
		}
		if s.Field != "" && s.Field != field {
			return nil, fmt.Errorf("all ranges must have one field, not %s and %s", s.Field, field)
		}
		s.Field = field
		r, err := parseRange(m[2], m[3])
		if err != nil {
			return nil, err
		}
		s.Ranges = append(s.Ranges, r)
	}
	return s, nil
}

// parseRange returns the range from start up to, and without, end.
func parseRange(start, end string) (Range, error) {
	first, err := parseBound(start)
	if err != nil {
		return Range{}, err
	}
	if end == beyond {
		return Range{first, math.MaxUint64}, nil
	}
	after, err := parseBound(end)
	if err != nil {
		return Range{}, err
	}
	if first >= after {
		return Range{}, fmt.Errorf("the range from %s to %s is empty", start, end)
	}
	return Range{first, after - 1}, nil
}

// parseBound parses a hash: 0x and 16 hexadecimal digits in lower case.
func parseBound(s string) (uint64, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	if n, err := strconv.ParseUint(digits, 16, 64); ok && err == nil && len(digits) == 16 && digits == strings.ToLower(digits) {
		return n, nil
	}
	return 0, fmt.Errorf("%q is not 0x and 16 hexadecimal digits in lower case", s)
}
