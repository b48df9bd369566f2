package etcd

import (
	"context"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// A reader makes the requests of those who follow. The client's own KV waits for a server that is
// away, and repeats what has failed, while nobody knows. An informer does that better: it counts
// and reports what fails, and has its own pauses.
type reader struct {
	conn *grpc.ClientConn
	kv   clientv3.KV
}

func newReader(conn *grpc.ClientConn) *reader {
	return &reader{conn, clientv3.NewKVFromKVClient(&failFast{pb.NewKVClient(conn)}, nil)}
}

// callOptions are those of each request: a list, or a transaction of many changes, may be one large
// message. The client has this limit too.
var callOptions = []grpc.CallOption{grpc.WaitForReady(false), grpc.MaxCallRecvMsgSize(math.MaxInt32)}

// failFast is a KVClient of which Range is used alone.
type failFast struct{ pb.KVClient }

func (f *failFast) Range(ctx context.Context, in *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	return f.KVClient.Range(ctx, in, append(opts, callOptions...)...)
}

// get is clientv3's Get.
func (r *reader) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	r.wake()
	return r.kv.Get(ctx, key, opts...)
}

// watch opens a stream of watches.
func (r *reader) watch(ctx context.Context) (pb.Watch_WatchClient, error) {
	r.wake()
	return pb.NewWatchClient(r.conn).Watch(clientv3.WithRequireLeader(ctx), callOptions...)
}

// wake makes a connection that has failed be tried again now. By itself gRPC waits for up to two
// minutes, in which every request fails at once. The pauses between requests are those of the
// informer, so this is no hot loop.
func (r *reader) wake() {
	if r.conn.GetState() == connectivity.TransientFailure {
		r.conn.ResetConnectBackoff()
	}
}
