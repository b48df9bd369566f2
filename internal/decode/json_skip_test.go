package decode

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/verify/leak"
)

// skipped is what a skip of the value at the start of data has come to.
type skipped struct {
	Pos, Depth int
	Err        string
}

func skippedBy(p *parser, skip func() error) skipped {
	s := skipped{Depth: p.depth}
	if err := skip(); err != nil {
		// Where the parser stands after an error is in the error.
		s.Err = err.Error()
		return s
	}
	s.Pos, s.Depth = p.pos, p.depth
	return s
}

// checkSkips skips the value in data by the parser of any value, which is the model, by the one for
// what servers write, and with the pattern s. All must come to the same.
func checkSkips(t fataler, d *Decoder, s *skipPattern, data []byte) {
	by := func(skip func(*parser) error) skipped {
		d.p.reset(data, 0)
		return skippedBy(&d.p, func() error { return skip(&d.p) })
	}
	want := by((*parser).skipAny)
	if got := by((*parser).skip); got != want {
		t.Fatalf("%q: skip: %+v, want %+v", data, got, want)
	}
	if got := by(func(*parser) error { return d.skipLike(s) }); got != want {
		t.Fatalf("%q, with the pattern %q: skipLike: %+v, want %+v", data, s.raw, got, want)
	}
	// encoding/json is the judge of the model, of what has nothing behind it.
	if want.Err == "" && want.Pos < len(data) {
		return
	}
	if valid := json.Valid(data); valid != (want.Err == "") {
		t.Fatalf("%q: valid: %v; skip: %q", data, valid, want.Err)
	}
}

// genValue draws a value that looks like those of API objects.
func genValue(t *rapid.T, depth int) string {
	scalar := func() string {
		return rapid.SampledFrom([]string{
			`""`, `"a"`, `"a longer string of words"`, `"2026-03-04T05:06:07Z"`, `"\n\u00e9\\"`, `"é"`, `"0123456"`,
			`"01234567"`,
			"0", "1", "12", "123", "-4", "1.5", "1e9", "true", "false", "null",
		}).Draw(t, "scalar")
	}
	sort := rapid.IntRange(0, 5).Draw(t, "sort")
	if depth == 0 || sort < 2 {
		return scalar()
	}
	var parts []string
	for i := range rapid.IntRange(0, 4).Draw(t, "parts") {
		part := genValue(t, depth-1)
		if sort < 4 {
			part = fmt.Sprintf(`"%s%d":%s`, rapid.SampledFrom([]string{"f:", "", "name", "a name with spaces "}).Draw(t,
				"name"), i, part)
		}
		parts = append(parts, part)
	}
	if sort < 4 {
		return "{" + strings.Join(parts, ",") + "}"
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// Values that follow each other in one place have much in common, and may be wrong.
func TestSkipModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d Decoder
		s := &skipPattern{}
		value := ""
		for range rapid.IntRange(1, 12).Draw(t, "values") {
			switch change := rapid.IntRange(0, 5).Draw(t, "change"); {
			case value == "" || change == 0:
				value = `[` + genValue(t, 3) + `,"` + strings.Repeat("x", rapid.SampledFrom([]int{0, 60, 70}).Draw(t, "pad")) + `"]`
			case change == 1:
				value = strings.Replace(value, genValue(t, 0), genValue(t, 1), 1)
			case change == 2: // any byte, which may break it
				at := rapid.IntRange(0, len(value)-1).Draw(t, "at")
				value = value[:at] + rapid.SampledFrom([]string{"", "x", `"`, `\`, "{", "}", "[", "]", ",", ":", "0", "-", ".", " ",
					"\x01", "\xff", "t"}).Draw(t, "byte") + value[at+1:]
			case change == 3:
				at := rapid.IntRange(0, len(value)).Draw(t, "at")
				value = value[:at] + rapid.SampledFrom([]string{"x", `"`, ",", ":", "1", "e1", " ", "12", `,"a"`}).Draw(t,
					"more") + value[at:]
			}
			behind := rapid.SampledFrom([]string{"", "}", ",", " ", `"`, "12"}).Draw(t, "behind")
			checkSkips(t, &d, s, []byte(value+behind))
			checkSkips(t, &d, s, []byte(value[:rapid.IntRange(0, len(value)).Draw(t, "cut")]))
		}
	})
}

// FuzzSkip skips three values, one behind the other, in one place.
func FuzzSkip(f *testing.F) {
	leak.Collect(f, time.Millisecond)
	long := `{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"time":"2026-03-04T05:06:07Z","n":12,"on":true,"none":null,"list":[1,"a",{}]}`
	f.Add([]byte(long), []byte(strings.Replace(long, "06", "0007", 1)), []byte(long))
	f.Add([]byte(long), []byte(strings.Replace(long, "12", "12.5e3", 1)), []byte(strings.Replace(long, "null", "1", 1)))
	f.Add([]byte(long), []byte(strings.Replace(long, "true", "truth", 1)),
		[]byte(strings.Replace(long, `"n":`, `"n" :`, 1)))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		var d Decoder
		s := &skipPattern{}
		for _, data := range [][]byte{a, b, c, a} {
			checkSkips(t, &d, s, data)
		}
	})
}

// At the limit of the depth all ways of skipping agree.
func TestSkipDepth(t *testing.T) {
	for _, around := range []int{0, maxDepth - maxCompact, maxDepth - 40, maxDepth - 1, maxDepth} {
		var want, got []string
		for _, inner := range []int{1, 39, 40, 41, maxCompact - 1, maxCompact, maxCompact + 1} {
			data := []byte(strings.Repeat("[", inner) + `"` + strings.Repeat("x", minPattern) + `"` + strings.Repeat("]", inner))
			say := func(skip func(*Decoder) error) string {
				var d Decoder
				d.p.reset(data, 0)
				d.p.depth = around
				err := skip(&d)
				return fmt.Sprintln(around, inner, err)
			}
			var s skipPattern
			learnt := &Decoder{}
			learnt.p.reset(data, 0)
			ok(t, learnt.skipLike(&s))
			model := say(func(d *Decoder) error { return d.p.skipAny() })
			want = append(want, model, model)
			got = append(got, say(func(d *Decoder) error { return d.p.skip() }),
				say(func(d *Decoder) error { return d.skipLike(&s) }))
		}
		checkDiff(t, "what is skipped", want, got)
	}
}

// What differs in strings and numbers alone fits the pattern.
func TestPatternFits(t *testing.T) {
	const shape = `{"manager":%q,"time":%q,"n":%d,"on":%v,"fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}`
	first := fmt.Sprintf(shape, "kubelet", "2026-03-04T05:06:07Z", 12, "null")
	var d Decoder
	var s skipPattern
	d.p.reset([]byte(first), 0)
	ok(t, d.skipLike(&s))
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
		value := []byte("[" + strings.Repeat("[", i%7) + `"` + strings.Repeat("x", minPattern) + `"` +
			strings.Repeat("]", i%7) + "]")
		if s.pauses == 0 {
			compared++
		}
		d.p.reset(value, 0)
		ok(t, d.skipLike(&s))
	}
	if compared == 0 || compared > n/10 {
		t.Errorf("%d of %d values were compared", compared, n)
	}
}

// The patterns of a decoder are bounded, however many names are no fields and how long the values.
func TestPatternsAreBounded(t *testing.T) {
	most := 0
	for size := 32; size < 3*maxPattern; size *= 2 {
		d := newDecoder[*sink](t, Options{})
		for round := range 3 {
			var members []string
			for i := range 2 * maxUnknown {
				members = append(members, fmt.Sprintf(`"unknown%d":{"value":"%s","round":%d}`, i,
					strings.Repeat("x", size<<round), round))
			}
			members = append(members, fmt.Sprintf(`%q:1`, strings.Repeat("n", 2*maxUnknownName)))
			_, err := decodeOne(d, []byte(`{"spec":{`+strings.Join(members, ",")+`}}`))
			ok(t, err)
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
