package lw

import (
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"pgregory.net/rapid"
)

// What is not set is what the doc of each field says, and what is set stays.
func TestOptionsDefaults(t *testing.T) {
	for name, o := range map[string]*Options{
		"nil": nil, "zero": {}, "below zero": {PageSize: -1, SyncBudget: -1, WatchTimeout: -1},
	} {
		d := o.withDefaults("Pod")
		if d.Name != "Pod" || d.Logger != slog.Default() || d.List != ListAuto || d.PageSize != 500 || d.SyncBudget != 10*time.Second ||
			d.WatchTimeout != 5*time.Minute || d.Backoff != nil || d.OnPanic != nil || d.DetectMutation || d.Board != nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
	var told []error
	set := &Options{
		Name: "x", Logger: slog.New(slog.DiscardHandler), List: ListWhole, PageSize: 1, SyncBudget: 1, WatchTimeout: 1,
		Backoff: func(failures int) time.Duration { return time.Duration(failures) }, OnError: func(err error) { told = append(told, err) },
		OnPanic: func(*Panic) {}, DetectMutation: true, Board: new(Board),
	}
	d := set.withDefaults("Pod")
	if d.OnError(errors.New("a")); len(told) != 1 {
		t.Errorf("OnError was told %v", told)
	}
	if d.Name != "x" || d.Logger != set.Logger || d.List != ListWhole || d.PageSize != 1 || d.SyncBudget != 1 || d.WatchTimeout != 1 ||
		d.Backoff(7) != 7 || d.OnPanic == nil || !d.DetectMutation || d.Board != set.Board {
		t.Errorf("%+v", d)
	}
}

func TestListModes(t *testing.T) {
	for mode, want := range map[ListMode]string{ListAuto: "auto", ListStream: "stream", ListPages: "pages", ListWhole: "whole", 9: "ListMode(9)", -1: "ListMode(-1)"} {
		if got := mode.String(); got != want {
			t.Errorf("mode %d is %q, want %q", mode, got, want)
		}
	}
}

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
