package decode

import (
	"strings"
	"testing"
)

// The end of a value that decodes itself is guessed from its bytes. The bytes may be all that is
// left, be the start of another value, and nest too deep in one place but not in another.
func TestGuessRaw(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	long := `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`
	deep := strings.Repeat("[", maxDepth-10) + strings.Repeat("]", maxDepth-10)
	raw := []string{long, long + " ", long[:len(long)-1], long + "}", long + long, `[` + long + `]`, `"` + strings.Repeat("x", 40) + `"`, `"` + strings.Repeat("x", 40) + `\"y"`,
		strings.Repeat("1", 30), strings.Repeat("1", 30) + "5", `null`, `{}`, deep}
	for _, a := range raw {
		for _, b := range raw {
			for _, s := range []string{a, b, a, a, b} {
				checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":{"fields":`+s+`,"ext":`+s+`,"raw":`+s+`}}`))
				checkSame(t, d, []byte(strings.Repeat(`{"next":`, 20)+`{"spec":{"raw":`+s+`}}`+strings.Repeat("}", 20)))
			}
		}
	}
}
