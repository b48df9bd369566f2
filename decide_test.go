package lw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"pgregory.net/rapid"
)

// The whole policy of what follows a request.
func TestDecide(t *testing.T) {
	broken := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	garbled := errors.New("a frame that nobody can read")
	gone := apierrors.NewResourceExpired("too old")
	proto := protocolErrorf("nonsense")
	internal := apierrors.NewInternalError(errors.New("etcd"))
	busy := apierrors.NewTooManyRequests("later", 1)
	fail := verdict{failed: true, wait: true}
	for name, tc := range map[string]struct {
		o        outcome
		failures int
		want     verdict
	}{
		"list":                        {outcome{op: opList}, 0, verdict{}},
		"list after failures":         {outcome{op: opList}, 7, verdict{}},
		"list fails":                  {outcome{op: opList, err: broken}, 0, fail},
		"list expires":                {outcome{op: opList, err: gone}, 3, fail},
		"stream fails":                {outcome{op: opStream, err: broken}, 0, fail},
		"stream falls back":           {outcome{op: opStream, err: internal, fallback: true}, 0, verdict{}},
		"stream falls back, again":    {outcome{op: opStream, err: internal, fallback: true}, 9, verdict{}},
		"end":                         {outcome{op: opWatch, progress: true}, 0, verdict{}},
		"end before its time":         {outcome{op: opWatch, progress: true, endedEarly: true}, 0, verdict{verify: true}},
		"end of a silent one":         {outcome{op: opWatch, progress: true, heardNothing: true}, 0, verdict{probe: true}},
		"end of an early silent one":  {outcome{op: opWatch, progress: true, heardNothing: true, endedEarly: true}, 0, verdict{verify: true, probe: true}},
		"empty":                       {outcome{op: opWatch}, 0, fail},
		"empty before its time":       {outcome{op: opWatch, endedEarly: true}, 0, verdict{verify: true, failed: true, wait: true}},
		"empty the fourth time":       {outcome{op: opWatch}, 3, fail},
		"empty the fifth time":        {outcome{op: opWatch}, 4, verdict{failed: true, wait: true, relist: true}},
		"empty the sixth time":        {outcome{op: opWatch}, 5, fail},
		"empty the tenth time":        {outcome{op: opWatch}, 9, verdict{failed: true, wait: true, relist: true}},
		"in doubt":                    {outcome{op: opWatch, err: errUnverified, unreported: true}, 0, verdict{probe: true}},
		"expired":                     {outcome{op: opWatch, err: gone}, 0, verdict{relist: true, failed: true}},
		"expired after a list":        {outcome{op: opWatch, err: gone, relistDidNotHelp: true}, 1, verdict{relist: true, failed: true, wait: true}},
		"gone":                        {outcome{op: opWatch, err: apierrors.NewGone("gone")}, 0, verdict{relist: true, failed: true}},
		"protocol error":              {outcome{op: opWatch, err: proto}, 0, verdict{relist: true, failed: true}},
		"wrapped protocol error":      {outcome{op: opWatch, err: fmt.Errorf("x: %w", proto), relistDidNotHelp: true}, 0, verdict{relist: true, failed: true, wait: true}},
		"internal":                    {outcome{op: opWatch, err: internal}, 0, verdict{verify: true, failed: true, wait: true}},
		"internal after progress":     {outcome{op: opWatch, err: internal, progress: true}, 0, verdict{verify: true, failed: true, wait: true}},
		"internal the fifth time":     {outcome{op: opWatch, err: internal}, 4, verdict{verify: true, failed: true, wait: true, relist: true}},
		"busy the fifth time":         {outcome{op: opWatch, err: busy}, 4, fail},
		"broken":                      {outcome{op: opWatch, err: broken}, 0, verdict{verify: true, failed: true, wait: true}},
		"broken the fifth time":       {outcome{op: opWatch, err: broken}, 4, verdict{verify: true, failed: true, wait: true}},
		"cut off the fifth time":      {outcome{op: opWatch, err: io.ErrUnexpectedEOF}, 4, verdict{verify: true, failed: true, wait: true}},
		"ended the fifth time":        {outcome{op: opWatch, err: io.EOF}, 4, verdict{verify: true, failed: true, wait: true}},
		"garbled":                     {outcome{op: opWatch, err: garbled}, 0, verdict{verify: true, failed: true, wait: true}},
		"garbled the fifth time":      {outcome{op: opWatch, err: garbled}, 4, verdict{verify: true, failed: true, wait: true, relist: true}},
		"broken after progress":       {outcome{op: opWatch, err: broken, progress: true}, 0, verdict{verify: true}},
		"broken in silence":           {outcome{op: opWatch, err: broken, progress: true, heardNothing: true}, 0, verdict{verify: true, probe: true}},
		"opaque":                      {outcome{op: opWatch, noVersions: true, progress: true}, 0, verdict{relist: true}},
		"opaque and empty":            {outcome{op: opWatch, noVersions: true}, 0, verdict{relist: true, failed: true, wait: true}},
		"opaque and broken":           {outcome{op: opWatch, noVersions: true, progress: true, err: broken}, 0, verdict{relist: true, failed: true, wait: true}},
		"silent, and nobody hears it": {outcome{op: opWatch, err: errSilent, progress: true, heardNothing: true}, 0, verdict{verify: true, probe: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decide(tc.o, tc.failures), cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// What an error says, in the questions that the policy asks of it.
func TestErrorKinds(t *testing.T) {
	tooLarge := apierrors.NewTimeoutError("too large", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	type kinds struct{ lost, status, busy, refused, sure bool }
	for name, tc := range map[string]struct {
		err  error
		want kinds
	}{
		"network":         {errors.New("reset"), kinds{}},
		"expired":         {apierrors.NewResourceExpired("x"), kinds{lost: true, status: true}},
		"gone":            {apierrors.NewGone("x"), kinds{lost: true, status: true}},
		"too large":       {tooLarge, kinds{lost: true, status: true}},
		"protocol":        {protocolErrorf("x"), kinds{lost: true}},
		"bad request":     {apierrors.NewBadRequest("x"), kinds{status: true, refused: true, sure: true}},
		"invalid":         {apierrors.NewInvalid(schema.GroupKind{}, "", nil), kinds{status: true, refused: true, sure: true}},
		"method":          {apierrors.NewMethodNotSupported(schema.GroupResource{}, "watch"), kinds{status: true, refused: true, sure: true}},
		"unauthorized":    {apierrors.NewUnauthorized("x"), kinds{status: true, refused: true}},
		"forbidden":       {apierrors.NewForbidden(schema.GroupResource{}, "", nil), kinds{status: true, refused: true}},
		"throttled":       {apierrors.NewTooManyRequests("x", 1), kinds{status: true, busy: true}},
		"internal":        {apierrors.NewInternalError(errors.New("x")), kinds{status: true}},
		"unavailable":     {apierrors.NewServiceUnavailable("x"), kinds{status: true, busy: true}},
		"request timeout": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 408}}, kinds{status: true}},
		"server timeout":  {apierrors.NewServerTimeout(schema.GroupResource{}, "list", 1), kinds{status: true, busy: true}},
		"wrapped status":  {fmt.Errorf("x: %w", apierrors.NewBadRequest("x")), kinds{status: true, refused: true, sure: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := kinds{lost: isLost(tc.err), status: isStatus(tc.err), busy: isBusy(tc.err)}
			got.refused, got.sure = isRefusal(tc.err)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(kinds{})); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefaultBackoff(t *testing.T) {
	for failures, base := range map[int]time.Duration{
		0: 800 * time.Millisecond, 1: 800 * time.Millisecond, 2: 1600 * time.Millisecond, 5: 12800 * time.Millisecond,
		6: 25600 * time.Millisecond, 7: 30 * time.Second, 1000: 30 * time.Second, math.MaxInt: 30 * time.Second,
	} {
		var least, most time.Duration = time.Hour, 0
		for range 1000 {
			d := defaultBackoff(failures)
			least, most = min(least, d), max(most, d)
		}
		if least < base/2 || most >= base*3/2 || most-least < base/2 {
			t.Errorf("after %d failures: from %v to %v, want half of %v below and above it", failures, least, most, base)
		}
	}
}

func TestRetryAfterSeconds(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want time.Duration
	}{
		"nothing":     {nil, 0},
		"network":     {errors.New("reset"), 0},
		"no advice":   {apierrors.NewInternalError(errors.New("x")), 0},
		"seconds":     {apierrors.NewTooManyRequests("x", 7), 7 * time.Second},
		"wrapped":     {fmt.Errorf("x: %w", apierrors.NewTooManyRequests("x", 7)), 7 * time.Second},
		"nonsense":    {apierrors.NewTooManyRequests("x", -7), 0},
		"a long time": {apierrors.NewTooManyRequests("x", 1e6), 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := retryAfter(tc.err); got != tc.want {
				t.Errorf("retryAfter = %v, want %v", got, tc.want)
			}
		})
	}
}

// However fast it is asked, the pacer lets through 5 at once and then one each 1.1 s; time that nobody used is not saved up.
func TestPacer(t *testing.T) {
	var p requestLimiter
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	now := begin
	var at []time.Duration
	ask := func(n int) {
		for range n {
			now = now.Add(p.wait(now))
			p.spend(now)
			at = append(at, now.Sub(begin).Round(time.Millisecond))
		}
	}
	ask(7)
	now = now.Add(time.Hour)
	ask(6)
	ms := time.Millisecond
	later := time.Hour + 2200*ms
	want := []time.Duration{0, 0, 0, 0, 0, 1100 * ms, 2200 * ms, later, later, later, later, later, later + 1100*ms}
	if diff := cmp.Diff(want, at); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A guard ends a request between its patience and twice that after the last sign of life, with its cause.
func TestGuard(t *testing.T) {
	late, later := errors.New("late"), errors.New("later")
	for name, tc := range map[string]struct {
		heard      []time.Duration // since the beginning
		do         func(*stallTimer)
		want       error
		from, upTo time.Duration
	}{
		"silence":       {nil, nil, late, 10 * time.Second, 10 * time.Second},
		"signs of life": {[]time.Duration{5 * time.Second, 12 * time.Second}, nil, late, 22 * time.Second, 32 * time.Second},
		"stopped":       {nil, (*stallTimer).stop, nil, 0, 0},
		"more patience": {nil, func(g *stallTimer) { g.restart(time.Minute, later) }, later, time.Minute, time.Minute},
		"less patience": {nil, func(g *stallTimer) { g.restart(time.Second, later) }, later, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				begin := time.Now()
				g := newStallTimer(cancel, 10*time.Second, late)
				if tc.do != nil {
					tc.do(g)
				}
				for _, at := range tc.heard {
					time.Sleep(at - time.Since(begin))
					g.heard(1)
				}
				if tc.want == nil {
					time.Sleep(time.Hour)
					if ctx.Err() != nil {
						t.Errorf("it was ended by %v", context.Cause(ctx))
					}
					return
				}
				<-ctx.Done()
				if took := time.Since(begin); context.Cause(ctx) != tc.want || took < tc.from || took > tc.upTo {
					t.Errorf("it was ended after %v by %v", took, context.Cause(ctx))
				}
				g.stop()
			})
		})
	}
}

// What is set aside is told once for what is known, and always for an event; while one is held the version is.
func TestAside(t *testing.T) {
	a := setAsideObjects{recorder: &statusRecorder{}}
	var told []string
	report := func(err *Error) { told = append(told, err.Error()) }
	bad, worse := errors.New("bad"), errors.New("worse")
	one, two := Key{Name: "one"}, Key{Name: "two"}
	a.add(one, bad, false, report)
	a.add(one, bad, false, report) // a list says it again
	a.add(one, worse, false, report)
	if a.holds() {
		t.Error("an object of a list holds the version")
	}
	a.add(two, bad, true, report)
	a.add(two, bad, true, report) // another version
	a.listed(map[Key]error{two: bad}, report)
	if !a.holds() || !slices.Equal([]Key{two}, keys(a.recorder.setAside)) {
		t.Errorf("after a list: %v, holds: %v", a.recorder.setAside, a.holds())
	}
	if !a.remove(two) || a.remove(two) || a.holds() || !a.empty() {
		t.Error("it is still there after it was removed")
	}
	want := []string{"lw: decode one: bad", "lw: decode one: worse", "lw: decode two: bad", "lw: decode two: bad"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

func keys(m map[Key]error) (out []Key) {
	for key := range m {
		out = append(out, key)
	}
	return out
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

// A guard whose time was up in the moment in which it was given more has not waited for that long, and does not say so.
func TestGuardGivenMoreInTheLastMoment(t *testing.T) {
	for range 200 { // which of both comes first is a matter of chance
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			g := newStallTimer(cancel, 10*time.Second, errors.New("late"))
			defer g.stop()
			time.Sleep(5 * time.Second)
			g.heard(1)
			time.Sleep(5 * time.Second)
			g.restart(time.Minute, errors.New("later"))
			time.Sleep(59 * time.Second)
			if ctx.Err() != nil {
				t.Fatalf("it was ended by %v", context.Cause(ctx))
			}
			time.Sleep(time.Minute)
			if context.Cause(ctx).Error() != "later" {
				t.Fatalf("it was ended by %v", context.Cause(ctx))
			}
		})
	}
}
