package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// A record is an object of 1 KB.
type record struct {
	lw.Meta `json:"metadata"`
	Labels  map[string]string `json:"labels"`
	Owner   string            `json:"owner"`
	Size    int               `json:"size"`
	Ready   bool              `json:"ready"`
	Parts   []part            `json:"parts"`
}

type part struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	State string `json:"state"`
	Port  int    `json:"port"`
}

func newRecord(i, round int) *record {
	r := &record{
		Meta:   lw.Meta{Namespace: "ns", Name: fmt.Sprintf("record-%06d", i)},
		Labels: map[string]string{"app": fmt.Sprint("app-", i%50), "tier": "backend", "round": fmt.Sprint(round)},
		Owner:  fmt.Sprint("team-", i%20), Size: i, Ready: round%2 == 0,
	}
	for j := range 7 {
		r.Parts = append(r.Parts, part{fmt.Sprint("part-", j), fmt.Sprintf("registry.example.com/project/image-%d:v1.%d.%d",
			j, i%100, round), "running since " + fmt.Sprint(i*j), 8000 + j})
	}
	return r
}

const (
	benchPrefix  = "/bench/"
	benchRecords = 20_000
	benchEnv     = "LW_ETCD_WRITE" // has the endpoint, in a process that writes
)

// writeAll writes all records, 8 at a time, each in a request of its own, as fast as etcd takes
// them. It is a process, so that what it costs is not the follower's.
func writeAll(endpoint string) error {
	client, err := newClient(endpoint)
	if err != nil {
		return err
	}
	defer client.Close()
	round := int(time.Now().Unix())
	var all sync.WaitGroup
	errs := make(chan error, 8)
	for w := range 8 {
		all.Go(func() {
			for i := w; i < benchRecords; i += 8 {
				r := newRecord(i, round)
				value, err := json.Marshal(r)
				if err == nil {
					_, err = client.Put(context.Background(), benchPrefix+"ns/"+r.Name, string(value))
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

func benchProcess(b *testing.B, env string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env)
	cmd.Stderr = os.Stderr
	return cmd
}

// BenchmarkBurst follows 20,000 records of 1 KB that are each written once, beside loops over
// clientv3's watch that keep a map or a table of statedb: CPU of this process for each event, gRPC
// and all, CPU for the first list, and heap for each object.
//
//	go test -run '^$' -bench Burst -benchtime 1x -count 3 .
func BenchmarkBurst(b *testing.B) {
	m := startCluster(b, 1).members[0]
	noErr(b, benchProcess(b, benchEnv+"="+m.endpoint()).Run())
	for _, f := range []struct {
		name  string
		start func(b *testing.B, client *clientv3.Client) (objects func() int, reached func() int64, stop func())
	}{{"clientv3", followMap}, {"statedb", followState}, {"lw", followLW}} {
		b.Run(f.name, func(b *testing.B) {
			for range b.N {
				burst(b, m, f.start)
			}
		})
	}
}

func burst(b *testing.B, m *member, start func(*testing.B, *clientv3.Client) (func() int, func() int64, func())) {
	client, err := newClient(m.endpoint())
	noErr(b, err)
	defer client.Close()
	heap, cpu := heapNow(), cpuNow()
	objects, reached, stop := start(b, client)
	defer stop()
	b.ReportMetric(float64((cpuNow()-cpu).Microseconds())/1000, "ms-sync")
	if n := objects(); n != benchRecords {
		b.Fatalf("%d objects, want %d", n, benchRecords)
	}
	b.ReportMetric(float64(heapNow()-heap)/benchRecords, "B/object")
	cpu = cpuNow()
	noErr(b, benchProcess(b, benchEnv+"="+m.endpoint()).Run())
	now, err := client.Get(context.Background(), "x")
	noErr(b, err)
	for reached() < now.Header.Revision {
		time.Sleep(time.Millisecond)
	}
	b.ReportMetric(float64((cpuNow()-cpu).Nanoseconds())/1000/benchRecords, "µs-cpu/event")
	b.ReportMetric(float64(heapNow()-heap)/benchRecords, "B/object-after")
	b.ReportMetric(0, "ns/op")
	runtime.KeepAlive(objects)
}

func heapNow() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func cpuNow() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A kept is what a loop over clientv3's watch keeps the records in.
type kept interface {
	set(key string, r *record)
	commit() // shows what was set since the last call
	len() int
}

// A bareMap is what one writes without a library.
type bareMap struct {
	mu      sync.RWMutex
	records map[string]*record // guarded by mu
}

func (m *bareMap) set(key string, r *record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records[key] = r
}

func (m *bareMap) commit() {}

func (m *bareMap) len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.records)
}

// A stateTable is a table of statedb with one index. A response of the watch is one transaction.
type stateTable struct {
	db      *statedb.DB
	records statedb.RWTable[*record]
	write   statedb.WriteTxn // nil: none is open
}

func newStateTable(b *testing.B) *stateTable {
	db := statedb.New()
	byName := statedb.Index[*record, string]{
		Name:       "name",
		FromObject: func(r *record) index.KeySet { return index.NewKeySet(index.String(r.Namespace + "/" + r.Name)) },
		FromKey:    index.String,
		FromString: index.FromString,
		Unique:     true,
	}
	records, err := statedb.NewTableAny(db, "records", func() []string { return []string{"Name"} },
		func(r *record) []string { return []string{r.Name} }, byName)
	noErr(b, err)
	return &stateTable{db: db, records: records}
}

func (s *stateTable) set(_ string, r *record) {
	if s.write == nil {
		s.write = s.db.WriteTxn(s.records)
	}
	if _, _, err := s.records.Insert(s.write, r); err != nil {
		panic(err)
	}
}

func (s *stateTable) commit() {
	if s.write != nil {
		s.write.Commit()
		s.write = nil
	}
}

func (s *stateTable) len() int { return s.records.NumObjects(s.db.ReadTxn()) }

func followMap(b *testing.B, client *clientv3.Client) (objects func() int, reached func() int64, stop func()) {
	return followLoop(b, client, &bareMap{records: map[string]*record{}})
}

func followState(b *testing.B, client *clientv3.Client) (objects func() int, reached func() int64, stop func()) {
	return followLoop(b, client, newStateTable(b))
}

// followLoop is what one writes without lw: no version check, no witness, one function that is
// called.
func followLoop(b *testing.B, client *clientv3.Client, store kept) (objects func() int, reached func() int64,
	stop func()) {
	called, at := 0, atomic.Int64{}
	handler := func(*record) { called++ }
	set := func(key, value []byte) {
		var r record
		if err := json.Unmarshal(value, &r); err != nil {
			b.Error(err)
		}
		store.set(string(key), &r)
		handler(&r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	from := benchPrefix
	for revision := int64(0); ; {
		resp, err := client.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(benchPrefix)),
			clientv3.WithLimit(500), clientv3.WithRev(revision))
		noErr(b, err)
		if revision == 0 {
			revision = resp.Header.Revision
		}
		for _, kv := range resp.Kvs {
			set(kv.Key, kv.Value)
			from = string(kv.Key) + "\x00"
		}
		store.commit()
		if at.Store(revision); !resp.More {
			break
		}
	}
	done := make(chan struct{})
	events := client.Watch(ctx, benchPrefix, clientv3.WithPrefix(), clientv3.WithRev(at.Load()+1))
	go func() {
		defer close(done)
		for resp := range events {
			for _, ev := range resp.Events {
				set(ev.Kv.Key, ev.Kv.Value)
			}
			store.commit()
			if n := len(resp.Events); n > 0 {
				at.Store(resp.Events[n-1].Kv.ModRevision)
			}
		}
	}()
	return store.len, at.Load, func() { cancel(); <-done }
}

func followLW(b *testing.B, client *clientv3.Client) (objects func() int, reached func() int64, stop func()) {
	records, err := etcd.New[*record](client, benchPrefix, nil)
	noErr(b, err)
	inf := lw.NewInformer(records, nil)
	called := 0
	inf.AddHandler(lw.Handler[*record]{Add: func(*record) { called++ }, Update: func(_, _ *record) { called++ }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = inf.Run(ctx) }()
	noErr(b, inf.WaitForSync(within(b, time.Minute)))
	return func() int { return inf.Store().Len() }, func() int64 {
		var n int64
		_, _ = fmt.Sscan(inf.Store().ResourceVersion(), &n)
		return n
	}, func() { cancel(); <-done }
}

// BenchmarkServed is the CPU time of a write of 2 KiB over HTTP/1.1 to a served etcd, of the
// server, of its etcd and of the client together. BenchmarkWrites of module e2e writes the same to
// a kube-apiserver.
//
//	go test -run '^$' -bench Served -benchtime 1000x .
func BenchmarkServed(b *testing.B) {
	h := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: slog.New(slog.DiscardHandler)})
	defer h.Close()
	things, err := etcd.New[*rig.Thing](dial(b, startServer(b).endpoint), "/things/", nil)
	noErr(b, err)
	go serve.ServeStore(b.Context(), h, things, serve.Resource[*rig.Thing]{Group: "example.io", Name: "things",
		Kind: "Thing"})
	server := httptest.NewServer(h)
	defer server.Close()
	rig.BenchWrites(b, http.DefaultClient, server.URL, cpuNow)
}
