package fakeetcd

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A store has every change that was made. What a key is at a revision follows from them.
type store struct {
	mu        sync.Mutex
	revision  int64           // guarded by mu
	compacted int64           // guarded by mu
	log       []*mvccpb.Event // oldest first; guarded by mu
	leases    map[int64]bool  // guarded by mu
	granted   int64           // leases; guarded by mu
	changed   chan struct{}   // closed when there is more; guarded by mu
}

// A state is what the keys are at one revision.
type state map[string]*mvccpb.KeyValue

func (s *store) atLocked(revision int64) state {
	out := state{}
	for _, ev := range s.log {
		if ev.Kv.ModRevision > revision {
			break
		}
		out.apply(ev)
	}
	return out
}

func (at state) apply(ev *mvccpb.Event) {
	if ev.Type == mvccpb.DELETE {
		delete(at, string(ev.Kv.Key))
	} else {
		at[string(ev.Kv.Key)] = ev.Kv
	}
}

// contains reports whether key is from from on and before end, as requests say it.
func contains(from, end, key []byte) bool {
	switch {
	case len(end) == 0:
		return bytes.Equal(from, key)
	case bytes.Equal(end, []byte{0}):
		return bytes.Compare(key, from) >= 0
	}
	return bytes.Compare(key, from) >= 0 && bytes.Compare(key, end) < 0
}

// among returns the keys of a range in their order.
func (at state) among(from, end []byte) (out []*mvccpb.KeyValue) {
	for _, key := range slices.Sorted(maps.Keys(at)) {
		if contains(from, end, []byte(key)) {
			out = append(out, at[key])
		}
	}
	return out
}

// read answers a range of at.
func (at state) read(req *pb.RangeRequest) *pb.RangeResponse {
	all := at.among(req.Key, req.RangeEnd)
	resp := &pb.RangeResponse{Count: int64(len(all))}
	if req.CountOnly {
		return resp
	}
	if req.Limit > 0 && int64(len(all)) > req.Limit {
		all, resp.More = all[:req.Limit], true
	}
	for _, kv := range all {
		if req.KeysOnly {
			kv = &mvccpb.KeyValue{Key: kv.Key, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version}
		}
		resp.Kvs = append(resp.Kvs, kv)
	}
	return resp
}

func header(revision int64) *pb.ResponseHeader { return &pb.ResponseHeader{Revision: revision} }

// read answers a range at its revision.
func (s *store) read(req *pb.RangeRequest) (*pb.RangeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(req.Key) == 0:
		return nil, rpctypes.ErrGRPCEmptyKey
	case req.SortOrder != 0 || req.MinModRevision != 0 || req.MaxModRevision != 0 || req.MinCreateRevision != 0 || req.MaxCreateRevision != 0:
		return nil, status.Error(codes.Unimplemented, "fakeetcd: a range that is sorted or filtered")
	case req.Revision > s.revision:
		return nil, rpctypes.ErrGRPCFutureRev
	case req.Revision > 0 && req.Revision < s.compacted:
		return nil, rpctypes.ErrGRPCCompacted
	}
	at := req.Revision
	if at <= 0 {
		at = s.revision
	}
	resp := s.atLocked(at).read(req)
	resp.Header = header(s.revision)
	return resp, nil
}

// txn makes a transaction: all changes have one revision.
func (s *store) txn(req *pb.TxnRequest) (*pb.TxnResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if changesTwice(req.Success) || changesTwice(req.Failure) {
		return nil, rpctypes.ErrGRPCDuplicateKey
	}
	t := &transaction{at: s.atLocked(s.revision), revision: s.revision + 1, leases: s.leases}
	resp := &pb.TxnResponse{Succeeded: true}
	for _, c := range req.Compare {
		ok, err := t.compare(c)
		if err != nil {
			return nil, err
		}
		resp.Succeeded = resp.Succeeded && ok
	}
	ops := req.Success
	if !resp.Succeeded {
		ops = req.Failure
	}
	for _, op := range ops {
		one, err := t.do(op)
		if err != nil {
			return nil, err
		}
		resp.Responses = append(resp.Responses, one)
	}
	s.commitLocked(t)
	resp.Header = header(s.revision)
	return resp, nil
}

// changesTwice reports whether a key is put twice, or put and deleted.
func changesTwice(ops []*pb.RequestOp) bool {
	for i, op := range ops {
		p := op.GetRequestPut()
		for j, other := range ops {
			put, remove := other.GetRequestPut(), other.GetRequestDeleteRange()
			if p != nil && (i != j && put != nil && bytes.Equal(put.Key, p.Key) || remove != nil && contains(remove.Key, remove.RangeEnd, p.Key)) {
				return true
			}
		}
	}
	return false
}

// commitLocked adds what t has changed.
func (s *store) commitLocked(t *transaction) {
	if len(t.events) == 0 {
		return
	}
	s.log, s.revision = append(s.log, t.events...), t.revision
	close(s.changed)
	s.changed = make(chan struct{})
}

// A transaction is a state that changes.
type transaction struct {
	at       state
	revision int64 // of its changes
	leases   map[int64]bool
	events   []*mvccpb.Event
}

func (t *transaction) compare(c *pb.Compare) (bool, error) {
	kv := t.at[string(c.Key)]
	if len(c.RangeEnd) > 0 {
		return false, status.Error(codes.Unimplemented, "fakeetcd: a comparison of a range")
	}
	var by int
	switch want := c.TargetUnion.(type) {
	case *pb.Compare_ModRevision:
		by = cmp.Compare(kv.GetModRevision(), want.ModRevision)
	case *pb.Compare_CreateRevision:
		by = cmp.Compare(kv.GetCreateRevision(), want.CreateRevision)
	case *pb.Compare_Version:
		by = cmp.Compare(kv.GetVersion(), want.Version)
	case *pb.Compare_Lease:
		by = cmp.Compare(kv.GetLease(), want.Lease)
	case *pb.Compare_Value:
		if kv == nil {
			return false, nil // a value that is not there compares with none
		}
		by = bytes.Compare(kv.Value, want.Value)
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return by == 0, nil
	case pb.Compare_NOT_EQUAL:
		return by != 0, nil
	case pb.Compare_GREATER:
		return by > 0, nil
	}
	return by < 0, nil
}

func (t *transaction) add(ev *mvccpb.Event) {
	t.at.apply(ev)
	t.events = append(t.events, ev)
}

func (t *transaction) do(op *pb.RequestOp) (*pb.ResponseOp, error) {
	switch op := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: t.at.read(op.RequestRange)}}, nil
	case *pb.RequestOp_RequestPut:
		resp, err := t.put(op.RequestPut)
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: resp}}, err
	case *pb.RequestOp_RequestDeleteRange:
		resp := t.remove(op.RequestDeleteRange)
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: resp}}, nil
	}
	return nil, status.Error(codes.Unimplemented, "fakeetcd: a transaction in a transaction")
}

func (t *transaction) put(req *pb.PutRequest) (*pb.PutResponse, error) {
	before := t.at[string(req.Key)]
	switch {
	case len(req.Key) == 0:
		return nil, rpctypes.ErrGRPCEmptyKey
	case (req.IgnoreLease || req.IgnoreValue) && before == nil:
		return nil, rpctypes.ErrGRPCKeyNotFound
	case req.Lease != 0 && !t.leases[req.Lease]:
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	kv := &mvccpb.KeyValue{Key: req.Key, Value: req.Value, Lease: req.Lease, CreateRevision: t.revision, ModRevision: t.revision, Version: 1}
	if before != nil {
		kv.CreateRevision, kv.Version = before.CreateRevision, before.Version+1
	}
	if req.IgnoreLease {
		kv.Lease = before.Lease
	}
	if req.IgnoreValue {
		kv.Value = before.Value
	}
	t.add(&mvccpb.Event{Type: mvccpb.PUT, Kv: kv})
	resp := &pb.PutResponse{}
	if req.PrevKv {
		resp.PrevKv = before
	}
	return resp, nil
}

func (t *transaction) remove(req *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	all := t.at.among(req.Key, req.RangeEnd)
	for _, kv := range all {
		t.add(&mvccpb.Event{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: kv.Key, ModRevision: t.revision}})
	}
	resp := &pb.DeleteRangeResponse{Deleted: int64(len(all))}
	if req.PrevKv {
		resp.PrevKvs = all
	}
	return resp
}

// compact makes all revisions before revision unreadable.
func (s *store) compact(revision int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case revision > s.revision:
		return rpctypes.ErrGRPCFutureRev
	case revision <= s.compacted:
		return rpctypes.ErrGRPCCompacted
	}
	s.compacted = revision
	return nil
}

func (s *store) grant(id int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.granted++; id == 0 {
		id = s.granted + 1<<40
	}
	if s.leases[id] {
		return 0, rpctypes.ErrGRPCLeaseExist
	}
	s.leases[id] = true
	return id, nil
}

// revoke ends a lease, and the keys that have it, at one revision.
func (s *store) revoke(id int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leases[id] {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	delete(s.leases, id)
	t := &transaction{at: s.atLocked(s.revision), revision: s.revision + 1}
	for _, kv := range t.at.among([]byte{0}, []byte{0}) {
		if kv.Lease == id {
			t.remove(&pb.DeleteRangeRequest{Key: kv.Key})
		}
	}
	s.commitLocked(t)
	return nil
}

// news is what a watch has not seen.
type news struct {
	events         []*mvccpb.Event
	now, compacted int64
	more           <-chan struct{} // closed when there is more
}

// since returns the changes of a range from revision on.
func (s *store) since(revision int64, from, end []byte, prev bool) news {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := news{now: s.revision, compacted: s.compacted, more: s.changed}
	for _, ev := range s.log {
		if ev.Kv.ModRevision < revision || !contains(from, end, ev.Kv.Key) {
			continue
		}
		if before := ev.Kv.ModRevision - 1; prev && before >= s.compacted {
			ev = &mvccpb.Event{Type: ev.Type, Kv: ev.Kv, PrevKv: s.atLocked(before)[string(ev.Kv.Key)]}
		}
		n.events = append(n.events, ev)
	}
	return n
}

// A Backup is what a server had.
type Backup struct {
	revision, compacted int64
	log                 []*mvccpb.Event
}

func (s *store) save() Backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Backup{s.revision, s.compacted, slices.Clone(s.log)}
}

func (s *store) restore(b Backup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.compacted, s.log = b.revision, b.compacted, slices.Clone(b.log)
}
