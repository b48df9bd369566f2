package lw_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// A wait for a version that is in vain says what it waits for, and what the informer is doing instead.
func TestWaitForResourceVersionSaysWhy(t *testing.T) {
	down := errors.New("connection refused")
	never := errors.New("out of patience")
	for name, tc := range map[string]struct {
		src  *script
		run  bool
		want string
		is   []error
	}{
		"before Run": {&script{}, false,
			"lw: Widget: waiting for resource version 12: not synced, since Run has not been called: out of patience", []error{never}},
		"before the sync": {&script{lists: []reply{{err: down}}}, true,
			"lw: Widget: waiting for resource version 12: not synced (waiting, mode pages): list: connection refused: out of patience", []error{never, down}},
		"nothing happens": {&script{lists: []reply{list("10")}}, true,
			"lw: Widget: waiting for resource version 12 at 10, until an object of this collection or a bookmark has it (watching): out of patience", []error{never}},
		"the server is gone": {&script{lists: []reply{list("10")}, watches: []stream{{err: down}}}, true,
			"lw: Widget: waiting for resource version 12 at 10, until an object of this collection or a bookmark has it (waiting): watch: connection refused: out of patience",
			[]error{never, down}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: func(int) time.Duration { return time.Hour }}
				inf := lw.NewInformer[*Widget](tc.src, opts)
				if tc.run {
					start(t, inf)
				}
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, never)
				defer cancel()
				err := inf.WaitForResourceVersion(ctx, "12")
				if got := fmt.Sprint(err); got != tc.want {
					t.Errorf("it said\n%s\nwant\n%s", got, tc.want)
				}
				for _, is := range tc.is {
					if !errors.Is(err, is) {
						t.Errorf("it is not %v", is)
					}
				}
			})
		})
	}
}

// Whatever brings the version ends the wait: an event, one that changes nothing here, a bookmark, or a later list.
func TestWhatEndsAWaitForResourceVersion(t *testing.T) {
	at := func(rv string, ev lw.WatchEvent[*Widget]) stream {
		ev.ResourceVersion = rv
		return stream{events: []lw.WatchEvent[*Widget]{ev}, open: true}
	}
	full := list("10", stamped("a", 1, "9"))
	for name, tc := range map[string]struct {
		lists []reply
		then  stream
	}{
		"an object":             {[]reply{full}, at("12", added("b", "12"))},
		"a later object":        {[]reply{full}, at("13", added("b", "13"))},
		"a deletion":            {[]reply{full}, at("12", lw.WatchEvent[*Widget]{Type: watch.Deleted, Object: stamped("a", 1, "9")})},
		"a bookmark":            {[]reply{full}, at("12", bookmark(""))},
		"a later one":           {[]reply{full}, at("100", bookmark(""))},
		"a list":                {[]reply{full, list("12", stamped("a", 1, "9"))}, expired()},
		"a list with a bad one": {[]reply{full, {obj: full.obj, bad: []error{&lw.Error{Op: "decode", Key: key("b"), Err: errors.New("bad")}}, meta: metav1.ListMeta{ResourceVersion: "12"}}}, expired()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				watches := 0
				src := &script{lists: tc.lists, watch: func() stream {
					switch watches++; watches {
					case 1:
						return stream{after: time.Minute}
					case 2:
						return tc.then
					}
					return forever()
				}}
				inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
				start(t, inf)
				synctest.Wait()
				before := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := inf.WaitForResourceVersion(ctx, "12"); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(before); took < time.Minute || took > 2*time.Minute {
					t.Errorf("it took %v", took)
				}
				if err := inf.WaitForResourceVersion(canceled(t), "12"); err != nil {
					t.Errorf("a second wait: %v", err)
				}
				if err := inf.WaitForResourceVersion(canceled(t), "101"); !errors.Is(err, context.Canceled) {
					t.Errorf("a wait for more: %v", err)
				}
			})
		})
	}
}
