package etcd_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/etcd/internal/fakeetcd"
	"github.com/go-lw/lw/internal/verify/rig"
)

func network(err error) bool {
	var n net.Error
	//lint:ignore SA1019 clients of before Go 1.18 ask for it
	return errors.As(err, &n) && n.Temporary() && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown
}

// caused returns what reports whether an error of the network was caused by that error of etcd.
func caused(by error) func(error) bool {
	return func(err error) bool { return network(err) && errors.Is(rpctypes.Error(errors.Unwrap(err)), by) }
}

func busy(err error) bool {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	return apierrors.IsTooManyRequests(err) && ok && seconds == 1
}

// requests are those that a collection makes of a server.
func requests(c *etcd.Collection[*item]) map[string]func(context.Context) error {
	at5 := metav1.ListOptions{ResourceVersion: "5"}
	a5 := lw.Meta{Namespace: "ns", Name: "a", ResourceVersion: "5"}
	return map[string]func(context.Context) error{
		"list":   func(ctx context.Context) error { return second(c.List(ctx, metav1.ListOptions{}, nil)) },
		"watch":  func(ctx context.Context) error { return c.Watch(ctx, at5, nil) },
		"get":    func(ctx context.Context) error { return second(c.Get(ctx, keyA)) },
		"create": func(ctx context.Context) error { return second(c.Create(ctx, newItem("a", 1))) },
		"update": func(ctx context.Context) error { return second(c.Update(ctx, newItem("a", 1))) },
		"delete": func(ctx context.Context) error { return second(c.Delete(ctx, keyA, "")) },
		"had":    func(ctx context.Context) error { return second(c.Hints().StillHas(ctx, a5, "5")) },
	}
}

// TestErrors: what a server answers to each request, and what its caller gets. The cause stays.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		answer error
		want   func(error) bool
	}{
		{rpctypes.ErrGRPCCompacted, apierrors.IsResourceExpired},
		{rpctypes.ErrGRPCPermissionDenied, apierrors.IsForbidden},
		{rpctypes.ErrGRPCAuthFailed, apierrors.IsUnauthorized},
		{rpctypes.ErrGRPCUserEmpty, apierrors.IsUnauthorized},
		{rpctypes.ErrGRPCAuthOldRevision, apierrors.IsUnauthorized},
		{rpctypes.ErrGRPCRequestTooManyRequests, busy},
		{rpctypes.ErrGRPCNoSpace, func(err error) bool { return code(err) == http.StatusInsufficientStorage }},
		{rpctypes.ErrGRPCRequestTooLarge, apierrors.IsRequestEntityTooLargeError},
		{status.Error(codes.ResourceExhausted, "trying to send message larger than max (9 vs. 8)"),
			apierrors.IsRequestEntityTooLargeError},
		{status.Error(codes.ResourceExhausted, "something else"), network},
		{status.Error(codes.Internal, "message larger than max"), network},
		{status.Error(codes.DataLoss, "x"), network},
		{rpctypes.ErrGRPCNoLeader, caused(rpctypes.ErrNoLeader)},
	} {
		bubble(t, func(t *testing.T, f *fake) {
			check := func(what string, err error) {
				caused := errors.Is(rpctypes.Error(err), rpctypes.Error(tt.answer)) || is(err, tt.answer)
				if !tt.want(err) || !caused || errors.Is(err, lw.ErrRewound) {
					t.Errorf("%s, %v: %v", what, tt.answer, err)
				}
			}
			txn := func(*pb.TxnRequest) (*pb.TxnResponse, error) { return nil, tt.answer }
			f.Set(fakeetcd.Hooks{Range: func(*pb.RangeRequest) (*pb.RangeResponse, error) { return nil, tt.answer }, Txn: txn})
			c := f.collection(0)
			for what, do := range requests(c) {
				check(what, do(within(t)))
			}
			f.Set(fakeetcd.Hooks{Txn: txn})
			f.write2("/w/ns/a", `{}`)
			check("replace", second(c.Update(within(t), newItem("a", 1))))
		})
	}
}

// write2 puts a value past the transactions.
func (f *fake) write2(key, value string) {
	f.t.Helper()
	rig.OK(f.t, second(f.Client.Put(f.t.Context(), key, value)))
}

// is reports whether target, an error of gRPC, is what err says or one of its causes.
func is(err, target error) bool {
	if err == nil {
		return false
	}
	if status.Code(err) == status.Code(target) {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return is(e.Unwrap(), target)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if is(one, target) {
				return true
			}
		}
	}
	return false
}

// TestFuture: a revision that the server has not reached is a Timeout for a list and for StillHas,
// and for a watch an ErrRewound.
func TestFuture(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.collection(0)
		_, _,
			err := f.list(c, metav1.ListOptions{ResourceVersion: "50", ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		_, had := c.Hints().StillHas(within(t), lw.Meta{Namespace: "ns", Name: "a", ResourceVersion: "5"}, "50")
		for what, err := range map[string]error{"list": err, "had": had} {
			if !tooLarge(err) || !apierrors.IsTimeout(err) || errors.Is(err, lw.ErrRewound) || !errors.Is(rpctypes.Error(err),
				rpctypes.ErrFutureRev) && !is(err, futureRev) || !strings.Contains(err.Error(), "50, current: 0") {
				t.Errorf("%s: %v", what, err)
			}
		}
		f.tells(c, metav1.ListOptions{ResourceVersion: "50"}, rewound)
	})
}

// TestCanceled: whoever ends a request gets the cause of its context.
func TestCanceled(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		never := make(chan bool)
		defer close(never)
		f.Set(fakeetcd.Hooks{
			Range: func(*pb.RangeRequest) (*pb.RangeResponse, error) { <-never; return nil, futureRev },
			Txn:   func(*pb.TxnRequest) (*pb.TxnResponse, error) { <-never; return nil, futureRev },
		})
		because := errors.New("because")
		for what, do := range requests(f.collection(0)) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(because) })
			if err := do(ctx); err != because {
				t.Errorf("%s: %v", what, err)
			}
			cancel(nil)
		}
	})
}

// TestDial: a server that is not there is a dial that has failed, for which pauses stay short. It
// is not waited for.
func TestDial(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		f.Down()
		c := f.collection(0)
		_, _, listed := f.list(c, metav1.ListOptions{})
		_, watched := f.watch(c, metav1.ListOptions{ResourceVersion: "5"}, 1)
		for what, err := range map[string]error{"list": listed, "watch": watched} {
			var op *net.OpError
			var n net.Error
			if !errors.As(err, &op) || op.Op != "dial" || !errors.As(err, &n) || n.Timeout() || op.Err == nil {
				t.Errorf("%s: %v: %+v", what, err, op)
			}
		}
	})
	// Another error of the network is no dial; one that time was up says so.
	bubble(t, func(t *testing.T, f *fake) {
		for _, tt := range []struct {
			answer  error
			timeout bool
		}{{status.Error(codes.Unavailable, "x"), false}, {status.Error(codes.Unknown, "while dialing"), false},
			{rpctypes.ErrGRPCTimeout, false}, {status.Error(codes.DeadlineExceeded, "x"), true}} {
			f.script(func(*pb.RangeRequest) (*pb.RangeResponse, error) { return nil, tt.answer }, nil)
			_, _, err := f.list(f.collection(0), metav1.ListOptions{})
			var op *net.OpError
			var n net.Error
			if errors.As(err, &op) || !errors.As(err, &n) || n.Timeout() != tt.timeout || n.Error() == "" {
				t.Errorf("%v: %v, %v", tt.answer, err, op)
			}
		}
	})
}

// TestAway: a server that was away for a minute is followed within seconds: no request waits for
// the pauses of gRPC, which are two minutes long by then.
func TestAway(t *testing.T) {
	for _, away := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute} {
		bubble(t, func(t *testing.T, f *fake) {
			c := f.collection(time.Minute)
			f.write("ns/a", `{}`)
			f.Down()
			inf := lw.NewInformer(c, &lw.Options{OnError: func(error) {},
				Backoff: func(int) time.Duration { return time.Second }})
			go inf.Run(t.Context())
			time.Sleep(away)
			f.Up()
			if err := inf.WaitForSync(lasts(t, 5*time.Second)); err != nil {
				t.Errorf("away for %v before the list: %v", away, err)
			}
			time.Sleep(time.Second)
			f.Down()
			time.Sleep(away)
			f.Up()
			version := f.write("ns/b", `{}`)
			if err := inf.WaitForResourceVersion(lasts(t, 5*time.Second), version); err != nil {
				t.Errorf("away for %v in a watch: %v", away, err)
			}
		})
	}
}
