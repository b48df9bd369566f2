package lw

import (
	"errors"
	"log/slog"
	"testing"
	"time"
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
