package source_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// slowList is a source whose list pauses before each item and its end. Its watches are silent.
type slowList struct {
	pauses   []time.Duration // one more than there are items
	requests []context.Context
	at       []time.Time
}

func (s *slowList) List(ctx context.Context, _ metav1.ListOptions,
	yield func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	s.requests, s.at = append(s.requests, ctx), append(s.at, time.Now())
	for i, d := range s.pauses {
		if err := rest(ctx, d); err != nil {
			return metav1.ListMeta{}, err
		}
		if i == len(s.pauses)-1 {
			break
		}
		if err := yield(rig.Stamped(fmt.Sprint("w", i), 1, "9"), nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: "10"}, nil
}

func (s *slowList) Watch(ctx context.Context, _ metav1.ListOptions, _ func(widgetEvent) error) error {
	s.requests = append(s.requests, ctx)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Hour):
		return io.ErrUnexpectedEOF
	}
}

// A list may take as long as it likes while items come, which a Transform may leave out: only one
// of which nothing is heard for 90 s is given up, and that before three minutes have gone by.
func TestListPatience(t *testing.T) {
	minute, slow := time.Minute, 85*time.Second
	for name, tc := range map[string]struct {
		pauses []time.Duration
		synced time.Duration // 0: it never is
	}{
		"quick":                    {[]time.Duration{0, 0}, 0 + time.Millisecond},
		"nothing for a while":      {[]time.Duration{80 * time.Second, 0}, 80 * time.Second},
		"slow at the end":          {[]time.Duration{0, 80 * time.Second}, 80 * time.Second},
		"an item a minute":         {[]time.Duration{minute, minute, minute, minute, minute, minute}, 6 * minute},
		"the server works on it":   {[]time.Duration{slow, slow, slow, slow, slow, 0}, 5 * slow},
		"nothing for three of it":  {[]time.Duration{3 * minute, 0}, 0},
		"nothing after three more": {[]time.Duration{minute, minute, 3 * minute}, 0},
	} {
		for _, leaves := range []bool{false, true} {
			rig.Subtest(t, fmt.Sprint(name, ", and leaves them out ", leaves), func(t *testing.T) {
				slow := &slowList{pauses: tc.pauses}
				errs := &rig.Errors{}
				want := len(tc.pauses) - 1
				var src lw.Source[*rig.Widget] = slow
				if leaves {
					want = 0
					src = lw.Transform(src, func(*rig.Widget) (*rig.Widget, error) { return nil, nil })
				}
				inf := lw.NewInformer(src, &lw.Options{List: lw.ListWhole, OnError: errs.Add})
				rig.Start(t, inf)
				if tc.synced == 0 {
					rig.Sleep(9 * time.Minute)
					errs.MustHave(t, "the server made no progress")
					heard := time.Duration(0) // of it for so long
					for _, d := range tc.pauses {
						heard += d % (3 * minute)
					}
					if at := slow.at; len(at) < 2 || at[1].Sub(at[0]) < heard+90*time.Second || at[1].Sub(at[0]) > heard+3*minute {
						t.Errorf("requests at %v", at)
					}
					return
				}
				began := time.Now()
				rig.OK(t, inf.WaitForSync(t.Context()))
				if took := time.Since(began); took > tc.synced+time.Second || inf.Store().Len() != want {
					t.Errorf("synced after %v, want %v; %d objects, want %d", took, tc.synced, inf.Store().Len(), want)
				}
				errs.MustBeNone(t)
			})
		}
	}
}

// When a request has ended its context is done: what a source has begun for it ends too.
func TestRequestsAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &slowList{pauses: []time.Duration{0, 0}}
		rig.RunFor(t, src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}}, 3*time.Hour)
		if len(src.requests) < 4 {
			t.Fatalf("%d requests", len(src.requests))
		}
		for i, ctx := range src.requests[:len(src.requests)-1] {
			if ctx.Err() == nil {
				t.Errorf("request %d has ended, but its context is not done", i)
			}
		}
	})
}

func mustBegin(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) < len(want) || fmt.Sprint(got[:len(want)]) != fmt.Sprint(want) {
		t.Errorf("requests: %q, want first %q", got, want)
	}
}
