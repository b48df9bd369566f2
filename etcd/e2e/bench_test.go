package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
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
		r.Parts = append(r.Parts, part{fmt.Sprint("part-", j), fmt.Sprintf("registry.example.com/project/image-%d:v1.%d.%d", j, i%100, round), "running since " + fmt.Sprint(i*j), 8000 + j})
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

// BenchmarkBurst follows 20,000 records of 1 KB that are each written once, beside a loop over
// clientv3's watch that keeps a map: CPU of this process for each event, gRPC and all, CPU for the
// first list, and heap for each object.
//
//	go test -run '^$' -bench Burst -benchtime 1x -count 3 .
func BenchmarkBurst(b *testing.B) {
	c := &cluster{t: b}
	client, peer := freeURL(b), freeURL(b)
	m := &member{memberConfig: memberConfig{Name: "m0", Client: client.String(), Peer: peer.String(), State: "new", Dir: filepath.Join(b.TempDir(), "m0")}}
	m.Cluster = "m0=" + m.Peer
	c.members = []*member{m}
	c.start(m)
	b.Cleanup(func() { c.kill(m) })
	c.healthy()
	if err := benchProcess(b, benchEnv+"="+m.endpoint()).Run(); err != nil {
		b.Fatal(err)
	}
	for _, f := range []struct {
		name  string
		start func(b *testing.B, client *clientv3.Client) (objects func() int, reached func() int64, stop func())
	}{{"clientv3", followBare}, {"lw", followLW}} {
		b.Run(f.name, func(b *testing.B) {
			for range b.N {
				burst(b, m, f.start)
			}
		})
	}
}

func burst(b *testing.B, m *member, start func(*testing.B, *clientv3.Client) (func() int, func() int64, func())) {
	client, err := newClient(m.endpoint())
	if err != nil {
		b.Fatal(err)
	}
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
	if err := benchProcess(b, benchEnv+"="+m.endpoint()).Run(); err != nil {
		b.Fatal(err)
	}
	now, err := client.Get(context.Background(), "x")
	if err != nil {
		b.Fatal(err)
	}
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

// followBare is what one writes without lw: no version check, no witness, no index, one function.
func followBare(b *testing.B, client *clientv3.Client) (objects func() int, reached func() int64, stop func()) {
	var mu sync.RWMutex
	store, called, at := map[string]*record{}, 0, int64(0)
	handler := func(*record) { called++ }
	set := func(key, value []byte) {
		var r record
		if err := json.Unmarshal(value, &r); err != nil {
			b.Error(err)
		}
		mu.Lock()
		store[string(key)] = &r
		mu.Unlock()
		handler(&r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	from := benchPrefix
	for revision := int64(0); ; {
		resp, err := client.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(benchPrefix)), clientv3.WithLimit(500), clientv3.WithRev(revision))
		if err != nil {
			b.Fatal(err)
		}
		if revision == 0 {
			revision = resp.Header.Revision
		}
		for _, kv := range resp.Kvs {
			set(kv.Key, kv.Value)
			from = string(kv.Key) + "\x00"
		}
		if at = revision; !resp.More {
			break
		}
	}
	done := make(chan struct{})
	events := client.Watch(ctx, benchPrefix, clientv3.WithPrefix(), clientv3.WithRev(at+1))
	go func() {
		defer close(done)
		for resp := range events {
			for _, ev := range resp.Events {
				set(ev.Kv.Key, ev.Kv.Value)
				mu.Lock()
				at = ev.Kv.ModRevision
				mu.Unlock()
			}
		}
	}()
	return func() int { mu.RLock(); defer mu.RUnlock(); return len(store) },
		func() int64 { mu.RLock(); defer mu.RUnlock(); return at },
		func() { cancel(); <-done }
}

func followLW(b *testing.B, client *clientv3.Client) (objects func() int, reached func() int64, stop func()) {
	records, err := etcd.New[*record](client, benchPrefix, nil)
	if err != nil {
		b.Fatal(err)
	}
	inf := lw.NewInformer(records, nil)
	called := 0
	inf.AddHandler(lw.Handler[*record]{Add: func(*record) { called++ }, Update: func(_, _ *record) { called++ }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = inf.Run(ctx) }()
	if err := inf.WaitForSync(within(b, time.Minute)); err != nil {
		b.Fatal(err)
	}
	return func() int { return inf.Store().Len() }, func() int64 {
		var n int64
		_, _ = fmt.Sscan(inf.Store().ResourceVersion(), &n)
		return n
	}, func() { cancel(); <-done }
}
