package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOutcomes(t *testing.T) {
	const events = `{"Action":"run","Package":"p","Test":"A"}
{"Action":"pass","Package":"p","Test":"A/b"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"skip","Package":"p","Test":"S"}
{"Action":"fail","Package":"p","Test":"C"}
no JSON
{"Action":"pass","Package":"q"}
{"Action":"fail","Package":"p"}
`
	want := map[string]string{"p A": "pass", "p A/b": "pass", "p S": "skip", "p C": "fail", "p": "fail"}
	if diff := cmp.Diff(want, outcomes([]byte(events))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A program counts if its tests have the results of the untouched one, whatever these are.
func TestDiffers(t *testing.T) {
	plain := map[string]string{"p A": "pass", "p B": "fail"}
	p := program{Module: "example.com/m", Version: "v1.0.0", Command: "./cmd/m"}
	for _, tt := range []struct {
		name string
		r    result
		want []string // of the error
		row  string   // what is in it
	}{
		{"equal", result{plain: plain, off: plain, on: plain, informers: 2}, nil,
			"| 1 (1 fail), 1 (1 fail), 1 (1 fail) | 2 | 0 |"},
		{"fails on lw", result{plain: plain, off: plain, on: map[string]string{"p A": "fail", "p B": "fail"}, informers: 1},
			[]string{"p A: pass untouched, fail on lw"}, "0 (2 fail)"},
		{"mended on lw", result{plain: plain, off: plain, on: map[string]string{"p A": "pass", "p B": "pass"}, informers: 1},
			[]string{"p B: fail untouched, pass on lw"}, "2 |"},
		{"not run with LW=off", result{plain: plain, off: map[string]string{"p B": "fail"}, on: plain, informers: 1},
			[]string{"p A: pass untouched, missing with LW=off"}, "0 (1 fail)"},
		{"another test", result{plain: nil, off: nil, on: plain, informers: 1},
			[]string{"p A: missing untouched, pass on lw"}, "0, 0, 1"},
		{"no informer", result{plain: plain, off: plain, on: plain}, []string{"no informer is lw's"}, "| 0 | 0 |"},
		{"changed", result{plain: plain, off: plain, on: plain, informers: 1, changed: []string{"go.mod"}},
			[]string{`has changed ["go.mod"]`}, "| go.mod |"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.r.differs()
			if (err == nil) != (tt.want == nil) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			for _, want := range tt.want {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q in it", err, want)
				}
			}
			if row := tt.r.row(p); !strings.HasPrefix(row, "| example.com/m v1.0.0 | `./cmd/m` |") ||
				!strings.Contains(row, tt.row) {
				t.Errorf("%q, want %q in it", row, tt.row)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	for said, want := range map[string]string{
		"lwbuild: kept k8s.io/client-go v0.37.0\n":                                                         "kept v0.37.0",
		"lwbuild: a fork\nlwbuild: raised k8s.io/client-go v0.33.3 to v0.36.3, k8s.io/kubernetes v1 to v2": "raised v0.33.3 to v0.36.3",
		"go: nothing": "?",
	} {
		if got := versions(said); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

// The table replaces the one before, and nothing else of the page.
func TestWithin(t *testing.T) {
	table := header(time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)) + "| a |\n"
	if !strings.HasPrefix(table, "On 2026-11-26, ") {
		t.Errorf("%q has no date", table)
	}
	got, err := within([]byte("before\n<!-- programs -->\nold\n<!-- /programs -->\nafter\n"), table)
	if diff := cmp.Diff("before\n<!-- programs -->\n"+table+"<!-- /programs -->\nafter\n", string(got)); err != nil ||
		diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := within([]byte("<!-- programs -->\nold\n"), table); err == nil {
		t.Error("a page without an end has a place")
	}
}
