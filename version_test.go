package lw

import (
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"pgregory.net/rapid"
)

// The order of positions is that of apimachinery, also where a version fits no word.
func TestPositionOrder(t *testing.T) {
	version := rapid.OneOf(
		rapid.StringMatching(`[1-9][0-9]{0,3}`), rapid.StringMatching(`[1-9][0-9]{17,20}`),
		rapid.SampledFrom([]string{"", "0", "01", "a", "1a", "-1", "9999999999999999999", "10000000000000000000", "18446744073709551616"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b := version.Draw(t, "a"), version.Draw(t, "b")
		c, err := resourceversion.CompareResourceVersion(a, b)
		older, known := positionAt(a).before(positionAt(b))
		if known != (err == nil) || older != (err == nil && c < 0) {
			t.Errorf("%q before %q: %v, %v, want %v, %v", a, b, older, known, c < 0, err)
		}
		if n := decimal(a); n != 0 && strconv.FormatUint(n, 10) != a {
			t.Errorf("decimal(%q) = %d", a, n)
		}
	})
}

// A version is a number where it fits a word, and else has its order all the same.
func TestDecimal(t *testing.T) {
	for version, want := range map[string]uint64{
		"": 0, "0": 0, "1": 1, "10": 10, "42": 42, "007": 0, "1a": 0, "a": 0, "-1": 0, "1 ": 0, "9:": 0, "9/": 0,
		"9999999999999999999": 9999999999999999999, "10000000000000000000": 0, "18446744073709551616": 0, "99999999999999999999": 0,
	} {
		if got := decimal(version); got != want {
			t.Errorf("decimal(%q) = %d, want %d", version, got, want)
		}
	}
	rising := []string{"1", "9", "10", "9999999999999999999", "10000000000000000000", "18446744073709551615", "18446744073709551616", "18446744073709551617", "100000000000000000000"}
	for i, a := range rising {
		for j, b := range rising {
			if older, known := positionAt(a).before(positionAt(b)); older != (i < j) || !known || positionAt(a).after(b) != (i > j) {
				t.Errorf("%s before %s: %v, %v, after: %v", a, b, older, known, positionAt(a).after(b))
			}
		}
	}
}
