package lw

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The whole policy of what follows a request.
func TestDecide(t *testing.T) {
	broken := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	garbled := errors.New("a frame that nobody can read")
	gone := apierrors.NewResourceExpired("too old")
	proto := protocolErrorf("nonsense")
	internal := apierrors.NewInternalError(errors.New("etcd"))
	busy := apierrors.NewTooManyRequests("later", 1)
	rewound := fmt.Errorf("%w: of 3", ErrRewound)
	fail := verdict{failed: true, wait: true}
	for name, tc := range map[string]struct {
		o        outcome
		failures int
		want     verdict
	}{
		"list":                       {outcome{op: opList}, 0, verdict{}},
		"list after failures":        {outcome{op: opList}, 7, verdict{}},
		"list fails":                 {outcome{op: opList, err: broken}, 0, fail},
		"list expires":               {outcome{op: opList, err: gone}, 3, fail},
		"stream fails":               {outcome{op: opStream, err: broken}, 0, fail},
		"stream falls back":          {outcome{op: opStream, err: internal, fallback: true}, 0, verdict{}},
		"stream falls back, again":   {outcome{op: opStream, err: internal, fallback: true}, 9, verdict{}},
		"end":                        {outcome{op: opWatch, progress: true}, 0, verdict{}},
		"end before its time":        {outcome{op: opWatch, progress: true, endedEarly: true}, 0, verdict{verify: true}},
		"end of a silent one":        {outcome{op: opWatch, progress: true, heardNothing: true}, 0, verdict{probe: true}},
		"end of an early silent one": {outcome{op: opWatch, progress: true, heardNothing: true, endedEarly: true}, 0, verdict{verify: true, probe: true}},
		"empty":                      {outcome{op: opWatch}, 0, fail},
		"empty before its time":      {outcome{op: opWatch, endedEarly: true}, 0, verdict{verify: true, failed: true, wait: true}},
		"empty the fourth time":      {outcome{op: opWatch}, 3, fail},
		"empty the fifth time":       {outcome{op: opWatch}, 4, verdict{failed: true, wait: true, relist: true}},
		"empty the sixth time":       {outcome{op: opWatch}, 5, fail},
		"empty the tenth time":       {outcome{op: opWatch}, 9, verdict{failed: true, wait: true, relist: true}},
		"in doubt":                   {outcome{op: opWatch, err: errUnverified, unreported: true}, 0, verdict{probe: true}},
		"expired":                    {outcome{op: opWatch, err: gone}, 0, verdict{relist: true, failed: true}},
		"expired after a list":       {outcome{op: opWatch, err: gone, relistDidNotHelp: true}, 1, verdict{relist: true, failed: true, wait: true}},
		"a yes":                      {outcome{op: opList, asked: true}, 3, verdict{}},
		"a no":                       {outcome{op: opList, asked: true, err: rewound}, 3, verdict{relist: true, failed: true}},
		"a no after a list":          {outcome{op: opList, asked: true, err: rewound, relistDidNotHelp: true}, 3, verdict{relist: true, failed: true, wait: true}},
		"a question expires":         {outcome{op: opList, asked: true, err: gone}, 0, verdict{relist: true, failed: true}},
		"a question breaks":          {outcome{op: opList, asked: true, err: broken}, 3, fail},
		"a question is too much":     {outcome{op: opList, asked: true, err: busy}, 3, fail},
		"a question is denied":       {outcome{op: opList, asked: true, denied: true, err: internal}, 3, verdict{}},
		"a watch says rewound":       {outcome{op: opWatch, err: rewound, progress: true}, 0, verdict{relist: true, failed: true}},
		"a list says rewound":        {outcome{op: opList, err: rewound}, 0, verdict{relist: true, failed: true, wait: true}},
		"a stream says rewound":      {outcome{op: opStream, err: rewound}, 0, verdict{relist: true, failed: true, wait: true}},
		//lint:ignore SA1019 Servers still answer with it.
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
		"opaque and empty":            {outcome{op: opWatch, noVersions: true}, 0, verdict{relist: true}},
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

// Between what bounds a pause is, for each sort of failure. Two pauses of the same bounds are not the same.
func TestPauseAfter(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for name, tc := range map[string]struct {
		sort         failureSort
		n            int
		lasts, asked time.Duration
		least, most  time.Duration
	}{
		"the first":                      {otherFailure, 1, 0, 0, 400 * ms, 2 * s},
		"the second":                     {otherFailure, 2, s, 0, 800 * ms, 2400 * ms},
		"the fifth":                      {otherFailure, 5, 20 * s, 0, 6400 * ms, 19200 * ms},
		"the sixth":                      {otherFailure, 6, time.Minute, 0, 12800 * ms, 38400 * ms},
		"the seventh":                    {otherFailure, 7, time.Minute, 0, 15 * s, 45 * s},
		"one of very many":               {otherFailure, math.MaxInt, time.Hour, 0, 15 * s, 45 * s},
		"another one, and asked to wait": {otherFailure, 2, s, 5 * s, 5 * s, 10 * s},
		"asked to wait a little":         {otherFailure, 7, s, 5 * s, 15 * s, 45 * s},
		"the first refused":              {unreachable, 1, 0, 0, 400 * ms, 2 * s},
		"the second refused":             {unreachable, 2, s, 0, 800 * ms, 2400 * ms},
		"the third refused":              {unreachable, 3, 3 * s, 0, s, 3 * s},
		"refused for ten seconds":        {unreachable, 6, 10 * s, 0, s, 3 * s},
		"refused for 20 seconds":         {unreachable, 9, 20 * s, 0, 2 * s, 6 * s},
		"refused for 40 seconds":         {unreachable, 11, 40 * s, 0, 4 * s, 12 * s},
		"refused for an hour":            {unreachable, 400, time.Hour, 0, 4 * s, 12 * s},
		"the second refused, late":       {unreachable, 2, time.Minute, 0, 4 * s, 12 * s},
		"the first refused, late":        {unreachable, 1, time.Minute, 0, 4 * s, 12 * s},
		"told to wait":                   {toldToWait, 1, time.Minute, s, s, 2 * s},
		"told to wait, the eighth":       {toldToWait, 8, time.Minute, s, s, 2 * s},
		"told to wait, the ninth":        {toldToWait, 9, time.Minute, s, s, 2 * s},
		"told to wait, the eleventh":     {toldToWait, 11, time.Minute, s, 1600 * ms, 4800 * ms},
		"told to wait for ever":          {toldToWait, 1000, time.Hour, s, 15 * s, 45 * s},
		"told to wait for long":          {toldToWait, 1, 0, 5 * time.Minute, 5 * time.Minute, 330 * s},
		"for long, for ever":             {toldToWait, 1000, time.Hour, 5 * time.Minute, 5 * time.Minute, 330 * s},
	} {
		t.Run(name, func(t *testing.T) {
			least, most := pauseAfter(tc.sort, tc.n, tc.lasts, tc.asked)
			if least != tc.least || most != tc.most {
				t.Errorf("from %v to %v, want from %v to %v", least, most, tc.least, tc.most)
			}
		})
	}
}

// Whatever has failed before, there is a pause, and its bounds are in order.
func TestBoundsOfPauses(t *testing.T) {
	for sort := range failureSorts {
		for _, n := range []int{1, 2, 3, 6, 7, 8, 9, 10, 50, math.MaxInt} {
			for _, lasts := range []time.Duration{0, 1, time.Second, 15 * time.Second, time.Minute, 24 * time.Hour} {
				for _, asked := range []time.Duration{0, time.Second, 20 * time.Second, maxRetryAfter} {
					if sort == toldToWait && asked == 0 {
						continue
					}
					least, most := pauseAfter(sort, n, lasts, asked)
					if least <= 0 || most <= least || most > maxRetryAfter+45*time.Second {
						t.Errorf("sort %d, failure %d after %v, asked for %v: from %v to %v", sort, n, lasts, asked, least, most)
					}
				}
			}
		}
	}
}

// What a failure says about when to try again.
func TestSortOf(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	busy := apierrors.NewTooManyRequests("later", 1)
	silent := apierrors.NewServiceUnavailable("not now")
	asks := apierrors.NewServiceUnavailable("not now")
	asks.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	conflict := apierrors.NewInternalError(errors.New("x"))
	conflict.ErrStatus.Details.RetryAfterSeconds = 1
	for name, tc := range map[string]struct {
		err  error
		want failureSort
	}{
		"refused":                        {&url.Error{Op: "Get", URL: "http://x", Err: refused}, unreachable},
		"no such host":                   {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host"}}, unreachable},
		"reset":                          {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, otherFailure},
		"429":                            {fmt.Errorf("x: %w", busy), toldToWait},
		"429 that does not say how long": {apierrors.NewTooManyRequests("later", 0), otherFailure},
		"503":                            {asks, toldToWait},
		"503 that does not say how long": {silent, otherFailure},
		"500 with a Retry-After":         {conflict, otherFailure},
		"empty":                          {errEmptyWatch, otherFailure},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sortOf(tc.err); got != tc.want {
				t.Errorf("sort %d, want %d", got, tc.want)
			}
		})
	}
}

// Each sort of failures has a count of its own, which only progress ends.
func TestOutage(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	busy, broken := apierrors.NewTooManyRequests("later", 1), io.EOF
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	var o outage
	for i, err := range []error{refused, busy, broken, refused, busy, refused} {
		o.failed(err, begin.Add(time.Duration(i)*time.Second))
	}
	want := outage{since: begin, counts: [failureSorts]int{otherFailure: 1, unreachable: 3, toldToWait: 2}}
	if diff := cmp.Diff(want, o, cmp.AllowUnexported(outage{})); diff != "" {
		t.Errorf("outage (-want +got):\n%s", diff)
	}
	// The pauses are random, and within their bounds: 1 to 3 s for a third refusal.
	seen := map[time.Duration]bool{}
	for range 100 {
		d := o.pause(refused, begin.Add(6*time.Second))
		if seen[d] = true; d < time.Second || d >= 3*time.Second {
			t.Fatalf("pause %v", d)
		}
	}
	if len(seen) < 90 {
		t.Errorf("%d different pauses of 100", len(seen))
	}
}
