package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	clientsnapshot "go.etcd.io/etcd/client/v3/snapshot"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/embed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A restoration is a history with a backup that is put back.
type restoration struct {
	name string
	// before is written after the backup and before the server is lost, and after when the server
	// is back and not yet reached.
	before, after func(w *writer)
	rewound       bool // the server has another history than the followers, as is to be noticed
}

// A writer writes things directly to the server.
type writer struct {
	t  testing.TB
	to *etcd.Collection[*thing]
}

// put creates or replaces n things, with that number in each.
func (w *writer) put(name string, n, number int) {
	w.t.Helper()
	ctx := within(w.t, time.Minute)
	for i := range n {
		obj := newThing("ns", fmt.Sprintf("%s%d", name, i), number)
		_, err := w.to.Update(ctx, obj)
		if err != nil {
			_, err = w.to.Create(ctx, obj)
		}
		noErr(w.t, err)
	}
}

func (w *writer) remove(name string) {
	w.t.Helper()
	noErr(w.t, second(w.to.Delete(within(w.t, time.Minute), lw.Key{Namespace: "ns", Name: name}, "")))
}

var restorations = []restoration{
	{"behind", func(w *writer) { w.put("n", 60, 1) }, func(w *writer) {}, true},
	{"behind, a little", func(w *writer) { w.put("n", 1, 1) }, func(w *writer) {}, true},
	{"past, with other names", func(w *writer) { w.put("n", 60, 1) }, func(w *writer) { w.put("x", 100, 2) }, true},
	{"past, with the same keys at the same revisions", func(w *writer) { w.put("n", 60, 1) },
		func(w *writer) { w.put("n", 60, 2) }, true},
	{"past, with the same keys and values at the same revisions", func(w *writer) { w.put("n", 60, 1) },
		func(w *writer) { w.put("n", 60, 1) }, false},
	{"past, a deletion was the last", func(w *writer) { w.put("n", 60, 1); w.remove("n59") },
		func(w *writer) { w.put("x", 100, 2) }, true},
	{"past, and nothing was written after the backup", func(w *writer) {}, func(w *writer) { w.put("x", 50, 2) }, false},
}

// underway is a home with 30 things in its backup, what writes to it, and the things as its
// followers reach them.
type underway struct {
	*home
	w      *writer
	prefix string
	things *etcd.Collection[*thing]
}

func getUnderway(t testing.TB, save func(*home)) *underway {
	h, prefix := newHome(t), newPrefix()
	w := &writer{t, collect(t, h.direct, prefix, nil)}
	w.put("common", 30, 0)
	save(h)
	return &underway{h, w, prefix, collect(t, dial(t, h.proxy.addr()), prefix, nil)}
}

// TestRestore puts back a backup while two informers of one collection, and one of a part of it,
// follow it: none shows what the server does not have, and a history that is another one is
// reported.
func TestRestore(t *testing.T) {
	for _, r := range restorations {
		t.Run(r.name, func(t *testing.T) {
			h := getUnderway(t, (*home).save)
			w, prefix, things := h.w, h.prefix, h.things
			part := lw.WithListOptions[*thing](things, func(o *metav1.ListOptions) { o.FieldSelector = "metadata.namespace=ns" })
			followers := []*follower{follow(t, things, prefix), follow(t, things, prefix), follow(t, part, prefix)}
			r.before(w)
			for _, f := range followers {
				f.caughtUp(t, h.direct)
			}
			h.restore()
			r.after(w)
			h.reach()
			for i, f := range followers {
				rig.Met(t, time.Minute, fmt.Sprintf("follower %d of %q reports %v", i, r.name, f.errors()),
					func() bool { return !r.rewound || f.Status().Epoch > 0 })
				f.caughtUp(t, h.direct)
				if got := f.rewound() > 0; got != r.rewound {
					t.Errorf("follower %d: rewound: %v, want %v: %v", i, got, r.rewound, f.errors())
				}
			}
			w.put("later", 5, 3)
			for _, f := range followers {
				f.caughtUp(t, h.direct)
			}
		})
	}
}

// TestRestoreWatch is TestRestore without an informer: the watch itself fails, before an event of
// the other history.
func TestRestoreWatch(t *testing.T) {
	for _, r := range restorations {
		t.Run(r.name, func(t *testing.T) {
			h := getUnderway(t, (*home).save)
			w, things := h.w, h.things
			position, _ := watchFor(t, things, listVersion(t, things), 0)
			r.before(w)
			now := listVersion(t, w.to) // by another collection: things sees it in the watch alone
			position, _ = watchUntil(t, things, position, now)
			h.restore()
			r.after(w)
			w.put("later", 1, 3)
			h.reach()
			var events int
			rig.Met(t, time.Minute, "the server cannot be reached", func() bool {
				events = 0
				err := things.Watch(within(t, 10*time.Second), metav1.ListOptions{ResourceVersion: position},
					func(lw.WatchEvent[*thing]) error {
						events++
						return errEnough
					})
				var network interface{ Timeout() bool }
				if errors.As(err, &network) {
					return false
				}
				if r.rewound != errors.Is(err, lw.ErrRewound) {
					t.Fatalf("Watch: %v, after %d events", err, events)
				}
				return true
			})
			if r.rewound != (events == 0) {
				t.Errorf("%d events, rewound: %v", events, r.rewound)
			}
		})
	}
}

// TestRestoreMarked restores with what etcd has for it: all revisions before are marked as
// compacted, and every watch lists again.
func TestRestoreMarked(t *testing.T) {
	h := getUnderway(t, (*home).saveSnapshot)
	w := h.w
	f := follow(t, h.things, h.prefix)
	w.put("n", 60, 1)
	f.caughtUp(t, h.direct)
	h.restoreSnapshot(1000)
	w.put("x", 10, 2)
	h.reach()
	f.caughtUp(t, h.direct)
	if s := f.Status(); s.ListCauses["expired"] != 1 || s.Epoch != 0 {
		t.Errorf("the lists: %v, epoch %d; want one that follows 410", s.ListCauses, s.Epoch)
	}
}

func uidOf(created int64) types.UID { return types.UID(strconv.FormatInt(created, 10)) }

// A home is an etcd of one member that can be stopped, started, and restored from a backup. It
// always has the same address. Its followers reach it by a proxy.
type home struct {
	t            testing.TB
	dir, backup  string
	client, peer url.URL
	etcd         *embed.Etcd // nil while it is stopped
	proxy        *proxy
	direct       *clientv3.Client // past the proxy
}

func newHome(t testing.TB) *home {
	h := &home{t: t, dir: filepath.Join(t.TempDir(), "data"), backup: filepath.Join(t.TempDir(), "backup")}
	h.client, h.peer = freeURL(t), freeURL(t)
	h.start()
	t.Cleanup(h.stop)
	h.proxy = newProxy(t, h.client.Host)
	h.direct = dial(t, h.client.Host)
	return h
}

// freeURL returns a URL at which nobody listens. No other test gets it, nor does a connection, while
// its server is stopped.
func freeURL(t testing.TB) url.URL {
	return url.URL{Scheme: "http", Host: fmt.Sprint("127.0.0.1:", rig.Must[int](t)(rig.FreePort()))}
}

func (h *home) start() {
	h.t.Helper()
	h.etcd = runEtcd(h.t, h.dir, h.client, h.peer)
	if h.direct != nil {
		// This waits until the client has its connection again.
		noErr(h.t, second(h.direct.Get(within(h.t, time.Minute), "x")))
	}
}

func (h *home) stop() {
	if h.etcd != nil {
		h.etcd.Close()
		h.etcd = nil
	}
}

// save makes the backup, of the data directory.
func (h *home) save() {
	h.t.Helper()
	h.stop()
	noErr(h.t, os.CopyFS(h.backup, os.DirFS(h.dir)))
	h.start()
}

// lose stops the server and removes its data directory. Clients do not reach it until the network
// is up again.
func (h *home) lose() {
	h.t.Helper()
	h.proxy.set(func() { h.proxy.down = true })
	h.stop()
	noErr(h.t, os.RemoveAll(h.dir))
}

// restore puts the backup in the place of the data directory.
func (h *home) restore() {
	h.t.Helper()
	h.lose()
	noErr(h.t, os.CopyFS(h.dir, os.DirFS(h.backup)))
	h.start()
}

// saveSnapshot and restoreSnapshot do the same with the tools that etcd has for it. The revision of
// the restored server is bump higher, and all before it is marked as compacted.
func (h *home) saveSnapshot() {
	h.t.Helper()
	cfg := clientv3.Config{Endpoints: []string{h.client.Host}, DialTimeout: 10 * time.Second, Logger: silent}
	noErr(h.t, second(clientsnapshot.SaveWithVersion(within(h.t, time.Minute), silent, cfg, h.backup)))
}

func (h *home) restoreSnapshot(bump uint64) {
	h.t.Helper()
	h.lose()
	noErr(h.t, snapshot.NewV3(silent).Restore(snapshot.RestoreConfig{
		SnapshotPath: h.backup, Name: "default", OutputDataDir: h.dir, PeerURLs: []string{h.peer.String()},
		InitialCluster: "default=" + h.peer.String(), InitialClusterToken: "etcd-cluster",
		RevisionBump: bump, MarkCompacted: bump > 0,
	}))
	h.start()
}

// reach lets the followers reach the server again.
func (h *home) reach() { h.proxy.set(func() { h.proxy.down = false }) }

// A proxy is the network between clients and one server.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	conns map[net.Conn]bool
	down  bool          // connections are closed at once
	hole  bool          // nothing gets through, and nothing is closed
	slow  time.Duration // that each piece takes
}

// newProxy returns a proxy of the server at target. It is closed when the test ends.
func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	p := &proxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.set(func() { p.down, p.hole = true, false })
		all.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// set changes the network. Connections break if it is down.
func (p *proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	if p.down {
		p.cutLocked()
	}
}

// cut breaks the connections. New ones can be made.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutLocked()
}

func (p *proxy) cutLocked() {
	for c := range p.conns {
		c.Close()
	}
}

// enter notes a connection, unless the network is down.
func (p *proxy) enter(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) serve(from net.Conn) {
	defer from.Close()
	if !p.enter(from) {
		return
	}
	defer p.leave(from)
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	to, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer to.Close()
	if !p.enter(to) {
		return
	}
	defer p.leave(to)
	var both sync.WaitGroup
	both.Go(func() { p.pump(from, to); to.Close() })
	both.Go(func() { p.pump(to, from); from.Close() })
	both.Wait()
}

func (p *proxy) leave(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// pump copies until a connection breaks. What comes into a hole is held back until it is filled.
func (p *proxy) pump(from io.Reader, to io.Writer) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		for {
			p.mu.Lock()
			hole, slow, down := p.hole, p.slow, p.down
			p.mu.Unlock()
			if time.Sleep(slow); !hole || down {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
