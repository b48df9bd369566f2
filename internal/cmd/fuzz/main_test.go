package main

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTargetsIn(t *testing.T) {
	got := targetsIn("p", "FuzzA\nFuzzB_x\nok  \tp\t0.01s\n?   \tq\t[no test files]\n")
	if diff := cmp.Diff("[p.FuzzA p.FuzzB_x]", fmt.Sprint(got)); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	want := []string{"test", "-run", "^$", "-fuzz", "^FuzzA$", "-fuzztime", "1h0m0s", "-timeout", "0", "p"}
	if diff := cmp.Diff(want, got[0].args(time.Hour)); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

func TestNothingToSearch(t *testing.T) {
	if err := run(context.Background(), regexp.MustCompile("^no target$"), time.Second); err == nil {
		t.Error("no error where no target matches")
	}
}
