package decode

import (
	"fmt"
	"strings"
	"testing"
)

// What differs in strings and numbers alone fits the pattern.
func TestPatternFits(t *testing.T) {
	const shape = `{"manager":%q,"time":%q,"n":%d,"on":%v,"fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}`
	first := fmt.Sprintf(shape, "kubelet", "2026-03-04T05:06:07Z", 12, "null")
	var d Decoder
	var s skipPattern
	d.p.reset([]byte(first), 0)
	if err := d.skipLike(&s); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		value string
		fits  bool
	}{
		{first, true},
		{fmt.Sprintf(shape, "k", "", 7, "true"), true},
		{fmt.Sprintf(shape, "kube-controller-manager", "2026", 123456, "1.5"), true},
		{fmt.Sprintf(shape, `a"b\c`, "é", 0, "false"), true},
		{strings.Replace(first, "f:app", "f:other", 1), true},
		{strings.Replace(first, "12", `"12"`, 1), false},
		{strings.Replace(first, `{},"f:app"`, `{},"f:a":{},"f:app"`, 1), false},
		{strings.Replace(first, `{".":{}`, `{".":[]`, 1), false},
		{strings.Replace(first, `"n":`, `"n": `, 1), false},
		{strings.Replace(first, "12", "012", 1), false},
		{first[:len(first)-1], false},
	} {
		d.p.reset([]byte(c.value), 0)
		if fits := s.match(&d.p); fits != c.fits {
			t.Errorf("%s fits: %v, want %v", c.value, fits, c.fits)
		} else if fits && d.p.pos != len(c.value) || !fits && d.p.pos != 0 {
			t.Errorf("%s fits: %v, and the parser is at %d", c.value, fits, d.p.pos)
		}
	}
}

// A value that is not as servers write it is parsed, and leaves the pattern as it was.
func TestPatternOfOddValue(t *testing.T) {
	long := `"` + strings.Repeat("x", minPattern) + `"`
	var d Decoder
	var s skipPattern
	for _, c := range []struct {
		value string
		right bool
	}{
		{`{"aaaa":` + long + `}`, true}, {`{"bbbb":` + long + `}`, true}, {`{"cccc":` + long + `}`, true},
		{`{"a":1 ,"b":2}`, true}, {`{"aX"aa":` + long + `}`, false}, {`{"aaaa":` + long + `}`, true},
	} {
		d.p.reset([]byte(c.value), 0)
		if err := d.skipLike(&s); (err == nil) != c.right {
			t.Errorf("%s: %v", c.value, err)
		}
	}
	if d.p.reset([]byte(`{"dddd":`+long+`}`), 0); !s.match(&d.p) || d.p.pos != len(d.p.data) {
		t.Error("the pattern is gone")
	}
}

// Values that have nothing in common are compared now and then only.
func TestPatternPauses(t *testing.T) {
	var d Decoder
	var s skipPattern
	compared := 0
	const n = 1000
	for i := range n {
		value := []byte("[" + strings.Repeat("[", i%7) + `"` + strings.Repeat("x", minPattern) + `"` + strings.Repeat("]", i%7) + "]")
		if s.pauses == 0 {
			compared++
		}
		d.p.reset(value, 0)
		if err := d.skipLike(&s); err != nil {
			t.Fatal(err)
		}
	}
	if compared == 0 || compared > n/10 {
		t.Errorf("%d of %d values were compared", compared, n)
	}
}

// The patterns of a decoder are bounded, however many names are no fields and however long their
// values are.
func TestPatternsAreBounded(t *testing.T) {
	most := 0
	for size := 32; size < 3*maxPattern; size *= 2 {
		d := newDecoder[*sink](t, Options{})
		for round := range 3 {
			var members []string
			for i := range 2 * maxUnknown {
				members = append(members, fmt.Sprintf(`"unknown%d":{"value":"%s","round":%d}`, i, strings.Repeat("x", size<<round), round))
			}
			members = append(members, fmt.Sprintf(`%q:1`, strings.Repeat("n", 2*maxUnknownName)))
			if _, err := decodeOne(d, []byte(`{"spec":{`+strings.Join(members, ",")+`}}`)); err != nil {
				t.Fatal(err)
			}
			most = max(most, d.patternBytes)
			if d.patternBytes < 0 || d.patternBytes > maxPatterns {
				t.Fatalf("the patterns have %d bytes, want at most %d", d.patternBytes, maxPatterns)
			}
		}
	}
	if most < maxPatterns/2 {
		t.Errorf("the patterns had %d bytes at most: the test fills no limit", most)
	}
}
