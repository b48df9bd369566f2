package etcd_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

var errEnough = errors.New("enough")

// watch watches from revision 50 until that many events have come.
func watch(t testing.TB, f *fake, progress time.Duration, opts metav1.ListOptions, n int) ([]string, error) {
	t.Helper()
	opts.ResourceVersion = "50"
	var got []string
	err := f.collection(t, progress).Watch(within(t), opts, func(ev lw.WatchEvent[*item]) error {
		got = append(got, fmt.Sprintf("%s %s %s open=%v more=%v", ev.Type, ev.Key(), ev.ResourceVersion, ev.Open, ev.More))
		if len(got) == n {
			return errEnough
		}
		return nil
	})
	return got, err
}

func tooLarge(err error) bool {
	var s apierrors.APIStatus
	return errors.As(err, &s) && apierrors.HasStatusCause(s.(error), metav1.CauseTypeResourceVersionTooLarge)
}

// TestCreatedOlder: the member on the other side of a watch has not reached the position. If the
// cluster has, the member lags, and the watch goes on; if not, the server went back.
func TestCreatedOlder(t *testing.T) {
	lagging := func(created40 *pb.WatchCreateRequest, s pb.Watch_WatchServer) error {
		if created40.StartRevision != 51 || created40.Fragment {
			t.Errorf("the request: %v", created40)
		}
		_ = s.Send(created(40))
		_ = s.Send(&pb.WatchResponse{Header: header(45)}) // it lags, and says how far it is
		_ = s.Send(events(60, put("/w/ns/a", `{}`, 55, 55)))
		<-s.Context().Done()
		return nil
	}
	f := newFake(t)
	f.watch = lagging
	got, err := watch(t, f, time.Minute, metav1.ListOptions{AllowWatchBookmarks: true}, 1)
	if want := []string{"ADDED ns/a 55 open=false more=false"}; err != errEnough || !cmp.Equal(want, got) {
		t.Errorf("a member that lags: %v, %v", got, err)
	}

	f = newFake(t)
	f.watch = lagging
	reads := 0
	f.read = func(*pb.RangeRequest) (*pb.RangeResponse, error) {
		if reads++; reads == 1 {
			return &pb.RangeResponse{Header: header(50)}, nil // the last answer of the server before
		}
		return nil, futureRev
	}
	got, err = watch(t, f, time.Minute, metav1.ListOptions{}, 1)
	if !errors.Is(err, lw.ErrRewound) || !tooLarge(err) || len(got) > 0 {
		t.Errorf("a server that went back: %v, %v", got, err)
	}
}

// TestProgressOlder: an answer on the same watch is older than one before.
func TestProgressOlder(t *testing.T) {
	f := newFake(t)
	f.watch = func(_ *pb.WatchCreateRequest, s pb.Watch_WatchServer) error {
		_ = s.Send(created(70))
		_ = s.Send(&pb.WatchResponse{Header: header(70)})
		_ = s.Send(&pb.WatchResponse{Header: header(60)})
		<-s.Context().Done()
		return nil
	}
	got, err := watch(t, f, time.Minute, metav1.ListOptions{AllowWatchBookmarks: true}, 9)
	if want := []string{"BOOKMARK / 70 open=false more=false"}; !errors.Is(err, lw.ErrRewound) || !cmp.Equal(want, got) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestProgressEarly: a server answers a request for progress before it says that the watch is
// created, and holds an event back. That answer is no bookmark; after the event there is one.
func TestProgressEarly(t *testing.T) {
	f := newFake(t)
	f.watch = func(_ *pb.WatchCreateRequest, s pb.Watch_WatchServer) error {
		_ = s.Send(&pb.WatchResponse{Header: header(52)})
		_ = s.Send(created(51))
		_ = s.Send(events(52, put("/w/ns/a", `{}`, 52, 52)))
		if _, err := s.Recv(); err != nil {
			return err
		}
		_ = s.Send(&pb.WatchResponse{Header: header(53)})
		<-s.Context().Done()
		return nil
	}
	got, err := watch(t, f, time.Minute, metav1.ListOptions{AllowWatchBookmarks: true}, 2)
	want := []string{"ADDED ns/a 52 open=false more=false", "BOOKMARK / 53 open=false more=false"}
	if err != errEnough || !cmp.Equal(want, got) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestSilence: a server that does not answer ends the watch with a network error; one that answers,
// and one whose events are still being handled, does not.
func TestSilence(t *testing.T) {
	f := newFake(t)
	asked := make(chan bool, 100)
	f.watch = func(_ *pb.WatchCreateRequest, s pb.Watch_WatchServer) error {
		_ = s.Send(created(50))
		for {
			req, err := s.Recv()
			if err != nil {
				return err
			}
			asked <- req.GetProgressRequest() != nil
		}
	}
	begun := time.Now()
	_, err := watch(t, f, 200*time.Millisecond, metav1.ListOptions{}, 1)
	var network net.Error
	// The end of the test's own context is a network error too, with gRPC's text or with context's.
	if !errors.As(err, &network) || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a silent server: %v", err)
	}
	if time.Since(begun) < 200*time.Millisecond || len(asked) < 2 || !<-asked {
		t.Errorf("it was asked %d times in %v", len(asked), time.Since(begun))
	}

	f = newFake(t)
	f.watch = func(_ *pb.WatchCreateRequest, s pb.Watch_WatchServer) error {
		_ = s.Send(created(50))
		_ = s.Send(events(60, put("/w/ns/a", `{}`, 51, 51)))
		for n := int64(60); ; n++ {
			if _, err := s.Recv(); err != nil {
				return err
			}
			_ = s.Send(&pb.WatchResponse{Header: header(n)})
		}
	}
	n := 0
	err = f.collection(t, 100*time.Millisecond).Watch(within(t), metav1.ListOptions{ResourceVersion: "50", AllowWatchBookmarks: true}, func(ev lw.WatchEvent[*item]) error {
		if n++; n == 1 {
			time.Sleep(500 * time.Millisecond) // real sockets have no bubble
		}
		if n == 4 {
			return errEnough
		}
		return nil
	})
	if err != errEnough {
		t.Errorf("a server that answers: %v", err)
	}
}

// TestGroups: the events of one revision are open but for the last that is selected.
func TestGroups(t *testing.T) {
	f := newFake(t)
	f.watch = func(_ *pb.WatchCreateRequest, s pb.Watch_WatchServer) error {
		_ = s.Send(created(50))
		_ = s.Send(events(60, put("/w/ns/a", `{}`, 51, 51), put("/w/ns/b", `{}`, 51, 51), put("/w/ns/c", `{}`, 52, 52)))
		_ = s.Send(events(60, put("/w/ns/d", `{}`, 53, 53), put("/w/ns/x", `{}`, 53, 53)))
		_ = s.Send(events(60, put("/w/ns/x", `{}`, 53, 54), put("/w/ns/e", `{}`, 54, 54)))
		<-s.Context().Done()
		return nil
	}
	got, err := watch(t, f, time.Minute, metav1.ListOptions{FieldSelector: "metadata.name!=x"}, 5)
	want := []string{
		"ADDED ns/a 51 open=true more=true", "ADDED ns/b 51 open=false more=true", "ADDED ns/c 52 open=false more=false",
		"ADDED ns/d 53 open=false more=false", "ADDED ns/e 54 open=false more=false",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != errEnough {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestWithoutPrevious: with a label selector, an event without the object before ends the watch:
// nobody can tell whether it was selected. Without a selector it is not needed, nor asked for.
func TestWithoutPrevious(t *testing.T) {
	for _, ev := range []*mvccpb.Event{
		put("/w/ns/a", `{"labels":{"on":"1"}}`, 40, 51),
		{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: []byte("/w/ns/a"), ModRevision: 51}},
	} {
		f := newFake(t)
		var wants []bool
		f.watch = func(req *pb.WatchCreateRequest, s pb.Watch_WatchServer) error {
			wants = append(wants, req.PrevKv)
			_ = s.Send(created(50))
			_ = s.Send(events(60, put("/w/ns/b", `{"labels":{"on":"1"}}`, 51, 51), ev))
			<-s.Context().Done()
			return nil
		}
		got, err := watch(t, f, time.Minute, metav1.ListOptions{LabelSelector: "on=1"}, 9)
		if !apierrors.IsResourceExpired(err) || len(got) > 0 {
			t.Errorf("%v: %v, %v; want Expired, and no part of the revision", ev, got, err)
		}
		if got, err := watch(t, f, time.Minute, metav1.ListOptions{}, 2); err != errEnough {
			t.Errorf("%v without a selector: %v, %v", ev, got, err)
		}
		if diff := cmp.Diff([]bool{true, false}, wants); diff != "" {
			t.Errorf("PrevKv (-want +got):\n%s", diff)
		}
	}
}

// TestEnds: the ways in which a server ends a watch.
func TestEnds(t *testing.T) {
	is := func(f func(error) bool) func(error) bool { return f }
	network := func(err error) bool {
		var n net.Error
		return errors.As(err, &n)
	}
	for _, tt := range []struct {
		name string
		end  func(s pb.Watch_WatchServer) error
		want func(error) bool
	}{
		{"the end", func(pb.Watch_WatchServer) error { return nil }, func(err error) bool { return err == nil }},
		{"compacted", func(s pb.Watch_WatchServer) error {
			return s.Send(&pb.WatchResponse{Header: header(60), Canceled: true, CompactRevision: 55})
		}, apierrors.IsResourceExpired},
		{"403", func(s pb.Watch_WatchServer) error {
			return s.Send(&pb.WatchResponse{Header: header(60), Created: true, Canceled: true, CancelReason: rpctypes.ErrGRPCPermissionDenied.Error()})
		}, apierrors.IsForbidden},
		{"401", func(s pb.Watch_WatchServer) error {
			return s.Send(&pb.WatchResponse{Header: header(60), Created: true, Canceled: true, CancelReason: rpctypes.ErrGRPCInvalidAuthToken.Error()})
		}, apierrors.IsUnauthorized},
		{"something", func(s pb.Watch_WatchServer) error {
			return s.Send(&pb.WatchResponse{Header: header(60), Canceled: true, CancelReason: "something"})
		}, is(network)},
		{"no leader", func(pb.Watch_WatchServer) error { return rpctypes.ErrGRPCNoLeader }, func(err error) bool {
			return network(err) && errors.Is(rpctypes.Error(errors.Unwrap(err)), rpctypes.ErrNoLeader)
		}},
		{"busy", func(pb.Watch_WatchServer) error { return rpctypes.ErrGRPCRequestTooManyRequests }, func(err error) bool {
			seconds, ok := apierrors.SuggestsClientDelay(err)
			return apierrors.IsTooManyRequests(err) && ok && seconds == 1
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			f.watch = func(_ *pb.WatchCreateRequest, s pb.Watch_WatchServer) error { return tt.end(s) }
			if _, err := watch(t, f, time.Minute, metav1.ListOptions{}, 1); !tt.want(err) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestDial: a server that is not there is a dial that has failed, for which pauses stay short.
func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{l.Addr().String()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	f := &fake{client: client}
	_, err = f.collection(t, 0).List(within(t), metav1.ListOptions{}, func(*item, error) error { return nil })
	var op *net.OpError
	if err == nil || !errors.As(err, &op) || op.Op != "dial" {
		t.Errorf("%v: %+v", err, op)
	}
}
