package decode

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
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

// genValue draws a value that looks like those of API objects. pad makes it long enough for a
// pattern.
func genValue(t *rapid.T, depth int) string {
	scalar := func() string {
		return rapid.SampledFrom([]string{
			`""`, `"a"`, `"a longer string of words"`, `"2026-03-04T05:06:07Z"`, `"\n\u00e9\\"`, `"é"`, `"0123456"`, `"01234567"`,
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
			part = fmt.Sprintf(`"%s%d":%s`, rapid.SampledFrom([]string{"f:", "", "name", "a name with spaces "}).Draw(t, "name"), i, part)
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
				value = value[:at] + rapid.SampledFrom([]string{"", "x", `"`, `\`, "{", "}", "[", "]", ",", ":", "0", "-", ".", " ", "\x01", "\xff", "t"}).Draw(t, "byte") + value[at+1:]
			case change == 3:
				at := rapid.IntRange(0, len(value)).Draw(t, "at")
				value = value[:at] + rapid.SampledFrom([]string{"x", `"`, ",", ":", "1", "e1", " ", "12", `,"a"`}).Draw(t, "more") + value[at:]
			}
			behind := rapid.SampledFrom([]string{"", "}", ",", " ", `"`, "12"}).Draw(t, "behind")
			checkSkips(t, &d, s, []byte(value+behind))
			checkSkips(t, &d, s, []byte(value[:rapid.IntRange(0, len(value)).Draw(t, "cut")]))
		}
	})
}

// FuzzSkip skips three values, one behind the other, in one place.
func FuzzSkip(f *testing.F) {
	long := `{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"time":"2026-03-04T05:06:07Z","n":12,"on":true,"none":null,"list":[1,"a",{}]}`
	f.Add([]byte(long), []byte(strings.Replace(long, "06", "0007", 1)), []byte(long))
	f.Add([]byte(long), []byte(strings.Replace(long, "12", "12.5e3", 1)), []byte(strings.Replace(long, "null", "1", 1)))
	f.Add([]byte(long), []byte(strings.Replace(long, "true", "truth", 1)), []byte(strings.Replace(long, `"n":`, `"n" :`, 1)))
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
			if err := learnt.skipLike(&s); err != nil {
				t.Fatal(err)
			}
			model := say(func(d *Decoder) error { return d.p.skipAny() })
			want = append(want, model, model)
			got = append(got, say(func(d *Decoder) error { return d.p.skip() }), say(func(d *Decoder) error { return d.skipLike(&s) }))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
