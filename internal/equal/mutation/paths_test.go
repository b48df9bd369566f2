package mutation

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestChangedPaths(t *testing.T) {
	type inner struct {
		N      int
		F      float64
		Labels map[string]string
		List   []string
		Any    any
		Next   *inner
		hidden map[string]int
		At     metav1.Time
		CPU    resource.Quantity
	}
	type outer struct {
		metav1.ObjectMeta
		Spec inner
		Ptr  *inner
		Fn   func()
	}
	cycle := func(n int) outer {
		i := &inner{N: n}
		i.Next = i
		return outer{Ptr: i}
	}
	spec := func(i inner) outer { return outer{Spec: i} }
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	asDec := resource.MustParse("100m")
	asDec.AsDec()
	for name, tc := range map[string]struct {
		was, now any
		want     []string
	}{
		"nothing":         {spec(inner{N: 1}), spec(inner{N: 1}), nil},
		"a number":        {spec(inner{N: 1}), spec(inner{N: 2}), []string{"Spec.N: 1 is now 2"}},
		"NaN":             {spec(inner{F: math.NaN()}), spec(inner{F: math.NaN()}), nil},
		"no NaN any more": {spec(inner{F: math.NaN()}), spec(inner{F: 1}), []string{"Spec.F: NaN is now 1"}},
		"embedded": {outer{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, outer{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
			[]string{`Name: "a" is now "b"`}},
		"a label": {spec(inner{Labels: map[string]string{"a": "1", "b": "1"}}),
			spec(inner{Labels: map[string]string{"a": "1", "b": "2"}}), []string{`Spec.Labels["b"]: "1" is now "2"`}},
		"a label more, one less": {
			spec(inner{Labels: map[string]string{"b": "1"}}), spec(inner{Labels: map[string]string{"a": "1"}}),
			[]string{`Spec.Labels["a"]: absent is now "1"`, `Spec.Labels["b"]: "1" is now absent`},
		},
		"nil and empty map": {spec(inner{}), spec(inner{Labels: map[string]string{}}),
			[]string{"Spec.Labels: nil is now map[] (0)"}},
		"nil and empty slice": {spec(inner{}), spec(inner{List: []string{}}), []string{"Spec.List: nil is now [] (0)"}},
		"an element": {spec(inner{List: []string{"a", "b"}}), spec(inner{List: []string{"a", "c"}}),
			[]string{`Spec.List[1]: "b" is now "c"`}},
		"longer": {spec(inner{List: []string{"a"}}), spec(inner{List: []string{"a", "b"}}),
			[]string{"Spec.List: [a] (1) is now [a b] (2)"}},
		"other type":    {spec(inner{Any: 1}), spec(inner{Any: "1"}), []string{`Spec.Any: 1 is now "1"`}},
		"nil interface": {spec(inner{Any: 1}), spec(inner{}), []string{"Spec.Any: 1 is now nil"}},
		"nil pointer": {outer{Ptr: &inner{N: 1}}, outer{},
			[]string{"Ptr: {1 0 map[] [] <nil> <nil> map[] 0001-01-01 00:00:00 +0000 UT… is now nil"}},
		"hidden": {spec(inner{hidden: map[string]int{"a": 1}}), spec(inner{hidden: map[string]int{"a": 2}}),
			[]string{`Spec.hidden["a"]: 1 is now 2`}},
		"function": {outer{}, outer{Fn: func() {}}, []string{"Fn: nil is now a function"}},
		"time in another zone": {
			spec(inner{At: metav1.NewTime(now)}), spec(inner{At: metav1.NewTime(now.In(time.FixedZone("x", 3600)))}), nil,
		},
		"another time": {spec(inner{At: metav1.NewTime(now)}), spec(inner{At: metav1.NewTime(now.Add(time.Hour))}),
			[]string{"Spec.At: 2026-01-02 03:04:05 +0000 UTC is now 2026-01-02 04:04:05 +0000 UTC"}},
		"quantity's other form": {spec(inner{CPU: resource.MustParse("100m")}), spec(inner{CPU: asDec}), nil},
		"cycle":                 {cycle(1), cycle(1), nil},
		"cycle with a change":   {cycle(1), cycle(2), []string{"Ptr.N: 1 is now 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, more := Paths(tc.was, tc.now)
			if diff := cmp.Diff(tc.want, got); diff != "" || more != 0 {
				t.Errorf("and %d more (-want +got):\n%s", more, diff)
			}
		})
	}
}

// Of many differences ten are named, and a long value is cut between two characters.
func TestChangedPathsAreBounded(t *testing.T) {
	was, now := make([]string, 25), make([]string, 25)
	for i := range now {
		now[i] = strings.Repeat("ö", 1000)
	}
	got, more := Paths(was, now)
	if len(got) != most || more != 15 {
		t.Fatalf("%d differences and %d more", len(got), more)
	}
	if want := `[0]: "" is now "` + strings.Repeat("ö", 29) + "…"; got[0] != want {
		t.Errorf("got %s, want %s", got[0], want)
	}
}
