package compare

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/internal/verify/rig"
)

// constant is a side that costs the values of each key in turn.
func constant(name string, samples ...Sample) Side {
	i := 0
	return Side{Name: name, Measure: func() Sample {
		i++
		return samples[i-1]
	}}
}

func TestRunComparesRoundByRound(t *testing.T) {
	c := Case{
		Name: "test",
		Lines: []Line{
			{What: "less", Unit: Nanoseconds, Key: "cpu", Goal: Times(4)},
			{What: "more", Unit: PerSecond, Key: "rate", Goal: Times(4)},
			{What: "worse", Unit: Bytes, Key: "worse", Goal: Times(1 / 1.2), Chart: true},
			{What: "rate without a goal", Unit: PerSecond, Key: "rate"},
			{What: "most", Unit: Count, Key: "allocs", Goal: Most(0.05)},
			{What: "known", Unit: Count, Key: "allocs"},
		},
		Setup: func(Config) ([]Side, func()) {
			return []Side{
				constant(ClientGo,
					Sample{"cpu": 100, "rate": 10, "worse": 500, "allocs": 9},
					Sample{"cpu": 1000, "rate": 1, "worse": 500, "allocs": 9},
					Sample{"cpu": 100, "rate": 10, "worse": 500, "allocs": 9}),
				constant(LW,
					Sample{"cpu": 20, "rate": 30, "worse": 1000, "allocs": 0},
					Sample{"cpu": 250, "rate": 3, "worse": 1000, "allocs": 0},
					Sample{"cpu": 10, "rate": 90, "worse": 1000, "allocs": 0.01}),
			}, nil
		},
	}
	type result struct {
		What       string
		Base, Side float64
		Ratio      float64
		Goal       string
		Met        string
	}
	var got []result
	for _, r := range c.Run(Config{Rounds: 3, Short: true}) {
		met := ""
		if r.Met != nil {
			met = map[bool]string{true: "yes", false: "no"}[*r.Met]
		}
		ratio := math.Inf(1)
		if r.Ratio != nil {
			ratio = *r.Ratio
		}
		if r.Bar != nil && r.Bar.Times != ratio {
			t.Errorf("%s: the chart says %v, the table %v", r.What, r.Bar.Times, ratio)
		}
		got = append(got, result{r.What, r.Base, r.Side, ratio, r.Goal, met})
	}
	want := []result{
		{"less", 100, 20, 5, "≥ 4x", "yes"},
		{"more", 10, 30, 3, "≥ 4x", "no"},
		{"worse", 500, 1000, 0.5, "≥ 0.83x", "no"},
		{"rate without a goal", 10, 30, 3, "", ""},
		{"most", 9, 0, math.Inf(1), "≤ 0.05", "yes"},
		{"known", 9, 0, math.Inf(1), "", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestRounds(t *testing.T) {
	for _, test := range []struct {
		once bool
		cfg  Config
		want int
	}{
		{false, Config{Rounds: 3}, 3 * moreRounds},
		{false, Config{Rounds: 3, Short: true}, 3},
		{true, Config{Rounds: 3}, 1},
	} {
		rounds := 0
		c := Case{Name: "quick", Once: test.once, Setup: func(Config) ([]Side, func()) {
			return []Side{{Name: ClientGo, Measure: func() Sample { rounds++; return Sample{} }}}, nil
		}}
		c.Run(test.cfg)
		if rounds != test.want {
			t.Errorf("once %t, %+v: %d rounds, want %d", test.once, test.cfg, rounds, test.want)
		}
	}
}

func TestUnits(t *testing.T) {
	for _, test := range []struct {
		unit Unit
		v    float64
		want string
	}{
		{Nanoseconds, 0.5, "0.5 ns"},
		{Nanoseconds, 1536, "1.54 µs"},
		{Nanoseconds, 2.5e9, "2.5 s"},
		{Bytes, 36974, "36.1 KiB"},
		{PerSecond, 120, "120 /s"},
		{Count, 0.0002, "0.0002"},
		{Count, 415, "415"},
		{Count, 1000, "1000"},
		{Ratio, 1.3, "1.3x"},
	} {
		if got := test.unit.format(test.v); got != test.want {
			t.Errorf("%v %s is printed as %q, want %q", test.v, test.unit, got, test.want)
		}
	}
}

func TestTableNamesEveryResult(t *testing.T) {
	r := NewReport(Config{Rounds: 1}, []Result{
		{Row: 1, What: "one", Base: 10, Side: 2, Unit: Bytes},
		{Row: 2, What: "two", Base: 10, Side: 2, Unit: Bytes},
	})
	var table, markdown strings.Builder
	rig.OK(t, r.Table(&table))
	rig.OK(t, r.Markdown(&markdown))
	if want, got := 3, strings.Count(table.String(), "\n"); got != want {
		t.Errorf("the table has %d lines, want %d:\n%s", got, want, table.String())
	}
	if !strings.Contains(markdown.String(), "| 2 | two | 10 B | 2 B |") {
		t.Errorf("no row of two in:\n%s", markdown.String())
	}
}
