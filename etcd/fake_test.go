package etcd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/etcd/internal/fakeetcd"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A fake is a server in the bubble of a test, which notes what it was asked.
type fake struct {
	*fakeetcd.Server
	t testing.TB

	mu    sync.Mutex
	reads []string // guarded by mu
}

// bubble runs f in a bubble, with a server.
func bubble(t *testing.T, f func(t *testing.T, s *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{Server: fakeetcd.New(t), t: t}
		s.script(nil, nil)
		f(t, s)
	})
}

// subtest runs f in a subtest, in a bubble with a server.
func subtest(t *testing.T, name string, f func(t *testing.T, s *fake)) {
	t.Run(name, func(t *testing.T) { bubble(t, f) })
}

type (
	reading  = func(*pb.RangeRequest) (*pb.RangeResponse, error)
	watching = func(*pb.WatchCreateRequest, pb.Watch_WatchServer) error
)

// script sets the answers to reads and to watches. Nil: those of the store.
func (f *fake) script(read reading, watch watching) {
	if read == nil {
		read = f.Read
	}
	f.Set(fakeetcd.Hooks{Watch: watch, Range: func(req *pb.RangeRequest) (*pb.RangeResponse, error) {
		f.note(req)
		return read(req)
	}})
}

// at50 answers reads as an empty store that has reached revision 50.
func at50(*pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{Header: header(50)}, nil
}

// note notes a read: its first key, its end if there is one, and what else it asks for.
func (f *fake) note(req *pb.RangeRequest) {
	text := string(req.Key)
	if len(req.RangeEnd) > 0 {
		text += " to " + string(req.RangeEnd)
	}
	if req.Limit != 0 {
		text += fmt.Sprint(" limit ", req.Limit)
	}
	if req.Revision != 0 {
		text += fmt.Sprint(" at ", req.Revision)
	}
	if req.Serializable {
		text += " of one member"
	}
	if req.CountOnly {
		text += " count"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = append(f.reads, text)
}

// asked returns the reads since it was called last.
func (f *fake) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.reads
	f.reads = nil
	return out
}

// Restore is [fakeetcd.Server.Restore], until the client has noticed.
func (f *fake) Restore(b fakeetcd.Backup) {
	f.Server.Restore(b)
	synctest.Wait()
}

// write puts values and deletes keys, which have none, in one transaction. It returns its revision.
// The keys are below /w/.
func (f *fake) write(pairs ...string) string {
	f.t.Helper()
	var ops []clientv3.Op
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			ops = append(ops, clientv3.OpDelete("/w/"+pairs[i]))
		} else {
			ops = append(ops, clientv3.OpPut("/w/"+pairs[i], pairs[i+1]))
		}
	}
	resp, err := f.Client.Txn(f.t.Context()).Then(ops...).Commit()
	rig.OK(f.t, err)
	return strconv.FormatInt(resp.Header.Revision, 10)
}

func header(revision int64) *pb.ResponseHeader { return &pb.ResponseHeader{Revision: revision} }

func created(revision int64) *pb.WatchResponse {
	return &pb.WatchResponse{Header: header(revision), Created: true}
}

func progress(revision int64) *pb.WatchResponse { return &pb.WatchResponse{Header: header(revision)} }

func put(key, value string, create, modified int64) *mvccpb.Event {
	return &mvccpb.Event{Type: mvccpb.PUT, Kv: &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value),
		CreateRevision: create, ModRevision: modified}}
}

func events(revision int64, all ...*mvccpb.Event) *pb.WatchResponse {
	return &pb.WatchResponse{Header: header(revision), Events: all}
}

// says is a watch on which these messages come, and nothing else.
func says(all ...*pb.WatchResponse) watching {
	return func(_ *pb.WatchCreateRequest, s pb.Watch_WatchServer) error {
		for _, one := range all {
			if err := s.Send(one); err != nil {
				return err
			}
		}
		<-s.Context().Done()
		return nil
	}
}

var futureRev = rpctypes.ErrGRPCFutureRev

// An item is an object with labels.
type item struct {
	lw.Meta `json:"metadata"`
	Labels  map[string]string `json:"labels,omitempty"`
	N       int               `json:"n,omitempty"`
}

func (i *item) GetLabels() map[string]string { return i.Labels }

func newItem(name string, n int) *item {
	return &item{Meta: lw.Meta{Namespace: "ns", Name: name}, N: n}
}

// value is what a collection stores for an item without an identity.
func value(i *item) string {
	data, err := json.Marshal(i)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func collection[T lw.Object](t testing.TB, f *fake, opts *etcd.Options[T]) *etcd.Collection[T] {
	t.Helper()
	c, err := etcd.New(f.Client, "/w/", opts)
	rig.OK(t, err)
	return c
}

func (f *fake) collection(progress time.Duration) *etcd.Collection[*item] {
	f.t.Helper()
	return collection(f.t, f, &etcd.Options[*item]{Progress: progress})
}

var errOver = errors.New("the time of the test is over")

// lasts returns a context that ends after d, with errOver. It has no deadline: of that the server
// would know too, and either side may be first.
func lasts(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(d, func() { cancel(errOver) })
	t.Cleanup(func() { timer.Stop(); cancel(nil) })
	return ctx
}

func within(t testing.TB) context.Context { return lasts(t, time.Hour) }

// told is an event in one line.
func told(ev lw.WatchEvent[*item]) string {
	text := fmt.Sprintf("%s %s %s", ev.Type, ev.Key(), ev.ResourceVersion)
	if ev.Open {
		text += " open"
	}
	if ev.More {
		text += " more"
	}
	if ev.Err != nil {
		text += " bad"
	}
	return text
}

// watch watches from opts until n events have come, or else until the bubble's next hour.
func (f *fake) watch(c *etcd.Collection[*item], opts metav1.ListOptions, n int) ([]string, error) {
	f.t.Helper()
	var got []string
	err := c.Watch(within(f.t), opts, func(ev lw.WatchEvent[*item]) error {
		if got = append(got, told(ev)); len(got) == n {
			return errEnough
		}
		return nil
	})
	return got, err
}

// list returns the keys of a list, with * behind those of bad objects, and its version.
func (f *fake) list(c *etcd.Collection[*item], opts metav1.ListOptions) (keys []string, meta metav1.ListMeta,
	err error) {
	f.t.Helper()
	meta, err = c.List(f.t.Context(), opts, func(obj *item, err error) error {
		keys = append(keys, nameOf(obj, err))
		return nil
	})
	return keys, meta, err
}

func nameOf(obj *item, err error) string {
	if err == nil {
		return lw.KeyOf(obj).String()
	}
	var bad *lw.Error
	if !errors.As(err, &bad) {
		return "no key: " + err.Error()
	}
	return bad.Key.String() + "*"
}
