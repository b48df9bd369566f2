package etcd_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/etcd/internal/fakeetcd"
	"github.com/go-lw/lw/internal/verify/rig"
)

var errEnough = errors.New("enough")

// enough reports whether a watch was told all that it waited for.
func enough(err error) bool { return err == errEnough }

// tells checks what a watch tells, and how it ends. If it is not to end when that is told, nothing
// else may come.
func (f *fake) tells(c *etcd.Collection[*item], opts metav1.ListOptions, ends func(error) bool, want ...string) {
	f.t.Helper()
	n := len(want)
	if !ends(errEnough) {
		n++
	}
	got, err := f.watch(c, opts, n)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || !ends(err) {
		f.t.Errorf("%v: %v (-want +got):\n%s", opts, err, diff)
	}
}

// from50 is tells, of a watch from revision 50.
func from50(f *fake, opts metav1.ListOptions, ends func(error) bool, want ...string) {
	f.t.Helper()
	opts.ResourceVersion = "50"
	f.tells(f.collection(time.Minute), opts, ends, want...)
}

func tooLarge(err error) bool {
	var s apierrors.APIStatus
	return errors.As(err, &s) && apierrors.HasStatusCause(s.(error), metav1.CauseTypeResourceVersionTooLarge)
}

// rewound reports whether err is an lw.ErrRewound, and a 504 for those who know none.
func rewound(err error) bool { return errors.Is(err, lw.ErrRewound) && tooLarge(err) }

// TestWatch: what a watch has to say of each sort of change.
func TestWatch(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.collection(0)
		on := func(i *item) string { i.Labels = map[string]string{"on": "1"}; return value(i) }
		f.write("ns/a", value(newItem("a", 1)))
		f.write("ns/a", on(newItem("a", 2)))
		f.write("ns/a", "garbage")
		f.write("ns/a", on(newItem("a", 3)), "other/b", `{}`)
		f.write("ns/a", value(newItem("a", 4)), "ns/x", "garbage")
		f.write("ns/a", "", "other/b", "", "ns/x", "")
		f.write("ns/a", "garbage", "/odd", "x")
		f.write("ns/a", "")
		for _, tt := range []struct {
			opts metav1.ListOptions
			want []string
		}{
			{metav1.ListOptions{}, []string{
				"ADDED ns/a 2 more", "MODIFIED ns/a 3 more", "MODIFIED ns/a 4 more bad",
				"MODIFIED ns/a 5 open more", "ADDED other/b 5 more", "MODIFIED ns/a 6 open more", "ADDED ns/x 6 more bad",
				"DELETED ns/a 7 open more", "DELETED other/b 7 open more", "DELETED ns/x 7 more", "ADDED ns/a 8 open more bad",
				"ADDED //odd 8 more bad", "DELETED ns/a 9",
			}},
			{metav1.ListOptions{LabelSelector: "on=1"}, []string{
				"ADDED ns/a 3 more", "MODIFIED ns/a 4 more bad", "MODIFIED ns/a 5 more", "DELETED ns/a 6 open more",
				"ADDED ns/x 6 more bad",
				"DELETED ns/x 7 more", "ADDED ns/a 8 open more bad", "ADDED //odd 8 more bad", "DELETED ns/a 9",
			}},
			{metav1.ListOptions{FieldSelector: "metadata.name!=a"}, []string{
				"ADDED other/b 5 more", "ADDED ns/x 6 more bad", "DELETED other/b 7 open more", "DELETED ns/x 7 more",
				"ADDED //odd 8 bad",
			}},
			{metav1.ListOptions{FieldSelector: "metadata.namespace=other"}, []string{"ADDED other/b 5 more",
				"DELETED other/b 7"}},
			{metav1.ListOptions{FieldSelector: "metadata.namespace=ns,metadata.name=x"}, []string{"ADDED ns/x 6 more bad",
				"DELETED ns/x 7"}},
			// What a key tells is told of bad objects too, whatever the labels are.
			{metav1.ListOptions{FieldSelector: "metadata.name!=a", LabelSelector: "on=1"}, []string{"ADDED ns/x 6 more bad",
				"DELETED ns/x 7 more", "ADDED //odd 8 bad"}},
		} {
			tt.opts.ResourceVersion = "1"
			f.tells(c, tt.opts, enough, tt.want...)
		}
	})
}

func code(err error) int32 {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return 0
	}
	return s.Status().Code
}

// TestCreatedOlder: the member on the other side of a watch has not reached the position. If the
// cluster has, the member lags, and the watch goes on; if not, the server went back.
func TestCreatedOlder(t *testing.T) {
	lagging := func(create *pb.WatchCreateRequest, s pb.Watch_WatchServer) error {
		if create.StartRevision != 50 || create.Fragment {
			t.Errorf("the request: %v", create)
		}
		return says(created(40), progress(45), events(60, put("/w/ns/a", `{}`, 55, 55)))(create, s)
	}
	subtest(t, "a member that lags", func(t *testing.T, f *fake) {
		f.script(at50, lagging)
		from50(f, metav1.ListOptions{AllowWatchBookmarks: true}, enough, "ADDED ns/a 55")
		rig.Same(t, "the questions", []string{"/w/ at 50 count", "/w/ at 50 count"}, f.asked())
	})
	subtest(t, "a server that went back", func(t *testing.T, f *fake) {
		reads := 0
		f.script(func(req *pb.RangeRequest) (*pb.RangeResponse, error) {
			if reads++; reads == 1 {
				return at50(req) // the last answer of the server before
			}
			return nil, futureRev
		}, lagging)
		from50(f, metav1.ListOptions{}, rewound)
	})
}

// TestRevisions: the revisions that a server says on one watch, in which no event is, and what
// comes of them.
func TestRevisions(t *testing.T) {
	a55 := events(60, put("/w/ns/a", `{}`, 55, 55))
	for _, tt := range []struct {
		name string
		says []*pb.WatchResponse
		want []string
		back bool // it ends with ErrRewound
	}{
		{"forward", []*pb.WatchResponse{created(50), progress(60), progress(60), progress(61)},
			[]string{"BOOKMARK / 60", "BOOKMARK / 61"}, false},
		{"the position", []*pb.WatchResponse{created(50), progress(50)}, nil, false},
		{"back", []*pb.WatchResponse{created(50), progress(60), progress(55)}, []string{"BOOKMARK / 60"}, true},
		{"back behind the beginning", []*pb.WatchResponse{created(70), progress(60)}, nil, true},
		{"back behind an event", []*pb.WatchResponse{created(50), a55, progress(58)}, []string{"ADDED ns/a 55"}, true},
		{"an event of before is no step back", []*pb.WatchResponse{created(70), a55, progress(70)},
			[]string{"ADDED ns/a 55", "BOOKMARK / 70"}, false},
		{"an event of before takes none back", []*pb.WatchResponse{created(70), a55, progress(65)},
			[]string{"ADDED ns/a 55"}, true},
		{"a member that lags", []*pb.WatchResponse{created(40), progress(45), progress(44)}, nil, false},
		{"a member that has caught up", []*pb.WatchResponse{created(40), progress(52), progress(51)},
			[]string{"BOOKMARK / 52"}, true},
	} {
		subtest(t, tt.name, func(t *testing.T, f *fake) {
			f.script(at50, says(tt.says...))
			ends := func(err error) bool { return rewound(err) == tt.back && err != errEnough }
			from50(f, metav1.ListOptions{AllowWatchBookmarks: true}, ends, tt.want...)
			without := slices.DeleteFunc(slices.Clone(tt.want),
				func(ev string) bool { return strings.HasPrefix(ev, "BOOKMARK") })
			from50(f, metav1.ListOptions{}, ends, without...)
		})
	}
}

// TestProgressOlder: an answer on the same watch is older than one before.
func TestProgressOlder(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		f.script(at50, says(created(70), progress(70), progress(60)))
		from50(f, metav1.ListOptions{AllowWatchBookmarks: true}, rewound, "BOOKMARK / 70")
	})
}

// TestProgressEarly: a server answers a request for progress before it says that the watch is
// created, and holds an event back. That answer is no bookmark; after the event there is one.
func TestProgressEarly(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		f.script(at50, func(create *pb.WatchCreateRequest, s pb.Watch_WatchServer) error {
			_ = s.Send(progress(52))
			_ = s.Send(created(51))
			_ = s.Send(events(52, put("/w/ns/a", `{}`, 52, 52)))
			if _, err := s.Recv(); err != nil {
				return err
			}
			return says(progress(53))(create, s)
		})
		begun := time.Now()
		from50(f, metav1.ListOptions{AllowWatchBookmarks: true}, enough, "ADDED ns/a 52", "BOOKMARK / 53")
		if took := time.Since(begun); took > time.Second {
			t.Errorf("after %v", took)
		}
	})
	// Without an early answer there is no question before its time.
	bubble(t, func(t *testing.T, f *fake) {
		f.script(at50, func(create *pb.WatchCreateRequest, s pb.Watch_WatchServer) error {
			_ = s.Send(created(50))
			if _, err := s.Recv(); err != nil {
				return err
			}
			return says(progress(53))(create, s)
		})
		begun := time.Now()
		from50(f, metav1.ListOptions{AllowWatchBookmarks: true}, enough, "BOOKMARK / 53")
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("after %v", took)
		}
	})
}

// TestSilence: a server that does not answer ends the watch with a network error; one that answers,
// and one whose events are still being handled, does not.
func TestSilence(t *testing.T) {
	const every = 20 * time.Second
	// asks returns a watch that notes when it is asked, and answers if it is to.
	asks := func(at *[]time.Duration, answers func(n int) bool) watching {
		return func(_ *pb.WatchCreateRequest, s pb.Watch_WatchServer) error {
			begun := time.Now()
			_ = s.Send(created(50))
			for n := 1; ; n++ {
				req, err := s.Recv()
				if err != nil {
					return err
				}
				if req.GetProgressRequest() == nil {
					t.Errorf("the request: %v", req)
				}
				if *at = append(*at, time.Since(begun)/time.Second); answers(n) {
					_ = s.Send(progress(50))
				}
			}
		}
	}
	for _, tt := range []struct {
		name    string
		answers func(n int) bool
		asked   []time.Duration // in the first 100 seconds
		ends    time.Duration   // in seconds; 0: it does not
	}{
		{"a silent server", func(int) bool { return false }, []time.Duration{20, 25, 30, 35}, 40},
		{"one that answers", func(int) bool { return true }, []time.Duration{20, 40, 60, 80, 100}, 0},
		{"one that answers when it is asked again", func(n int) bool { return n%3 == 0 }, []time.Duration{20, 25, 30, 40, 45,
			50, 60, 65, 70, 80, 85, 90, 100}, 0},
		{"one that falls silent", func(n int) bool { return n <= 2 }, []time.Duration{20, 40, 60, 65, 70, 75}, 80},
	} {
		bubble(t, func(t *testing.T, f *fake) {
			var asked []time.Duration
			f.script(at50, asks(&asked, tt.answers))
			begun := time.Now()
			err := f.collection(every).Watch(lasts(t, 101*time.Second), metav1.ListOptions{ResourceVersion: "50"}, nil)
			ended := time.Since(begun)
			synctest.Wait() // for the server
			rig.Same(t, tt.name+" is asked after", tt.asked, asked)
			lost := network(err) && !errors.Is(err, context.Canceled) && ended == tt.ends*time.Second
			if tt.ends == 0 && !errors.Is(err, errOver) || tt.ends != 0 && !lost {
				t.Errorf("%s: %v after %v", tt.name, err, ended)
			}
		})
	}
	bubble(t, func(t *testing.T, f *fake) {
		f.script(at50, func(create *pb.WatchCreateRequest, s pb.Watch_WatchServer) error {
			_ = s.Send(events(60, put("/w/ns/a", `{}`, 51, 51)))
			var asked []time.Duration
			return asks(&asked, func(int) bool { return true })(create, s)
		})
		err := f.collection(every).Watch(lasts(t, 5*time.Minute), metav1.ListOptions{ResourceVersion: "50"},
			func(lw.WatchEvent[*item]) error {
				time.Sleep(3 * time.Minute)
				return nil
			})
		if !errors.Is(err, errOver) {
			t.Errorf("an event takes three minutes: %v", err)
		}
	})
	// The least period works: it is no division by zero, nor a hot loop.
	bubble(t, func(t *testing.T, f *fake) {
		var asked []time.Duration
		f.script(at50, asks(&asked, func(int) bool { return false }))
		if err := f.collection(1).Watch(within(t), metav1.ListOptions{ResourceVersion: "50"}, nil); !network(err) {
			t.Errorf("%v", err)
		}
	})
}

// TestIdle: a server answers on a watch only if it has reached its beginning. It is not called
// silent for that where nobody writes, and what the position has is not told again.
func TestIdle(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		position := f.write("ns/a", `{}`, "ns/b", `{}`)
		opts := metav1.ListOptions{ResourceVersion: position, AllowWatchBookmarks: true,
			TimeoutSeconds: new(int64(24 * 60 * 60))}
		time.AfterFunc(12*time.Hour, func() { f.write("ns/a", "") })
		var got []string
		err := f.collection(0).Watch(lasts(t, 48*time.Hour), opts,
			func(ev lw.WatchEvent[*item]) error { got = append(got, told(ev)); return nil })
		if want := []string{"DELETED ns/a 3"}; err != nil || !cmp.Equal(want, got) {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// TestRequestProgress: a request for a bookmark is made at once, on every watch, but on none that
// has ended; the time of the next one by itself stays.
func TestRequestProgress(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.collection(time.Minute)
		position := f.write("ns/a", `{}`)
		watch := func() <-chan string {
			marks := make(chan string, 10)
			go c.Watch(t.Context(), metav1.ListOptions{ResourceVersion: position, AllowWatchBookmarks: true},
				func(ev lw.WatchEvent[*item]) error {
					marks <- told(ev)
					return nil
				})
			time.Sleep(time.Millisecond)
			return marks
		}
		one, other := watch(), watch()
		rig.OK(t, second(f.Client.Put(t.Context(), "/elsewhere", "x")))
		time.Sleep(20 * time.Second)
		c.WithLease(0).Hints().Progress() // it shares the watches
		time.Sleep(time.Millisecond)
		for _, marks := range []<-chan string{one, other} {
			if len(marks) != 1 || <-marks != "BOOKMARK / 3" {
				t.Errorf("%d bookmarks", len(marks))
			}
		}
		rig.OK(t, second(f.Client.Put(t.Context(), "/elsewhere", "x")))
		if time.Sleep(39 * time.Second); len(one) > 0 {
			t.Error("a bookmark before its time")
		}
		if time.Sleep(2 * time.Second); len(one) != 1 {
			t.Error("no bookmark at its time")
		}
	})
}

// TestProgressByDefault: a quiet watch tells the version every 30 seconds.
func TestProgressByDefault(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		position := f.write("ns/a", `{}`)
		marks := make(chan string, 10)
		go f.collection(0).Watch(t.Context(), metav1.ListOptions{ResourceVersion: position, AllowWatchBookmarks: true},
			func(ev lw.WatchEvent[*item]) error {
				marks <- told(ev)
				return nil
			})
		for range 3 {
			time.Sleep(time.Millisecond)
			rig.OK(t, second(f.Client.Put(t.Context(), "/elsewhere", "x")))
			time.Sleep(29 * time.Second)
			rig.Same(t, "bookmarks before the time", 0, len(marks))
			time.Sleep(time.Second)
			rig.Same(t, "bookmarks at the time", 1, len(marks))
			<-marks
		}
	})
}

// TestGroups: the events of one revision are open but for the last that is selected.
func TestGroups(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		f.script(at50, says(created(50),
			events(60, put("/w/ns/a", `{}`, 51, 51), put("/w/ns/b", `{}`, 51, 51), put("/w/ns/c", `{}`, 52, 52)),
			events(60, put("/w/ns/d", `{}`, 53, 53), put("/w/ns/x", `{}`, 53, 53)),
			events(60, put("/w/ns/x", `{}`, 53, 54), put("/w/ns/e", `{}`, 54, 54))))
		from50(f, metav1.ListOptions{FieldSelector: "metadata.name!=x"}, enough,
			"ADDED ns/a 51 open more", "ADDED ns/b 51 more", "ADDED ns/c 52", "ADDED ns/d 53", "ADDED ns/e 54")
	})
}

// TestWithoutPrevious: with a label selector, an event without the object before ends the watch:
// nobody can tell whether it was selected. Without a selector it is not needed, nor asked for.
func TestWithoutPrevious(t *testing.T) {
	for last, ev := range map[string]*mvccpb.Event{
		"MODIFIED ns/a 51": put("/w/ns/a", `{"labels":{"on":"1"}}`, 40, 51),
		"DELETED ns/a 51":  {Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: []byte("/w/ns/a"), ModRevision: 51}},
	} {
		bubble(t, func(t *testing.T, f *fake) {
			var wants []bool
			f.script(at50, func(create *pb.WatchCreateRequest, s pb.Watch_WatchServer) error {
				wants = append(wants, create.PrevKv)
				return says(created(50), events(60, put("/w/ns/b", `{"labels":{"on":"1"}}`, 51, 51), ev))(create, s)
			})
			from50(f, metav1.ListOptions{LabelSelector: "on=1"}, apierrors.IsResourceExpired) // and no part of the revision
			from50(f, metav1.ListOptions{}, enough, "ADDED ns/b 51 open more", last)
			rig.Same(t, "PrevKv", []bool{true, false}, wants)
		})
	}
}

// TestEnds: the ways in which a server ends a watch.
func TestEnds(t *testing.T) {
	type end = func(s pb.Watch_WatchServer) error
	cancels := func(reason string) end {
		return func(s pb.Watch_WatchServer) error {
			return s.Send(&pb.WatchResponse{Header: header(60), Created: true, Canceled: true, CancelReason: reason})
		}
	}
	fails := func(err error) end { return func(pb.Watch_WatchServer) error { return err } }
	for _, tt := range []struct {
		name string
		end  end
		want func(error) bool
	}{
		{"the end", fails(nil), func(err error) bool { return err == nil }},
		{"compacted", func(s pb.Watch_WatchServer) error {
			return s.Send(&pb.WatchResponse{Header: header(60), Canceled: true, CompactRevision: 55})
		}, apierrors.IsResourceExpired},
		{"no leader", fails(rpctypes.ErrGRPCNoLeader), caused(rpctypes.ErrNoLeader)},
		{"busy", fails(rpctypes.ErrGRPCRequestTooManyRequests), busy},
		{"nothing known", cancels("something"), network},
		{"nothing said", cancels(""), network},
		{"403", cancels("rpc error: " + rpctypes.ErrGRPCPermissionDenied.Error()), apierrors.IsForbidden},
		{"nobody", cancels(rpctypes.ErrGRPCUserEmpty.Error()), apierrors.IsUnauthorized},
		{"an old token", cancels(rpctypes.ErrGRPCInvalidAuthToken.Error()), apierrors.IsUnauthorized},
		{"an old state of users", cancels(rpctypes.ErrGRPCAuthOldRevision.Error()), apierrors.IsUnauthorized},
		{"compacted, it says", cancels(rpctypes.ErrGRPCCompacted.Error()), apierrors.IsResourceExpired},
		{"no leader, it says", cancels(rpctypes.ErrGRPCNoLeader.Error()), caused(rpctypes.ErrNoLeader)},
		{"busy, it says", cancels(rpctypes.ErrGRPCRequestTooManyRequests.Error()), busy},
	} {
		subtest(t, tt.name, func(t *testing.T, f *fake) {
			f.script(at50, func(_ *pb.WatchCreateRequest, s pb.Watch_WatchServer) error { return tt.end(s) })
			begun := time.Now()
			from50(f, metav1.ListOptions{}, tt.want)
			if took := time.Since(begun); took > time.Second {
				t.Errorf("after %v", took)
			}
		})
	}
}

// TestRefused: a stream that is refused before the watch was asked for says why. It asks for a
// member with a leader.
func TestRefused(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		f.Set(fakeetcd.Hooks{Range: at50, Open: func(ctx context.Context) error {
			if md, _ := metadata.FromIncomingContext(ctx); len(md.Get(rpctypes.MetadataRequireLeaderKey)) == 0 {
				t.Errorf("no leader is asked for: %v", md)
			}
			return rpctypes.ErrGRPCPermissionDenied
		}})
		for _, slow := range []time.Duration{0, time.Second} {
			client := f.Dial(t, grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn,
				method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				s, err := streamer(ctx, desc, cc, method, opts...)
				time.Sleep(slow)
				return s, err
			}))
			c := rig.Must[*etcd.Collection[*item]](t)(etcd.New[*item](client, "/w/", nil))
			f.tells(c, metav1.ListOptions{ResourceVersion: "50"}, apierrors.IsForbidden)
		}
	})
}

// TestTimeout: a watch ends without an error when its time is over, whatever it does then; but an
// error of yield is one.
func TestTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.collection(time.Minute)
		position := f.write("ns/a", `{}`)
		watch := func(version string, seconds int64, yield func(lw.WatchEvent[*item]) error) (time.Duration, error) {
			begun := time.Now()
			err := c.Watch(lasts(t, 10*time.Minute), metav1.ListOptions{ResourceVersion: version, TimeoutSeconds: &seconds},
				yield)
			return time.Since(begun).Truncate(time.Second), err
		}
		late := func(err error) func(lw.WatchEvent[*item]) error {
			return func(lw.WatchEvent[*item]) error { time.Sleep(time.Minute); return err }
		}
		for _, tt := range []struct {
			name    string
			version string
			seconds int64
			yield   func(lw.WatchEvent[*item]) error
			took    time.Duration
			want    error
		}{
			{"nothing happens", position, 90, nil, 90 * time.Second, nil},
			{"an event is handled", "", 30, late(nil), time.Minute, nil},
			{"an event of a list fails", "", 30, late(errEnough), time.Minute, errEnough},
			{"an event fails", "1", 30, late(errEnough), time.Minute, errEnough},
			{"an event is handled, then", "1", 30, late(nil), time.Minute, nil},
			{"no time is no bound", position, 0, nil, 10 * time.Minute, errOver},
			{"very long", position, 1 << 60, nil, 10 * time.Minute, errOver},
		} {
			if took, err := watch(tt.version, tt.seconds, tt.yield); took != tt.took || !errors.Is(err, tt.want) {
				t.Errorf("%s: %v after %v", tt.name, err, took)
			}
		}
		// The time is over while the server does not answer.
		f.script(func(*pb.RangeRequest) (*pb.RangeResponse, error) { time.Sleep(time.Minute); return at50(nil) }, nil)
		if took, err := watch(position, 20, nil); took != 20*time.Second || err != nil {
			t.Errorf("no answer: %v after %v", err, took)
		}
	})
}

// TestInitial: a watch without a version begins with what there is, and goes on from there.
func TestInitial(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.collection(0)
		f.write("ns/a", `{"labels":{"on":"1"}}`)
		f.write("ns/b", "garbage", "other/c", `{}`)
		for _, version := range []string{"", "0"} {
			for _, tt := range []struct {
				opts metav1.ListOptions
				want []string
			}{
				{metav1.ListOptions{Limit: 1}, []string{"ADDED ns/a 2", "ADDED ns/b  bad", "ADDED other/c 3"}},
				{metav1.ListOptions{LabelSelector: "on"}, []string{"ADDED ns/a 2", "ADDED ns/b  bad"}},
				{metav1.ListOptions{FieldSelector: "metadata.namespace=other"}, []string{"ADDED other/c 3"}},
			} {
				tt.opts.ResourceVersion = version
				tt.want = append(tt.want, "ADDED other/d")
				stop := len(tt.want)
				var got []string
				err := c.Watch(within(t), tt.opts, func(ev lw.WatchEvent[*item]) error {
					got = append(got, told(ev))
					switch len(got) {
					case stop - 1:
						f.write("other/d", `{"labels":{"on":"1"}}`)
					case stop:
						got[stop-1] = string(ev.Type) + " " + ev.Key().String()
						return errEnough
					}
					return nil
				})
				if diff := cmp.Diff(tt.want, got); diff != "" || err != errEnough {
					t.Errorf("%v: %v (-want +got):\n%s", tt.opts, err, diff)
				}
				f.write("other/d", "")
			}
		}
		f.script(func(*pb.RangeRequest) (*pb.RangeResponse, error) { return nil, rpctypes.ErrGRPCPermissionDenied }, nil)
		f.tells(c, metav1.ListOptions{}, apierrors.IsForbidden)
	})
}
