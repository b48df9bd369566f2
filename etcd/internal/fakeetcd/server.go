// Package fakeetcd has a server that answers the client of an etcd from memory: as a real one does,
// and, where a test says so, as a real one does only rarely or never. It has keys, revisions,
// transactions, compaction, leases that are revoked, and one watch on each stream. It needs no
// socket, no disk and no clock, so it runs in a bubble of testing/synctest.
//
// TestFake of etcd/e2e makes the same random requests of it and of a real server, and compares the
// answers.
package fakeetcd

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// A Server is an etcd. Its store begins at revision 1, as that of an etcd does.
type Server struct {
	pb.UnimplementedKVServer
	pb.UnimplementedWatchServer
	pb.UnimplementedLeaseServer

	// Client is a client of the server.
	Client *clientv3.Client

	store    store
	listener *bufconn.Listener

	mu    sync.Mutex
	hooks Hooks             // guarded by mu
	conns map[net.Conn]bool // of clients; guarded by mu
	down  bool              // guarded by mu
}

// Hooks answer in the place of the store, each if it is not nil. They may ask the store first:
// [Server.Read], [Server.Commit] and [Server.Follow].
type Hooks struct {
	// Open is called for a stream of watches before its first request is read. It may refuse.
	Open  func(context.Context) error
	Range func(*pb.RangeRequest) (*pb.RangeResponse, error)
	Txn   func(*pb.TxnRequest) (*pb.TxnResponse, error)
	// Watch is one stream, of which the first request was read.
	Watch func(*pb.WatchCreateRequest, pb.Watch_WatchServer) error
}

// A TB is a test, of package testing or another one.
type TB interface {
	Helper()
	Fatal(args ...any)
	Cleanup(f func())
}

// New starts a server. It stops when the test ends.
func New(t TB) *Server {
	t.Helper()
	s := &Server{listener: bufconn.Listen(1 << 16), conns: map[net.Conn]bool{}}
	s.store = store{revision: 1, leases: map[int64]bool{}, changed: make(chan struct{})}
	g := grpc.NewServer(grpc.WaitForHandlers(true))
	pb.RegisterKVServer(g, s)
	pb.RegisterWatchServer(g, s)
	pb.RegisterLeaseServer(g, s)
	go g.Serve(s.listener)
	t.Cleanup(g.Stop)
	s.Client = s.Dial(t)
	return s
}

// Dial returns another client, which is closed when the test ends.
func (s *Server) Dial(t TB, opts ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"etcd:2379"}, Logger: zap.NewNop(), MaxCallRecvMsgSize: 1 << 30,
		DialOptions: append(opts, grpc.WithContextDialer(s.dial)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func (s *Server) dial(ctx context.Context, _ string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errors.New("connection refused")
	}
	conn, err := s.listener.DialContext(ctx)
	if err == nil {
		s.conns[conn] = true
	}
	return conn, err
}

// Set changes how the server answers from now on.
func (s *Server) Set(h Hooks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = h
}

func (s *Server) hooked() Hooks {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hooks
}

// Down breaks all connections, and refuses new ones until Up.
func (s *Server) Down() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	s.breakLocked()
}

func (s *Server) breakLocked() {
	for conn := range s.conns {
		conn.Close()
	}
	clear(s.conns)
}

// Up ends what Down began.
func (s *Server) Up() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
}

// Save returns a backup.
func (s *Server) Save() Backup { return s.store.save() }

// Restore puts a backup in the place of what is there, as a server does that is down meanwhile. Who
// connects just then waits, and is not refused: a refusal delays the next attempt, now and then.
func (s *Server) Restore(b Backup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breakLocked()
	s.store.restore(b)
}

// Read is the store's answer to a Range.
func (s *Server) Read(req *pb.RangeRequest) (*pb.RangeResponse, error) { return s.store.read(req) }

// Commit is the store's answer to a Txn.
func (s *Server) Commit(req *pb.TxnRequest) (*pb.TxnResponse, error) { return s.store.txn(req) }

// Range answers a request.
func (s *Server) Range(_ context.Context, req *pb.RangeRequest) (*pb.RangeResponse, error) {
	if hook := s.hooked().Range; hook != nil {
		return hook(req)
	}
	return s.Read(req)
}

// Txn answers a request.
func (s *Server) Txn(_ context.Context, req *pb.TxnRequest) (*pb.TxnResponse, error) {
	if hook := s.hooked().Txn; hook != nil {
		return hook(req)
	}
	return s.Commit(req)
}

// Put answers a request.
func (s *Server) Put(_ context.Context, req *pb.PutRequest) (*pb.PutResponse, error) {
	resp, err := s.Commit(&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: req}}}})
	if err != nil {
		return nil, err
	}
	one := resp.Responses[0].GetResponsePut()
	one.Header = resp.Header
	return one, nil
}

// DeleteRange answers a request.
func (s *Server) DeleteRange(_ context.Context, req *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	resp, err := s.Commit(&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: req}}}})
	if err != nil {
		return nil, err
	}
	one := resp.Responses[0].GetResponseDeleteRange()
	one.Header = resp.Header
	return one, nil
}

// Compact answers a request.
func (s *Server) Compact(_ context.Context, req *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	return &pb.CompactionResponse{Header: header(0)}, s.store.compact(req.Revision)
}

// LeaseGrant answers a request. The lease does not run out.
func (s *Server) LeaseGrant(_ context.Context, req *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	id, err := s.store.grant(req.ID)
	return &pb.LeaseGrantResponse{Header: header(0), ID: id, TTL: req.TTL}, err
}

// LeaseRevoke answers a request.
func (s *Server) LeaseRevoke(_ context.Context, req *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	return &pb.LeaseRevokeResponse{Header: header(0)}, s.store.revoke(req.ID)
}

// Watch answers a stream.
func (s *Server) Watch(stream pb.Watch_WatchServer) error {
	hooks := s.hooked()
	if hooks.Open != nil {
		if err := hooks.Open(stream.Context()); err != nil {
			return err
		}
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	create := first.GetCreateRequest()
	if create == nil {
		return status.Error(codes.Unimplemented, "fakeetcd: a stream that does not begin with a watch")
	}
	if hooks.Watch != nil {
		return hooks.Watch(create, stream)
	}
	return s.Follow(create, stream)
}

// Follow sends the changes that the store has, in as few messages as there can be.
func (s *Server) Follow(create *pb.WatchCreateRequest, stream pb.Watch_WatchServer) error {
	ctx := stream.Context()
	requests := make(chan *pb.WatchRequest)
	go func() {
		for {
			req, err := stream.Recv()
			if err != nil {
				return // ctx is done
			}
			select {
			case requests <- req:
			case <-ctx.Done():
				return
			}
		}
	}()
	if end := create.RangeEnd; len(end) > 0 && end[0] != 0 && bytes.Compare(create.Key, end) >= 0 {
		return stream.Send(&pb.WatchResponse{Header: header(0), Created: true, Canceled: true, CancelReason: "mvcc: watcher range is empty"})
	}
	next := create.StartRevision
	n := s.store.since(max(next, 1), create.Key, create.RangeEnd, create.PrevKv)
	if next == 0 {
		next = n.now + 1
	}
	if err := stream.Send(&pb.WatchResponse{Header: header(n.now), Created: true}); err != nil {
		return err
	}
	for {
		n := s.store.since(next, create.Key, create.RangeEnd, create.PrevKv)
		if next < n.compacted {
			if err := stream.Send(&pb.WatchResponse{Header: header(n.now), Canceled: true, CompactRevision: n.compacted}); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}
		if len(n.events) > 0 {
			if err := stream.Send(&pb.WatchResponse{Header: header(n.now), Events: n.events}); err != nil {
				return err
			}
		}
		next = max(next, n.now+1)
		select {
		case <-n.more:
		case req := <-requests:
			if req.GetProgressRequest() == nil {
				return status.Error(codes.Unimplemented, "fakeetcd: a second watch on a stream")
			}
			if n.now < create.StartRevision {
				continue // as a real one: what it would say is not true of this watch
			}
			if err := stream.Send(&pb.WatchResponse{Header: header(n.now), WatchId: -1}); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}
