package lw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/pace"
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
		"list":                     {outcome{op: opList}, 0, verdict{}},
		"list after failures":      {outcome{op: opList}, 7, verdict{}},
		"list fails":               {outcome{op: opList, err: broken}, 0, fail},
		"list expires":             {outcome{op: opList, err: gone}, 3, fail},
		"stream fails":             {outcome{op: opStream, err: broken}, 0, fail},
		"stream falls back":        {outcome{op: opStream, err: internal, fallback: true}, 0, verdict{}},
		"stream falls back, again": {outcome{op: opStream, err: internal, fallback: true}, 9, verdict{}},
		"end":                      {outcome{op: opWatch, progress: true}, 0, verdict{}},
		"end before its time":      {outcome{op: opWatch, progress: true, endedEarly: true}, 0, verdict{unverified: true}},
		"end of a silent one":      {outcome{op: opWatch, progress: true, heardNothing: true}, 0, verdict{next: stepAsk}},
		"end of an early silent one": {outcome{op: opWatch, progress: true, heardNothing: true, endedEarly: true}, 0,
			verdict{unverified: true, next: stepAsk}},
		"empty": {outcome{op: opWatch}, 0, fail},
		"empty before its time": {outcome{op: opWatch, endedEarly: true}, 0, verdict{unverified: true, failed: true,
			wait: true}},
		"empty the fourth time": {outcome{op: opWatch}, 3, fail},
		"empty the fifth time":  {outcome{op: opWatch}, 4, verdict{failed: true, wait: true, next: stepList}},
		"empty the sixth time":  {outcome{op: opWatch}, 5, fail},
		"empty the tenth time":  {outcome{op: opWatch}, 9, verdict{failed: true, wait: true, next: stepList}},
		"calm": {outcome{op: opWatch, calm: true, heardNothing: true, endedEarly: true}, 4,
			verdict{unverified: true, next: stepAsk}},
		"cut": {outcome{op: opWatch, err: broken, cut: true, heardNothing: true, endedEarly: true}, 0,
			verdict{unverified: true, brief: true, next: stepAsk}},
		"cut the fifth time": {outcome{op: opWatch, err: io.ErrUnexpectedEOF, cut: true, heardNothing: true}, 4,
			verdict{unverified: true, brief: true, next: stepAsk}},
		"ahead for too long": {outcome{op: opWatch, err: errAhead, unreported: true}, 3, verdict{next: stepList}},
		"refused": {outcome{op: opWatch, refused: true, err: internal}, 3,
			verdict{unverified: true, failed: true, wait: true}},
		"refused the sixth time": {outcome{op: opWatch, refused: true, err: internal}, 5,
			verdict{unverified: true, failed: true, wait: true, next: stepList}},
		"in doubt": {outcome{op: opWatch, err: errUnverified, unreported: true}, 0, verdict{next: stepAsk}},
		"hastened": {outcome{op: opWatch, err: errHastened, unreported: true, endedEarly: true,
			heardNothing: true, noVersions: true}, 3, verdict{}},
		"expired": {outcome{op: opWatch, err: gone}, 0, verdict{next: stepList, failed: true}},
		"expired after a list": {outcome{op: opWatch, err: gone, relistDidNotHelp: true}, 1,
			verdict{next: stepList, failed: true, wait: true}},
		"a yes": {outcome{op: opList, asked: true}, 3, verdict{}},
		"a no": {outcome{op: opList, asked: true, err: rewound}, 3,
			verdict{next: stepList, failed: true}},
		"a no after a list": {outcome{op: opList, asked: true, err: rewound, relistDidNotHelp: true}, 3,
			verdict{next: stepList, failed: true, wait: true}},
		"a question expires":     {outcome{op: opList, asked: true, err: gone}, 0, verdict{next: stepList, failed: true}},
		"a question breaks":      {outcome{op: opList, asked: true, err: broken}, 3, fail},
		"a question is too much": {outcome{op: opList, asked: true, err: busy}, 3, fail},
		"a question is denied":   {outcome{op: opList, asked: true, denied: true, err: internal}, 3, verdict{}},
		"a watch says rewound": {outcome{op: opWatch, err: rewound, progress: true}, 0,
			verdict{next: stepList, failed: true}},
		"a list says rewound": {outcome{op: opList, err: rewound}, 0, verdict{next: stepList, failed: true,
			wait: true}},
		"a stream says rewound": {outcome{op: opStream, err: rewound}, 0, verdict{next: stepList, failed: true,
			wait: true}},
		//lint:ignore SA1019 Servers still answer with it.
		"gone": {outcome{op: opWatch, err: apierrors.NewGone("gone")}, 0,
			verdict{next: stepList, failed: true}},
		"protocol error": {outcome{op: opWatch, err: proto}, 0, verdict{next: stepList, failed: true}},
		"wrapped protocol error": {outcome{op: opWatch, err: fmt.Errorf("x: %w", proto), relistDidNotHelp: true}, 0,
			verdict{next: stepList, failed: true, wait: true}},
		"internal": {outcome{op: opWatch, err: internal}, 0, verdict{unverified: true, failed: true,
			wait: true}},
		"internal after progress": {outcome{op: opWatch, err: internal, progress: true}, 0,
			verdict{unverified: true, failed: true, wait: true}},
		"internal the fifth time": {outcome{op: opWatch, err: internal}, 4, verdict{unverified: true, failed: true,
			wait: true, next: stepList}},
		"busy the fifth time": {outcome{op: opWatch, err: busy}, 4, fail},
		"broken": {outcome{op: opWatch, err: broken}, 0, verdict{unverified: true, failed: true,
			wait: true}},
		"broken the fifth time": {outcome{op: opWatch, err: broken}, 4, verdict{unverified: true, failed: true,
			wait: true}},
		"cut off the fifth time": {outcome{op: opWatch, err: io.ErrUnexpectedEOF}, 4,
			verdict{unverified: true, failed: true, wait: true}},
		"ended the fifth time": {outcome{op: opWatch, err: io.EOF}, 4, verdict{unverified: true, failed: true,
			wait: true}},
		"garbled": {outcome{op: opWatch, err: garbled}, 0, verdict{unverified: true, failed: true,
			wait: true}},
		"garbled the fifth time": {outcome{op: opWatch, err: garbled}, 4, verdict{unverified: true, failed: true,
			wait: true, next: stepList}},
		"broken after progress": {outcome{op: opWatch, err: broken, progress: true}, 0, verdict{unverified: true}},
		"broken in silence": {outcome{op: opWatch, err: broken, progress: true, heardNothing: true}, 0,
			verdict{unverified: true, next: stepAsk}},
		"opaque":           {outcome{op: opWatch, noVersions: true, progress: true}, 0, verdict{next: stepList}},
		"opaque and empty": {outcome{op: opWatch, noVersions: true}, 0, verdict{next: stepList}},
		"opaque and broken": {outcome{op: opWatch, noVersions: true, progress: true, err: broken}, 0,
			verdict{next: stepList, failed: true, wait: true}},
		"silent, and nobody hears it": {outcome{op: opWatch, err: errSilent, progress: true, heardNothing: true}, 0,
			verdict{unverified: true, next: stepAsk}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decide(tc.o, tc.failures), cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// What a streamed list that fails, perhaps several times in a row, says about streams.
func TestStreamSupport(t *testing.T) {
	network := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	internal := apierrors.NewInternalError(errors.New("etcd"))
	gone := streamSupport{unsupported: true}
	doubted := streamSupport{refusedOnce: true}
	for name, tc := range map[string]struct {
		err   error
		came  bool
		times int // in a row; the last one must fall back if streams are not believed any more
		want  streamSupport
	}{
		"the source has none":                        {errNoStream, false, 1, gone},
		"the server ignores the question":            {errNoEnd, true, 1, gone},
		"refused for good, whatever pages do":        {apierrors.NewBadRequest("sendInitialEvents"), false, 1, gone},
		"refused, as a missing right is":             {apierrors.NewForbidden(schema.GroupResource{}, "", nil), false, 1, doubted},
		"refused by a server that went back":         {fmt.Errorf("%w: %w", ErrRewound, apierrors.NewBadRequest("x")), false, 3, streamSupport{}},
		"busy":                                       {apierrors.NewTooManyRequests("later", 1), true, 3, streamSupport{}},
		"older":                                      {&olderError{got: "1", seen: "2"}, true, 3, streamSupport{}},
		"no network":                                 {network, false, 3, streamSupport{}},
		"the network breaks after objects, once":     {network, true, 1, streamSupport{brokenStreams: 1}},
		"the network breaks after objects, twice":    {network, true, 2, gone},
		"a status after objects, twice":              {internal, true, 2, doubted},
		"a status before objects, twice":             {internal, false, 2, doubted},
		"what cannot be read, before objects, twice": {errors.New("x"), false, 2, doubted},
	} {
		var s streamSupport
		for i := range tc.times {
			last := i == tc.times-1
			if got, want := s.failed(tc.err, tc.came), last && (tc.want.unsupported || tc.want.refusedOnce); got != want {
				t.Errorf("%s: the failure %d falls back to pages: %v, want %v", name, i+1, got, want)
			}
		}
		if s != tc.want {
			t.Errorf("%s: %+v, want %+v", name, s, tc.want)
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
		want pace.Failure
	}{
		"refused": {&url.Error{Op: "Get", URL: "http://x", Err: refused}, pace.Unreachable},
		"no such host": {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host"}},
			pace.Unreachable},
		"reset":                          {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, pace.Other},
		"429":                            {fmt.Errorf("x: %w", busy), pace.Busy},
		"429 that does not say how long": {apierrors.NewTooManyRequests("later", 0), pace.Other},
		"503":                            {asks, pace.Busy},
		"503 that does not say how long": {silent, pace.Other},
		"500 with a Retry-After":         {conflict, pace.Other},
		"empty":                          {errEmptyWatch, pace.Other},
		"a watch is refused":             {&watchRefusedError{err: conflict}, pace.WatchRefused},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sortOf(tc.err); got != tc.want {
				t.Errorf("sort %d, want %d", got, tc.want)
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
		"network": {errors.New("reset"), kinds{}},
		"expired": {apierrors.NewResourceExpired("x"), kinds{lost: true, status: true}},
		//lint:ignore SA1019 Servers still answer with it.
		"gone":         {apierrors.NewGone("x"), kinds{lost: true, status: true}},
		"too large":    {tooLarge, kinds{lost: true, status: true}},
		"protocol":     {protocolErrorf("x"), kinds{lost: true}},
		"another kind": {&Error{Op: opWatch, Err: &decode.KindError{}}, kinds{lost: true}},
		"bad request":  {apierrors.NewBadRequest("x"), kinds{status: true, refused: true, sure: true}},
		"invalid": {apierrors.NewInvalid(schema.GroupKind{}, "", nil), kinds{status: true, refused: true,
			sure: true}},
		"method": {apierrors.NewMethodNotSupported(schema.GroupResource{}, "watch"),
			kinds{status: true, refused: true, sure: true}},
		"unauthorized":    {apierrors.NewUnauthorized("x"), kinds{status: true, refused: true}},
		"forbidden":       {apierrors.NewForbidden(schema.GroupResource{}, "", nil), kinds{status: true, refused: true}},
		"throttled":       {apierrors.NewTooManyRequests("x", 1), kinds{status: true, busy: true}},
		"internal":        {apierrors.NewInternalError(errors.New("x")), kinds{status: true}},
		"unavailable":     {apierrors.NewServiceUnavailable("x"), kinds{status: true, busy: true}},
		"request timeout": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 408}}, kinds{status: true}},
		"server timeout":  {apierrors.NewServerTimeout(schema.GroupResource{}, "list", 1), kinds{status: true, busy: true}},
		"wrapped status": {fmt.Errorf("x: %w", apierrors.NewBadRequest("x")), kinds{status: true, refused: true,
			sure: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := kinds{lost: isLost(tc.err), status: pace.IsStatus(tc.err), busy: pace.IsBusy(tc.err)}
			got.refused, got.sure = pace.IsRefusal(tc.err)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(kinds{})); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

// What a server has answered stands, though the reflector was about to leave; what only says that
// it has left, or that Run is to end, does not.
func TestAnswersStand(t *testing.T) {
	gone := apierrors.NewResourceExpired("too old")
	garbled := &Error{Op: opWatch, Err: &decode.SyntaxError{}}
	replaced := apierrors.NewResourceExpired("too old")
	replaced.ErrStatus.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: listopts.CauseReplaced}}}
	refused := &Error{Op: opWatch, Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	given := &Error{Op: opWatch, Err: &net.OpError{Op: "dial", Err: context.Canceled}}
	broken := &Error{Op: opWatch, Err: &net.OpError{Op: "read", Err: net.ErrClosed}}
	for name, tc := range map[string]struct{ cause, err, want error }{
		"nothing":                   {nil, nil, nil},
		"no connection":             {errHastened, refused, refused},
		"a dial that was given up":  {errHastened, given, errHastened},
		"a connection closed":       {errHastened, broken, errHastened},
		"an answer":                 {nil, gone, gone},
		"an end of its own":         {errHastened, context.Canceled, errHastened},
		"an answer before such one": {errHastened, gone, gone},
		"another history":           {errHastened, replaced, ErrRewound},
		"an answer, unverified":     {errUnverified, gone, gone},
		"what nobody can read":      {errHastened, garbled, garbled},
		"silence":                   {errSilent, context.Canceled, errSilent},
		"an answer after silence":   {errSilent, gone, gone},
		"a list that stalls":        {errStalled, context.Canceled, errStalled},
		"an answer to such a list":  {errStalled, gone, gone},
		"a stream without an end":   {errNoEnd, context.Canceled, errNoEnd},
		"an answer to such a one":   {errNoEnd, gone, gone},
		"the end of Run":            {context.Canceled, gone, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			if tc.cause != nil {
				cancel(tc.cause)
			}
			if got := causeOf(ctx, tc.err); !errors.Is(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			cancel(nil)
		})
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
			if got := pace.RetryAfter(tc.err); got != tc.want {
				t.Errorf("retryAfter = %v, want %v", got, tc.want)
			}
		})
	}
}

// What is set aside is told once for what is known, and always for an event; while one is held the
// version is.
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

// What is not set is what the doc of each field says, and what is set stays.
func TestOptionsDefaults(t *testing.T) {
	for name, o := range map[string]*Options{
		"nil": nil, "zero": {}, "below zero": {PageSize: -1, SyncBudget: -1, WatchTimeout: -1},
	} {
		d := o.withDefaults("Pod")
		if d.Name != "Pod" || d.Logger != slog.Default() || d.List != ListAuto || d.PageSize != 500 ||
			d.SyncBudget != 10*time.Second ||
			d.WatchTimeout != 5*time.Minute || d.Backoff != nil || d.OnPanic != nil || d.DetectMutation || d.Board != nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
	var told []error
	set := &Options{
		Name: "x", Logger: slog.New(slog.DiscardHandler), List: ListWhole, PageSize: 1, SyncBudget: 1, WatchTimeout: 1,
		Backoff: func(failures int) time.Duration { return time.Duration(failures) },
		OnError: func(err error) { told = append(told, err) },
		OnPanic: func(*Panic) {}, DetectMutation: true, Board: new(Board),
	}
	d := set.withDefaults("Pod")
	if d.OnError(new(Error)); len(told) != 1 {
		t.Errorf("OnError was told %v", told)
	}
	if d.Name != "x" || d.Logger != set.Logger || d.List != ListWhole || d.PageSize != 1 || d.SyncBudget != 1 ||
		d.WatchTimeout != 1 ||
		d.Backoff(7) != 7 || d.OnPanic == nil || !d.DetectMutation || d.Board != set.Board {
		t.Errorf("%+v", d)
	}
}

// The order of positions is that of apimachinery, also where a version fits no word.
func TestPositionOrder(t *testing.T) {
	version := rapid.OneOf(
		rapid.StringMatching(`[1-9][0-9]{0,3}`), rapid.StringMatching(`[1-9][0-9]{17,20}`),
		rapid.SampledFrom([]string{"", "0", "01", "a", "1a", "-1", "9999999999999999999", "10000000000000000000",
			"18446744073709551616"}),
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
		"9999999999999999999": 9999999999999999999, "10000000000000000000": 0, "18446744073709551616": 0,
		"99999999999999999999": 0,
	} {
		if got := decimal(version); got != want {
			t.Errorf("decimal(%q) = %d, want %d", version, got, want)
		}
	}
	rising := []string{"1", "9", "10", "9999999999999999999", "10000000000000000000", "18446744073709551615",
		"18446744073709551616", "18446744073709551617", "100000000000000000000"}
	for i, a := range rising {
		for j, b := range rising {
			if older, known := positionAt(a).before(positionAt(b)); older != (i < j) || !known ||
				positionAt(a).after(b) != (i > j) {
				t.Errorf("%s before %s: %v, %v, after: %v", a, b, older, known, positionAt(a).after(b))
			}
		}
	}
}

// TestSetAsideByTwo: who wants no more of an object takes it out of those that are set aside while
// the reflector sets others aside. The race detector sees a map without a lock; a crash does as well.
func TestSetAsideByTwo(t *testing.T) {
	var r statusRecorder
	s := setAsideObjects{recorder: &r}
	bad := map[Key]error{}
	for i := range 100 {
		bad[Key{Name: strconv.Itoa(i)}] = errors.New("bad")
	}
	var other sync.WaitGroup
	other.Go(func() {
		for range 1000 {
			r.forgetAside(func(key Key) bool { return key.Name < "5" })
		}
	})
	for i := range 300 {
		s.listed(bad, func(*Error) {})
		s.remove(Key{Name: strconv.Itoa(i % 100)})
		_ = s.has(Key{Name: "1"})
	}
	other.Wait()
	s.listed(nil, func(*Error) {})
	if !s.empty() || len(r.allAside()) != 0 {
		t.Errorf("set aside are still %v", r.allAside())
	}
}
