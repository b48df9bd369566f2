package kinds

import (
	"encoding/json"
	"testing"
)

// An object is valid JSON of the size that the cases name, and another version has another status.
func TestObject(t *testing.T) {
	a, b := object("Kind7", 3, 1000), object("Kind7", 3, 1001)
	if !json.Valid([]byte(a)) || !json.Valid([]byte(list("Kind7", 3))) || !json.Valid([]byte(bookmark("Kind7", 1))) {
		t.Errorf("no JSON: %s", a)
	}
	if kib := float64(len(a)) / 1024; kib < 2.2 || kib > 2.4 {
		t.Errorf("an object has %.2f KiB, want 2.3", kib)
	}
	if status := func(s string) string { return s[len(s)-600:] }; status(a) == status(b) {
		t.Error("another version has the same status")
	}
	if got, want := kindOf("kind7s"), "Kind7"; got != want {
		t.Errorf("kindOf: %s, want %s", got, want)
	}
}
