package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"github.com/go-lw/lw/etcd/internal/fakeetcd"
)

// TestFake makes the same random requests of the server in memory, on which the tests of package
// etcd stand, and of a real one: they answer the same.
func TestFake(t *testing.T) {
	real := dial(t, startServer(t).endpoint)
	rapid.Check(t, func(rt *rapid.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		begin, err := real.Put(ctx, "begin", "")
		noErr(rt, err)
		p := &servers{ctx: ctx, at: 1, sides: [2]side{
			{fakeetcd.New(rt).Client, "/fake/", 0},
			{real, newPrefix(), begin.Header.Revision - 1},
		}}
		for _, s := range p.sides { // of which the real one has been used
			if _, err := s.Compact(ctx, 1+s.base); err != nil {
				rt.Fatal(err)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"range": p.read, "transact": p.transact, "put": p.transact, "compact": p.compact, "watch": p.watch, "grant": p.grant,
			"revoke": p.revoke,
		})
		p.watchFrom(rt, 1, true)
	})
}

// A side is one of the servers, and where the keys and the revisions of a sequence begin there.
type side struct {
	*clientv3.Client
	prefix string
	base   int64
}

type servers struct {
	ctx    context.Context
	sides  [2]side
	at     int64                 // the revision, less that of the beginning
	leases [2][]clientv3.LeaseID // of both sides, in step
}

// both makes a request of both, and compares what describes the answers.
func (p *servers) both(rt *rapid.T, what string, do func(s side, i int) (string, error)) {
	var answers [2]string
	for i, s := range p.sides {
		text, err := do(s, i)
		if err != nil {
			text = rpctypes.Error(err).Error()
		}
		answers[i] = text
	}
	if diff := cmp.Diff(answers[0], answers[1]); diff != "" {
		rt.Fatalf("%s (-fake +real):\n%s", what, diff)
	}
}

// relative returns a revision as it is on no side.
func (s side) relative(revision int64) int64 {
	if revision == 0 {
		return 0
	}
	return revision - s.base
}

// describe returns kv in words that are the same on both sides.
func (p *servers) describe(s side, kv *mvccpb.KeyValue) string {
	if kv == nil {
		return "none"
	}
	i := slices.Index(p.sides[:], s)
	return fmt.Sprintf("%s=%q created %d modified %d version %d lease %d", strings.TrimPrefix(string(kv.Key), s.prefix),
		kv.Value,
		s.relative(kv.CreateRevision), s.relative(kv.ModRevision), kv.Version,
		slices.Index(p.leases[i], clientv3.LeaseID(kv.Lease)))
}

func (p *servers) describeAll(s side, kvs []*mvccpb.KeyValue) (out []string) {
	for _, kv := range kvs {
		out = append(out, p.describe(s, kv))
	}
	return out
}

func drawName(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "a/b", "b", "c"}).Draw(rt, "key")
}

// drawRevision draws one that there is, mostly, or one that there will be.
func (p *servers) drawRevision(rt *rapid.T) int64 {
	return max(p.at+2-rapid.Int64Range(0, 10).Draw(rt, "back"), 1)
}

// drawEnd draws the end of a range from name on.
func drawEnd(rt *rapid.T) func(s side, name string) (from, end string) {
	kind, last := rapid.IntRange(0, 3).Draw(rt, "kind of range"), drawName(rt)
	return func(s side, name string) (from, end string) {
		switch kind {
		case 0:
			return s.prefix, clientv3.GetPrefixRangeEnd(s.prefix)
		case 1:
			return s.prefix + name, s.prefix + last
		}
		return s.prefix + name, ""
	}
}

func (p *servers) read(rt *rapid.T) {
	name, end := drawName(rt), drawEnd(rt)
	at := int64(0)
	if rapid.Bool().Draw(rt, "old") {
		at = p.drawRevision(rt)
	}
	limit := rapid.Int64Range(0, 3).Draw(rt, "limit")
	count, keys, serializable := rapid.Bool().Draw(rt, "count"), rapid.Bool().Draw(rt, "keys"),
		rapid.Bool().Draw(rt, "serializable")
	p.both(rt, fmt.Sprintf("range from %s at %d limit %d", name, at, limit), func(s side, _ int) (string, error) {
		from, to := end(s, name)
		opts := []clientv3.OpOption{clientv3.WithLimit(limit)}
		if to != "" {
			opts = append(opts, clientv3.WithRange(to))
		}
		if at > 0 {
			opts = append(opts, clientv3.WithRev(at+s.base))
		}
		if count {
			opts = append(opts, clientv3.WithCountOnly())
		}
		if keys {
			opts = append(opts, clientv3.WithKeysOnly())
		}
		if serializable {
			opts = append(opts, clientv3.WithSerializable())
		}
		resp, err := s.Get(p.ctx, from, opts...)
		if err != nil {
			return "", err
		}
		return fmt.Sprintln(s.relative(resp.Header.Revision), resp.Count, resp.More, strings.Join(p.describeAll(s, resp.Kvs),
			"\n")), nil
	})
}

// An op is one part of a transaction, made for a side.
type op func(s side, i int) clientv3.Op

func (p *servers) drawOp(rt *rapid.T) op {
	name, value, end := drawName(rt), rapid.SampledFrom([]string{"", "1", "2"}).Draw(rt, "value"), drawEnd(rt)
	lease := rapid.IntRange(0, len(p.leases[0])).Draw(rt, "lease")
	keep, prev := rapid.Bool().Draw(rt, "keep the lease"), rapid.Bool().Draw(rt, "previous")
	kind := rapid.IntRange(0, 4).Draw(rt, "kind")
	return func(s side, i int) clientv3.Op {
		var opts []clientv3.OpOption
		if prev && kind != 1 {
			opts = append(opts, clientv3.WithPrevKV())
		}
		switch kind {
		case 0:
			from, to := end(s, name)
			if to != "" {
				opts = append(opts, clientv3.WithRange(to))
			}
			return clientv3.OpDelete(from, opts...)
		case 1:
			return clientv3.OpGet(s.prefix + name)
		}
		switch {
		case keep:
			opts = append(opts, clientv3.WithIgnoreLease())
		case lease > 0:
			opts = append(opts, clientv3.WithLease(p.leases[i][lease-1]))
		}
		return clientv3.OpPut(s.prefix+name, value, opts...)
	}
}

func (p *servers) drawCompare(rt *rapid.T) func(s side) clientv3.Cmp {
	name, by := drawName(rt), rapid.SampledFrom([]string{"=", "!=", "<", ">"}).Draw(rt, "comparison")
	n, kind := rapid.Int64Range(0, p.at).Draw(rt, "number"), rapid.IntRange(0, 3).Draw(rt, "of")
	return func(s side) clientv3.Cmp {
		at := n
		if at > 0 {
			at += s.base
		}
		switch kind {
		case 0:
			return clientv3.Compare(clientv3.ModRevision(s.prefix+name), by, at)
		case 1:
			return clientv3.Compare(clientv3.CreateRevision(s.prefix+name), by, at)
		case 2:
			return clientv3.Compare(clientv3.Version(s.prefix+name), by, n)
		}
		return clientv3.Compare(clientv3.Value(s.prefix+name), by, "1")
	}
}

func (p *servers) transact(rt *rapid.T) {
	var compares []func(side) clientv3.Cmp
	for range rapid.IntRange(0, 2).Draw(rt, "comparisons") {
		compares = append(compares, p.drawCompare(rt))
	}
	var branches [2][]op
	for i := range branches {
		for range rapid.IntRange(1, 3).Draw(rt, "operations") {
			branches[i] = append(branches[i], p.drawOp(rt))
		}
	}
	p.both(rt, "transaction", func(s side, i int) (string, error) {
		var cmps []clientv3.Cmp
		for _, c := range compares {
			cmps = append(cmps, c(s))
		}
		var ops [2][]clientv3.Op
		for b := range branches {
			for _, op := range branches[b] {
				ops[b] = append(ops[b], op(s, i))
			}
		}
		resp, err := s.Txn(p.ctx).If(cmps...).Then(ops[0]...).Else(ops[1]...).Commit()
		if err != nil {
			return "", err
		}
		p.at = s.relative(resp.Header.Revision)
		out := fmt.Sprintln(resp.Succeeded, p.at)
		for _, one := range resp.Responses {
			if r := one.GetResponseRange(); r != nil {
				out += fmt.Sprintln(r.Count, r.More, strings.Join(p.describeAll(s, r.Kvs), "\n"))
			}
			if r := one.GetResponsePut(); r != nil {
				out += fmt.Sprintln("put", p.describe(s, r.PrevKv))
			}
			if r := one.GetResponseDeleteRange(); r != nil {
				out += fmt.Sprintln("deleted", r.Deleted, strings.Join(p.describeAll(s, r.PrevKvs), "\n"))
			}
		}
		return out, nil
	})
}

func (p *servers) compact(rt *rapid.T) {
	at := p.drawRevision(rt)
	p.both(rt, "compact", func(s side, _ int) (string, error) {
		_, err := s.Compact(p.ctx, at+s.base, clientv3.WithCompactPhysical())
		return "compacted", err
	})
}

func (p *servers) grant(rt *rapid.T) {
	p.both(rt, "grant", func(s side, i int) (string, error) {
		lease, err := s.Grant(p.ctx, 3600)
		if err == nil {
			p.leases[i] = append(p.leases[i], lease.ID)
		}
		return "granted", err
	})
}

func (p *servers) revoke(rt *rapid.T) {
	if len(p.leases[0]) == 0 {
		rt.Skip("there is no lease")
	}
	n := rapid.IntRange(0, len(p.leases[0])-1).Draw(rt, "lease")
	p.both(rt, "revoke", func(s side, i int) (string, error) {
		_, err := s.Revoke(p.ctx, p.leases[i][n])
		return "revoked", err
	})
	p.both(rt, "after it", func(s side, _ int) (string, error) {
		resp, err := s.Get(p.ctx, "x")
		if err != nil {
			return "", err
		}
		p.at = s.relative(resp.Header.Revision)
		return fmt.Sprint(p.at), nil
	})
}

func (p *servers) watch(rt *rapid.T) {
	// A server says nothing on a watch of which it has not reached the beginning; see TestIdle.
	p.watchFrom(rt, min(p.drawRevision(rt), p.at), rapid.Bool().Draw(rt, "previous"))
}

// watchFrom compares all events from a revision on, until the server says that there are no more.
func (p *servers) watchFrom(rt *rapid.T, from int64, prev bool) {
	name, end := drawName(rt), drawEnd(rt)
	p.both(rt, fmt.Sprint("watch from ", from), func(s side, _ int) (string, error) {
		key, to := end(s, name)
		ctx, cancel := context.WithCancel(p.ctx)
		defer cancel()
		stream, err := pb.NewWatchClient(s.ActiveConnection()).Watch(ctx)
		if err != nil {
			return "", err
		}
		create := &pb.WatchCreateRequest{Key: []byte(key), StartRevision: from + s.base, PrevKv: prev}
		if to != "" {
			create.RangeEnd = []byte(to)
		}
		if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
			return "", err
		}
		// A server that still has old events does not answer, so it is asked until it does.
		go func() {
			for {
				_ = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
					return
				}
			}
		}()
		out, last, created := "", int64(0), false
		for {
			resp, err := stream.Recv()
			switch {
			case err != nil:
				return "", err
			case resp.CompactRevision != 0:
				return fmt.Sprintln("compacted up to", s.relative(resp.CompactRevision)), nil
			case resp.Canceled:
				return "canceled: " + resp.CancelReason, nil
			case resp.Created:
				out, created = out+fmt.Sprintln("created at", s.relative(resp.Header.Revision)), true
			case len(resp.Events) == 0:
				if created && resp.Header.Revision >= p.at+s.base {
					return out, nil
				}
			}
			for i, ev := range resp.Events {
				if i == 0 && ev.Kv.ModRevision == last {
					out += "the same revision in another message\n"
				}
				last = ev.Kv.ModRevision
				out += fmt.Sprintln(ev.Type, p.describe(s, ev.Kv), "before", p.describe(s, ev.PrevKv))
			}
		}
	})
}
