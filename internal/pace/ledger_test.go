package pace

import (
	"strings"
	"testing"
)

// Failures are of one kind if only their numbers differ.
func TestKindOf(t *testing.T) {
	signed := func(text string) string {
		return KindOf("watch", "a", text)
	}
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"dial 10.0.0.1:443 (2s)", "dial 10.0.10.21:6443 (30s)", true},
		{"at byte 100", "at byte 7", true},
		{"at byte 100", "at byte -100", false},
		{"a b", "a/b", false},
		{"a b", "a  b", false},
		{"1 2", "12", false},
		{"a:b", "a;b", false},
		{"no route", "no host", false},
		{strings.Repeat("x", maxSignature) + "a", strings.Repeat("x", maxSignature) + "b", true},
	} {
		if same := signed(tt.a) == signed(tt.b); same != tt.same {
			t.Errorf("%q and %q are of one kind: %v, want %v", tt.a, tt.b, same, tt.same)
		}
	}
	if got, want := signed("dial 10.0.0.1: (2s) é"), "watch a dial #.#.#.#: (#s) é"; got != want {
		t.Errorf("signature %q, want %q", got, want)
	}
}
