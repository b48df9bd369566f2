package etcd_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd/internal/fakeetcd"
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
		{status.Error(codes.ResourceExhausted, "trying to send message larger than max (9 vs. 8)"), apierrors.IsRequestEntityTooLargeError},
		{status.Error(codes.ResourceExhausted, "something else"), network},
		{status.Error(codes.Internal, "message larger than max"), network},
		{status.Error(codes.DataLoss, "x"), network},
		{rpctypes.ErrGRPCNoLeader, caused(rpctypes.ErrNoLeader)},
	} {
		bubble(t, func(t *testing.T, f *fake) {
			f.Set(fakeetcd.Hooks{
				Range: func(*pb.RangeRequest) (*pb.RangeResponse, error) { return nil, tt.answer },
				Txn:   func(*pb.TxnRequest) (*pb.TxnResponse, error) { return nil, tt.answer },
			})
			ctx := within(t)
			c := f.collection(0)
			key := lw.Key{Namespace: "ns", Name: "a"}
			_, _, listed := f.list(c, metav1.ListOptions{})
			_, watched := f.watch(c, metav1.ListOptions{ResourceVersion: "5"}, 1)
			_, got := c.Get(ctx, key)
			_, created := c.Create(ctx, newItem("a", 1))
			_, updated := c.Update(ctx, newItem("a", 1))
			_, deleted := c.Delete(ctx, key, "")
			_, had := c.Hints().StillHas(ctx, lw.Meta{Namespace: "ns", Name: "a", ResourceVersion: "5"}, "5")
			f.Set(fakeetcd.Hooks{Txn: func(*pb.TxnRequest) (*pb.TxnResponse, error) { return nil, tt.answer }})
			f.write2("/w/ns/a", `{}`)
			_, replaced := c.Update(ctx, newItem("a", 1))
			for what, err := range map[string]error{
				"list": listed, "watch": watched, "get": got, "create": created, "update": updated, "delete": deleted, "had": had, "replace": replaced,
			} {
				if !tt.want(err) || !errors.Is(rpctypes.Error(err), rpctypes.Error(tt.answer)) && !is(err, tt.answer) {
					t.Errorf("%s, %v: %v", what, tt.answer, err)
				}
				if errors.Is(err, lw.ErrRewound) {
					t.Errorf("%s, %v: %v", what, tt.answer, err)
				}
			}
		})
	}
}

// write2 puts a value past the transactions.
func (f *fake) write2(key, value string) {
	f.t.Helper()
	noErr(f.t, second(f.Client.Put(f.t.Context(), key, value)))
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
		_, _, err := f.list(c, metav1.ListOptions{ResourceVersion: "50", ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		_, had := c.Hints().StillHas(within(t), lw.Meta{Namespace: "ns", Name: "a", ResourceVersion: "5"}, "50")
		for what, err := range map[string]error{"list": err, "had": had} {
			if !tooLarge(err) || !apierrors.IsTimeout(err) || errors.Is(err, lw.ErrRewound) || !errors.Is(rpctypes.Error(err), rpctypes.ErrFutureRev) && !is(err, futureRev) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := f.watch(c, metav1.ListOptions{ResourceVersion: "50"}, 1); !rewound(err) {
			t.Errorf("watch: %v", err)
		}
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
		c := f.collection(0)
		because := errors.New("because")
		for what, do := range map[string]func(context.Context) error{
			"list": func(ctx context.Context) error {
				_, err := c.List(ctx, metav1.ListOptions{}, nil)
				return err
			},
			"watch":  func(ctx context.Context) error { return c.Watch(ctx, metav1.ListOptions{ResourceVersion: "5"}, nil) },
			"get":    func(ctx context.Context) error { _, err := c.Get(ctx, lw.Key{Name: "a"}); return err },
			"create": func(ctx context.Context) error { _, err := c.Create(ctx, newItem("a", 1)); return err },
			"delete": func(ctx context.Context) error { _, err := c.Delete(ctx, lw.Key{Name: "a"}, ""); return err },
		} {
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
		}{{status.Error(codes.Unavailable, "x"), false}, {status.Error(codes.Unknown, "while dialing"), false}, {rpctypes.ErrGRPCTimeout, false}, {status.Error(codes.DeadlineExceeded, "x"), true}} {
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
			inf := lw.NewInformer(c, &lw.Options{OnError: func(error) {}, Backoff: func(int) time.Duration { return time.Second }})
			go inf.Run(t.Context())
			time.Sleep(away)
			f.Up()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := inf.WaitForSync(ctx); err != nil {
				t.Errorf("away for %v before the list: %v", away, err)
			}
			time.Sleep(time.Second)
			f.Down()
			time.Sleep(away)
			f.Up()
			version := f.write("ns/b", `{}`)
			ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := inf.WaitForResourceVersion(ctx, version); err != nil {
				t.Errorf("away for %v in a watch: %v", away, err)
			}
		})
	}
}
