package lw

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
