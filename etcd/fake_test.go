package etcd_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
)

// A fake is a server that answers as a test says: as a real one does only rarely, or never.
type fake struct {
	pb.UnimplementedKVServer
	pb.UnimplementedWatchServer

	client *clientv3.Client
	// read answers reads. Nil: nothing is there, at revision 100.
	read func(*pb.RangeRequest) (*pb.RangeResponse, error)
	// watch is one stream. The first request was read.
	watch func(created *pb.WatchCreateRequest, stream pb.Watch_WatchServer) error

	mu    sync.Mutex
	reads []*pb.RangeRequest
}

func newFake(t testing.TB) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{}
	s := grpc.NewServer()
	pb.RegisterKVServer(s, f)
	pb.RegisterWatchServer(s, f)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	f.client, err = clientv3.New(clientv3.Config{Endpoints: []string{l.Addr().String()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.client.Close() })
	return f
}

func (f *fake) Range(_ context.Context, req *pb.RangeRequest) (*pb.RangeResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = append(f.reads, req)
	if f.read == nil {
		return &pb.RangeResponse{Header: header(100)}, nil
	}
	return f.read(req)
}

func (f *fake) Watch(stream pb.Watch_WatchServer) error {
	req, err := stream.Recv()
	if err != nil {
		return err
	}
	return f.watch(req.GetCreateRequest(), stream)
}

func header(revision int64) *pb.ResponseHeader { return &pb.ResponseHeader{Revision: revision} }

func created(revision int64) *pb.WatchResponse {
	return &pb.WatchResponse{Header: header(revision), Created: true}
}

func put(key, value string, create, modified int64) *mvccpb.Event {
	return &mvccpb.Event{Type: mvccpb.PUT, Kv: &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), CreateRevision: create, ModRevision: modified}}
}

func events(revision int64, all ...*mvccpb.Event) *pb.WatchResponse {
	return &pb.WatchResponse{Header: header(revision), Events: all}
}

var futureRev = rpctypes.ErrGRPCFutureRev

// An item is an object with labels.
type item struct {
	lw.Meta `json:"metadata"`
	Labels  map[string]string `json:"labels,omitempty"`
	N       int               `json:"n,omitempty"`
}

func (i *item) GetLabels() map[string]string { return i.Labels }

func (f *fake) collection(t testing.TB, progress time.Duration) *etcd.Collection[*item] {
	t.Helper()
	c, err := etcd.New(f.client, "/w/", &etcd.Options[*item]{Progress: progress})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
