package size

import (
	"go/format"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/bench/internal/compare"
)

// Every program compiles. As a package of another name it is not linked, which would take most of the
// time.
func TestPrograms(t *testing.T) {
	for _, p := range append(lwPrograms(), clientGoPrograms()...) {
		text, err := p.main()
		if err != nil {
			t.Fatal(err)
		}
		if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
			t.Errorf("%s is not formatted: %v\n%s", p.name, err, cmp.Diff(string(formatted), text))
		}
		if err := build(t.TempDir(), strings.Replace(text, "package main", "package program", 1)); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
}

func TestFurther(t *testing.T) {
	got := further(compare.Sample{small: 5, typed(1): 100, typed(5): 150, typed(11): 300, beside(1): 1000, beside(11): 1100})
	want := compare.Sample{small: 5, typed(1): 100, typed(5): 150, typed(11): 300, beside(1): 1000, beside(11): 1100, "whole": 20, "beside": 10}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("with programs that use a clientset (-want +got):\n%s", d)
	}
	got = further(compare.Sample{typed(1): 100, typed(11): 300})
	want = compare.Sample{typed(1): 100, typed(11): 300, beside(1): 100, beside(11): 300, "whole": 20, "beside": 20}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("without (-want +got):\n%s", d)
	}
}
