package e2e

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	clientsnapshot "go.etcd.io/etcd/client/v3/snapshot"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apimachinery/pkg/types"

	"strconv"
)

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

// freeURL returns a URL at which nobody listens.
func freeURL(t testing.TB) url.URL {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}
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
